"""Models whose files are replaced as a whole."""

import os
from typing import Any

from keras_xd.core import files


class AtomicSaving:
    """Lets a `keras.Model` write its files beside the earlier ones, then replace these at once.

    To be named before `keras.Model` among the bases of a class. A process that is killed while it
    saves leaves the earlier file as it was, so `keras.callbacks.ModelCheckpoint` may write to one
    name again and again. It holds for `.keras` and `.weights.h5` files on a local disk. Folders,
    weights in several files (`max_shard_size`), remote paths, and a file that Keras asks about
    (`overwrite=False`) are written by Keras in place, and so is everything in
    `keras.saving.save_model(model, …)`, which does not call `model.save`.

    Example:

    >>> import keras
    >>> from keras_xd.core.saving import AtomicSaving
    >>> class Linear(AtomicSaving, keras.Model):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.dense = keras.layers.Dense(1)
    ...         self.dense.build((None, 2))
    ...         self.built = True
    >>> for _ in range(2):
    ...     Linear().save_weights("linear.weights.h5")
    """

    def save(
        self,
        filepath: str | os.PathLike,
        overwrite: bool = True,
        zipped: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Save the model as `keras.Model.save` does, but replace an earlier file as a whole.

        Args:
            filepath: where to write, a path that ends in `.keras`.
            overwrite: whether to replace a file without asking.
            zipped, **kwargs: as in `keras.Model.save`.
        """
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
        """Save the weights as `keras.Model.save_weights`, but replace an earlier file as a whole.

        Args:
            filepath: where to write, a path that ends in `.weights.h5`.
            overwrite: whether to replace a file without asking.
            max_shard_size: as in `keras.Model.save_weights`; such files are written in place.
        """
        if max_shard_size is not None or not _is_replaceable(filepath, ".weights.h5", overwrite):
            super().save_weights(filepath, overwrite=overwrite, max_shard_size=max_shard_size)
            return
        with files.replacing(filepath, ".weights.h5") as unfinished:
            super().save_weights(unfinished, overwrite=True)


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
