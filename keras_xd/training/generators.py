"""Batches of Python generators, which can be read once."""

import itertools
import types

import keras
import tensorflow as tf


class GeneratorBatches:
    """The batches of a Python generator as a dataset, from the first one on."""

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
    """Return whether data are a Python generator, as Keras tells them."""
    return isinstance(data, types.GeneratorType)
