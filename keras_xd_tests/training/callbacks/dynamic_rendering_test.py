import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.training.callbacks import DynamicRendering, training_state


class Narrow(keras.callbacks.Callback):
    """Sets the width of a kernel's mask at the end of every epoch, and notes the taps computed."""

    def __init__(self, conv, widths):
        super().__init__()
        self.conv, self.widths, self.taps = conv, widths, []

    def on_train_batch_end(self, batch, logs=None):
        training_state.synchronize(self.model)
        self.taps.append(self.conv.kernel.shape[0])

    def on_epoch_end(self, epoch, logs=None):
        self.conv.kernel_mask.length.assign([self.widths[epoch]])


@pytest.mark.parametrize(
    "epochs, margin, eager, expected",
    [
        (1, 0.0, False, [33, 7]),
        (2, 0.0, True, [33, 33, 7, 7]),
        (1, 0.2, True, [33, 11, 11, 5]),
    ],
)
def test_the_taps_computed_follow_the_mask(epochs, margin, eager, expected):
    network = layers.KernelNetwork(units=2, features=2)
    conv = layers.CKConv1D(network, 33, initial_kernel_size="full", rendering="dynamic")
    model = keras.Sequential([keras.Input((40, 1)), conv])
    model.compile(keras.optimizers.SGD(0.0), "mse", run_eagerly=eager)
    x = np.zeros((1, 40, 1))
    # Grid steps are 1 / 16, so that 0.1 · 2.146 reaches three taps to each side.
    narrow = Narrow(conv, [0.1, 0.1, 0.03, 0.03])
    model.fit(
        x, x, epochs=len(expected), verbose=0, callbacks=[DynamicRendering(epochs, margin), narrow]
    )
    assert narrow.taps == expected


def test_a_number_of_epochs_is_needed():
    with pytest.raises(ValueError, match="epochs=0"):
        DynamicRendering(0)
    with pytest.raises(ValueError, match="margin=-1"):
        DynamicRendering(margin=-1)
