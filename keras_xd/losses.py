"""Losses for operator learning."""

import abc
from typing import Any

import keras
from keras import ops

from keras_xd.core import derivatives, validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Tensor

__all__ = [
    "BurgersResidual",
    "DarcyResidual",
    "H1",
    "NavierStokesResidual",
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
        y_true, y_pred = _exact(y_true, y_pred)
        axes = tuple(range(1, len(y_true.shape)))
        largest = ops.stop_gradient(ops.max(ops.abs(y_true), axis=axes, keepdims=True))
        scale = ops.where(largest > 0, largest, ops.ones_like(largest))
        error, size = (
            _norm(self._terms(values / scale), axes) for values in (y_true - y_pred, y_true)
        )
        return error / ops.where(size > 0, size, ops.ones_like(size))

    def _terms(self, function):
        """Return the values of which the squares are summed."""
        return function


@keras.saving.register_keras_serializable(package="keras_xd")
class H1(RelativeL2):
    """The Sobolev norm H¹ of the error, relative to that of the target; the mean over the batch.

        loss = mean over the samples of  ‖y − ŷ‖ / ‖y‖,   ‖f‖² = ‖f‖₂² + Σ_i ‖∂f/∂x_i‖₂²

    It weighs an error at high frequencies by how steep it is, so operators trained by it have
    sharper solutions and better derivatives. Zero targets, half precision and samples without error
    are as in `RelativeL2`.

    Args:
        lengths: the length of the domain along each spatial axis, or one for all.
        method: `"spectral"` for periodic functions, whose points are `length / size` apart;
            `"differences"` for others, of second order, with points at both ends.
        name, **kwargs: as in `keras.losses.Loss`.

    Call arguments:
        y_true: targets of shape `(batch, *sizes, channels)`, with known sizes of 3 or more.
        y_pred: predictions of the same shape.
        sample_weight: factors of the samples, of shape `(batch,)`.

    Example:

    >>> import numpy as np
    >>> import keras_xd
    >>> x = 2 * np.pi * np.arange(32) / 32
    >>> y = np.sin(x).reshape(1, 32, 1)  # its derivative has the same norm
    >>> loss = keras_xd.losses.H1(lengths=2 * np.pi)
    >>> round(
    ...     float(loss(y, y + 0.1 * np.sin(7 * x).reshape(1, 32, 1))), 4
    ... )  # 0.1 √(50 / 2)
    0.5

    Reference:
        Li et al., "Learning Dissipative Dynamics in Chaotic Systems", 2022.
    """

    @check_types
    def __init__(
        self,
        lengths: float | tuple[float, ...] = 1.0,
        method: str = "spectral",
        name: str = "h1",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.lengths = _lengths(lengths)
        self.method = validation.one_of(method, ("spectral", "differences"), "method")

    def _terms(self, function):
        lengths = _lengths_of(self.lengths, len(function.shape) - 2, function.shape)
        slopes = [
            derivatives.derivative(function, axis, length, self.method)
            for axis, length in enumerate(lengths, start=1)
        ]
        return ops.concatenate([function, *slopes], axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "lengths": self.lengths, "method": self.method}


@keras.saving.register_keras_serializable(package="keras_xd")
class Quantile(keras.losses.Loss):
    """The pinball loss, whose minimum is a quantile of the target.

        loss = mean of  max(q (y − ŷ), (q − 1) (y − ŷ))

    Two models, or two outputs of one, trained at 0.05 and 0.95, give a band in which nine of ten
    values lie; `keras_xd.evaluation.conformal_margin` makes the promise hold on samples held out.

    Args:
        quantile: the number q between 0 and 1.
        name, **kwargs: as in `keras.losses.Loss`.

    Call arguments:
        y_true: targets of shape `(batch, …)`.
        y_pred: predictions of the same shape.

    Example:

    >>> import numpy as np
    >>> import keras_xd
    >>> y = np.array([[1.0], [2.0]])
    >>> round(
    ...     float(keras_xd.losses.Quantile(0.9)(y, np.array([[0.0], [4.0]]))), 2
    ... )  # (.9 + .2) / 2
    0.55

    Reference:
        Koenker and Bassett, "Regression Quantiles", 1978.
    """

    @check_types
    def __init__(self, quantile: float = 0.5, name: str = "quantile", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        self.quantile = validation.number_within(quantile, "()", 0, 1, "quantile")

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        _check_shapes(y_true.shape, y_pred.shape)
        missing = y_true - y_pred
        values = ops.maximum(self.quantile * missing, (self.quantile - 1) * missing)
        return ops.mean(values, axis=tuple(range(1, len(values.shape))))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "quantile": self.quantile}


class _Residual(keras.losses.Loss):
    """Base class of the mean squares of what an equation leaves over."""

    def __init__(self, lengths: float | tuple[float, ...], **kwargs: Any):
        super().__init__(**kwargs)
        self.lengths = _lengths(lengths)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        rest = self._rest(*_exact(y_true, y_pred))
        return ops.mean(ops.square(rest), axis=tuple(range(1, len(rest.shape))))

    @abc.abstractmethod
    def _rest(self, y_true, y_pred):
        """Return what is left over, of shape `(batch, …)`."""

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "lengths": self.lengths}


class _EvolutionResidual(_Residual):
    """Base class of residuals between a state and the next one, at the middle of the step."""

    def __init__(self, viscosity: float, step: float, **kwargs: Any):
        super().__init__(**kwargs)
        self.viscosity = validation.nonnegative_number(viscosity, "viscosity")
        self.step = validation.positive_number(step, "step")

    def _rest(self, y_true, y_pred):
        rank = self.rank
        if len(y_true.shape) != rank + 2 or y_true.shape[-1] != 1:
            raise ValueError(
                f"`y_true` must be states of shape (batch, {', '.join(['size'] * rank)}, 1). "
                f"Received: y_true of shape {tuple(y_true.shape)}"
            )
        later = y_pred[:, None] if len(y_pred.shape) == rank + 2 else y_pred
        if len(later.shape) != rank + 3 or tuple(later.shape[2:]) != tuple(y_true.shape[1:]):
            raise ValueError(
                "`y_pred` must be a state as `y_true`, or several ones, (batch, steps, *state). "
                f"Received: y_true of shape {tuple(y_true.shape)}, y_pred of shape "
                f"{tuple(y_pred.shape)}"
            )
        states = ops.concatenate([y_true[:, None], later], axis=1)[..., 0]
        before, after = states[:, :-1], states[:, 1:]
        return (after - before) / self.step - self._change((before + after) / 2)

    @abc.abstractmethod
    def _change(self, state):
        """Return the derivative by time of states `(batch, steps, *sizes)`."""

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "viscosity": self.viscosity, "step": self.step}


