"""Training weights and architecture together."""

from keras_xd.search import distributed, optimizers
from keras_xd.search.search_model import SearchModel

__all__ = ["SearchModel", "distributed", "optimizers"]
