"""The state of Python's random generator, from which Keras draws the seeds that nobody gave."""

import contextlib
import random


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
