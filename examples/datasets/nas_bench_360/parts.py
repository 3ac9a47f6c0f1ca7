"""What the loaders of all tasks return, and arrays whose samples are read when they are needed."""

import dataclasses
import pathlib
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Part:
    """Samples for training, validation or testing.

    Attributes:
        inputs, outputs: arrays, or `FileArray`s, with one entry for each sample.
        groups: integers of what samples are cut from (records, clips), where a whole is scored.
        lengths: numbers of residues of proteins.
        weights: arrays of what counts in the loss, where not all does.
    """

    inputs: Any
    outputs: Any
    groups: Any = None
    lengths: Any = None
    weights: Any = None

    def __len__(self):
        return len(self.inputs)


class FileArray:
    """Samples that are read from files when they are indexed, for data larger than the memory.

    Args:
        entries: list of what tells a sample from others.
        read: function that returns the array of an entry; all of one shape.
    """

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


def check_subset(subset):
    """Raise a ValueError unless `subset` is `None` or positive."""
    if subset is not None and subset < 1:
        raise ValueError(f"`subset` must be at least 1. Received: subset={subset!r}")


def split_off(number, fraction):
    """Return slices of the samples for training and of the last ones, for validation.

    Raises:
        ValueError: if one of them is empty.
    """
    border = number - round(fraction * number)
    if not 0 < border < number:
        raise ValueError(
            f"There must be samples for training and a share of {fraction:g} for validation. "
            f"Received: {number} samples"
        )
    return slice(border), slice(border, number)


def find_converted(data_dir, name, task, *published):
    """Return the path of a converted file; the error says what it is made of.

    Args:
        data_dir: folder of the file.
        name: of the file.
        task: that it belongs to.
        *published: names of the published files, which are pickled.
    """
    path = pathlib.Path(data_dir or ".", name)
    if not data_dir or not path.is_file():
        raise ValueError(
            f"{task} must be converted to {name}, as docs/tasks.md shows: the published "
            f"{', '.join(published)} is a pickle, which could run any code and is not loaded. "
            f"Received: data_dir={None if data_dir is None else str(data_dir)!r}"
        )
    return path


def check_shape(array, shape, name):
    """Raise a ValueError unless each entry of an array has the shape and there are entries."""
    if array.ndim == 0 or array.shape[1:] != shape or not len(array):
        raise ValueError(
            f"{name} must hold an array (number, {', '.join(map(str, shape))}). Received: shape "
            f"{array.shape}"
        )
