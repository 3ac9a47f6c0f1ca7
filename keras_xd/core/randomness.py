"""Random numbers: Python's generator, from which Keras draws seeds that nobody gave, and noise."""

import contextlib
import random

import keras
from keras import ops

# Of a uniform number, whose logarithm is taken.
_SMALLEST = 1e-20


@contextlib.contextmanager
def python_state(seed=None):
    """Set Python's random generator back to its state when a `with` statement ends.

    Args:
        seed: an integer to seed it with at the beginning, or `None` to go on from its state.

    Example:

    >>> import random
    >>> from keras_xd.core import randomness
    >>> with randomness.python_state(seed=1):
    ...     inside = random.random()
    >>> with randomness.python_state(seed=1):
    ...     again = random.random()
    >>> inside == again
    True
    """
    state = random.getstate()
    if seed is not None:
        random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def gumbel_noise(shape, generator):
    """Return independent numbers of the standard Gumbel distribution, a float32 tensor.

    The largest of logits plus noise is that of each by its softmax.

    Args:
        shape: of the tensor.
        generator: a `keras.random.SeedGenerator`.

    Example:

    >>> import keras
    >>> from keras_xd.core import randomness
    >>> randomness.gumbel_noise((2, 3), keras.random.SeedGenerator(1)).shape
    TensorShape([2, 3])
    """
    uniform = keras.random.uniform(shape, dtype="float32", seed=generator)
    return -ops.log(-ops.log(ops.maximum(uniform, _SMALLEST)))
