import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd import layers
from keras_xd.kmatrix import constructions
from keras_xd.testing import assert_close, check_layer

TWINS = {
    1: (keras.layers.Conv1D, layers.XDConv1D),
    2: (keras.layers.Conv2D, layers.XDConv2D),
    3: (keras.layers.Conv3D, layers.XDConv3D),
}


def assert_twin(shape, rng, search=None, **arguments):
    """The warm-started layer computes what its Keras twin computes, before and after finalize."""
    convolution_class, xd_class = TWINS[len(shape) - 2]
    filters = 2 * arguments.get("groups", 1) + (arguments.get("groups", 1) == 1)
    convolution = convolution_class(filters, bias_initializer="normal", **arguments)
    convolution.build(shape)
    layer = xd_class.from_config({**convolution.get_config(), **(search or {})})
    layer.build((None, *shape[1:]))
    layer.kernel.assign(convolution.kernel)
    if layer.bias is not None:
        layer.bias.assign(convolution.bias)
    inputs = rng.standard_normal(shape).astype("float32")
    expected = np.array(convolution(inputs))
    assert layer.compute_output_shape(shape) == expected.shape
    assert_close(np.array(layer(inputs)), expected)
    assert_close(np.array(layer.finalize()(inputs)), expected)
    return layer


# Every two of a size, a step, a padding and a kernel size together, not all four.
SIZES = [7, 8, 31, 36, 64, 257]
STEPS = [{}, {"strides": 2}, {"strides": 3}, {"dilation_rate": 3}]
PADDINGS = ["valid", "same", "causal"]
KERNELS = [1, 2, 3]
PAIRWISE = [
    (
        size,
        {
            "padding": PADDINGS[(row + column) % 3],
            "kernel_size": KERNELS[(row + row // 3 + 2 * column) % 3],
            **steps,
        },
    )
    for row, size in enumerate(SIZES)
    for column, steps in enumerate(STEPS)
]


@pytest.mark.parametrize("size, arguments", PAIRWISE, ids=str)
def test_equals_conv1d(size, arguments, rng):
    assert_twin((2, size, 3), rng, {"depth": (2, 1, 3)}, **arguments)


@pytest.mark.parametrize(
    "sizes, arguments",
    [
        ((9, 16), {}),
        ((13, 8), {"padding": "same"}),
        ((9, 16), {"padding": "same", "strides": 2}),
        ((13, 8), {"padding": "same", "strides": 2}),
        ((13, 8), {"strides": (2, 3)}),
        ((9, 16), {"padding": "same", "dilation_rate": (2, 1)}),
        ((13, 8), {"groups": 2, "padding": "same"}),
        ((9, 16), {"groups": 4}),
        ((13, 8), {"use_bias": False, "activation": "tanh"}),
    ],
    ids=str,
)
def test_equals_conv2d(sizes, arguments, rng):
    assert_twin((3, *sizes, 4), rng, kernel_size=(3, 2), **arguments)


@pytest.mark.parametrize(
    "search",
    [
        {"depth": 3, "frequency_bias": True, "channel_gates": True},
        {"depth": 9},
        {"radix": 4, "depth": 2},
        {"radix": 100},
        {"radix": ((2, 9), (3, 5))},
    ],
    ids=str,
)
def test_any_depth_and_radix_starts_as_the_convolution(search, rng):
    layer = assert_twin((2, 16, 13, 2), rng, search, kernel_size=3, padding="same")
    extras = 2 if "frequency_bias" in search else 0
    assert len(layer.architecture_variables) == 6 + extras


@pytest.mark.parametrize(
    "arguments", [{"padding": "same", "strides": 2}, {"kernel_size": (1, 2, 3)}], ids=str
)
def test_equals_conv3d(arguments, rng):
    assert_twin((2, 5, 6, 7, 2), rng, **{"kernel_size": 3, **arguments})


@pytest.mark.parametrize("padding, strides", [("same", 1), ("valid", 2)])
def test_channels_first(padding, strides, rng):
    """Keras has no channels-first convolution on the CPU, so its channels-last one is moved."""
    first = layers.XDConv2D(
        4, 3, strides=strides, padding=padding, data_format="channels_first", groups=2
    )
    inputs = rng.standard_normal((2, 6, 9, 10)).astype("float32")
    outputs = np.array(first(inputs))
    twin = keras.layers.Conv2D(4, 3, strides=strides, padding=padding, groups=2)
    moved = np.transpose(inputs, (0, 2, 3, 1))
    twin.build(moved.shape)
    twin.set_weights([first.kernel, first.bias])
    assert_close(outputs, np.transpose(twin(moved), (0, 3, 1, 2)))
    assert outputs.shape == first.compute_output_shape(inputs.shape)


@pytest.mark.parametrize("shape, kernel", [((2, 11, 3), 5), ((2, 9, 8, 3), (3, 2)), ((2, 9, 3), 2)])
@pytest.mark.parametrize("strides, dilation", [(1, 1), (2, 1), (1, 2)])
def test_circular_padding_continues_the_input(shape, kernel, strides, dilation, rng):
    """As "same" of the three times repeated input, from the middle period on (stride 1)."""
    rank = len(shape) - 2
    layer = TWINS[rank][1](
        4, kernel, padding="circular", strides=strides, dilation_rate=dilation, depth=3
    )
    inputs = rng.standard_normal(shape).astype("float32")
    outputs = np.array(layer(inputs))
    geometry = layer.geometry
    pads = [(g.left, g.dilation * (g.kernel_size - 1)) for g in geometry]
    wrapped = np.pad(inputs, [(0, 0), *pads, (0, 0)], mode="wrap")
    twin = TWINS[rank][0](4, kernel, strides=strides, dilation_rate=dilation)
    twin.build(wrapped.shape)
    twin.set_weights([layer.kernel, layer.bias])
    expected = np.array(twin(wrapped))
    expected = expected[(slice(None), *(slice(g.output_size) for g in geometry))]
    assert_close(outputs, expected)
    assert [plan.n for plan in layer.plans] == list(shape[1:-1])


def test_input_channels_and_filters_may_be_large_and_batch_dynamic(rng):
    inputs = keras.Input((16, 16, 32), name="images")
    convolution = keras.layers.Conv2D(48, 5, padding="same")
    layer = layers.XDConv2D(48, 5, padding="same")
    model = keras.Model(inputs, [convolution(inputs), layer(inputs)])
    layer.kernel.assign(convolution.kernel)
    for batch in (1, 4):
        x = rng.standard_normal((batch, 16, 16, 32)).astype("float32")
        expected, outputs = model.predict(x, verbose=0)
        assert_close(outputs, expected)


@pytest.mark.parametrize("extras, warm_start", [(True, "convolution"), (False, "random_unitary")])
def test_gradients_by_finite_differences(warm_start, extras, rng):
    layer = layers.XDConv2D(
        2,
        3,
        padding="same",
        depth=2,
        warm_start=warm_start,
        frequency_bias=extras,
        channel_gates=extras,
        seed=3,
    )
    x = rng.standard_normal((2, 5, 6, 2)).astype("float32")
    layer.build(x.shape)
    weight = rng.standard_normal((2, 5, 6, 2)).astype("float32")

    @tf.function(autograph=False)
    def loss():
        return tf.reduce_sum(weight * layer(x) ** 2)

    with tf.GradientTape() as tape:
        value = loss()
    variables = layer.trainable_variables
    gradients = tape.gradient(value, [v.value for v in variables])
    assert len(variables) == 2 + 6 + 2 * extras
    for variable, gradient in zip(variables, gradients, strict=True):
        start, norm = keras.ops.convert_to_numpy(variable), np.linalg.norm(gradient)
        step = 1e-2 * np.array(gradient) / norm
        variable.assign(start + step)
        above = float(loss())
        variable.assign(start - step)
        below = float(loss())
        variable.assign(start)
        np.testing.assert_allclose((above - below) / 2e-2, norm, rtol=5e-3, err_msg=variable.path)


def test_a_permuted_input_is_expressible(rng):
    """Convolution composed with a permutation of the input is an XD-operation with M of depth 3."""
    order = rng.permutation(16)
    layer = layers.XDConv1D(2, 3, padding="circular", depth=(1, 1, 3))
    x = rng.standard_normal((2, 16, 1)).astype("float32")
    expected = np.array(layer(x))
    r = layer.plans[0].radices
    middle, last = constructions.permutation(order, r)
    stages = [constructions.dft(r, unitary=True), middle, last]
    (m,) = [w for w in layer.architecture_variables if w.name == "M0"]
    m.assign(constructions.kmatrix_weights(stages))
    inverse = np.argsort(order)
    assert_close(np.array(layer(x[:, inverse])), expected)


@pytest.mark.parametrize(
    "arguments, shape",
    [
        ({"rank": 1, "filters": 4, "kernel_size": 3, "padding": "causal"}, (4, 12, 3)),
        (
            {
                "rank": 2,
                "filters": 4,
                "kernel_size": (3, 2),
                "padding": "same",
                "strides": 2,
                "groups": 2,
                "depth": (2, 1, 1),
                "frequency_bias": True,
                "channel_gates": True,
                "activation": "gelu",
                "kernel_regularizer": keras.regularizers.L2(1e-3),
                "kernel_constraint": keras.constraints.MaxNorm(3.0),
            },
            (4, 3, 4, 4),
        ),
        (
            {
                "rank": 2,
                "filters": 3,
                "kernel_size": 3,
                "padding": "circular",
                "warm_start": "random_unitary",
                "radix": ((2, 3), 6),
                "seed": 1,
                "data_format": "channels_first",
            },
            (4, 2, 6, 6),
        ),
    ],
    ids=["causal", "grouped", "random"],
)
def test_layer_checks(arguments, shape):
    check_layer(layers.XDConv, arguments, shape, run_jit="groups" in arguments)


def test_large_sizes_train_under_xla(rng):
    """Two groups of blocks: not one dense matrix."""
    layer = layers.XDConv1D(2, 5, padding="same", radix=(8, 8, 8))
    x = rng.standard_normal((2, 500, 2)).astype("float32")
    layer.build(x.shape)
    assert len(layer.plans[0].groups) == 2

    def gradients(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(layer(x) ** 2)
        return tape.gradient(loss, [v.value for v in layer.trainable_variables])

    plain = gradients(x)
    compiled = tf.function(gradients, jit_compile=True, autograph=False)(x)
    for a, b in zip(compiled, plain, strict=True):
        assert_close(np.array(a), np.array(b))


def test_describe_measures_the_way_from_the_start(rng):
    layer = layers.XDConv1D(2, 3, padding="same", frequency_bias=True, channel_gates=True)
    layer.build((None, 10, 2))
    start = layer.describe()
    assert all(start[f"distance_from_start/{name}"] == 0 for name in ("K", "L", "M", "b", "C"))
    np.testing.assert_allclose(
        start["matrix/K0"] @ start["matrix/M0"], np.eye(layer.plans[0].n), atol=1e-5
    )
    for variable in layer.architecture_variables:
        variable.assign_add(0.1 * np.ones(variable.shape))
    moved = layer.describe()
    m = next(v for v in layer.architecture_variables if v.name == "M0")
    norm = np.sqrt(np.sum((keras.ops.convert_to_numpy(m) - 0.1) ** 2))
    expected = 0.1 * np.sqrt(np.prod(m.shape)) / norm
    np.testing.assert_allclose(moved["distance_from_start/M"], expected, rtol=1e-4)


def test_random_start_is_reproducible_and_scaled_like_a_convolution(rng):
    x = rng.standard_normal((4, 30, 8)).astype("float32")
    arguments = {"filters": 8, "kernel_size": 3, "padding": "circular", "depth": 3}
    outputs = []
    for seed in (1, 1, 2):
        layer = layers.XDConv1D(**arguments, warm_start="random_unitary", seed=seed)
        layer.build(x.shape)
        layer.kernel.assign(np.random.default_rng(0).standard_normal((3, 8, 8)))
        outputs.append(np.array(layer(x)))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert np.abs(outputs[0] - outputs[2]).max() > 0.1
    twin = layers.XDConv1D(**arguments)
    twin.build(x.shape)
    twin.kernel.assign(layer.kernel)
    ratio = np.std(outputs[0]) / np.std(np.array(twin(x)))
    assert 0.9 < ratio < 1.1
    unseeded = layers.XDConv1D(**arguments, warm_start="random_unitary")
    assert layers.XDConv1D.from_config(unseeded.get_config()).seed == unseeded.seed is not None


@pytest.mark.parametrize(
    ("layer", "twin", "shape", "padding"),
    [
        (layers.XDConv1D, keras.layers.Conv1D, (13, 16), "same"),
        (layers.XDConv1D, keras.layers.Conv1D, (32, 16), "circular"),
        (layers.XDConv2D, keras.layers.Conv2D, (7, 7, 16), "circular"),
        (layers.XDConv2D, keras.layers.Conv2D, (12, 9, 16), "same"),
        (layers.XDConv3D, keras.layers.Conv3D, (6, 5, 6, 8), "same"),
        (layers.KOpConv2D, keras.layers.Conv2D, (11, 11, 16), "circular"),
        (layers.XDDepthwiseConv2D, keras.layers.DepthwiseConv2D, (12, 9, 16), "same"),
        (layers.XDConv1DTranspose, keras.layers.Conv1DTranspose, (15, 16), "circular"),
        (layers.XDConv2DTranspose, keras.layers.Conv2DTranspose, (7, 8, 16), "same"),
        (layers.XDCausalConv1D, keras.layers.Conv1D, (40, 16), "same"),
    ],
)
def test_random_outputs_have_the_variance_of_the_twin(layer, twin, shape, padding, rng):
    """Variances away from the borders, which padding with zeros makes smaller for the twin."""
    inputs, taps, causal = rng.normal(size=(8, *shape)), 3, layer is layers.XDCausalConv1D
    arguments = {"kernel_size": taps} if "Depthwise" in twin.__name__ else {}
    arguments = arguments or {"filters": shape[-1], "kernel_size": taps}
    keywords = {} if causal else {"padding": padding}
    start = "random_triangular" if causal else "random_unitary"
    inner = (slice(None), *[slice(1, -1)] * (len(shape) - 1))
    found, expected = [], []
    for seed in range(3):
        keras.utils.set_random_seed(seed)
        random = layer(**arguments, **keywords, warm_start=start, seed=seed)
        found.append(np.var(np.asarray(random(inputs))))
        same = twin(**arguments, padding="same" if padding == "circular" else padding)
        expected.append(np.var(np.array(same(inputs))[inner]))
    assert 0.9 < np.sqrt(np.mean(found) / np.mean(expected)) < 1.1


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (layers.XDConv1D(2, 3, padding="circular", name="conv"), (None, 503, 1)),
        (layers.XDConv2D(2, 3, padding="circular", name="conv"), (None, 4, 503, 1)),
        (layers.KOpConv1D(2, 3, padding="circular", name="conv"), (None, 503, 1)),
        (layers.XDDepthwiseConv1D(3, padding="circular", name="conv"), (None, 503, 1)),
        (layers.XDSeparableConv1D(2, 3, padding="circular", name="conv"), (None, 503, 1)),
        (layers.XDConv1DTranspose(2, 3, padding="circular", name="conv"), (None, 503, 1)),
    ],
)
def test_circular_axes_of_a_large_prime_are_warned_of(layer, shape):
    found = f"axis {len(shape) - 3} of size 503.* {6 * 503**2:,} parameters.* padding"
    message = f"'(conv|depthwise)' is circular on {found}"
    with pytest.warns(UserWarning, match=message):
        sizes = layer.forecast(shape)
    assert sizes["matrix_parameters"] >= 6 * 503**2
    with pytest.warns(UserWarning, match=message):
        layer.build(shape)


def test_sizes_that_factor_and_radices_that_were_asked_for_are_not_warned_of():
    layers.XDConv1D(2, 3, padding="circular").forecast((None, 8192, 1))
    layers.XDConv1D(2, 3, padding="same").forecast((None, 8191, 1))
    layers.XDConv1D(2, 3, padding="circular", radix=(4093,)).forecast((None, 4093, 1))
    layers.XDConv1D(2, 3, padding="circular").forecast((None, 127, 1))


def test_the_warning_names_the_way_out():
    """Checked by `forecast`, because a layer of 100 million parameters takes 0.4 GB to build."""
    layer = layers.XDConv1D(2, 3, padding="circular")
    way = r"Of size 4096 they would have [\d,]+: resize or pad the inputs, or take a padding other"
    with pytest.warns(UserWarning, match=rf"4093 × 4093.*100,\d{{3}},\d{{3}} parameters. {way}"):
        layer.forecast((None, 4093, 1))


def bad(message, shape=(None, 8, 8, 4), **arguments):
    return pytest.param(arguments, shape, message, id=message[:30])


@pytest.mark.parametrize(
    "arguments, shape, message",
    [
        bad("needs inputs of 4 axes.*Received: input_shape", shape=(None, 8, 4)),
        bad("every spatial size to be known.*None, 8, 4", shape=(None, None, 8, 4)),
        bad("kernel must not be larger.*spanning 9.*input size 8", kernel_size=9),
        bad("kernel must not be larger.*'circular'", kernel_size=9, padding="circular"),
        bad("`groups` must divide `filters`.*groups=3, filters=8", groups=3),
        bad("`groups` must divide the number of input channels", groups=8),
        bad("multiply to at least 9.*product 8", radix=(2, 4), padding="same", kernel_size=3),
        bad("multiply to the size.*product 6", radix=(2, 3), padding="circular"),
        bad("`padding` must be one of.*'causal'", padding="causal"),
        bad("`strides` must be a positive integer.*strides=0", strides=0),
        bad("`kernel_size` must be a positive integer.*", kernel_size=(3, 3, 3)),
        bad("cannot be combined", strides=2, dilation_rate=2),
        bad("`depth` must be a positive integer or a tuple of 3", depth=(1, 2)),
        bad("`warm_start` must be one of 'convolution', .*'random_unitary'", warm_start="fft"),
        bad("`filters` must be an integer of at least 1", filters=0),
        bad("`data_format` must be one of", data_format="channels_middle"),
    ],
)
def test_bad_input(arguments, shape, message):
    with pytest.raises(ValueError, match=message):
        layer = layers.XDConv2D(**{"filters": 8, "kernel_size": 3, **arguments})
        layer.build(shape)


def test_another_size_than_built_for_is_refused(rng):
    layer = layers.XDConv1D(2, 3)
    layer(rng.standard_normal((1, 10, 2)).astype("float32"))
    with pytest.raises(ValueError, match="expected axis 1 of input shape to have value 10"):
        layer(rng.standard_normal((1, 11, 2)).astype("float32"))


def test_a_file_of_other_radices_is_refused(tmp_path):
    """(2, 3) and (3, 2) have weights of the same shape."""

    def model(radix):
        layer = layers.XDConv1D(2, 3, padding="circular", radix=radix, name="operation")
        return keras.Sequential([keras.Input((6, 2)), layer])

    model((2, 3)).save_weights(tmp_path / "a.weights.h5")
    model((2, 3)).load_weights(tmp_path / "a.weights.h5")
    with pytest.raises(ValueError, match=r"'operation'.*\[6, 2, 3\], the layer has \[6, 3, 2\]"):
        model((3, 2)).load_weights(tmp_path / "a.weights.h5")


@pytest.mark.parametrize("radix", [None, 4, (4, 4), [4, 4], (None, 4), ((4, 4), 100)])
def test_a_radix_survives_the_configuration(radix):
    layer = layers.XDConv2D(2, 3, padding="same", radix=radix)
    layer.build((None, 9, 9, 1))
    copy = layers.XDConv2D.from_config(json.loads(json.dumps(layer.get_config())))
    copy.build((None, 9, 9, 1))
    assert [plan.radices for plan in copy.plans] == [plan.radices for plan in layer.plans]
    assert copy.radix == layer.radix == (tuple(radix) if isinstance(radix, list) else radix)
