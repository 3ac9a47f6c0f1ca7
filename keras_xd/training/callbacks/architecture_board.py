"""Pictures and numbers of a search for TensorBoard."""

import math
import os

import keras
import numpy as np

from keras_xd.core import randomness
from keras_xd.core.searchable import searchable_by_path
from keras_xd.core.type_aliases import Logs
from keras_xd.core.validation import UnknownSizeError, positive_integer
from keras_xd.graph.cost import counted_multiply_adds, uncounted_layers
from keras_xd.training.architecture_drift import architecture_of, relative_distance
from keras_xd.training.callbacks.hparams import checked_hparams, hparams_api

# Numbers in the unit impulses of all input positions.
LARGEST_OPERATOR = 2**25


class ArchitectureBoard(keras.callbacks.Callback):
    """Writes for TensorBoard what the searchable layers of a model are becoming.

    It writes whatever `describe()` of the layers returns, so it serves every search space, and
    works with `SearchModel` and plain models, on every backend of Keras. Training goes on
    exactly as without it. Written are, as the state after so many epochs (the step), that before
    the first epoch and that after the last always:

    - scalars: every number in `describe()` (distances, probabilities, entropies, sizes of masks),
      as `<layer>/<name>`. For every layer `<layer>/distance_from_start`, the Euclidean distance of
      its architecture variables from their values before the first epoch that this callback saw,
      divided by the norm of these unless that is zero. `complexity/multiply_adds`, where it can be
      counted, and `complexity/relative_to_target` for a model with a `complexity_target` of them.
    - images (`images=True`): a heatmap of every array in `describe()`, as `<layer>/<name>`;
      `<layer>/operator`, the map from the first input channel to the first output channel, for
      XD-operations; and `<layer>/spectra`, the singular values of matrices.
    - text: the table `architecture` of all of it, with the names of layers whose multiply–adds are
      not counted.

    Each `fit` writes an event file of its own and touches no other file in the folder. Use a folder
    for each run, as with `keras.callbacks.TensorBoard`; both may use the same one. Give `fit` an
    `initial_epoch` to continue a run.

    Args:
        log_dir: the folder to write to.
        every_epochs: how many epochs lie between two states written.
        images: whether to draw. It needs matplotlib, and for the operator of a layer time for a
            forward pass over as many samples as the layer has inputs in space.
        hparams: dictionary of the hyperparameters of the run, for TensorBoard's HPARAMS: booleans,
            numbers and texts.

    Raises:
        ImportError: if tensorboard, which the extra `tuner` installs, or for images matplotlib,
            which the extra `plot` installs, is missing.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [keras.Input((8, 1)), keras_xd.layers.XDConv1D(2, 3, name="conv")]
    ... )
    >>> search = keras_xd.SearchModel(model)
    >>> search.compile("sgd", "sgd", "mse")
    >>> board = keras_xd.callbacks.ArchitectureBoard(
    ...     "logs/run1", hparams={"rate": 0.01}
    ... )
    >>> history = search.fit(
    ...     np.ones((4, 8, 1)), np.ones((4, 6, 2)), callbacks=[board], verbose=0
    ... )
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        every_epochs: int = 1,
        images: bool = True,
        hparams: dict[str, bool | int | float | str] | None = None,
    ):
        super().__init__()
        if images not in (True, False):
            raise ValueError(f"`images` must be True or False. Received: images={images!r}")
        if not isinstance(log_dir, (str, os.PathLike)):
            raise ValueError(f"`log_dir` must be a path. Received: log_dir={log_dir!r}")
        self.log_dir = os.fspath(log_dir)
        self.every_epochs = positive_integer(every_epochs, "every_epochs")
        self.images = images
        self.hparams = None if hparams is None else checked_hparams(hparams)
        hparams_api()
        if images:
            _visualization()
        self._writer = None
        self._start = {}
        self._step = self._written = None

    def on_train_begin(self, logs: Logs = None) -> None:
        import tensorflow as tf  # whose files TensorBoard reads, on any backend

        self._close()
        self._summary, self._writer = tf.summary, tf.summary.create_file_writer(self.log_dir)
        self._step = self._written = None
        if self.hparams is not None:
            self._session = hparams_api().KerasCallback(self._writer, self.hparams)
            self._session.on_train_begin()

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        # Callbacks that restore a model have done so by now.
        if self._step is None:
            self._write(epoch)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._step = epoch + 1
        if self._step % self.every_epochs == 0:
            self._write(self._step)

    def on_train_end(self, logs: Logs = None) -> None:
        if self._step != self._written:
            self._write(self._step)
        if self.hparams is not None:
            self._session.on_train_end()
        self._close()

    def _close(self):
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, step):
        """Write the present state of all layers."""
        with self._writer.as_default(step):
            self._write_state()
        self._writer.flush()
        self._step = self._written = step

    def _write_state(self):
        rows = []
        for path, layer in searchable_by_path(self.model).items():  # arrays may be large
            rows += self._write_layer(path, layer)
        multiply_adds = {f"complexity/{name}": v for name, v in self._complexity().items()}
        for tag, value in multiply_adds.items():
            self._summary.scalar(tag, value)
        model = type(self.model).__name__
        rows += [("", model, tag, f"{value:.6g}") for tag, value in multiply_adds.items()]
        if multiply_adds and (left_out := uncounted_layers(self.model)):
            rows.append(("", model, "complexity/without", ", ".join(left_out)))
        self._summary.text("architecture", _table(rows))

    def _write_layer(self, path, layer):
        """Write the present state of one layer and return its rows of the table."""
        with randomness.python_state():  # layers are copied for pictures
            described = self._describe(path, layer)
            images = self._draw(path, layer, described) if self.images else {}
        scalars = {name: value.item() for name, value in described.items() if _is_scalar(value)}
        for name, number in scalars.items():
            self._summary.scalar(f"{path}/{name}", number)
        for tag, image in images.items():
            self._summary.image(tag, image[None])
        kind = type(layer).__name__
        rows = [(path, kind, name, _in_words(value)) for name, value in described.items()]
        described.clear()  # drawing leaves frames behind until the next garbage collection
        return rows

    def _describe(self, path, layer):
        """Return what describes a layer, as arrays."""
        distance = self._distance(path, layer)
        described = {"distance_from_start": distance, **layer.describe()}
        return {name: _array(value) for name, value in described.items()}

    def _distance(self, path, layer):
        """Return how far a layer's architecture is from where this callback saw it first."""
        now = architecture_of(layer)
        start = self._start.setdefault(path, now)
        if start.shape != now.shape:
            start = self._start[path] = now  # another model
        return relative_distance(now, start)

    def _complexity(self):
        try:
            count = float(keras.ops.convert_to_numpy(counted_multiply_adds(self.model)))
        except (TypeError, UnknownSizeError):  # it does not count, or not at these sizes
            return {}
        target = getattr(self.model, "complexity_target", None)
        relative = {}
        if target is not None and self.model.complexity_measure == "multiply_adds":
            relative = {"relative_to_target": count / target}
        return {"multiply_adds": count, **relative}

    def _draw(self, path, layer, described):
        """Return images of a layer by tag."""
        visualization = _visualization()
        arrays = {
            name: value
            for name, value in described.items()
            if value.dtype.kind in "biufc" and value.size and not _is_scalar(value)
        }
        if any(name.startswith(("matrix/", "magnitude/")) for name in arrays):  # linear
            arrays = {**arrays, **_operator(layer)}
        images = {
            f"{path}/{name}": visualization.images.heatmap(array) for name, array in arrays.items()
        }
        # The singular values of an overview are not those of the matrix.
        matrices = {
            name: array
            for name, array in arrays.items()
            if array.ndim == 2 and not name.startswith("magnitude/")
        }
        curves = visualization.images.spectra(matrices, path)
        if curves is not None:
            images[f"{path}/spectra"] = curves
        arrays.clear()
        matrices.clear()
        return images


