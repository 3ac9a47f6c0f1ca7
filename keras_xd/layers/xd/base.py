"""Base class of all XD-operations: K-matrices, frequency bias, channel gates."""

import dataclasses
import math
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_xd import kmatrix
from keras_xd.core import convolutions, shapes, tracing, validation
from keras_xd.core.searchable import NEUTRAL
from keras_xd.core.type_aliases import (
    BaseOptions,
    Config,
    Depth,
    Description,
    Radix,
    Regularizer,
    Shape,
    Tensor,
)
from keras_xd.kmatrix import constructions
from keras_xd.kmatrix.radix import parameter_count
from keras_xd.layers.xd import axis_layout, functional, placed_kernel, regularizers, warm_starts
from keras_xd.layers.xd.folding import FoldedOperation
from keras_xd.layers.xd.warm_starts import operations
from keras_xd.layers.xd.warm_starts.operations import MATRICES

LARGEST_DESCRIBED = 1024


class XDOptions(BaseOptions, total=False):
    """Keyword arguments that the layers have beyond those of Keras' convolutions."""

    depth: Depth
    radix: Radix
    warm_start: str | warm_starts.Convolution
    frequency_bias: bool | None
    channel_gates: bool | None
    architecture_regularizer: Regularizer
    seed: int | None
    method: str


