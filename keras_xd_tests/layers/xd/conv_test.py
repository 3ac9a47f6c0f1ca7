import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.testing import assert_close
from keras_xd_tests.layers.xd.drop_in_checks import assert_twin, twin_class


def twin_and_layer(rank, filters, kernel_size, search=None, **arguments):
    """A convolution of Keras and the XD-operation of the same arguments."""
    twin = getattr(keras.layers, f"Conv{rank}D")(filters, kernel_size, **arguments)
    layer_class = getattr(layers, f"XDConv{rank}D")
    return twin, layer_class.from_config({**twin.get_config(), **(search or {})})


@pytest.mark.parametrize(
    "sizes, arguments",
    [
        ((7,), {"padding": "causal", "strides": 2}),
        ((36,), {"dilation_rate": 3}),
        ((257,), {"padding": "same", "strides": 3}),
        ((64,), {"padding": "causal", "dilation_rate": 3}),
        ((9, 16), {}),
        ((13, 8), {"padding": "same", "strides": 2}),
        ((13, 8), {"strides": (2, 3)}),
        ((9, 16), {"padding": "same", "dilation_rate": (2, 1)}),
        ((13, 8), {"groups": 2, "padding": "same"}),
        ((9, 16), {"groups": 4}),
        ((13, 8), {"use_bias": False, "activation": "tanh"}),
    ],
    ids=str,
)
def test_equals_the_convolution(sizes, arguments, rng):
    """Some settings; `keras_xd_tests/sweep` draws them at random."""
    twin, layer = twin_and_layer(len(sizes), 4, (3, 2)[: len(sizes)], **arguments)
    assert_twin(twin, layer, rng.standard_normal((3, *sizes, 4)).astype("float32"))


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
    twin, layer = twin_and_layer(2, 2, 3, search, padding="same")
    assert_twin(twin, layer, rng.standard_normal((2, 16, 13, 2)).astype("float32"))
    extras = 2 if "frequency_bias" in search else 0
    assert len(layer.architecture_variables) == 6 + extras


@pytest.mark.parametrize(
    "shape, kernel, strides, dilation",
    [((2, 11, 3), 5, 1, 2), ((2, 9, 8, 3), (3, 2), 2, 1), ((2, 9, 3), 2, 1, 1)],
)
def test_circular_padding_continues_the_input(shape, kernel, strides, dilation, rng):
    """As "same" of the three times repeated input, from the middle period on (stride 1)."""
    options = {"strides": strides, "dilation_rate": dilation}
    circular = {"padding": "circular", "depth": 3}
    twin, layer = twin_and_layer(len(shape) - 2, 4, kernel, circular, **options)
    inputs = rng.standard_normal(shape).astype("float32")
    outputs = np.array(layer(inputs))
    geometry = layer.geometry
    pads = [(g.left, g.dilation * (g.kernel_size - 1)) for g in geometry]
    wrapped = np.pad(inputs, [(0, 0), *pads, (0, 0)], mode="wrap")
    twin.build(wrapped.shape)
    twin.set_weights([layer.kernel, layer.bias])
    expected = np.array(twin(wrapped))
    expected = expected[(slice(None), *(slice(g.output_size) for g in geometry))]
    assert_close(outputs, expected)
    assert [plan.n for plan in layer.plans] == list(shape[1:-1])


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


@pytest.mark.parametrize(
    ("layer", "shape", "padding"),
    [
        (layers.XDConv1D, (13, 16), "same"),
        (layers.XDConv2D, (7, 7, 16), "circular"),
        (layers.XDConv3D, (6, 5, 6, 8), "same"),
        (layers.KOpConv2D, (11, 11, 16), "circular"),
        (layers.XDDepthwiseConv2D, (12, 9, 16), "same"),
        (layers.XDConv1DTranspose, (15, 16), "circular"),
        (layers.XDConv2DTranspose, (7, 8, 16), "same"),
        (layers.XDCausalConv1D, (40, 16), "same"),
    ],
)
def test_random_outputs_have_the_variance_of_the_twin(layer, shape, padding, rng):
    """Variances away from the borders, which padding with zeros makes smaller for the twin."""
    inputs, causal = rng.normal(size=(8, *shape)), layer is layers.XDCausalConv1D
    arguments = (3,) if layer is layers.XDDepthwiseConv2D else (shape[-1], 3)
    options = {} if causal else {"padding": padding}
    options["warm_start"] = "random_triangular" if causal else "random_unitary"
    inner = (slice(None), *[slice(1, -1)] * (len(shape) - 1))
    found, expected = [], []
    for seed in range(3):
        keras.utils.set_random_seed(seed)
        found.append(np.var(np.asarray(layer(*arguments, **options, seed=seed)(inputs))))
        twin = twin_class(layer)(*arguments, padding="same")
        expected.append(np.var(np.array(twin(inputs))[inner]))
    assert 0.9 < np.sqrt(np.mean(found) / np.mean(expected)) < 1.1


@pytest.mark.parametrize(
    ("layer_class", "shape"),
    [
        (layers.XDConv1D, (None, 503, 1)),
        (layers.XDConv2D, (None, 4, 503, 1)),
        (layers.XDSeparableConv1D, (None, 503, 1)),
        (layers.XDConv1DTranspose, (None, 503, 1)),
    ],
)
def test_circular_axes_of_a_large_prime_are_warned_of(layer_class, shape):
    layer = layer_class(2, 3, padding="circular", name="conv")
    found = f"axis {len(shape) - 3} of size 503.* {6 * 503**2:,} parameters.* padding"
    message = f"'(conv|depthwise)' is circular on {found}"
    with pytest.warns(UserWarning, match=message):
        sizes = layer.forecast(shape)
    assert sizes["matrix_parameters"] >= 6 * 503**2
    with pytest.warns(UserWarning, match=message):
        layer.build(shape)
    with pytest.raises(ValueError, match="expected axis .* of input shape to have value 503"):
        layer(np.zeros((1, *shape[1:-2], 502, 1), "float32"))


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
        *(bad("Received: radix=", radix=radix) for radix in (1, "2", ((4, 8), 3, 2), ((4, 8), 1))),
        bad("`padding` must be one of.*'causal'", padding="causal"),
        bad("`strides` must be a positive integer.*strides=0", strides=0),
        bad("`kernel_size` must be a positive integer.*", kernel_size=(3, 3, 3)),
        bad("`depth` must be a positive integer or a tuple of 3", depth=(1, 2)),
        bad("`warm_start` must be one of 'convolution', .*'random_unitary'", warm_start="fft"),
        bad("`filters` must be an integer of at least 1", filters=0),
        bad("`data_format` must be one of", data_format="channels_middle"),
        *(
            bad(f"`{name}` must be.*Received: {name}='a'", **{name: "a"})
            for name in ("filters", "kernel_size", "strides", "dilation_rate", "groups")
        ),
    ],
)
def test_bad_input(arguments, shape, message):
    with pytest.raises(ValueError, match=message):
        layer = layers.XDConv2D(**{"filters": 8, "kernel_size": 3, **arguments})
        layer.build(shape)
