"""Search the operations of a Keras model: rewrite, fit, finalize, export."""

import sys as _sys
from typing import TYPE_CHECKING

from keras_xd import grammar, kmatrix, layers, models
from keras_xd.core.searchable import (
    architecture_variables,
    describe,
    freeze_architecture,
    model_variables,
    reset_weights,
)
from keras_xd.evaluation import Evaluation, Task, evaluate_search
from keras_xd.finalizing import finalize
from keras_xd.finalizing.resizing import resize
from keras_xd.graph import wrapped_model as _wrapped_model
from keras_xd.graph.cost import complexity
from keras_xd.layers.cells import genotypes
from keras_xd.layers.masked import masks
from keras_xd.layers.xd import penalties
from keras_xd.layers.xd.distances import distance, nearest
from keras_xd.rewriting import compare, forecast, register_search_space, rewrite
from keras_xd.search import SearchModel, callbacks, distributed, optimizers
from keras_xd.search.architecture_files import load_architecture, save_architecture
from keras_xd.search.random_architecture import randomize_architecture
from keras_xd.searching import SearchReport, SearchResult

__version__ = "0.2.0"

# Until version 0.3: modules by the paths that they had in version 0.1, for `from … import`.
_sys.modules[f"{__name__}.genotypes"] = genotypes
_sys.modules[f"{__name__}.masks"] = masks
layers.rewritten = _sys.modules[f"{__name__}.layers.rewritten"] = _wrapped_model

# `visualization` is public too, but with it here `from keras_xd import *` would need matplotlib.
__all__ = [
    "Evaluation",
    "SearchModel",
    "SearchReport",
    "SearchResult",
    "Task",
    "architecture_variables",
    "callbacks",
    "compare",
    "complexity",
    "describe",
    "distance",
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
    "masks",
    "model_variables",
    "models",
    "nearest",
    "optimizers",
    "penalties",
    "randomize_architecture",
    "register_search_space",
    "reset_weights",
    "resize",
    "rewrite",
    "save_architecture",
    "search",
]


if TYPE_CHECKING:  # what follows below at run time
    from keras_xd import visualization
    from keras_xd.searching import SearchPackage

    __all__ += ["visualization"]
    search: SearchPackage  # the package of this name can be called
else:

    def __getattr__(name):
        """Import `keras_xd.visualization` where it is first used: it alone needs matplotlib."""
        if name == "visualization":
            import keras_xd.visualization as visualization

            return visualization
        raise AttributeError(f"module 'keras_xd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "visualization"})
