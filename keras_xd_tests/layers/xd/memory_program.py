"""What long layers take of memory and time: `python -m keras_xd_tests.layers.xd.memory_program`.

Each function runs in a copy of this process, which has imported all and computed nothing.
"""

import json
import resource
import time

import keras
import numpy as np

from keras_xd import layers
from keras_xd_tests import programs


def peak():
    """Return the most memory that this process has had so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def describing():
    """Return what it takes to describe a long layer, and what is kept, in MiB."""
    small, large = (layers.XDConv1D(1, 3, padding="circular") for _ in range(2))
    small.build((None, 1024, 1))
    large.build((None, 4096, 1))
    small.describe()
    before = peak()
    found = large.describe()
    return peak() - before, sum(getattr(value, "nbytes", 0) for value in found.values()) / 2**20


def building_and_training():
    """Return seconds and MiB that a long kernel takes to build, then its loss and largest step."""
    layers.XDConv1D(2, 3, padding="circular").build((1, 16, 2))
    layer = layers.XDConv1D(2, 16384, padding="circular")
    before, start = peak(), time.process_time()
    layer.build((None, 16384, 2))
    seconds, grown = time.process_time() - start, peak() - before
    model = keras.Sequential([keras.Input((16384, 2)), layer])
    model.compile("sgd", "mse", run_eagerly=True)
    x = np.random.default_rng(0).standard_normal((1, 16384, 2)).astype("float32")
    kernel = layer.kernel.numpy()
    loss = model.fit(x, x, verbose=0).history["loss"][0]
    return seconds, grown, loss, float(abs(layer.kernel.numpy() - kernel).max())


if __name__ == "__main__":
    functions = (describing, building_and_training)
    print("RESULT", json.dumps({f.__name__: programs.returned(f) for f in functions}))
