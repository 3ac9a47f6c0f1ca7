"""Finalizing: a search space becomes a plain model."""

from keras_xd.core.moved_names import attribute_error as _attribute_error

__all__: list[str] = []

# Public names of earlier versions.
_MOVED = {
    "FinalizedModel": "keras_xd.finalizing.finalizer.FinalizedModel",
    "FinalizingReport": "keras_xd.finalizing.report.FinalizingReport",
    "LayerReport": "keras_xd.finalizing.report.LayerReport",
    "finalize": "keras_xd.finalize",
    "resize": "keras_xd.resize",
}

__getattr__ = _attribute_error(__name__, _MOVED)
