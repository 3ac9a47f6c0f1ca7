"""Training weights and architecture together.

The package can be called too: `keras_xd.search(model, x, y, epochs=10, loss=…)` is a whole search,
documented as `keras_xd.searching.search`.
"""

from keras_xd.search import callbacks, distributed, optimizers
from keras_xd.search.attention_transfer import AttentionTransfer
from keras_xd.search.perturbation import decide_by_perturbation
from keras_xd.search.search_model import SearchModel
from keras_xd.search.zero_cost import gradient_norm, naswot, synflow

__all__ = [
    "AttentionTransfer",
    "SearchModel",
    "callbacks",
    "decide_by_perturbation",
    "distributed",
    "gradient_norm",
    "naswot",
    "optimizers",
    "synflow",
]
