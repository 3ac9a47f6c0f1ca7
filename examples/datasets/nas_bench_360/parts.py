"""What the loaders of all tasks return, and arrays whose samples are read when they are needed."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Part:
    """Samples for training, validation or testing.

    `groups` number what samples are cut from (records, clips), `lengths` are those of proteins, and
    `weights` say what counts in the loss.
    """

    inputs: Any
    outputs: Any
    groups: Any = None
    lengths: Any = None
    weights: Any = None

    def __len__(self):
        return len(self.inputs)


class FileArray:
    """Samples that are read from files when they are indexed, for data larger than the memory."""

    def __init__(self, entries, read):
        self.entries = list(entries)
        self.read = read
        self.shape = (len(self.entries), *read(self.entries[0]).shape)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, index):
        """Return the array of a sample, or those that a slice or an array of integers names."""
        if isinstance(index, (int, np.integer)):
            return self.read(self.entries[index])
        if isinstance(index, slice):
            index = range(len(self))[index]
        return np.stack([self.read(self.entries[place]) for place in index])


def split_off(number, fraction):
    """Return slices of the samples for training and of the last ones, for validation."""
    border = number - round(fraction * number)
    if not 0 < border < number:
        raise ValueError(
            f"There must be samples for training and a share of {fraction:g} for validation. "
            f"Received: {number} samples"
        )
    return slice(border), slice(border, number)
