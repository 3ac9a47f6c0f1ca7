"""Rewriting: a Keras model becomes a search space."""

from keras_xd.rewriting.comparison import Comparison, LayerComparison, compare
from keras_xd.rewriting.forecast import Forecast, LayerForecast, forecast
from keras_xd.rewriting.rewriter import rewrite
from keras_xd.rewriting.search_space import SearchSpace
from keras_xd.rewriting.spaces import register_search_space

__all__ = [
    "Comparison",
    "Forecast",
    "LayerComparison",
    "LayerForecast",
    "SearchSpace",
    "compare",
    "forecast",
    "register_search_space",
    "rewrite",
]
