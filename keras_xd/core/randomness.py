"""Random numbers: Python's generator, from which Keras draws seeds that nobody gave, and noise."""

import contextlib
import random

import keras
from keras import ops

# Of a uniform number, whose logarithm is taken.
_SMALLEST = 1e-20


@contextlib.contextmanager
def python_state(seed=None):
    """Set Python's random generator back to its state when a `with` statement ends."""
    state = random.getstate()
    if seed is not None:
        random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def gumbel_noise(shape, generator):
    """Return independent numbers of the standard Gumbel distribution, a float32 tensor."""
    uniform = keras.random.uniform(shape, dtype="float32", seed=generator)
    return -ops.log(-ops.log(ops.maximum(uniform, _SMALLEST)))
