"""Normalization of functions on a grid, point by point."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_xd")
class PointNormalization(ConfiguredLayer):
    """Subtracts the mean of the training functions at each point and divides by their deviation.

        y = (x - mean) / (deviation + epsilon),   inverted: x = y · (deviation + epsilon) + mean

    Both are learned by `adapt`, of every point and channel on its own, and saved with the layer.
    Put one with `channels=1` before a neural operator and one with `invert=True`, adapted to the
    solutions, behind it: then the network works on normalized functions, and its outputs, the loss
    and the errors are those of the solutions themselves.

    `keras.layers.Normalization(axis=(1, 2, …))` is nearly the same. It divides by 1e-7 where all
    training functions have one value, so coordinates and fixed borders become rounding noise as
    large as the function, and it rounds the statistics to half precision where the layer computes
    in it. Here coordinates pass (`channels`), points of one value become exactly 0, and inverted
    they are that value except for `epsilon` times the network's answer.

    The layer fits one grid: another resolution needs another layer, adapted again. Until `adapt`
    is called, the mean is 0 and the deviation 1, so the layer is an identity except for `epsilon`,
    like `keras.layers.Normalization`; `SearchModel.fit` warns of it.

    Args:
        channels: how many channels, from the first, are normalized; the others, such as
            coordinates, pass as they are. `None`: all.
        invert: whether normalized functions are turned back into functions.
        epsilon: added to the deviation.
        **kwargs: the arguments of `keras.layers.Layer`. The layer computes in float32 under every
            policy of mixed precision, and returns the policy's type; give the last layer of a
            network `dtype="float32"`, so that solutions are not rounded.

    Input shape:
        `(batch, *sizes, channels)`, all but the batch known.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> rng = np.random.default_rng(0)
    >>> grid = np.broadcast_to(np.linspace(0, 1, 16), (8, 16))
    >>> inputs = np.stack(
    ...     [5 + 2 * rng.normal(size=(8, 16)), grid], axis=-1
    ... )  # with coordinates
    >>> solutions = 100 * inputs[..., :1]
    >>> encoding = keras_xd.layers.PointNormalization(channels=1)
    >>> encoding.adapt(inputs)
    >>> decoding = keras_xd.layers.PointNormalization(invert=True, dtype="float32")
    >>> decoding.adapt(solutions)
    >>> operator = keras_xd.models.fno((16, 2), width=4, modes=4, blocks=1)
    >>> model = keras.Sequential([keras.Input((16, 2)), encoding, operator, decoding])
    >>> model.compile("sgd", keras_xd.losses.RelativeL2())
    >>> history = model.fit(inputs, solutions, verbose=0)
    """

    def __init__(
        self,
        channels: int | None = None,
        invert: bool = False,
        epsilon: float = 1e-5,
        **kwargs: Any,
    ):
        super().__init__(**{"autocast": False, **kwargs})
        if channels is not None:
            channels = validation.positive_integer(channels, "channels")
        self.channels = channels
        self.invert = validation.boolean(invert, "invert")
        self.epsilon = validation.positive_number(epsilon, "epsilon")

    def build(self, input_shape: Shape) -> None:
        shape = tuple(input_shape[1:])
        if not shape or None in shape or (self.channels or 1) > shape[-1]:
            raise ValueError(
                "Functions must have known sizes and at least as many channels as are normalized. "
                f"Received: shape {tuple(input_shape)}, channels={self.channels}"
            )
        kept = (*shape[:-1], self.channels or shape[-1])
        options = {"shape": kept, "trainable": False, "autocast": False}
        self.mean = self.add_weight(name="mean", initializer="zeros", **options)
        self.deviation = self.add_weight(name="deviation", initializer="ones", **options)

    def adapt(self, data: Any) -> None:
        """Set the statistics to those of training functions.

        Args:
            data: an array `(number, *sizes, channels)`, or batches of such: a `tf.data.Dataset`, a
                `keras.utils.PyDataset` or another iterable. Of batches that are tuples the first
                part counts. A value that is NaN or infinite is refused.
        """
        number, mean, squares = 0, 0.0, 0.0
        for values in _batches(data):
            validation.check_finite_data(values, "data", before=number)
            if not self.built:
                self.build((None, *values.shape[1:]))
            self._check_shape(values.shape)
            values = values[..., : self.mean.shape[-1]].astype("float64")
            total = number + len(values)
            difference = values.mean(axis=0) - mean
            # Sums of squared deviations are merged exactly: Chan, Golub and LeVeque, 1983.
            squares = squares + values.var(axis=0) * len(values)
            squares = squares + difference**2 * number * len(values) / max(1, total)
            mean = mean + difference * len(values) / max(1, total)
            number = total
        if not number:
            raise ValueError(f"`adapt` needs functions. Received: data={data!r}")
        self.mean.assign(mean)
        self.deviation.assign(np.sqrt(squares / number))

    @property
    def is_adapted(self) -> bool:
        """Whether the statistics of the built layer are other than those it begins with."""
        mean, deviation = map(ops.convert_to_numpy, (self.mean, self.deviation))
        return bool(np.any(mean != 0) or np.any(deviation != 1))

    def call(self, inputs: Tensor) -> Tensor:
        exact = keras.backend.result_type(self.mean.dtype, "float32")
        inputs = ops.cast(inputs, exact)
        channels = self.mean.shape[-1]
        deviation = ops.add(self.deviation, self.epsilon)
        first = inputs[..., :channels]
        if self.invert:
            first = first * deviation + self.mean
        else:
            first = (first - self.mean) / deviation
        outputs = ops.concatenate([first, inputs[..., channels:]], axis=-1)
        return ops.cast(outputs, self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return 0: by convention a normalization has no multiply–adds."""
        return 0

    def _check_shape(self, shape):
        sizes, channels = self.mean.shape[:-1], self.mean.shape[-1]
        enough = shape[-1] == channels or (self.channels and shape[-1] >= channels)
        if tuple(shape[1:-1]) != tuple(sizes) or not enough:
            raise ValueError(
                f"Functions must be those of a grid {tuple(sizes)} with {channels} channels to "
                f"normalize. Received: data of shape {tuple(shape)}"
            )


def _batches(data):
    """Return an iterator of NumPy arrays of functions."""
    if isinstance(data, np.ndarray) or keras.ops.is_tensor(data):
        data = [data]
    elif isinstance(data, keras.utils.PyDataset):
        data = map(data.__getitem__, range(len(data)))
    elif not isinstance(data, Iterable):
        raise ValueError(
            f"`data` must be an array or batches. Received: data={type(data).__name__}"
        )
    for batch in data:
        values = batch[0] if isinstance(batch, (tuple, list)) else batch
        yield ops.convert_to_numpy(values)
