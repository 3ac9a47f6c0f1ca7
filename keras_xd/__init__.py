"""Search the operations of a Keras model: rewrite, fit, finalize, export."""

import importlib as _importlib
from typing import TYPE_CHECKING

from keras_xd import evaluation, grammar, kmatrix, layers, losses, models, recipes, training
from keras_xd.compressing.compression import compress
from keras_xd.core.moved_names import attribute_error as _attribute_error
from keras_xd.core.searchable import (
    architecture_variables,
    describe,
    freeze_architecture,
    reset_weights,
)
from keras_xd.finalizing.exporting import export
from keras_xd.finalizing.finalizer import finalize
from keras_xd.finalizing.resizing import resize
from keras_xd.grammar import primitives as _primitives  # noqa: F401 (registers its classes)
from keras_xd.graph.cost import complexity
from keras_xd.layers.cells import genotypes
from keras_xd.layers.xd import regularizers
from keras_xd.layers.xd.distances import nearest_operation, operation_distance
from keras_xd.models.rollouts import rollout
from keras_xd.rewriting.comparison import compare
from keras_xd.rewriting.forecast import forecast
from keras_xd.rewriting.rewriter import rewrite
from keras_xd.rewriting.search_space import SearchSpace
from keras_xd.rewriting.spaces import register_search_space
from keras_xd.searching import search
from keras_xd.training import callbacks, distributed, optimizers
from keras_xd.training.architecture_files import load_architecture, save_architecture
from keras_xd.training.random_architecture import randomize_architecture
from keras_xd.training.search_model import SearchModel

__version__ = "0.3.0"

# `visualization` is public too, but with it here `from keras_xd import *` would need matplotlib.
__all__ = [
    "SearchModel",
    "SearchSpace",
    "architecture_variables",
    "callbacks",
    "compare",
    "complexity",
    "compress",
    "describe",
    "distributed",
    "evaluation",
    "export",
    "finalize",
    "forecast",
    "freeze_architecture",
    "genotypes",
    "grammar",
    "kmatrix",
    "layers",
    "load_architecture",
    "losses",
    "models",
    "nearest_operation",
    "operation_distance",
    "optimizers",
    "randomize_architecture",
    "recipes",
    "register_search_space",
    "regularizers",
    "reset_weights",
    "resize",
    "rewrite",
    "rollout",
    "save_architecture",
    "search",
    "training",
]


# Public names of earlier versions.
_MOVED = {
    "Evaluation": "keras_xd.evaluation.Evaluation",
    "SearchReport": "keras_xd.finalizing.report.SearchReport",
    "SearchResult": "keras_xd.searching.SearchResult",
    "SettingsChoice": "keras_xd.evaluation.retraining.SettingsChoice",
    "Task": "keras_xd.evaluation.Task",
    "choose_settings": "keras_xd.evaluation.choose_settings",
    "distance": "keras_xd.operation_distance",
    "evaluate_search": "keras_xd.evaluation.evaluate_search",
    "masks": "keras_xd.layers.masked.masks",
    "model_variables": "keras_xd.core.searchable.model_variables",
    "nearest": "keras_xd.nearest_operation",
    "penalties": "keras_xd.regularizers",
    "retrain": "keras_xd.evaluation.retrain",
}
_no_attribute = _attribute_error(__name__, _MOVED)

if TYPE_CHECKING:
    from keras_xd import visualization as visualization
else:

    def __getattr__(name):
        """Import `visualization` when it is first used, because it alone needs matplotlib."""
        if name == "visualization":
            return _importlib.import_module("keras_xd.visualization")
        return _no_attribute(name)


def __dir__() -> list[str]:
    return sorted({*globals(), "visualization"})