@keras.saving.register_keras_serializable(package="keras_xd")
class BurgersResidual(_EvolutionResidual):
    """What predicted states leave of Burgers' equation on a circle: a loss without solutions.

        loss = mean of  r²,   r = u_t + u u_x − ν u_xx

    Derivatives in space are spectral; in time `r` is taken at the middle of each step, of second
    order. The targets of `fit` are the states that the predictions follow, so that the initial
    condition is kept too.

    Args:
        viscosity: ν, 0 or more.
        step: the time from one state to the next.
        length: of the circle.
        name, **kwargs: as in `keras.losses.Loss`.

    Call arguments:
        y_true: states of shape `(batch, size, 1)`.
        y_pred: the next states, `(batch, size, 1)`, or several ones, `(batch, steps, size, 1)`.

    Example:

    >>> import numpy as np
    >>> import keras_xd
    >>> loss = keras_xd.losses.BurgersResidual(viscosity=0.1, step=0.5)
    >>> at_rest = np.full((1, 16, 1), 2.0)
    >>> float(loss(at_rest, at_rest)), float(loss(at_rest, at_rest + 1.0))
    (0.0, 4.0)

    Reference:
        Li et al., "Physics-Informed Neural Operator", 2021.
    """

    rank = 1

    @check_types
    def __init__(
        self,
        viscosity: float,
        step: float,
        length: float = 1.0,
        name: str = "burgers_residual",
        **kwargs: Any,
    ):
        super().__init__(viscosity, step, lengths=length, name=name, **kwargs)

    def _change(self, state):
        (length,) = _lengths_of(self.lengths, 1, state.shape)
        slope, curvature = (
            derivatives.derivative(state, 2, length, order=order) for order in (1, 2)
        )
        return self.viscosity * curvature - state * slope

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "length": config.pop("lengths")[0]}


