"""Searches on several devices or workers, and searches that go on after they were killed."""

import contextlib
import json
import os
import pathlib
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from keras_xd.core import files
from keras_xd.core.argument_types import check_types

__all__ = [
    "fit",
]


@check_types
def fit(
    search: keras.Model,
    x: Any = None,
    y: Any = None,
    *,
    backup_dir: str | os.PathLike | None = None,
    callbacks: list[keras.callbacks.Callback] | keras.callbacks.CallbackList | None = None,
    initial_epoch: int = 0,
    **arguments: Any,
) -> keras.callbacks.History:
    """Train a `SearchModel`, going on where training that was killed had come to.

    It is `search.fit` with a backup after every epoch, of weights, architecture, the state of both
    optimizers and random state. Run again, it continues after the last whole epoch, and if the
    data come in the same order its weights are those of training in one piece.

    On several devices and workers a search trains as on one. Make it within the scope of a
    `tf.distribute.MirroredStrategy` or `tf.distribute.MultiWorkerMirroredStrategy` and give
    batches for all devices together, each of a multiple of their number of samples. With several
    workers run the same program on each: all of them need the same data in the same order, of
    which each takes its part, and `backup_dir` has to be one folder that all can read; the first
    worker writes to it. Where one worker has been lost, end and start all of them again.

    Args:
        search: a compiled `SearchModel`.
        x, y: as in `SearchModel.fit`.
        backup_dir: the folder of the backup, which is kept in the end: to start over, take another
            or remove it. `None` for no backup.
        callbacks: as in `SearchModel.fit`. What a callback itself remembers is not in the backup.
        initial_epoch: as in `SearchModel.fit`; the number of the backup's epochs goes before it.
        **arguments: the other arguments of `SearchModel.fit`.

    Returns:
        A `keras.callbacks.History`, of the epochs before too.

    Example:

    >>> import tempfile
    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> search = keras_xd.SearchModel(
    ...     keras.Sequential([keras.Input((8, 1)), keras_xd.layers.XDConv1D(2, 1)])
    ... )
    >>> search.compile("sgd", "sgd", "mse")
    >>> data = np.ones((4, 8, 1)), np.zeros((4, 8, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for epochs in (1, 3):
    ...         history = keras_xd.distributed.fit(
    ...             search, *data, backup_dir=folder, epochs=epochs, verbose=0
    ...         )
    >>> history.epoch
    [0, 1, 2]
    """
    if backup_dir is None:
        return search.fit(x, y, callbacks=callbacks, initial_epoch=initial_epoch, **arguments)
    backup = _Backup(pathlib.Path(backup_dir))
    found = backup.restore(search)
    if isinstance(callbacks, keras.callbacks.CallbackList):
        backup.set_model(search)
        callbacks.callbacks.append(backup)
    else:
        # The last of all, so that what the others change is in the backup.
        callbacks = [*(keras.tree.flatten(callbacks) if callbacks else []), backup]
    history = search.fit(
        x, y, callbacks=callbacks, initial_epoch=max(found, initial_epoch), **arguments
    )
    history.epoch = list(backup.epochs)
    history.history = {name: list(values) for name, values in backup.history.items()}
    return history


@check_types
def check_order(search: keras.Model, data: Iterable[Any], shuffle: bool) -> None:
    """Raise `ValueError` if several workers would see data in different orders."""
    if not shuffle or _workers(getattr(search, "distribute_strategy", None)) < 2:
        return
    others = [value for value in data if value is not None and not hasattr(value, "element_spec")]
    if others:
        raise ValueError(
            "Several workers must read the data in the same order: give `shuffle=False`, or a "
            "tf.data.Dataset that is shuffled with a seed. Received: shuffle=True, data of types "
            f"{[type(value).__name__ for value in others]}"
        )


@check_types
@contextlib.contextmanager
def fitting(search: keras.Model) -> Iterator[None]:
    """Return a context manager in which a search trains by Keras' `fit`."""
    strategy = getattr(search, "distribute_strategy", None)
    if _workers(strategy) > 1:
        search.strategy_of_fit = _LocalReduction(strategy)
    search.fitting = True
    try:
        yield
    finally:
        search.strategy_of_fit = None
        search.fitting = False
        search.cooling_down = False
        search.generators = ()
        if search.compiled:
            search.search_optimizer.as_one = False


class _LocalReduction:
    """A strategy of several workers as Keras' `fit` can use it."""

    def __init__(self, strategy):
        self.strategy = strategy

    def __getattr__(self, name):
        return getattr(self.strategy, name)

    def reduce(self, reduce_op, value, axis=None):
        return keras.tree.map_structure(
            lambda leaf: self.strategy.experimental_local_results(leaf)[0], value
        )


class _Backup(keras.callbacks.Callback):
    """Saves a search after each epoch, in files of which the last whole one always remains."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.epochs, self.history = [], {}

    def restore(self, search):
        """Load the backup, if there is one, and return the number of epochs in it."""
        record = self.folder / "latest.json"
        if not record.exists():
            return 0
        found = json.loads(record.read_text())
        search.load_weights(self.folder / found["weights"])
        self.epochs, self.history = found["epochs"], found["history"]
        return found["next_epoch"]

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(float(value))
        strategy = getattr(self.model, "distribute_strategy", None)
        if not _is_first_worker(strategy):
            # To read the values all workers have to take part.
            with tempfile.TemporaryDirectory() as folder:
                self.model.save_weights(pathlib.Path(folder, "worker.weights.h5"))
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        weights = self.folder / f"epoch_{epoch + 1}.weights.h5"
        self.model.save_weights(weights)
        record = {
            "next_epoch": epoch + 1,
            "weights": weights.name,
            "epochs": self.epochs,
            "history": self.history,
        }
        files.write(self.folder / "latest.json", json.dumps(record).encode(), overwrite=True)
        for other in self.folder.glob("epoch_*.weights.h5"):
            if other != weights:
                other.unlink()


def _workers(strategy):
    """Return the number of processes that a strategy trains in."""
    resolver = getattr(strategy, "cluster_resolver", None)
    cluster = resolver.cluster_spec().as_dict() if resolver else {}
    return max(1, sum(len(cluster.get(task, ())) for task in ("chief", "worker")))


def _is_first_worker(strategy):
    """Return whether this process is the one to write what all share."""
    if _workers(strategy) < 2:
        return True
    resolver = strategy.cluster_resolver
    if "chief" in resolver.cluster_spec().as_dict():
        return resolver.task_type == "chief"
    return resolver.task_id == 0
