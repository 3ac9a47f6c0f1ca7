"""From a Keras model to a search space."""

from keras_xd.rewriting.comparison import Comparison as Comparison
from keras_xd.rewriting.comparison import LayerComparison as LayerComparison
from keras_xd.rewriting.comparison import compare as compare
from keras_xd.rewriting.forecast import Forecast as Forecast
from keras_xd.rewriting.forecast import LayerForecast as LayerForecast
from keras_xd.rewriting.forecast import forecast as forecast
from keras_xd.rewriting.rewriter import rewrite as rewrite