@keras.saving.register_keras_serializable(package="keras_xd")
class NavierStokesResidual(_EvolutionResidual):
    """What predicted vorticities leave of the Navier–Stokes equations on a torus.

        loss = mean of  r²,   r = ω_t + u · ∇ω − ν Δω − f,   ∇ × u = ω,   ∇ · u = 0

    Derivatives in space are spectral; in time `r` is taken at the middle of each step, of second
    order. The targets of `fit` are the states that the predictions follow.

    Args:
        viscosity: ν, 0 or more.
        step: the time from one state to the next.
        forcing: `None`, or the force f on the grid: nested lists or an array of shape
            `(size, size)`.
        lengths: of the torus along both axes, or one for both.
        name, **kwargs: as in `keras.losses.Loss`.

    Call arguments:
        y_true: vorticities of shape `(batch, size, size, 1)`.
        y_pred: the next ones, of the same shape, or several, `(batch, steps, size, size, 1)`.

    Example:

    >>> import numpy as np
    >>> import keras_xd
    >>> x = 2 * np.pi * np.arange(16) / 16
    >>> vortices = (np.cos(x)[:, None] * np.cos(x)).reshape(
    ...     1, 16, 16, 1
    ... )  # decay like exp(−2 ν t)
    >>> loss = keras_xd.losses.NavierStokesResidual(0.1, step=0.01, lengths=2 * np.pi)
    >>> bool(loss(vortices, np.exp(-0.002) * vortices) < 1e-9)
    True

    Reference:
        Li et al., "Physics-Informed Neural Operator", 2021.
    """

    rank = 2

    @check_types
    def __init__(
        self,
        viscosity: float,
        step: float,
        forcing: Any = None,
        lengths: float | tuple[float, ...] = 1.0,
        name: str = "navier_stokes_residual",
        **kwargs: Any,
    ):
        super().__init__(viscosity, step, lengths=lengths, name=name, **kwargs)
        self.forcing = None if forcing is None else ops.convert_to_numpy(forcing).tolist()

    def _change(self, state):
        lengths = _lengths_of(self.lengths, 2, state.shape)
        flow = derivatives.velocity(state, lengths)
        change = 0.0 if self.forcing is None else self._force(state)
        for axis, (speed, length) in enumerate(zip(flow, lengths, strict=True), start=2):
            slope, curvature = (
                derivatives.derivative(state, axis, length, order=order) for order in (1, 2)
            )
            change = change + self.viscosity * curvature - speed * slope
        return change

    def _force(self, state):
        """Return the force as a tensor, or raise `ValueError` where it has another size."""
        force = ops.convert_to_tensor(self.forcing, state.dtype)
        if tuple(force.shape) != tuple(state.shape[-2:]):
            raise ValueError(
                "`forcing` must have the sizes of the states. "
                f"Received: forcing of shape {tuple(force.shape)}, states {tuple(state.shape[-2:])}"
            )
        return force

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "forcing": self.forcing}


