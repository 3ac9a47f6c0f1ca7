"""Losses for operator learning."""

import math
from collections.abc import Sequence

import keras
from keras import ops

from keras_xd.core import transforms, validation
from keras_xd.core.type_aliases import Config, Tensor

__all__ = [
    "H1",
    "Quantile",
    "RelativeL2",
]


@keras.saving.register_keras_serializable(package="keras_xd")
class RelativeL2(keras.losses.Loss):
    """The L2 norm of the error, relative to that of the target; the mean over the batch.

        loss = mean over the samples of  ‖y − ŷ‖₂ / ‖y‖₂

    with norms over all axes but the first. It is what operators of differential equations are
    trained and judged by: each sample counts alike, however large its solution is.

    - A target that is zero everywhere has no relative error. Its sample counts with the absolute
      one, `‖ŷ‖₂`.
    - A sample without error has the gradient 0, where the norm itself has none.
    - Numbers in half precision are summed in float32, and samples are scaled before they are
      squared, so very large and very small targets neither overflow nor vanish.

    Args:
        reduction: as in `keras.losses.Loss`; `"sum"` is the loss of the FNO and XD papers.
        name: the name of the loss.
        dtype: as in `keras.losses.Loss`.

    Call arguments:
        y_true: targets of shape `(batch, …)`.
        y_pred: predictions of the same shape.
        sample_weight: factors of the samples, of shape `(batch,)`.

    Example:

    >>> import numpy as np
    >>> import keras_xd
    >>> loss = keras_xd.losses.RelativeL2()
    >>> y = np.array([[3.0, 4.0], [30.0, 40.0]])
    >>> float(loss(y, 1.5 * y))
    0.5
    >>> float(loss(y, np.array([[3.0, 4.0], [30.0, 0.0]])))  # 0 and 40 / 50
    0.4...

    Reference:
        Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations", 2021.
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str = "relative_l2",
        dtype: str | keras.DTypePolicy | None = None,
    ):
        super().__init__(reduction=reduction, name=name, dtype=dtype)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        _check_shapes(y_true.shape, y_pred.shape)
        exact = keras.backend.result_type(y_true.dtype, y_pred.dtype, "float32")
        y_true, y_pred = ops.cast(y_true, exact), ops.cast(y_pred, exact)
        axes = tuple(range(1, len(y_true.shape)))
        largest = ops.stop_gradient(ops.max(ops.abs(y_true), axis=axes, keepdims=True))
        scale = ops.where(largest > 0, largest, ops.ones_like(largest))
        differences = (y_true - y_pred) / scale
        error, size = (_root(self._squares(values)) for values in (differences, y_true / scale))
        return error / ops.where(size > 0, size, ops.ones_like(size))

    def _squares(self, values):
        """Return the squared norm of each sample."""
        return _sum(ops.square(values))


@keras.saving.register_keras_serializable(package="keras_xd")
class H1(RelativeL2):
    """The Sobolev norm H¹ of the error, relative to that of the target; the mean over the batch.

        loss = mean over the samples of  ‖y − ŷ‖ / ‖y‖,   ‖y‖² = Σ y² + Σ_axes Σ (∂y / ∂x_axis)²

    with sums over all points and channels. It weighs errors by how fast they change, so that
    solutions are smooth and their derivatives are right. As in `RelativeL2`, a target of zeros
    counts with the absolute error.

    Args:
        lengths: the length of the domain along each spatial axis: one number, or one for each.
        periodic: whether the points are those of a period, `length · i / n`, whose derivatives are
            those of the Fourier series. Otherwise they are `length · i / (n - 1)`, with central
            differences, and one-sided ones at both ends, as in `numpy.gradient`.
        reduction: as in `keras.losses.Loss`.
        name: the name of the loss.
        dtype: as in `keras.losses.Loss`.

    Call arguments:
        y_true: targets of shape `(batch, *sizes, channels)`.
        y_pred: predictions of the same shape.
        sample_weight: factors of the samples, of shape `(batch,)`.

    Raises:
        ValueError: a length is not positive, there are none or others than there are spatial axes,
            or an axis that is not periodic has a single point.

    Example:

    >>> import numpy as np
    >>> import keras_xd
    >>> x = 2 * np.pi * np.arange(32) / 32
    >>> y = np.sin(x).reshape(1, 32, 1)
    >>> error = np.sin(3 * x).reshape(1, 32, 1)
    >>> loss = keras_xd.losses.H1(lengths=2 * np.pi)
    >>> round(float(loss(y, y + error)) ** 2, 4)  # (1 + 3²) / (1 + 1²)
    5.0

    Reference:
        Li et al., "Learning Dissipative Dynamics in Chaotic Systems", 2022.
    """

    def __init__(
        self,
        lengths: float | Sequence[float] = 1.0,
        periodic: bool = True,
        reduction: str | None = "sum_over_batch_size",
        name: str = "h1",
        dtype: str | keras.DTypePolicy | None = None,
    ):
        super().__init__(reduction=reduction, name=name, dtype=dtype)
        several = isinstance(lengths, (list, tuple))
        values = [
            validation.real_number(length, "lengths")
            for length in (lengths if several else [lengths])
        ]
        if not values or min(values) <= 0:
            raise ValueError(f"`lengths` must be positive. Received: lengths={lengths}")
        self.lengths = tuple(values) if several else values[0]
        self.periodic = validation.boolean(periodic, "periodic")

    def _squares(self, values):
        sizes = tuple(values.shape)[1:-1]
        lengths = self.lengths
        lengths = lengths if isinstance(lengths, tuple) else (lengths,) * len(sizes)
        if not sizes or len(lengths) != len(sizes) or (not self.periodic and 1 in sizes):
            raise ValueError(
                "Fields must have the shape (batch, *sizes, channels) with a length for each size, "
                "and two points along each axis that is not periodic. "
                f"Received: a shape of {tuple(values.shape)}, lengths={self.lengths}"
            )
        derivative = _fourier_derivative if self.periodic else _finite_differences
        squares = super()._squares(values)
        for axis, length in enumerate(lengths, start=1):
            squares = squares + derivative(ops.moveaxis(values, axis, -1), length)
        return squares

    def get_config(self) -> Config:
        return {**super().get_config(), "lengths": self.lengths, "periodic": self.periodic}


@keras.saving.register_keras_serializable(package="keras_xd")
class Quantile(keras.losses.Loss):
    """The quantile (pinball) loss; the mean over the batch.

        loss = mean of  max(q · e, (q − 1) · e),   e = y − ŷ

    Its minimum is the `q`-quantile of the targets given the inputs: with 0.9, nine of ten targets
    lie below the prediction. Two models, or two outputs, of 0.05 and 0.95 give an interval.

    Args:
        quantile: a number between 0 and 1, both excluded; 0.5 is half of the absolute error.
        reduction: as in `keras.losses.Loss`.
        name: the name of the loss.
        dtype: as in `keras.losses.Loss`.

    Call arguments:
        y_true: targets of shape `(batch, …)`.
        y_pred: predictions of the same shape.
        sample_weight: factors of the samples, of shape `(batch,)`.

    Raises:
        ValueError: the quantile is not between 0 and 1, or the shapes differ.

    Example:

    >>> import numpy as np
    >>> import keras_xd
    >>> loss = keras_xd.losses.Quantile(0.9)
    >>> float(loss(np.array([[2.0]]), np.array([[1.0]])))  # too low
    0.9...
    >>> float(loss(np.array([[1.0]]), np.array([[2.0]])))  # too high
    0.1...
    """

    def __init__(
        self,
        quantile: float = 0.5,
        reduction: str | None = "sum_over_batch_size",
        name: str = "quantile",
        dtype: str | keras.DTypePolicy | None = None,
    ):
        super().__init__(reduction=reduction, name=name, dtype=dtype)
        self.quantile = validation.real_number(quantile, "quantile")
        if not 0 < self.quantile < 1:
            raise ValueError(
                f"`quantile` must lie between 0 and 1, both excluded. Received: quantile={quantile}"
            )

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        _check_shapes(y_true.shape, y_pred.shape)
        exact = keras.backend.result_type(y_true.dtype, y_pred.dtype, "float32")
        error = ops.cast(y_true, exact) - ops.cast(y_pred, exact)
        losses = ops.maximum(self.quantile * error, (self.quantile - 1) * error)
        return ops.mean(losses, axis=tuple(range(1, len(y_true.shape))))

    def get_config(self) -> Config:
        return {**super().get_config(), "quantile": self.quantile}


def _sum(values):
    """Return the sum over all axes but the first."""
    return ops.sum(values, axis=tuple(range(1, len(values.shape))))


def _fourier_derivative(values, length):
    """Return, for each sample, the sum of squares of the periodic derivative of the last axis."""
    real, imaginary = transforms.rfft(values)
    size = ops.shape(values)[-1]
    frequencies = ops.arange(size // 2 + 1, dtype=values.dtype) * (2 * math.pi / length)
    # Parseval's identity.
    weights = transforms.multiplicities(size // 2 + 1, size, values.dtype)
    weights = weights * ops.square(frequencies) / ops.cast(size, values.dtype)
    return _sum(weights * (ops.square(real) + ops.square(imaginary)))


def _finite_differences(values, length):
    """Return, for each sample, the sum of squares of finite differences of the last axis."""
    step = length / ops.cast(ops.shape(values)[-1] - 1, values.dtype)
    inner = (values[..., 2:] - values[..., :-2]) / 2
    ends = (values[..., 1] - values[..., 0], values[..., -1] - values[..., -2])
    return sum(_sum(ops.square(part)) for part in (inner, *ends)) / ops.square(step)


def _root(squares):
    """Return the square root, with the gradient 0 where it is 0."""
    positive = squares > 0
    # Also the branch that `where` leaves out has a gradient, which must be finite.
    root = ops.sqrt(ops.where(positive, squares, ops.ones_like(squares)))
    return ops.where(positive, root, ops.zeros_like(root))


def _check_shapes(expected, found):
    """Raise `ValueError` where predictions would be broadcast to the targets."""
    known = zip(expected[1:], found[1:], strict=False)
    if len(expected) != len(found) or any(None not in pair and len({*pair}) > 1 for pair in known):
        raise ValueError(
            "`y_true` and `y_pred` must have the same shape. "
            f"Received: y_true of shape {tuple(expected)}, y_pred of shape {tuple(found)}"
        )
