"""Rewriting: a Keras model becomes a search space."""

from keras_xd.core.moved_names import attribute_error as _attribute_error

__all__: list[str] = []

# Public names of earlier versions.
_MOVED = {
    "Comparison": "keras_xd.rewriting.comparison.Comparison",
    "Forecast": "keras_xd.rewriting.forecast.Forecast",
    "LayerComparison": "keras_xd.rewriting.comparison.LayerComparison",
    "LayerForecast": "keras_xd.rewriting.forecast.LayerForecast",
    "compare": "keras_xd.compare",
    "register_search_space": "keras_xd.register_search_space",
    "rewrite": "keras_xd.rewrite",
}

__getattr__ = _attribute_error(__name__, _MOVED)