@keras.saving.register_keras_serializable(package="keras_xd")
class DarcyResidual(_Residual):
    """What predicted pressures leave of Darcy's equation: a loss without solutions.

        loss = mean over the inner points of  r²,   r = −∇ · (a ∇u) − f

    by five-point differences with the coefficient's mean between neighbours. The targets of `fit`
    are the coefficients `a`; points lie at both ends of each axis. The border is not part of the
    loss: let the network vanish there.

    Args:
        forcing: the number f.
        lengths: of the domain along both axes, or one for both.
        name, **kwargs: as in `keras.losses.Loss`.

    Call arguments:
        y_true: coefficients of shape `(batch, size, size, 1)`, with sizes of 3 or more.
        y_pred: pressures of the same shape.

    Example:

    >>> import numpy as np
    >>> import keras_xd
    >>> x, y = np.meshgrid(*[np.linspace(0, 1, 9)] * 2, indexing="ij")
    >>> pressure = (-(x**2) / 4 - y**2 / 4).reshape(1, 9, 9, 1)  # −Δu = 1
    >>> bool(keras_xd.losses.DarcyResidual()(np.ones((1, 9, 9, 1)), pressure) < 1e-6)
    True

    Reference:
        Li et al., "Physics-Informed Neural Operator", 2021.
    """

    @check_types
    def __init__(
        self,
        forcing: float = 1.0,
        lengths: float | tuple[float, ...] = 1.0,
        name: str = "darcy_residual",
        **kwargs: Any,
    ):
        super().__init__(lengths, name=name, **kwargs)
        self.forcing = validation.real_number(forcing, "forcing")

    def _rest(self, y_true, y_pred):
        _check_shapes(y_true.shape, y_pred.shape)
        sizes = y_true.shape[1:3]
        if len(y_true.shape) != 4 or None in sizes or min(sizes) < 3:
            raise ValueError(
                "Coefficients must have shape (batch, size, size, 1) with known sizes of at least "
                f"3. Received: y_true of shape {tuple(y_true.shape)}"
            )
        rest = -self.forcing
        lengths = _lengths_of(self.lengths, 2, y_true.shape)
        for axis, (size, length) in enumerate(zip(sizes, lengths, strict=True), start=1):
            a, u = (ops.moveaxis(values, axis, 1) for values in (y_true, y_pred))
            flux = (a[:, 1:] + a[:, :-1]) / 2 * (u[:, 1:] - u[:, :-1])
            inner = (flux[:, 1:] - flux[:, :-1])[:, :, 1:-1] * ((size - 1) / length) ** 2
            rest = rest - ops.moveaxis(inner, 1, axis)
        return rest

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "forcing": self.forcing}


def _lengths(lengths):
    """Return checked lengths as a tuple."""
    lengths = tuple(lengths) if isinstance(lengths, (tuple, list)) else (lengths,)
    return tuple(validation.positive_number(length, "lengths") for length in lengths)


def _lengths_of(lengths, rank, shape):
    """Return a length for each of so many axes, or raise `ValueError`."""
    if rank < 1 or len(lengths) not in (1, rank):
        raise ValueError(
            "`lengths` must be one number, or one for each spatial axis. "
            f"Received: lengths={lengths}, functions of shape {tuple(shape)}"
        )
    return lengths * rank if len(lengths) == 1 else lengths


def _norm(values, axes):
    """Return the Euclidean norm over some axes, with the gradient 0 where it is 0."""
    squares = ops.sum(ops.square(values), axis=axes)
    positive = squares > 0
    # Also the branch that `where` leaves out has a gradient, which must be finite.
    root = ops.sqrt(ops.where(positive, squares, ops.ones_like(squares)))
    return ops.where(positive, root, ops.zeros_like(root))


def _exact(*tensors):
    """Return tensors in the type that they are computed in, float32 at the least."""
    exact = keras.backend.result_type(*(tensor.dtype for tensor in tensors), "float32")
    return tuple(ops.cast(tensor, exact) for tensor in tensors)


def _check_shapes(expected, found):
    """Raise `ValueError` where predictions would be broadcast to the targets."""
    known = zip(expected[1:], found[1:], strict=False)
    if len(expected) != len(found) or any(None not in pair and len({*pair}) > 1 for pair in known):
        raise ValueError(
            "`y_true` and `y_pred` must have the same shape. "
            f"Received: y_true of shape {tuple(expected)}, y_pred of shape {tuple(found)}"
        )
