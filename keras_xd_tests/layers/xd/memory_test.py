"""What long layers take of memory and time, beyond what the process has when they are made."""

import pathlib
import re
import time

import keras
import numpy as np
import pytest

from keras_xd import layers

SELF = pathlib.Path("/proc/self")
pytestmark = pytest.mark.tensorflow("measures the memory that its operations take")


def memory(name):
    """Return an entry of this process, in MiB: `VmRSS` now, `VmHWM` the most so far."""
    return int(re.search(rf"{name}:\s+(\d+) kB", (SELF / "status").read_text())[1]) / 1024


class Growth:
    """Measures how much more memory a process has at most than at the beginning, in MiB."""

    def __enter__(self):
        (SELF / "clear_refs").write_text("5")  # the most so far starts again
        self.before = memory("VmRSS")
        return self

    def __exit__(self, *error):
        self.most = memory("VmHWM") - self.before


def test_a_kernel_of_16384_weights_is_built_and_trained_in_little_memory(rng):
    layer = layers.XDConv1D(2, 16384, padding="circular")
    start = time.process_time()
    with Growth() as growth:
        layer.build((None, 16384, 2))
    # A dense placement alone has 1024.
    assert time.process_time() - start < 2 and growth.most < 300
    model = keras.Sequential([keras.Input((16384, 2)), layer])
    model.compile("sgd", "mse", run_eagerly=True)
    x = rng.standard_normal((1, 16384, 2)).astype("float32")
    kernel = layer.kernel.numpy()
    assert np.isfinite(model.train_on_batch(x, x))
    assert np.abs(layer.kernel.numpy() - kernel).max() > 0