class XDLayer(FoldedOperation):
    """Base class of the layers that compute `Σ_j C[i, j] · Re(K · diag(L w[i, j] + b) · M · x_j)`.

    A subclass inherits from it and, after it, from a convolution of Keras, or from
    `ConvolutionOfAnyRank`: kernel, bias, activation and their arguments are those of Keras. It has
    the `rank` and tells the geometry of its axes (`_axis_geometries`) and, where its kernel is no
    tensor `(*kernel_size, channels / groups, filters)`, its shape (`_kernel_shape`) and how it
    becomes one (`_grouped_kernel`). `like` is a Keras layer with its arguments. `axis_radices` is
    the `radix` of each axis.
    """

    # Of each spatial axis.
    plans: tuple[kmatrix.radix.Plan, ...]
    geometry: tuple[axis_layout.AxisGeometry, ...]
    # Whether `kernel` is `(*kernel_size, channels / groups, filters)` as it is.
    kernel_is_grouped = True
    methods: tuple[str, ...] = ("auto", "dense", "stages")

    def __init__(
        self,
        *args: Any,
        depth: Depth = 1,
        radix: Radix = None,
        warm_start: str | warm_starts.Convolution = "convolution",
        frequency_bias: bool | None = True,
        channel_gates: bool | None = True,
        architecture_regularizer: Regularizer = None,
        seed: int | None = None,
        method: str = "auto",
        **kwargs: Any,
    ):
        arguments = self._arguments(args, kwargs)
        super().__init__(**convolutions.known_to_keras(arguments))
        self.padding, self.dilation_rate = arguments["padding"], arguments["dilation_rate"]
        self.depth = validation.depth(depth, len(MATRICES))
        self.radix = axis_layout.radix_argument(radix)
        self.axis_radices = axis_layout.axis_radices(radix, self.rank)
        self.warm_start = operations.get(warm_start)
        self.frequency_bias = self.warm_start.has("frequency_bias", frequency_bias)
        self.channel_gates = self.warm_start.has("channel_gates", channel_gates)
        self.architecture_regularizer = keras.regularizers.get(architecture_regularizer)
        if seed is None and self.warm_start.is_random:
            seed = int(np.random.randint(2**31))  # kept, so that the start can be drawn again
        self.seed = validation.seed(seed)
        self.method = validation.one_of(method, self.methods, "method")

    def build(self, input_shape: Shape) -> None:
        channels, sizes = self._split_shape(input_shape)
        validation.channel_groups(self.groups, channels=channels)
        self.geometry, self.plans = self._sizes(input_shape)
        numbers = sum(plan.parameters * depth for plan in self.plans for depth in self.depth)
        matrices = f"the K-matrices of layer '{self.name}'"
        validation.matrix_numbers(numbers, matrices, validation.LARGEST_KMATRIX)
        self._warn_of_large_circles(self.plans)
        self.warm_start.check(self, channels)
        numbers = math.prod(self._kernel_shape(channels))
        validation.matrix_numbers(numbers, f"the kernel of layer '{self.name}'")
        connections = channels // self._channel_groups(channels) * self._output_channels(channels)
        self._kernel_axes = placed_kernel.kernel_axes(
            self.warm_start, self.geometry, self.plans, self.depth[1], connections, self.method
        )
        super().build(input_shape)  # Keras makes the kernel and the bias
        self.input_spec = shapes.input_spec(sizes, channels, self.data_format)
        starts = iter(self.start_values())
        # A tuple, because TensorFlow's checkpoints reach nothing in lists and dictionaries.
        self._matrices = tuple(
            self._architecture_weight(f"{name}{axis}", next(starts), plan)
            for name in MATRICES
            for axis, plan in enumerate(self.plans)
        )
        self._frequency_bias = self._channel_gates = None
        if self.frequency_bias:
            self._frequency_bias = self._architecture_weight("frequency_bias", next(starts))
        if self.channel_gates:
            self._channel_gates = self._architecture_weight("channel_gates", next(starts))

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """The K-matrices `K`, `L`, `M` (one weight per axis), then `b` and `C` where used."""
        extras = [self._frequency_bias, self._channel_gates]
        return [*self._matrices, *(weight for weight in extras if weight is not None)]

    @property
    def kmatrices(self) -> dict[str, list[kmatrix.KMatrix]]:
        """The `kmatrix.KMatrix` of each axis by "K", "L" and "M"; the operation transposes "K"."""
        return {
            name: [
                kmatrix.KMatrix(weight, plan)
                for weight, plan in zip(self._matrix_tensors(name), self.plans, strict=True)
            ]
            for name in MATRICES
        }

    def call(self, inputs: Tensor) -> Tensor:
        outputs = tracing.stand_in(self, inputs)
        if outputs is not None:
            return outputs
        x = ops.cast(inputs, functional.exact_dtype(self.compute_dtype))  # integers too
        outputs = ops.cast(self._operated(x), self.compute_dtype)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None) -> None:
        """Raise `ValueError` for a mask: an operation may read every step."""
        if previous_mask is not None:
            raise ValueError(
                "An XD-operation may read every step and takes no mask of Keras. Give the steps "
                "that count, 1 or 0, as a second input of the model, multiply by them before each "
                "convolution and in the mean (docs/sensor_series.md), and leave out `Masking` and "
                f"`mask_zero`. Received: layer '{self.name}' with a mask"
            )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        channels, sizes = self._split_shape(input_shape)
        spatial = tuple(g.output_size for g in self._axis_geometries(sizes))
        filters = self._output_channels(channels)
        return shapes.joined_shape(input_shape[0], spatial, filters, self.data_format)

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """Multiply–adds of one sample; folding and `L w`, done once a batch, are not counted."""
        channels, _ = self._split_shape(input_shape)
        return self._multiply_adds(channels, self.geometry, self.plans)

    def forecast(self, input_shape: Shape) -> dict[str, int]:
        """Return the sizes the layer will have on inputs of a shape, without building it."""
        channels, _ = self._split_shape(input_shape)
        filters, groups = self._output_channels(channels), self._channel_groups(channels)
        geometry, plans = self._sizes(input_shape)
        self._warn_of_large_circles(plans)
        frequencies = math.prod(plan.n for plan in plans)
        connections = channels // groups * filters
        matrices = sum(parameter_count(p.n, p.radices, sum(self.depth)) for p in plans)
        weights = math.prod(self._kernel_shape(channels)) + filters * bool(self.use_bias)
        weights += 2 * frequencies * self.frequency_bias + connections * self.channel_gates
        return {
            "parameters": weights + matrices,
            "matrix_parameters": matrices,
            "spectrum": 2 * frequencies * connections,
            "multiply_adds": self._multiply_adds(channels, geometry, plans),
        }

    def describe(self) -> Description:
        """Return how far the operation is from its start, and its matrices."""
        starts, result = iter(self.start_values()), {}
        for name in MATRICES:
            pairs = [(_flat(now), _flat(next(starts))) for now in self._matrix_tensors(name)]
            now, start = (np.concatenate(vectors) for vectors in zip(*pairs, strict=True))
            change = np.linalg.norm(now - start) / (np.linalg.norm(start) or 1.0)
            result[f"distance_from_start/{name}"] = float(change)
        for name, now in (("b", self._frequency_bias), ("C", self._channel_gates)):
            if now is not None:
                change = np.linalg.norm(_flat(now) - _flat(next(starts)))
                result[f"distance_from_start/{name}"] = float(change)
        for name, matrices in self.kmatrices.items():
            for axis, matrix in enumerate(matrices):
                matrix, n = matrix.T if name == "K" else matrix, matrix.plan.n
                if n > LARGEST_DESCRIBED:
                    result[f"magnitude/{name}{axis}"] = matrix.magnitudes()
                else:
                    result[f"matrix/{name}{axis}"] = matrix.columns(range(n))
        return result

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "warm_start": operations.identifier(self.warm_start),
        }

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Make the layer again; a configuration that does not name `b` or `C` is of none."""
        missing = {name: None for name in NEUTRAL if name not in cls.fixed}
        layer = super().from_config({**missing, **config})
        layer.supports_masking = False  # an earlier version dropped them, with Keras' warning
        return layer

    @property
    def random_start(self) -> warm_starts.Convolution:
        """The start that a random architecture is drawn from."""
        return warm_starts.RandomUnitary()

    def architecture_signature(self) -> Config:
        """Return what tells the meaning of the matrices: class, radices, place of the kernel."""
        start = self.warm_start
        while hasattr(start, "start"):  # a start made of another one leaves the kernel in its place
            start = start.start
        return {
            **super().architecture_signature(),
            "radices": [[plan.n, *plan.radices] for plan in self.plans],
            "kernel_placement": operations.placed_by(start).__name__,
            "trainable_dilation": start.trainable_dilation,
        }

    def random_architecture(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return the architecture of a search from scratch, at the layer's own depth."""
        return self._architecture_of(self.random_start, generator)

    def start_values(self) -> list[np.ndarray]:
        """Return the values that the architecture variables began with."""
        return self._architecture_of(self.warm_start, self.seed)

    @property
    def start_dtype(self) -> str:
        """The data type in which the values of a start are made: the weights', at least float32."""
        return functional.exact_dtype(self.variable_dtype)

    def save_own_variables(self, store: Any) -> None:
        # Keras' convolutions save their kernel and bias only.
        keras.layers.Layer.save_own_variables(self, store)
        if self.built:
            store["radices"] = self._radices()

    def load_own_variables(self, store: Any) -> None:
        """Load weights whose K-matrices have the radices of this layer; without `b`, `C` too."""
        saved = {key: store[key] for key in store.keys()}
        radices = saved.pop("radices", None)
        known = radices is not None and self.built  # Keras refuses weights of a layer not built
        if known and not np.array_equal(radices, self._radices()):
            raise ValueError(
                f"The K-matrices in a file must have the radices of layer '{self.name}', axis "
                f"after axis, each after its size. Received: {np.asarray(radices).tolist()}, the "
                f"layer has {self._radices().tolist()}"
            )
        if self.built:
            saved = self._with_neutral_extras(saved)
        keras.layers.Layer.load_own_variables(self, saved)

    def _arguments(self, args, kwargs, paddings=("valid", "same", "circular")):
        """Return the checked arguments of the Keras layer by name."""
        return convolutions.checked_arguments(self, args, kwargs, paddings)

    def _multiply_adds(self, channels, geometry, plans):
        """Return the multiply–adds of one sample."""
        filters, groups = self._output_channels(channels), self._channel_groups(channels)
        return functional.multiply_adds(plans, geometry, self.depth, channels, filters, groups)

    def _sizes(self, input_shape):
        """Return the geometry and the plan of each axis."""
        channels, sizes = self._split_shape(input_shape)
        geometry = self._axis_geometries(sizes)
        samples = input_shape[0] or 16
        columns = [math.prod(sizes) // size * channels * samples for size in sizes]
        plans = tuple(
            kmatrix.plan(g.padded_size, radix, depth=max(self.depth), columns=count)
            for g, radix, count in zip(geometry, self.axis_radices, columns, strict=True)
        )
        return geometry, tuple(map(self._with_method, plans))

    def _with_method(self, plan):
        """Return a plan with the groups of its stages that the layer's `method` asks for."""
        stages = len(plan.radices)
        if self.method == "stages":
            if stages == 1 < plan.n:
                raise ValueError(
                    "`method='stages'` needs axes whose padded size factors into several stages. "
                    f"Received: size {plan.n} with radices={plan.radices}"
                )
            return dataclasses.replace(plan, groups=(1,) * stages)
        if self.method == "dense":
            validation.matrix_numbers(2 * plan.n**2, "a K-matrix with `method='dense'`")
            return dataclasses.replace(plan, groups=(stages,))
        return plan

    def _warn_of_large_circles(self, plans):
        """Warn of axes whose size is not free, `padding="circular"`, and hardly factors."""
        if self.padding == "circular":
            axis_layout.warn_of_large_circles(self.name, plans, self.axis_radices, self.depth)

    def _architecture_weight(self, name, value, plan=None):
        return self.add_weight(
            name=name,
            shape=value.shape,
            initializer=lambda shape, dtype=None: ops.convert_to_tensor(value, dtype=dtype),
            regularizer=regularizers.bound(self.architecture_regularizer, value, plan),
            autocast=False,
            dtype=self.start_dtype,  # in bfloat16 small steps of the search would be rounded away
            trainable=self.method != "fft",
        )

    def _with_neutral_extras(self, saved):
        """Return the weights of a file with `b = 0` and `C = 1` where it has none."""
        values = [saved[key] for key in sorted(saved, key=lambda key: (len(key), key))]
        for index, weight in enumerate(self.weights):
            if weight.name in NEUTRAL and len(values) < len(self.weights):
                if index == len(values) or values[index].shape != weight.shape:
                    values.insert(index, np.full(weight.shape, NEUTRAL[weight.name]))
        return {str(index): value for index, value in enumerate(values)}

    def _radices(self):
        return np.array([value for plan in self.plans for value in (plan.n, *plan.radices)])

    def _architecture_of(self, start, seed):
        """Return the values that the architecture variables have at a start, in their order."""
        generator, dtype = np.random.default_rng(seed), self.start_dtype
        matrices: dict[str, list[np.ndarray]] = {name: [] for name in MATRICES}
        for index, (axis, plan) in enumerate(zip(self.geometry, self.plans, strict=True)):
            first = start.matrices(axis, plan.radices, generator, index)
            for name, depth in zip(MATRICES, self.depth, strict=True):
                missing = depth - len(first[name])
                if missing < 0:
                    raise ValueError(
                        f"Warm start {type(start).__name__} needs depth "
                        f"{tuple(len(first[m]) for m in MATRICES)} or more. "
                        f"Received: depth={self.depth}"
                    )
                rest = [start.rest(plan.radices, generator) for _ in range(missing)]
                matrices[name].append(constructions.kmatrix_weights([*first[name], *rest], dtype))
        values = [value for name in MATRICES for value in matrices[name]]
        if self.frequency_bias:
            bias = start.frequency_bias(self.geometry, [plan.radices for plan in self.plans])
            values.append(np.stack([bias.real, bias.imag], axis=-1).astype(dtype))
        if self.channel_gates:
            channels = self.input_spec.axes[-1 if self.data_format == "channels_last" else 1]
            gates = start.channel_gates(channels // self.groups, self.filters // self.groups)
            values.append(np.tile(gates, (1, self.groups)).astype(dtype))
        return values

    def _split_shape(self, input_shape):
        return shapes.split_shape(input_shape, self.rank, self.data_format, self.name)

    def _matrix_tensors(self, name):
        """Return the weights of `K`, `L` or `M` for each axis, as the operation uses them."""
        first = MATRICES.index(name) * self.rank
        weights = self._matrices[first : first + self.rank]
        return [ops.convert_to_tensor(weight) for weight in weights]

    def _kernel_shape(self, channels):
        """Return the shape of the kernel for a number of input channels."""
        return (*self.kernel_size, channels // self.groups, self.filters)

    def _output_channels(self, channels):
        """Return the number of filters for a number of input channels."""
        return self.filters

    def _channel_groups(self, channels):
        """Return the number of channel groups for a number of input channels."""
        return self.groups

    def _grouped_kernel(self):
        """Return the kernel as a tensor `(*kernel_size, channels / groups, filters)`."""
        return ops.convert_to_tensor(self.kernel)


def _flat(values):
    return ops.convert_to_numpy(values).ravel()
