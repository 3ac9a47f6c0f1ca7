"""Finalizing: a search space becomes a plain model."""

from keras_xd.finalizing.finalizer import FinalizedModel, finalize
from keras_xd.finalizing.report import FinalizingReport, LayerReport
from keras_xd.finalizing.resizing import resize

__all__ = [
    "FinalizedModel",
    "FinalizingReport",
    "LayerReport",
    "finalize",
    "resize",
]
