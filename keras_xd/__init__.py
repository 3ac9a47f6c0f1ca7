"""Search the operations of a Keras model: rewrite, fit, finalize, export."""

import sys

from keras_xd import grammar as grammar
from keras_xd import kmatrix as kmatrix
from keras_xd import layers as layers
from keras_xd import models as models
from keras_xd.core.searchable import architecture_variables as architecture_variables
from keras_xd.core.searchable import describe as describe
from keras_xd.core.searchable import freeze_architecture as freeze_architecture
from keras_xd.core.searchable import model_variables as model_variables
from keras_xd.core.searchable import reset_weights as reset_weights
from keras_xd.evaluation import Evaluation as Evaluation
from keras_xd.evaluation import Task as Task
from keras_xd.evaluation import evaluate_search as evaluate_search
from keras_xd.finalizing import finalize as finalize
from keras_xd.finalizing.resizing import resize as resize
from keras_xd.graph.cost import complexity as complexity
from keras_xd.layers.cells import genotypes as genotypes
from keras_xd.layers.masked import masks as masks
from keras_xd.layers.xd import penalties as penalties
from keras_xd.layers.xd.distances import distance as distance
from keras_xd.layers.xd.distances import nearest as nearest
from keras_xd.rewriting import compare as compare
from keras_xd.rewriting import forecast as forecast
from keras_xd.rewriting import rewrite as rewrite
from keras_xd.search import SearchModel as SearchModel
from keras_xd.search import callbacks as callbacks
from keras_xd.search import distributed as distributed
from keras_xd.search import optimizers as optimizers
from keras_xd.search.architecture_files import load_architecture as load_architecture
from keras_xd.search.architecture_files import save_architecture as save_architecture
from keras_xd.search.random_architecture import randomize_architecture as randomize_architecture
from keras_xd.searching import SearchReport as SearchReport
from keras_xd.searching import SearchResult as SearchResult

__version__ = "0.2.0"

# Until version 0.3: modules by the paths that they had in version 0.1, for `from … import`.
sys.modules[f"{__name__}.genotypes"] = genotypes
sys.modules[f"{__name__}.masks"] = masks
sys.modules[f"{__name__}.layers.rewritten"] = layers.rewritten


def __getattr__(name):
    """Import `keras_xd.visualization` where it is first used: it alone needs matplotlib."""
    if name == "visualization":
        import keras_xd.visualization as visualization

        return visualization
    raise AttributeError(f"module 'keras_xd' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), "visualization"})
