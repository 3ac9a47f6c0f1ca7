"""Keeps what is computed to what lies under the masks, while they are learned."""

import keras

from keras_xd.core.type_aliases import Logs
from keras_xd.core.validation import nonnegative_number, positive_integer
from keras_xd.layers.ccnn.rendering import update_rendering


class DynamicRendering(keras.callbacks.Callback):
    """Calls `keras_xd.layers.ccnn.rendering.update_rendering` at the begin of epochs.

    Layers of `rendering="dynamic"` compute the taps and frequencies that lie under their masks at
    the last update. Without updates they compute all of them. After an update that changes a size
    Keras retraces the next step, which takes seconds; between updates a mask that grows beyond the
    margin is cut.

    Args:
        epochs: integer, the number of epochs from one update to the next. The first is at the
            begin of training.
        margin: room for masks of taps and channels to grow, as in `update_rendering`. With 0 the
            least is computed; where masks are to grow they end smaller then.

    Example:

    >>> import keras, numpy as np
    >>> import keras_xd
    >>> from keras_xd import layers
    >>> conv = layers.CKConv1D(rendering="dynamic")
    >>> model = keras.Sequential([keras.Input((64, 1)), conv])
    >>> model.compile("sgd", "mse")
    >>> data = np.zeros((2, 64, 1))
    >>> callback = keras_xd.training.callbacks.DynamicRendering()
    >>> _ = model.fit(data, data, verbose=0, callbacks=[callback])
    >>> conv.kernel.shape  # of 64 taps: 4 under the mask, and a margin
    TensorShape([6, 1])
    """

    def __init__(self, epochs: int = 1, margin: float = 0.25):
        super().__init__()
        self.epochs = positive_integer(epochs, "epochs")
        self.margin = nonnegative_number(margin, "margin")

    def on_train_begin(self, logs: Logs = None) -> None:
        self._begun = 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        if self._begun % self.epochs == 0:
            update_rendering(self.model, self.margin)
        self._begun += 1
