"""Training weights and architecture together."""

from keras_xd.training.attention_transfer import AttentionTransfer
from keras_xd.training.perturbation import decide_by_perturbation
from keras_xd.training.zero_cost import naswot, synflow

__all__ = ["AttentionTransfer", "decide_by_perturbation", "naswot", "synflow"]
