"""Training weights and architecture together."""

from keras_xd.search import distributed, optimizers
from keras_xd.search.attention_transfer import AttentionTransfer
from keras_xd.search.search_model import SearchModel

__all__ = ["AttentionTransfer", "SearchModel", "distributed", "optimizers"]
