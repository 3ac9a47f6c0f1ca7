"""Search the operations of a Keras model: rewrite, fit, finalize, export."""

from keras_xd import kmatrix as kmatrix
from keras_xd import layers as layers
from keras_xd import models as models
from keras_xd.search import SearchModel as SearchModel
from keras_xd.search import callbacks as callbacks
from keras_xd.search import optimizers as optimizers

__version__ = "0.1.0"
