"""XD-operations: convolutions whose Fourier transforms are searched."""

import math

import keras
import numpy as np
from keras import activations, constraints, initializers, ops, regularizers

from keras_xd import kmatrix, validation
from keras_xd.kmatrix import product
from keras_xd.layers import warm_starts, xd_geometry, xd_operation
from keras_xd.layers.searchable import SearchableLayer
from keras_xd.layers.static_xd import StaticXD
from keras_xd.layers.warm_starts import MATRICES


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv(SearchableLayer):
    """N-D XD-operation: a convolution with searched K-matrices in place of the Fourier transforms.

    A convolution multiplies by a kernel's spectrum between a Fourier transform and its inverse. An
    XD-operation lets the three transforms be any Kaleidoscope matrices `K`, `L`, `M`, shared by all
    channels and trained beside the kernel `w`, with an optional bias `b` of the spectrum and gates
    `C` of the channels:

        y_i = Σ_j C[i, j] · Re( K · diag(L w[i, j] + b) · M · x_j )

    For several spatial axes each matrix is a Kronecker product of one K-matrix per axis. With
    `warm_start="convolution"` the layer is a drop-in for the Keras convolution of the same
    arguments: the same weights `kernel` and `bias`, the same outputs to float32 rounding.
    Use `XDConv1D`, `XDConv2D` or `XDConv3D` for a fixed rank.

    Args:
        rank: number of spatial axes, 1, 2 or 3.
        filters: number of output channels.
        kernel_size: integer or tuple of `rank` integers, size of the kernel.
        strides: integer or tuple; every `strides`-th output is kept.
        padding: `"valid"`, `"same"`, `"causal"` (rank 1), as in Keras, or `"circular"`: as "same",
            with the input continued periodically instead of by zeros.
        data_format: `"channels_last"`, `"channels_first"` or `None` for Keras' default.
        dilation_rate: integer or tuple; cannot be combined with `strides > 1`.
        groups: number of groups the channels are split into.
        activation: activation function, or `None`.
        use_bias: whether a bias is added to the outputs.
        kernel_initializer, bias_initializer: initializers of the model weights.
        kernel_regularizer, bias_regularizer, activity_regularizer: optional regularizers.
        kernel_constraint, bias_constraint: optional constraints.
        depth: number of butterflies in each K-matrix, an integer or a triple `(K, L, M)`.
        radix: block sizes of the butterflies: `None` (prime factors), the largest block size, a
            tuple of radices for every axis, or a tuple of `rank` such tuples.
        warm_start: the operation the search begins with: `"convolution"`, `"average_pooling"`,
            `"identity"`, `"zero"`, `"fourier_operator"`, `"random_unitary"` to search from scratch,
            or an object of `keras_xd.layers.warm_starts`.
        frequency_bias: whether there is a bias `b`; `None`: where the start needs it.
        channel_gates: whether there are gates `C`, with groups on the connections inside each
            group; `None`: where the start needs them.
        seed: integer, makes a random start reproducible.

    Call arguments:
        inputs: tensor of `rank + 2` axes. The spatial sizes must be known when the layer is built;
            the batch size may be dynamic.

    Input shape:
        `(batch, *spatial, channels)`, or `(batch, channels, *spatial)` for "channels_first".

    Output shape:
        `(batch, *new_spatial, filters)` or `(batch, filters, *new_spatial)`, as in Keras.

    Raises:
        ValueError: for arguments outside these rules, unknown spatial sizes, a kernel larger than
            the padded input, or radices that do not multiply to a size that fits.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> images = np.random.default_rng(0).normal(size=(2, 17, 17, 3)).astype("float32")
    >>> convolution = keras.layers.Conv2D(4, 3, padding="same")
    >>> expected = convolution(images)
    >>> operation = layers.XDConv(2, 4, 3, padding="same", depth=3)
    >>> _ = operation(images)
    >>> _ = operation.kernel.assign(convolution.kernel)
    >>> bool(np.allclose(operation(images), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, Definition 3.2 and
        equation 5.
    """

    def __init__(
        self,
        rank,
        filters,
        kernel_size,
        strides=1,
        padding="valid",
        data_format=None,
        dilation_rate=1,
        groups=1,
        activation=None,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        *,
        depth=1,
        radix=None,
        warm_start="convolution",
        frequency_bias=None,
        channel_gates=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.rank = validation.one_of(rank, (1, 2, 3), "rank")
        self.filters = validation.positive_integer(filters, "filters")
        self.kernel_size = validation.integer_tuple(kernel_size, rank, "kernel_size")
        self.strides = validation.integer_tuple(strides, rank, "strides")
        paddings = ("valid", "same", "circular") + (("causal",) if rank == 1 else ())
        padding = padding.lower() if isinstance(padding, str) else padding
        self.padding = validation.one_of(padding, paddings, "padding")
        data_format = keras.config.image_data_format() if data_format is None else data_format
        formats = ("channels_last", "channels_first")
        self.data_format = validation.one_of(data_format, formats, "data_format")
        self.dilation_rate = validation.integer_tuple(dilation_rate, rank, "dilation_rate")
        self.groups = validation.positive_integer(groups, "groups")
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.depth = validation.integer_tuple(depth, len(MATRICES), "depth")
        self.radix = xd_geometry.axis_radices(radix, rank)
        self.warm_start = warm_starts.get(warm_start)
        self.frequency_bias = self.warm_start.has_frequency_bias(frequency_bias)
        self.channel_gates = self.warm_start.has_channel_gates(channel_gates)
        if seed is None and isinstance(self.warm_start, warm_starts.RandomUnitary):
            seed = int(np.random.randint(2**31))  # kept, so that the start can be drawn again
        self.seed = seed
        if self.filters % self.groups:
            raise ValueError(
                "`groups` must divide `filters`. "
                f"Received: groups={self.groups}, filters={self.filters}"
            )
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(
                "`strides > 1` cannot be combined with `dilation_rate > 1`. "
                f"Received: strides={self.strides}, dilation_rate={self.dilation_rate}"
            )

    def build(self, input_shape):
        channels, sizes = self._split_shape(input_shape)
        if channels % self.groups:
            raise ValueError(
                "`groups` must divide the number of input channels. "
                f"Received: groups={self.groups}, input_shape={tuple(input_shape)}"
            )
        self._geometry = self._axis_geometries(sizes)
        columns = [
            math.prod(g.size for g in self._geometry) // g.size * channels * 16
            for g in self._geometry
        ]
        self._plans = tuple(
            kmatrix.plan(g.padded_size, radix, depth=max(self.depth), columns=count)
            for g, radix, count in zip(self._geometry, self.radix, columns, strict=True)
        )
        self.warm_start.check(self, channels)
        self._placements = tuple(self.warm_start.placement(g) for g in self._geometry)
        self.input_spec = xd_operation.input_spec(sizes, channels, self.data_format)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*self.kernel_size, channels // self.groups, self.filters),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(self.filters,),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        starts = self._initial_matrices()
        self._matrices = {
            name: [
                self._architecture_weight(f"{name}{axis}", start)
                for axis, start in enumerate(starts[name])
            ]
            for name in MATRICES
        }
        self._frequency_bias = self._channel_gates = None
        if self.frequency_bias:
            bias = self._initial_frequency_bias()
            self._frequency_bias = self._architecture_weight("frequency_bias", bias)
        if self.channel_gates:
            gates = self._initial_channel_gates()
            self._channel_gates = self._architecture_weight("channel_gates", gates)

    @property
    def plans(self):
        """The `kmatrix.Plan` of each spatial axis."""
        return self._plans

    @property
    def geometry(self):
        """The `AxisGeometry` of each spatial axis."""
        return self._geometry

    @property
    def architecture_variables(self):
        """The K-matrices `K`, `L`, `M` (one weight per axis), then `b` and `C` where used."""
        matrices = [weight for name in MATRICES for weight in self._matrices[name]]
        extras = [self._frequency_bias, self._channel_gates]
        return matrices + [weight for weight in extras if weight is not None]

    def call(self, inputs):
        dtype = self.compute_dtype
        analyses, spectrum, syntheses = self._folded()
        outputs = xd_operation.apply(
            xd_operation.to_columns(inputs, self.data_format),
            [xd_operation.cast(analysis, dtype) for analysis in analyses],
            ops.cast(spectrum, dtype),
            [xd_operation.cast(synthesis, dtype) for synthesis in syntheses],
            self.groups,
        )
        if self.bias is not None:
            outputs = outputs + self.bias
        outputs = xd_operation.from_columns(outputs, self.data_format)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape):
        _, sizes = self._split_shape(input_shape)
        spatial = tuple(g.output_size for g in self._axis_geometries(sizes))
        if self.data_format == "channels_last":
            return (input_shape[0], *spatial, self.filters)
        return (input_shape[0], self.filters, *spatial)

    def complexity(self, input_shape):
        """Multiply–adds of one sample; folding and `L w`, done once a batch, are not counted."""
        channels, _ = self._split_shape(input_shape)
        return xd_operation.multiply_adds(
            self._plans, self._geometry, self.depth, channels, self.filters, self.groups
        )

    def finalize(self):
        """Return a built `StaticXD` layer: `K`, `L w` and `M` multiplied out, same outputs."""
        return StaticXD.from_tensors(self, *self._folded())

    def describe(self):
        """Return how far the operation is from its start, and its matrices.

        The dictionary holds `distance_from_start/{K,L,M}`, relative Euclidean distances from the
        warm start's weights, the same for `b` and `C` as plain norms of the difference, and
        complex arrays `matrix/{K,L,M}{axis}`.
        """
        now = {n: [ops.convert_to_numpy(w) for w in self._matrices[n]] for n in MATRICES}
        result = {
            f"distance_from_start/{name}": warm_starts.relative_distance(now[name], start)
            for name, start in self._initial_matrices().items()
        }
        if self._frequency_bias is not None:
            b = ops.convert_to_numpy(self._frequency_bias)
            change = np.linalg.norm(b - self._initial_frequency_bias())
            result["distance_from_start/b"] = float(change)
        if self._channel_gates is not None:
            gates = ops.convert_to_numpy(self._channel_gates)
            change = np.linalg.norm(gates - self._initial_channel_gates())
            result["distance_from_start/C"] = float(change)
        for name in MATRICES:
            for axis, weight in enumerate(now[name]):
                matrix = kmatrix.KMatrix(weight, self._plans[axis])
                real, imaginary = (ops.convert_to_numpy(part) for part in matrix.dense())
                dense = real + 1j * imaginary
                result[f"matrix/{name}{axis}"] = dense.T if name == "K" else dense
        return result

    def get_config(self):
        return {
            **super().get_config(),
            "rank": self.rank,
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "strides": self.strides,
            "padding": self.padding,
            "data_format": self.data_format,
            "dilation_rate": self.dilation_rate,
            "groups": self.groups,
            "activation": activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "activity_regularizer": regularizers.serialize(self.activity_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "bias_constraint": constraints.serialize(self.bias_constraint),
            "depth": self.depth,
            "radix": self.radix,
            "warm_start": warm_starts.identifier(self.warm_start),
            "frequency_bias": self.frequency_bias,
            "channel_gates": self.channel_gates,
            "seed": self.seed,
        }

    def save_own_variables(self, store):
        super().save_own_variables(store)
        store["radices"] = self._radices()

    def load_own_variables(self, store):
        """Load weights whose K-matrices have the radices of this layer.

        Radices in another order give weights of the same shape and another meaning.
        """
        saved = {key: store[key] for key in store.keys()}
        radices = saved.pop("radices", None)
        if radices is not None and not np.array_equal(radices, self._radices()):
            raise ValueError(
                f"The K-matrices in a file must have the radices of layer '{self.name}', axis "
                f"after axis, each after its size. Received: {np.asarray(radices).tolist()}, the "
                f"layer has {self._radices().tolist()}"
            )
        super().load_own_variables(saved)

    def _radices(self):
        return np.array([value for plan in self._plans for value in (plan.n, *plan.radices)])

    def _architecture_weight(self, name, value):
        return self.add_weight(
            name=name,
            shape=value.shape,
            initializer=lambda shape, dtype=None: ops.convert_to_tensor(value, dtype=dtype),
            autocast=False,
        )

    def _initial_matrices(self):
        return warm_starts.initial_matrices(
            self.warm_start, self.depth, self._geometry, self._plans, self.seed
        )

    def _initial_frequency_bias(self):
        return warm_starts.initial_frequency_bias(self.warm_start, self._geometry, self._plans)

    def _initial_channel_gates(self):
        shape = self.kernel.shape[-2:]
        return warm_starts.initial_channel_gates(self.warm_start, *shape, self.groups)

    def _folded(self):
        """Return the transforms by `M`, the spectrum `C ∘ (L w + b)` and the transforms by `K`."""
        weights = [ops.convert_to_tensor(w) for name in MATRICES for w in self._matrices[name]]
        folded = product.fold(weights, self._plans * len(MATRICES))
        k_factors, l_factors, m_factors = (
            folded[i * self.rank : (i + 1) * self.rank] for i in range(len(MATRICES))
        )
        spectrum = xd_operation.spectrum(self.kernel, l_factors, self._plans, self._placements)
        if self._frequency_bias is not None:
            b = ops.reshape(ops.convert_to_tensor(self._frequency_bias), (-1, 2, 1, 1))
            spectrum = spectrum + ops.cast(b, spectrum.dtype)
        if self._channel_gates is not None:
            gates = ops.convert_to_tensor(self._channel_gates)
            spectrum = spectrum * ops.cast(gates, spectrum.dtype)
        analyses, syntheses = xd_operation.transforms(
            m_factors, k_factors, self._plans, self._geometry
        )
        return analyses, spectrum, syntheses

    def _split_shape(self, input_shape):
        return xd_operation.split_shape(input_shape, self.rank, self.data_format, self.name)

    def _axis_geometries(self, sizes):
        arguments = (self.kernel_size, self.strides, self.dilation_rate)
        return xd_geometry.axis_geometries(sizes, *arguments, self.padding, self.radix)
