"""Mixtures of convolutions of many sizes and dilations, computed as one convolution."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation, window_padding
from keras_xd.core.convolutions import ConvolutionOfAnyRank, RankArgument
from keras_xd.core.randomness import gumbel_noise
from keras_xd.core.type_aliases import Config, Shape, Tensor
from keras_xd.layers.fourier import fft_convolution
from keras_xd.layers.mixed.mixed_operation import MixedConvolution, MixedOptions

KERNEL_SIZES = (3, 5, 7, 9)
DILATIONS = (1, 3, 7, 15)
RELAXATIONS = ("softmax", "gumbel")
CONVOLUTIONS = ("auto", "direct", "fourier")


class DashConvolution(MixedConvolution):
    """Base class of `DashConv` of every rank."""

    fixed = ("candidates",)

    def __init__(
        self,
        *args: Any,
        kernel_sizes: Sequence[int] = KERNEL_SIZES,
        dilations: Sequence[int] = DILATIONS,
        relaxation: str = "softmax",
        temperature: float = 1.0,
        convolution: str = "auto",
        seed: int | None = None,
        **kwargs: Unpack[MixedOptions],
    ):
        self.kernel_sizes = _different_integers(kernel_sizes, "kernel_sizes")
        self.dilations = _different_integers(dilations, "dilations")
        names = [
            f"convolution_{size}" + (f"_dilated_{rate}" if rate > 1 else "")
            for size in self.kernel_sizes
            for rate in self.dilations
            if size > 1 or rate == self.dilations[0]  # one tap has no distance to another
        ]
        super().__init__(*args, candidates=names, **kwargs)
        self.relaxation = validation.one_of(relaxation, RELAXATIONS, "relaxation")
        self.temperature = validation.positive_number(temperature, "temperature")
        self.initial_temperature = self.temperature  # which `build` makes a variable
        self.convolution = validation.one_of(convolution, CONVOLUTIONS, "convolution")
        if self.update != "softmax" and (relaxation != "softmax" or temperature != 1):
            raise ValueError(
                "update='exponentiated_gradient' needs relaxation='softmax' and temperature=1. "
                f"Received: relaxation={relaxation!r}, temperature={temperature!r}"
            )
        self.seed, self._plan = validation.seed(seed), None
        if relaxation == "gumbel":
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build_operations(self, input_shape: Shape) -> None:
        """Make the kernels of all candidates, the logits and the temperature."""
        super().build_operations(input_shape)
        self.temperature = self.add_weight(
            name="temperature",
            shape=(),
            initializer=keras.initializers.Constant(self.initial_temperature),
            trainable=False,
            autocast=False,
        )
        self._plan = self._planned(self._operation_shape(input_shape)[1:])

    @property
    def probabilities(self) -> Tensor:
        """The probability of each candidate without noise, a tensor."""
        if self.update != "softmax":
            return super().probabilities
        return ops.softmax(ops.convert_to_tensor(self.logits) / self.temperature)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        probabilities = self.probabilities
        if training and self.relaxation == "gumbel":
            noise = gumbel_noise(probabilities.shape, self.seed_generator)
            logits = ops.convert_to_tensor(self.logits) + ops.cast(noise, self.logits.dtype)
            probabilities = ops.softmax(logits / self.temperature)
        return self.surrounded(inputs, functools.partial(self._mixture, probabilities))

    def operate(self, x: Tensor) -> Tensor:
        """Return the mixture of the candidates; inputs and outputs have their channels last."""
        return self._mixture(self.probabilities, x)

    def forms(self, input_shape: Shape) -> dict[str, int]:
        """Return the multiply–adds of one sample in the forms `"direct"` and `"fourier"`, each of
        FFTs counted as ten, because it takes as long.
        """
        return dict(self._plan_of(self._operation_shape(input_shape)[1:]).multiply_adds)

    def form(self, input_shape: Shape) -> str:
        """Return the form that inputs of a shape are computed in, `"direct"` or `"fourier"`."""
        return self._plan_of(self._operation_shape(input_shape)[1:]).form

    def _plan_of(self, shape):
        """Return the plan of inputs of a shape, which is that of `build` unless they are others."""
        if self._plan is None or tuple(shape) != self._plan.shape:
            return self._planned(shape)
        return self._plan

    def _planned(self, shape):
        *sizes, channels = shape
        direct, (offsets, kept) = self._by_dilation(sizes), self._offsets(sizes)
        pairs = channels // self.groups * self.operation_filters
        places = math.prod(self.output_sizes(sizes))
        taps = sum(math.prod(taps) for _, _, taps, _ in direct)
        spectra = fft_convolution.correlation_multiply_adds(
            shape, offsets, self.operation_filters, self.groups
        )
        costs = {
            "direct": places * taps * pairs,
            "fourier": min(spectra["products"], fft_convolution.FFT_COST * spectra["fft"]),
        }
        form = min(costs, key=costs.get) if self.convolution == "auto" else self.convolution
        return _Plan(tuple(shape), form, costs, direct, offsets, kept)

    def forecast(self, input_shape: Shape) -> dict[str, int]:
        """Return the sizes the layer will have, as `MixedOperation2D.forecast` does."""
        found = super().forecast(input_shape)
        return {**found, "parameters": found["parameters"] + 1}  # the temperature

    def get_config(self) -> Config:
        return {**super().get_config(), "temperature": self.initial_temperature}

    def _mixture(self, probabilities, x):
        plan = self._plan_of(x.shape[1:])
        weighted = [
            ops.convert_to_tensor(operation.kernel) * ops.cast(probability, operation.kernel.dtype)
            for operation, probability in zip(
                self.operations, ops.unstack(probabilities), strict=True
            )
        ]
        compute = self._direct if plan.form == "direct" else self._fourier
        return compute(x, weighted, plan)

    def _direct(self, x, kernels, plan):
        """Return the mixture by one convolution for each dilation."""
        total, sizes = 0, tuple(x.shape[1:-1])
        for rate, before, taps, members in plan.direct:
            mixed = 0
            for index, first in members:
                kernel, padding = kernels[index], []
                for axis, (low, count) in enumerate(zip(first, taps, strict=True)):
                    # Taps from `start` to `stop` are in reach, and stand from `low` on.
                    start, size = max(-low, 0), kernel.shape[axis]
                    stop = max(min(size, count - low), start)
                    kernel = kernel[(slice(None),) * axis + (slice(start, stop),)]
                    padding.append((low + start, count - low - stop))
                mixed = mixed + ops.pad(kernel, [*padding, (0, 0), (0, 0)])
            reach = [
                s * (outputs - 1) + d * (t - 1) + 1
                for s, outputs, d, t in zip(
                    self.strides, self.output_sizes(sizes), rate, taps, strict=True
                )
            ]
            border = [(b, r - n - b) for b, r, n in zip(before, reach, sizes, strict=True)]
            mixed = ops.cast(mixed, x.dtype)
            total = total + window_padding.convolve(x, mixed, border, self.strides, rate)
        return total

    def _fourier(self, x, kernels, plan):
        """Return the mixture by one product of spectra."""
        exact = "float64" if self.compute_dtype == "float64" else "float32"
        rows = [
            ops.reshape(kernel, (-1, *kernel.shape[self.rank :]))
            for kernel in (ops.cast(kernel, exact) for kernel in kernels)
        ]
        rows = ops.take(ops.concatenate(rows, axis=0), plan.kept, axis=0)
        y = fft_convolution.correlate(x, rows, plan.offsets, self.groups)
        y = window_padding.every(y, self.strides)
        counts = self.output_sizes(x.shape[1:-1])
        return y[(slice(None), *(slice(0, count) for count in counts))]

    def _windows(self, sizes):
        """Return for each candidate its rate, and the offset of its first tap from an output."""
        found = []
        for operation in self.operations:
            spans = window_padding.spans(operation.size, operation.rate)
            first = tuple(-before for before, _ in self.borders(sizes, spans))
            found.append((operation.size, operation.rate, first))
        return found

    def _reach(self, sizes):
        """Return for each axis the lowest and the highest offset that reads the input."""
        last = [s * (n - 1) for s, n in zip(self.strides, self.output_sizes(sizes), strict=True)]
        return [(-far, n - 1) for far, n in zip(last, sizes, strict=True)]

    def _by_dilation(self, sizes):
        """Return the convolutions of the direct form."""
        groups = {}
        for index, (size, rate, first) in enumerate(self._windows(sizes)):
            phase = tuple(f % d for f, d in zip(first, rate, strict=True))
            groups.setdefault((rate, phase), []).append((index, size, first))
        found = []
        for (rate, _), members in groups.items():
            lows, taps = [], []
            for axis, (low, high) in enumerate(self._reach(sizes)):
                d = rate[axis]
                begin = min(first[axis] for _, _, first in members)
                end = max(first[axis] + d * (size[axis] - 1) for _, size, first in members)
                # The first and the last tap that are in reach.
                begin += d * max(-((begin - low) // d), 0)
                end -= d * max(-((high - end) // d), 0)
                lows.append(begin)
                taps.append((end - begin) // d + 1)
            if min(taps) < 1:
                continue
            placed = [
                (index, tuple((f - b) // d for f, b, d in zip(first, lows, rate, strict=True)))
                for index, _, first in members
            ]
            found.append((rate, tuple(-low for low in lows), tuple(taps), placed))
        return found

    def _offsets(self, sizes):
        """Return the offsets of all candidates' taps that are in reach, and which taps these
        are.
        """
        offsets = [
            [f + d * tap for f, d, tap in zip(first, rate, taps, strict=True)]
            for size, rate, first in self._windows(sizes)
            for taps in itertools.product(*map(range, size))
        ]
        offsets = np.array(offsets)
        low, high = np.array(self._reach(sizes)).T
        kept = np.flatnonzero(((offsets >= low) & (offsets <= high)).all(axis=1))
        return offsets[kept], kept


@keras.saving.register_keras_serializable(package="keras_xd")
class DashConv(RankArgument, DashConvolution, ConvolutionOfAnyRank):
    """As `DashConv2D`, of any `rank`."""


@keras.saving.register_keras_serializable(package="keras_xd")
class DashConv1D(DashConvolution, keras.layers.Conv1D):
    """As `DashConv2D`, over one spatial axis."""

    rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class DashConv2D(DashConvolution, keras.layers.Conv2D):
    """A convolution of searched kernel size and dilation: all candidates in one convolution.

    The candidates are convolutions of all `kernel_sizes` `k` with all `dilations` `d`, each with a
    kernel `w_kd` of its own, and the convolution of the layer's own arguments. With the
    probabilities `p = softmax(logits / temperature)`

        y = activation( ( Σ_kd p_kd · place_d(w_kd) ) ∗ x + bias )

    where `place_d` puts the taps `d` places apart with zeros between. Convolutions are linear in
    their kernels, so this is the mixture `Σ p_kd (w_kd ∗ x)`, at the price of one convolution. Taps
    that lie further off than the input is long are left out.

    `finalize()` keeps the candidate of the largest probability, without its probability as a
    factor, as `MixedOperation2D` does: a Keras convolution where Keras has it, else a
    `DiscreteOperation`.

    Args:
        filters, kernel_size, *args: these and all others of a Keras convolution.
        kernel_sizes: the sizes `k` of the candidates, the same along every axis.
        dilations: the dilations `d`.
        relaxation: `"softmax"`, or `"gumbel"`: in training Gumbel noise is added to the logits, new
            in each step.
        temperature: the divisor of the logits, above 0, at the start. It is the non-trainable
            variable `temperature`, which callbacks may assign.
        convolution: `"direct"`: one convolution for each dilation; `"fourier"`: one product of
            spectra; `"auto"`: what is estimated to take less time.
        other_weight: what is left at the start for the candidates other than the layer's own
            convolution, or `None` for equal probabilities, the paper's start.
        update, partial_channels: as in `MixedOperation2D`; `update="exponentiated_gradient"` needs
            `relaxation="softmax"` and `temperature=1`.
        seed: an integer makes the noise reproducible.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)`; all sizes but
        the batch's must be known.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.DashConv2D(
    ...     8, 5, padding="same", kernel_sizes=(3, 9), dilations=(1, 3)
    ... )
    >>> layer(np.ones((2, 32, 32, 4))).shape
    TensorShape([2, 32, 32, 8])
    >>> layer.largest, type(layer.finalize()).__name__
    ('convolution', 'Conv2D')

    Reference:
        Shen, Khodak, Talwalkar, "Efficient Architecture Search for Diverse Tasks", 2022.
    """

    rank = 2


@keras.saving.register_keras_serializable(package="keras_xd")
class DashConv3D(DashConvolution, keras.layers.Conv3D):
    """As `DashConv2D`, over three spatial axes."""

    rank = 3


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What inputs of a shape, without the batch, are computed by."""

    shape: tuple[int, ...]
    form: str
    multiply_adds: dict[str, int]
    # As from `DashConv._by_dilation`, and from `DashConv._offsets`.
    direct: list
    offsets: np.ndarray
    kept: np.ndarray


def _different_integers(values, name):
    """Return a tuple of different positive integers, at least one."""
    values = enumerate(validation.different(values, name))
    return tuple(validation.positive_integer(value, f"{name}[{n}]") for n, value in values)
