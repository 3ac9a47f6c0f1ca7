"""Models whose files are replaced as a whole."""

import io
import os
from typing import TYPE_CHECKING, Any

import keras

from keras_xd.core import files

if TYPE_CHECKING:
    from keras import Model as _Model
else:  # Keras exchanges the bases of every subclass of its model that is made of a graph
    _Model = object


class AtomicSaving(_Model):
    """Lets a `keras.Model` write its files beside the earlier ones, then replace these at once."""

    def save(
        self,
        filepath: str | os.PathLike,
        overwrite: bool = True,
        zipped: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Save the model as `keras.Model.save` does, but replace an earlier file as a whole."""
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ValueError(
                f"A {type(self).__name__} is saved as a `.keras` file, since Keras reads only "
                "classes of its own from HDF5 files; `save_weights` writes `.weights.h5`. "
                f"Received: filepath={str(filepath)!r}"
            )
        if zipped is False or not _is_replaceable(filepath, ".keras", overwrite):
            super().save(filepath, overwrite=overwrite, zipped=zipped, **kwargs)
            return
        with files.replacing(filepath, ".keras") as unfinished:
            super().save(unfinished, overwrite=True, zipped=zipped, **kwargs)

    def save_weights(
        self,
        filepath: str | os.PathLike,
        overwrite: bool = True,
        max_shard_size: float | None = None,
    ) -> None:
        """Save the weights as `keras.Model.save_weights`, but replace an earlier file as a
        whole.
        """
        if max_shard_size is not None or not _is_replaceable(filepath, ".weights.h5", overwrite):
            super().save_weights(filepath, overwrite=overwrite, max_shard_size=max_shard_size)
            return
        _write_in_one_piece(super().save_weights, filepath)


def write_weights(model: keras.Model, path: str | os.PathLike) -> None:
    """Save the weights of any Keras model as `AtomicSaving.save_weights` does."""
    if type(model).save_weights is keras.Model.save_weights:
        _write_in_one_piece(model.save_weights, path)
    elif isinstance(model, AtomicSaving):
        model.save_weights(path)
    else:
        with files.replacing(path, ".weights.h5") as unfinished:
            model.save_weights(unfinished, overwrite=True)


class _InMemory(io.BytesIO):
    """A file of weights in memory, whose name ends as Keras asks for."""

    def __str__(self):
        return "memory.weights.h5"


def _write_in_one_piece(save_weights, path):
    """Let Keras write weights to memory, then these to a file."""
    with files.replacing(path, ".weights.h5") as unfinished, open(unfinished, "wb") as file:
        content = _InMemory()
        save_weights(content, overwrite=True)
        file.write(content.getbuffer())


def _is_replaceable(path, ending, overwrite):
    """Return whether a path is one of a local file that is written without asking."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    path = os.fspath(path)
    return (
        isinstance(path, str)
        and path.endswith(ending)
        and "://" not in path
        and not os.path.isdir(path)
        and (overwrite or not os.path.exists(path))
    )
