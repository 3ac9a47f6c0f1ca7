"""Small networks that give the value of a convolution kernel at any coordinate."""

import math
from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import LayerOptions, Shape, Tensor

KINDS = ("fourier", "siren", "magnet")
# How many standard deviations of a Gabor filter's spectrum count as its content.
_DEVIATIONS = 2.0


@keras.saving.register_keras_serializable(package="keras_xd")
class KernelNetwork(ConfiguredLayer):
    """Maps coordinates to features, of which each `CKConv` makes its kernel by a linear layer.

    One network given to several layers is shared by them: its weights exist once, and only the
    last linear layer, a slice of the network's output, belongs to each. A `.keras` file and
    `keras_xd.rewrite` keep what is shared. All weights and features are float32.

    With the coordinates `c` from -1 to 1 on each axis the kinds are

    - `"fourier"`: `[cos W c, sin W c]` with random `W` of `features` rows, normal of the standard
      deviation `2π · frequency`, then `hidden_layers` linear layers of `units` with ReLU.
    - `"siren"`: `hidden_layers + 1` layers `sin(frequency · (A h + b))`.
    - `"magnet"`: products `g_i(c) · (A h_{i-1} + b)` of `hidden_layers + 1` Gabor filters
      `g_i(c) = exp(-½ Σ_d (γ_d (c_d - μ_d))²) · sin(W c + b)`.

    On a grid of `k` points frequencies above `(k - 1) / 4` alias. `frequency` is in cycles for each
    unit of coordinates that run from -1 to 1, as in the papers' code, and not divided by the number
    of points: those of the papers, thousands, are far above what their grids hold. The first
    kernels are noise then, each tap by itself, and mean nothing on another grid. A half of
    `(k - 1) / 4` makes kernels that vary from tap to tap and that a finer grid continues.

    Args:
        kind: `"fourier"`, `"siren"` or `"magnet"`.
        units: size of the hidden layers and number of features given.
        hidden_layers: number of linear layers between hidden units.
        frequency: how fast the first kernels vary: cycles for each unit of the coordinates, or for
            `"siren"` the factor in the sine.
        features: number of random frequencies of `"fourier"`.
        spread: the centres `μ` of `"magnet"` begin between `-spread` and `spread`. For kernels
            that begin small this should be their size.
        seed: an integer makes the first weights reproducible.

    Input shape:
        `(points, rank)`: coordinates.

    Example:

    >>> import keras
    >>> from keras_xd import layers
    >>> network = layers.KernelNetwork(units=16, frequency=4.0)
    >>> inputs = keras.Input((32, 8))
    >>> x = layers.CKConv1D(network)(inputs)
    >>> x = layers.CKConv1D(network)(x)
    >>> len(
    ...     keras.Model(inputs, x).trainable_variables
    ... )  # 16 of the network, 4 of each layer
    24

    Reference:
        Romero and Zeghidour, "DNArch", 2023, section 2.2; Tancik et al., "Fourier features", 2020;
        Sitzmann et al., "Implicit neural representations with periodic activation functions", 2020;
        Romero et al., "FlexConv", 2022 (MAGNets).
    """

    def __init__(
        self,
        kind: str = "magnet",
        units: int = 32,
        hidden_layers: int = 2,
        frequency: float = 8.0,
        features: int = 128,
        spread: float = 1.0,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**{"dtype": "float32", **kwargs})
        self.kind = validation.one_of(kind, KINDS, "kind")
        self.units = validation.positive_integer(units, "units")
        self.hidden_layers = validation.positive_integer(hidden_layers, "hidden_layers")
        self.frequency = validation.positive_number(frequency, "frequency")
        self.features = validation.positive_integer(features, "features")
        self.spread = validation.positive_number(spread, "spread")
        self.seed = validation.seed(seed)

    def build(self, input_shape: Shape) -> None:
        rank = input_shape[-1]
        self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: rank})
        draw = np.random.default_rng(np.random.randint(2**31) if self.seed is None else self.seed)
        make = {"fourier": self._fourier, "siren": self._siren, "magnet": self._magnet}[self.kind]
        parts = make(rank, draw)
        self._names = tuple(parts)
        # A tuple, because TensorFlow's checkpoints reach nothing in dictionaries.
        self._weights = tuple(
            self.add_weight(
                name=name,
                shape=value.shape,
                initializer=lambda shape, dtype=None, value=value: ops.convert_to_tensor(
                    value, dtype=dtype
                ),
                autocast=False,
            )
            for name, value in parts.items()
        )

    def call(self, coordinates: Tensor) -> Tensor:
        part = self._parts()
        if self.kind == "magnet":
            hidden = _gabor(coordinates, part, 0)
        elif self.kind == "siren":
            hidden = _sine(coordinates, part, 0, self.frequency)
        else:
            phase = ops.matmul(coordinates, part["frequencies"])
            hidden = ops.concatenate([ops.cos(phase), ops.sin(phase)], axis=-1)
        for index in range(self.hidden_layers):
            if self.kind == "siren":
                hidden = _sine(hidden, part, index + 1, self.frequency)
                continue
            hidden = ops.matmul(hidden, part[f"kernel{index}"]) + part[f"bias{index}"]
            if self.kind == "fourier":
                hidden = ops.relu(hidden)
            else:
                hidden = hidden * _gabor(coordinates, part, index + 1)
        return hidden

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (input_shape[0], self.units)

    def alias_penalty(self, kernel_sizes: Sequence[int]) -> Tensor:
        """Return how far the filters' frequencies exceed what grids of these sizes can hold.

        The product of the Gabor filters must stay below the Nyquist frequency `(k - 1) / 4`, so
        each has an equal part of it: the penalty is `Σ relu(f - part)²` over filters and axes,
        where `f` is the highest frequency of a filter in cycles, two standard deviations of its
        envelope's spectrum included.
        """
        if self.kind != "magnet":
            raise ValueError(
                "The frequencies of a network are bounded only for kind='magnet'. "
                f"Received: kind={self.kind!r}"
            )
        filters = self.hidden_layers + 1
        allowed = ops.convert_to_tensor([(k - 1) / 4 / filters for k in kernel_sizes], self.dtype)
        total, part = 0.0, self._parts()
        for index in range(filters):
            content = ops.abs(part[f"frequencies{index}"])
            envelope = ops.abs(part[f"sharpness{index}"])
            highest = ops.max(content + _DEVIATIONS * envelope, axis=-1) / (2 * math.pi)
            total = total + ops.sum(ops.square(ops.relu(highest - allowed)))
        return total

    def _parts(self):
        """Return the weights as tensors by their names."""
        named = zip(self._names, self._weights, strict=True)
        return {name: ops.convert_to_tensor(weight) for name, weight in named}

    def _fourier(self, rank, draw):
        """Return the first weights of random Fourier features and the layers after them."""
        scale = 2 * math.pi * self.frequency
        weights = {"frequencies": scale * draw.standard_normal((rank, self.features))}
        inputs = 2 * self.features
        for index in range(self.hidden_layers):
            limit = math.sqrt(6 / inputs)
            weights[f"kernel{index}"] = draw.uniform(-limit, limit, (inputs, self.units))
            weights[f"bias{index}"] = np.zeros(self.units)
            inputs = self.units
        return weights

    def _siren(self, rank, draw):
        weights, inputs, limit = {}, rank, 1 / rank
        for index in range(self.hidden_layers + 1):
            weights[f"kernel{index}"] = draw.uniform(-limit, limit, (inputs, self.units))
            weights[f"bias{index}"] = draw.uniform(-limit, limit, self.units)
            inputs, limit = self.units, math.sqrt(6 / self.units) / self.frequency
        return weights

    def _magnet(self, rank, draw):
        weights, shape = {}, (rank, self.units)
        scale, limit = 2 * math.pi * self.frequency / math.sqrt(rank), math.sqrt(1 / self.units)
        for index in range(self.hidden_layers + 1):
            sharpness = draw.gamma(6 / (index + 1), 1.0, shape)
            weights[f"sharpness{index}"] = sharpness
            weights[f"centres{index}"] = self.spread * draw.uniform(-1, 1, shape)
            weights[f"frequencies{index}"] = scale * sharpness * draw.uniform(-1, 1, shape)
            weights[f"phases{index}"] = draw.uniform(-math.pi, math.pi, self.units)
        for index in range(self.hidden_layers):
            weights[f"kernel{index}"] = draw.uniform(-limit, limit, (self.units, self.units))
            weights[f"bias{index}"] = np.ones(self.units)
        return weights


def grid(sizes, supports=None):
    """Return the coordinates of the points of a kernel, an array `(points, rank)` of float32."""
    axes = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in sizes]
    if supports is not None:
        axes = [axis[start:stop] for axis, (start, stop) in zip(axes, supports, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)).astype("f")


def _sine(hidden, part, index, frequency):
    linear = ops.matmul(hidden, part[f"kernel{index}"]) + part[f"bias{index}"]
    return ops.sin(frequency * linear)


def _gabor(coordinates, part, index):
    distance = ops.expand_dims(coordinates, -1) - part[f"centres{index}"]
    envelope = ops.sum(ops.square(part[f"sharpness{index}"] * distance), axis=1)
    phase = ops.matmul(coordinates, part[f"frequencies{index}"]) + part[f"phases{index}"]
    return ops.exp(-0.5 * envelope) * ops.sin(phase)
