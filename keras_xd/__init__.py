"""Search the operations of a Keras model: rewrite, fit, finalize, export."""

import importlib as _importlib
import sys as _sys
from typing import TYPE_CHECKING

from keras_xd import grammar
from keras_xd.core.first_import import once_imported as _once_imported

__version__ = "0.2.0"
# Until version 0.3: modules by the paths that they had in version 0.1, for `from … import`.
_EARLIER = (f"{__name__}.genotypes", f"{__name__}.masks")

if TYPE_CHECKING or "keras" in _sys.modules:
    from keras_xd import kmatrix, layers, losses, models, recipes
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

    _sys.modules.update(zip(_EARLIER, (genotypes, masks), strict=True))
    layers.rewritten = _sys.modules[f"{__name__}.layers.rewritten"] = _wrapped_model
else:
    # Keras takes seconds to import, and grammars do without it. Whoever imports it finds all
    # layers registered, so files load: this file runs again.
    _once_imported("keras", __name__, _EARLIER, lambda: _importlib.reload(_sys.modules[__name__]))

# `visualization` is public too, but with it here `from keras_xd import *` would need matplotlib.
__all__ = [
    "Evaluation",
    "SearchModel",
    "SearchReport",
    "SearchResult",
    "SettingsChoice",
    "Task",
    "architecture_variables",
    "callbacks",
    "choose_settings",
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
    "losses",
    "masks",
    "model_variables",
    "models",
    "nearest",
    "optimizers",
    "penalties",
    "randomize_architecture",
    "recipes",
    "register_search_space",
    "reset_weights",
    "resize",
    "retrain",
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
        """Import what is first used: Keras, or `visualization`, which alone needs matplotlib."""
        if name == "visualization":
            import keras_xd.visualization as visualization

            return visualization
        if name in __all__:
            import keras  # noqa: F401 (brings the names of this file)

            if name in globals():
                return globals()[name]
        raise AttributeError(f"module 'keras_xd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "visualization"})
