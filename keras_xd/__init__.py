"""Search the operations of a Keras model: rewrite, fit, finalize, export."""

import importlib as _importlib
from typing import TYPE_CHECKING

from keras_xd import grammar, kmatrix, layers, losses, models, recipes, training
from keras_xd.core.searchable import (
    architecture_variables,
    describe,
    freeze_architecture,
    model_variables,
    reset_weights,
)
from keras_xd.evaluation import (
    Evaluation,
    SettingsChoice,
    Task,
    choose_settings,
    evaluate_search,
    retrain,
)
from keras_xd.finalizing import finalize
from keras_xd.finalizing.resizing import resize
from keras_xd.grammar import primitives as _primitives  # noqa: F401 (registers its classes)
from keras_xd.graph.cost import complexity
from keras_xd.layers.cells import genotypes
from keras_xd.layers.masked import masks
from keras_xd.layers.xd import regularizers
from keras_xd.layers.xd.distances import nearest_operation, operation_distance
from keras_xd.rewriting import SearchSpace, compare, forecast, register_search_space, rewrite
from keras_xd.searching import SearchReport, SearchResult, search
from keras_xd.training import SearchModel, callbacks, distributed, optimizers
from keras_xd.training.architecture_files import load_architecture, save_architecture
from keras_xd.training.random_architecture import randomize_architecture

__version__ = "0.2.0"

# `visualization` is public too, but with it here `from keras_xd import *` would need matplotlib.
__all__ = [
    "Evaluation",
    "SearchModel",
    "SearchReport",
    "SearchResult",
    "SearchSpace",
    "SettingsChoice",
    "Task",
    "architecture_variables",
    "callbacks",
    "choose_settings",
    "compare",
    "complexity",
    "describe",
    "operation_distance",
    "distributed",
    "evaluate_search",
    "finalize",
    "forecast",
    "freeze_architecture",
    "genotypes",
    "grammar",
    "kmatrix",
    "layers",
    "load_architecture",
    "losses",
    "masks",
    "model_variables",
    "models",
    "nearest_operation",
    "optimizers",
    "regularizers",
    "randomize_architecture",
    "recipes",
    "register_search_space",
    "reset_weights",
    "resize",
    "retrain",
    "rewrite",
    "save_architecture",
    "search",
    "training",
]


if TYPE_CHECKING:
    from keras_xd import visualization as visualization
else:

    def __getattr__(name):
        """Import `visualization` when it is first used, because it alone needs matplotlib."""
        if name == "visualization":
            return _importlib.import_module("keras_xd.visualization")
        raise AttributeError(f"module 'keras_xd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "visualization"})
