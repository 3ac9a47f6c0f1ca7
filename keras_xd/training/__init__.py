"""Training weights and architecture together."""

from keras_xd.core.moved_names import attribute_error as _attribute_error
from keras_xd.training.attention_transfer import AttentionTransfer
from keras_xd.training.zero_cost import naswot, synflow

__all__ = ["AttentionTransfer", "naswot", "synflow"]

# Public names of earlier versions.
_MOVED = {"decide_by_perturbation": "keras_xd.training.perturbation.decide_by_perturbation"}

__getattr__ = _attribute_error(__name__, _MOVED)
