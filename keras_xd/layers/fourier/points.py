"""From points anywhere to a grid, where operators work, and back."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import Shape, Sizes, Tensor
from keras_xd.layers.fourier import resampling


@keras.saving.register_keras_serializable(package="keras_xd")
class PointsToGrid(ConfiguredLayer):
    """Puts functions known at scattered points on a grid, by means that weigh near points most.

        y[g] = Σ_p softmax_p(−|g − x_p|² / (2 h²)) · v_p,   h = bandwidth / (size − 1)

    Every grid point has a value, however far the next point is. The weights take
    `batch · grid points · points` numbers.

    Args:
        sizes: the sizes of the grid on `[0, 1]` along each axis, one to three, each at least 2;
            the ends are grid points.
        bandwidth: in distances of neighbouring grid points.

    Call arguments:
        inputs: a pair of values `(batch, points, channels)` and coordinates
            `(batch, points, len(sizes))` between 0 and 1.

    Output shape:
        `(batch, *sizes, channels)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> places = np.linspace(0, 1, 5).reshape(1, 5, 1)
    >>> grid = layers.PointsToGrid((5,), bandwidth=0.2)([10 * places, places])
    >>> [round(float(value), 1) for value in grid[0, :, 0]]
    [0.0, 2.5, 5.0, 7.5, 10.0]
    """

    def __init__(self, sizes: Sizes, bandwidth: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.sizes = resampling.grid_sizes(sizes)
        if min(self.sizes) < 2:
            raise ValueError(f"`sizes` must be at least 2. Received: sizes={sizes}")
        self.bandwidth = validation.positive_number(bandwidth, "bandwidth")

    def build(self, input_shape: list[Shape]) -> None:
        _check_points(input_shape, len(self.sizes), "values")

    def call(self, inputs: list[Tensor]) -> Tensor:
        values, places = inputs
        _check_points([values.shape, places.shape], len(self.sizes), "values")
        number = ops.shape(places)[1]
        exponents = []
        for axis, size in enumerate(self.sizes):
            grid = ops.convert_to_tensor(np.linspace(0, 1, size)[:, None], places.dtype)
            along = ops.expand_dims(ops.take(places, axis, axis=-1), 1)
            distances = (grid - along) * ((size - 1) / self.bandwidth)
            shape = [1] * len(self.sizes)
            shape[axis] = size
            distances = ops.reshape(distances, (-1, *shape, number))
            exponents.append(-ops.square(distances) / 2)
        # Keras' softmax warns where there is a single point.
        total = sum(exponents[1:], exponents[0])
        weights = ops.exp(total - ops.max(total, axis=-1, keepdims=True))
        weights = weights / ops.sum(weights, axis=-1, keepdims=True)
        weights = ops.reshape(weights, (-1, int(np.prod(self.sizes)), number))
        y = ops.matmul(weights, values)
        return ops.reshape(y, (-1, *self.sizes, values.shape[-1]))

    def compute_output_shape(self, input_shape: list[Shape]) -> Shape:
        return (input_shape[0][0], *self.sizes, input_shape[0][-1])


@keras.saving.register_keras_serializable(package="keras_xd")
class GridToPoints(ConfiguredLayer):
    """Samples functions on a grid at points anywhere, by linear interpolation along each axis.

    Points outside of `[0, 1]` take the value at the border.

    Call arguments:
        inputs: a pair of functions `(batch, *sizes, channels)` of one to three known sizes, with
            grid points at 0 and 1, and coordinates `(batch, points, len(sizes))`.

    Output shape:
        `(batch, points, channels)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> line = np.array([0.0, 1.0, 4.0]).reshape(1, 3, 1)
    >>> places = np.array([0.25, 0.75, 1.0]).reshape(1, 3, 1)
    >>> layers.GridToPoints()([line, places])[0, :, 0].numpy().tolist()
    [0.5, 2.5, 4.0]
    """

    def build(self, input_shape: list[Shape]) -> None:
        grid = input_shape[0]
        if not isinstance(grid, (tuple, list)) or not 3 <= len(grid) <= 5 or None in grid[1:]:
            raise ValueError(
                "Functions must have shape (batch, *sizes, channels) with one to three known "
                f"sizes. Received: inputs of shape {tuple(input_shape)}"
            )
        _check_points(input_shape, len(grid) - 2, "functions")

    def call(self, inputs: list[Tensor]) -> Tensor:
        y, places = inputs
        _check_points([y.shape, places.shape], len(y.shape) - 2, "functions")
        places = ops.clip(places, 0, 1)
        *sizes, channels = y.shape[1:]
        for axis, size in enumerate(sizes):
            grid = ops.arange(size, dtype=places.dtype)
            along = ops.expand_dims(ops.take(places, axis, axis=-1), -1)
            hats = ops.relu(1 - ops.abs(along * (size - 1) - grid))
            rest = int(np.prod(sizes[axis + 1 :])) * channels
            if axis == 0:
                y = ops.matmul(hats, ops.reshape(y, (-1, size, rest)))
            else:
                y = ops.reshape(y, (-1, ops.shape(places)[1], size, rest))
                y = ops.sum(ops.expand_dims(hats, -1) * y, axis=2)
        return y

    def compute_output_shape(self, input_shape: list[Shape]) -> Shape:
        return (*input_shape[1][:2], input_shape[0][-1])


def _check_points(shapes, rank, name):
    """Raise `ValueError` unless two shapes are those of values and of points on so many axes."""
    if len(shapes) != 2 or any(size is None or isinstance(size, int) for size in shapes):
        raise ValueError(
            f"Inputs must be a pair, {name} and coordinates. Received: shape {tuple(shapes)}"
        )
    first, places = map(tuple, shapes)
    fits = len(places) == 3 and places[-1] == rank and _agree(first[0], places[0])
    if name == "values":
        fits = fits and len(first) == 3 and _agree(first[1], places[1])
    if not fits:
        raise ValueError(
            f"Inputs must be {name} and coordinates of shape (batch, points, {rank}), of the same "
            f"samples{' and points' if name == 'values' else ''}. "
            f"Received: shapes {first} and {places}"
        )


def _agree(first, second):
    """Return whether two sizes are equal, as far as they are known."""
    return not all(isinstance(size, int) for size in (first, second)) or first == second