def _operator(layer):
    """Return the matrix of a layer's operator by its name, or nothing if it is not measured."""
    shape = (layer.get_build_config() or {}).get("input_shape") or (None, None)
    if None in shape[1:] or max(shape[1:]) * math.prod(shape[1:]) > LARGEST_OPERATOR:
        return {}
    try:
        return {"operator": _visualization().operators.operator_matrix(layer)}
    except (TypeError, ValueError):  # it has no spatial axes, too many positions or no copies
        return {}


def _array(value):
    """Return anything as an array."""
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths
        return np.asarray(repr(value))


def _is_scalar(value):
    return value.dtype.kind in "biuf" and value.size == 1


def _in_words(value):
    """Return a cell of the table for an array."""
    if _is_scalar(value):
        return f"{value.item():.6g}"
    if value.ndim == 0:
        return str(value)
    return f"{' × '.join(map(str, value.shape))}, {value.dtype}"


def _table(rows):
    """Return a table in Markdown."""
    lines = ["| layer | type | name | value |", "|---|---|---|---|"]
    for row in rows:
        cells = [" ".join(cell.replace("|", "\\|").split()) for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _visualization():
    try:
        from keras_xd import visualization
    except ImportError as error:
        raise ImportError(
            "The images of an `ArchitectureBoard` need the package matplotlib, which the extra "
            "`plot` of keras_xd installs; without it use `images=False`."
        ) from error
    return visualization
