"""Batches of Python generators, which can be read once."""

import itertools
import types

import keras
import tensorflow as tf


class GeneratorBatches:
    """The batches of a Python generator as a dataset, from the first one on.

    The first batch is looked at to learn the types and shapes. A pass over the dataset goes on
    where the one before has come to, unless that one took no more than `ahead` batches: Keras takes
    so many to build a model with before it trains, and then starts over.

    Args:
        generator: a Python generator of batches.
        convert: a function from a batch to a tuple `(x, y)` or `(x, y, sample_weight)` of arrays
            or structures of arrays.
        name: what the data are, for messages.
        ahead: number of batches, at least 1.

    Attributes:
        size: the number of samples in the first batch.

    Raises:
        ValueError: if there is no batch, or none of samples.

    Example:

    >>> import numpy as np
    >>> from keras_xd.training.generators import GeneratorBatches
    >>> generator = ((np.full(2, number), np.zeros(2)) for number in range(3))
    >>> batches = GeneratorBatches(generator, tuple, "training")
    >>> [int(x[0]) for x, y in batches.dataset()]
    [0, 1, 2]
    """

    def __init__(self, generator, convert, name, ahead=1):
        rule = f"The {name} data must have at least one batch of samples. Received: a generator"
        try:
            first = convert(next(generator))
        except StopIteration:
            raise ValueError(f"{rule} that yields nothing") from None
        self.size = len(keras.tree.flatten(first)[0])
        if not self.size:
            raise ValueError(f"{rule} whose first batch is empty")
        self._signature = keras.tree.map_structure(
            lambda leaf: tf.TensorSpec((None, *leaf.shape[1:]), leaf.dtype), first
        )
        self._taken, self._rest, self._ahead = [first], map(convert, generator), ahead
        self._waiting = []

    def dataset(self):
        """Return a `tf.data.Dataset` of the batches, of unknown length."""
        return tf.data.Dataset.from_generator(self._batches, output_signature=self._signature)

    def ended(self):
        """Return whether the generator has no more batches; it is asked for one to find out."""
        if not self._waiting:
            self._waiting = list(itertools.islice(self._rest, 1))
        return not self._waiting

    def _batches(self):
        yield from tuple(self._taken)
        while not self.ended():
            batch = self._waiting.pop()
            # Once training has begun no batch comes again.
            begun = not 0 < len(self._taken) < self._ahead
            self._taken = [] if begun else [*self._taken, batch]
            yield batch
        self._taken = []


def is_generator(data):
    """Return whether data are a Python generator, as Keras tells them.

    Args:
        data: what was given as data.
    """
    return isinstance(data, types.GeneratorType)
