"""Losses for operator learning."""

import keras
from keras import ops

from keras_xd.core.type_aliases import Tensor

__all__ = [
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
        error, size = (_norm(values / scale, axes) for values in (y_true - y_pred, y_true))
        return error / ops.where(size > 0, size, ops.ones_like(size))


def _norm(values, axes):
    """Return the Euclidean norm over some axes, with the gradient 0 where it is 0."""
    squares = ops.sum(ops.square(values), axis=axes)
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
