"""From a search space to a plain model."""

from keras_xd.finalizing.finalizer import FinalizedModel as FinalizedModel
from keras_xd.finalizing.finalizer import finalize as finalize
from keras_xd.finalizing.resizing import resize as resize
