"""Continuation of functions on a grid to periodic ones."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import Shape, Tensor
from keras_xd.layers.fourier import resampling


@keras.saving.register_keras_serializable(package="keras_xd")
class FourierContinuation(ConfiguredLayer):
    """Adds points behind each axis, so that a function that is not periodic becomes periodic.

    The new points lie on the polynomial through the last `order` points and, a period further, the
    first `order` ones: it joins both ends smoothly, where a Fourier operator on the function itself
    would see a jump. Points of the function stay as they are. With `order=0` the new points are
    zeros, which is what the published operators call domain padding.

    Put it before layers on a circle, such as `SpectralConv` or `XDConv(padding="circular")`, and
    `keras.layers.Cropping1D`, 2D or 3D behind them; `keras_xd.models.fno(continuation=…)` does.

    Args:
        points: how many points are added behind each spatial axis, one number or one for each.
        order: how many points at each end the continuation is fitted to, 0 to 8.

    Input shape:
        `(batch, *sizes, channels)`, one to three sizes, each of at least `order`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> line = np.arange(8.0).reshape(1, 8, 1)
    >>> longer = layers.FourierContinuation(4, order=2)(line)
    >>> [round(float(value), 2) for value in longer[0, 6:, 0]]
    [6.0, 7.0, 6.29, 4.54, 2.46, 0.71]

    Reference:
        Bruno and Lyon, "High-order unconditionally stable FC-AD solvers", 2010;
        Maust et al., "Fourier Continuation for Exact Derivative Computation in Physics-Informed
        Neural Operators", 2022.
    """

    def __init__(self, points: int | tuple[int, ...], order: int = 4, **kwargs: Any):
        super().__init__(**kwargs)
        several = points if isinstance(points, (tuple, list)) else (points,)
        several = [validation.nonnegative_integer(count, "points") for count in several]
        self.points = several[0] if len(several) == 1 else tuple(several)
        self.order = validation.nonnegative_integer(order, "order")
        if self.order > 8:
            raise ValueError(f"`order` must be at most 8. Received: order={order}")

    def build(self, input_shape: Shape) -> None:
        self._added(input_shape)
        self.input_spec = keras.layers.InputSpec(ndim=len(input_shape))

    def call(self, inputs: Tensor) -> Tensor:
        x = inputs
        for axis, count in enumerate(self._added(inputs.shape), start=1):
            x = self._continued(x, axis, count) if count else x
        return x

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        pairs = zip(input_shape[1:-1], self._added(input_shape), strict=True)
        sizes = (None if size is None else size + count for size, count in pairs)
        return (input_shape[0], *sizes, input_shape[-1])

    def _added(self, shape):
        """Return how many points each axis gets, or raise `ValueError`."""
        rank = len(shape) - 2
        points = self.points if isinstance(self.points, tuple) else (self.points,) * max(rank, 0)
        short = any(size is not None and size < self.order for size in shape[1:-1])
        if not 1 <= rank <= 3 or len(points) != rank or short:
            raise ValueError(
                "Functions must have one to three axes, as many as `points`, each of at least "
                f"`order` points. Received: shape {tuple(shape)}, points={self.points}, "
                f"order={self.order}"
            )
        return points

    def _continued(self, x, axis, count):
        """Return the function with points behind one axis."""
        if self.order == 0:
            widths = [(0, 0)] * x.ndim
            widths[axis] = (0, count)
            return ops.pad(x, widths)
        before = (slice(None),) * axis
        ends = [x[(*before, slice(-self.order, None))], x[(*before, slice(self.order))]]
        matrix = continuation_matrix(count, self.order).T
        between = resampling.multiply_axis(ops.concatenate(ends, axis=axis), axis, matrix)
        return ops.concatenate([x, between], axis=axis)


def continuation_matrix(points: int, order: int) -> np.ndarray:
    """Return the `(points, 2 order)` matrix from the last and the first values to those between."""
    before, after = np.arange(-order, 0), points + np.arange(order)
    scale = (points + 2 * order - 1) / 2
    known, new = (
        (np.asarray(places) + order) / scale - 1
        for places in (np.concatenate([before, after]), np.arange(points))
    )
    # Lagrange's polynomials in the barycentric form.
    differences = known[:, None] - known + np.eye(len(known))
    weights = 1 / np.prod(differences, axis=1)
    terms = weights / (new[:, None] - known)
    return terms / terms.sum(axis=1, keepdims=True)
