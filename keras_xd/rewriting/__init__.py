"""From a Keras model to a search space."""

from keras_xd.rewriting.comparison import Comparison, LayerComparison, compare
from keras_xd.rewriting.forecast import Forecast, LayerForecast, forecast
from keras_xd.rewriting.kinds import register_search_space
from keras_xd.rewriting.rewriter import rewrite

__all__ = [
    "Comparison",
    "Forecast",
    "LayerComparison",
    "LayerForecast",
    "compare",
    "forecast",
    "register_search_space",
    "rewrite",
]
