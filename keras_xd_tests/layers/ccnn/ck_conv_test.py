import functools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import keras_xd
from keras_xd import layers
from keras_xd.layers.ccnn.ck_conv import CKConv
from keras_xd.layers.masked import masks
from keras_xd.testing import check_layer
from keras_xd_tests.layers.variants import check_variant


def network(**kwargs):
    options = {"units": 8, "features": 8, "frequency": 2.0, "seed": 1, **kwargs}
    return layers.KernelNetwork("fourier", **options)


def built(input_shape, own=None, rank=None, **kwargs):
    layer = CKConv(rank or len(input_shape) - 2, own or network(), seed=1, **kwargs)
    layer.build(input_shape)
    layer.bias.assign(np.linspace(-1, 1, layer.bias.shape[0]))
    return layer


def numpy_kernel(layer):
    """Network times mask on the whole grid, in NumPy."""
    sizes = layer.largest_size
    axes = [np.linspace(-1, 1, n) for n in sizes]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(sizes))
    features = ops.convert_to_numpy(layer.kernel_network(grid.astype("float32")))
    head, bias = (ops.convert_to_numpy(w) for w in (layer.head, layer.head_bias))
    widths = ops.convert_to_numpy(layer.kernel_mask.length)
    centre = 1.0 if layer.padding == "causal" else 0.0
    along = []
    for x, width in zip(axes, widths, strict=True):
        mask = np.exp(-((x - centre) ** 2) / (2 * width**2))
        mask[mask < 0.1 * (1 - 1e-5)] = 0
        along.append(mask)
    mask = functools.reduce(np.multiply.outer, along).reshape(-1, 1)
    if layer.kernel_scaling == "mask":
        varying = features - (mask * features).sum(axis=0) / mask.sum()
        size = np.sqrt(np.mean(np.square(mask * varying).sum(axis=0)))
        features = varying * np.sqrt(1 - np.square(mask).sum() / mask.sum() ** 2) / max(size, 1e-30)
        bias = bias / mask.sum()
    return (mask * (features @ head + bias)).reshape(*sizes, -1)


def test_layer(rng):
    arguments = {"activation": "gelu", "seed": 1}
    in_space = {"learn_resolution": True, "convolution": "direct"}
    check_layer(CKConv, {**arguments, **in_space, "rank": 1, "padding": "causal"}, (2, 12, 3))
    arguments |= {"rank": 2, "kernel_size": (5, 4), "initial_kernel_size": 4.0}
    arguments |= {"padding": "circular", "data_format": "channels_first", "learn_resolution": True}
    check_variant(CKConv, arguments, (2, 3, 5, 6), rng)


@pytest.mark.parametrize("scaling", ["mask", "taps"])
@pytest.mark.parametrize("size", [4, 5])
@pytest.mark.parametrize("way", ["direct", "fourier"])
def test_outputs_are_those_of_the_keras_convolution(size, way, scaling, rng):
    x = rng.normal(size=(2, 9, 8, 3)).astype("float32")
    options = {"initial_kernel_size": 3.0, "convolution": way, "kernel_scaling": scaling}
    layer = built(x.shape, kernel_size=size, **options)
    kernel = numpy_kernel(layer)
    plain = keras.layers.DepthwiseConv2D(size, padding="same")
    plain.build(x.shape)
    plain.set_weights([kernel[..., None], ops.convert_to_numpy(layer.bias)])
    np.testing.assert_allclose(layer(x), plain(x), atol=1e-5)
    assert 0 < np.count_nonzero(kernel) < kernel.size


@pytest.mark.parametrize("size", [6, 7])
@pytest.mark.parametrize("way", ["direct", "fourier"])
def test_a_causal_layer_sees_the_past_only(size, way, rng):
    x = rng.normal(size=(2, 9, 3)).astype("float32")
    layer = built(
        x.shape, kernel_size=size, padding="causal", initial_kernel_size=4.0, convolution=way
    )
    kernel = numpy_kernel(layer)
    assert kernel[-1].all() and not kernel[0].any()
    padded = np.pad(x, [(0, 0), (size - 1, 0), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=1)
    expected = np.einsum("ntcj,jc->ntc", windows, kernel) + np.linspace(-1, 1, 3)
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


@pytest.mark.parametrize("padding", ["same", "causal", "circular"])
def test_dynamic_taps_give_the_static_outputs(padding, rng):
    x = rng.normal(size=(2, 32, 3)).astype("float32")
    static = built(x.shape, padding=padding, initial_kernel_size=5.0)
    dynamic = built(x.shape, static.network, padding=padding, rendering="dynamic")
    for now, then in zip(dynamic.weights, static.weights, strict=True):
        now.assign(then)
    assert not static.update_rendering()
    assert dynamic.kernel.shape == (32, 3)
    assert dynamic.update_rendering() and not dynamic.update_rendering()
    assert dynamic.kernel.shape[0] == (5 if padding == "causal" else 4)
    np.testing.assert_allclose(dynamic(x), static(x), atol=1e-5)
    np.testing.assert_allclose(dynamic.finalize()(x), static(x), atol=1e-5)


def resolution_pair(x, offsets, padding):
    """A statically and a dynamically rendered layer of the same weights, some frequencies off."""
    layer = built(x.shape, padding=padding, learn_resolution=True, initial_kernel_size=3.0)
    layer.resolution_mask.length.assign(offsets)
    dynamic = built(
        x.shape, layer.network, padding=padding, learn_resolution=True, rendering="dynamic"
    )
    for now, then in zip(dynamic.weights, layer.weights, strict=True):
        now.assign(then)
    dynamic.update_rendering()
    return layer, dynamic


@pytest.mark.parametrize("shape, offsets", [((2, 32, 2), [-0.3]), ((1, 12, 16, 2), [0.1, -0.5])])
def test_on_a_circle_dynamic_outputs_upsampled_are_the_static_ones(shape, offsets, rng):
    x = rng.normal(size=shape).astype("float32")
    static, dynamic = resolution_pair(x, offsets, "circular")
    small = dynamic(x)
    assert all(n < m for n, m in zip(small.shape[1:-1], shape[1:-1], strict=True))
    up = layers.FourierUpsampling(shape[1:-1])(small)
    np.testing.assert_allclose(up, static(x), atol=1e-5)
    np.testing.assert_allclose(dynamic.finalize()(x), small, atol=1e-5)


def test_between_zeros_dynamic_outputs_are_coarser_samples_of_the_static_ones(rng):
    x = rng.normal(size=(2, 32, 2)).astype("float32")
    # Edge at a quarter of the 33 frequencies 0 … 32 of a transform of length 64: half of a unit
    # above frequency 7, so that 8 samples remain, each fourth of the static ones.
    offset = masks.sigmoid_offset(0.1, 7.5 / 16 - 1, 25.0)
    static, dynamic = resolution_pair(x, [offset], "same")
    small = dynamic(x)
    assert small.shape == (2, 8, 2)
    np.testing.assert_allclose(small, static(x)[:, ::4], atol=1e-5)


@pytest.mark.parametrize("rendering", ["static", "dynamic"])
@pytest.mark.parametrize(
    "shape, padding, offsets",
    [
        ((2, 32, 2), "same", [-0.3]),
        ((2, 15, 2), "causal", [0.2]),
        ((2, 24, 2), "circular", [-0.1]),
        ((1, 12, 9, 2), "same", [0.1, -0.5]),
    ],
)
def test_downsampling_in_space_is_that_on_the_spectrum(shape, padding, offsets, rendering, rng):
    """Appendix B: convolved with the mask's inverse transform, at the points that are left."""
    x = rng.normal(size=shape).astype("float32")
    found = []
    for way in ("fourier", "direct"):
        layer = built(
            shape,
            padding=padding,
            convolution=way,
            learn_resolution=True,
            initial_kernel_size=4.0,
            rendering=rendering,
        )
        layer.resolution_mask.length.assign(offsets)
        assert layer.update_rendering() == (rendering == "dynamic")
        with tf.GradientTape() as tape:
            y = layer(x)
            loss = ops.sum(ops.sin(y))
        found.append([y, *tape.gradient(loss, [v.value for v in layer.trainable_variables])])
        static = layer.finalize()
        assert static.convolution == way
        np.testing.assert_allclose(static(x), y, atol=1e-5)
        if rendering == "dynamic":
            assert math.prod(y.shape) < math.prod(shape)
            ends = [
                n if padding == "circular" else n + k - 1
                for n, k in zip(shape[1:-1], static.kernel_size, strict=True)
            ]
            count = math.prod(ends) * math.prod(static.kernel_size) + y.shape[1] * math.prod(ends)
            count += math.prod(y.shape[1:3]) * ends[1] if len(ends) == 2 else 0
            assert way == "fourier" or static.multiply_adds(shape) == 2 * count
    for direct, fourier in zip(*found[::-1], strict=True):
        np.testing.assert_allclose(direct, fourier, atol=2e-5 * max(1, np.abs(fourier).max()))


def test_complexity_follows_the_learned_sizes():
    short = built((None, 40, 3), kernel_size=7, initial_kernel_size=3.0)
    assert float(short.complexity((None, 40, 3))) == pytest.approx(3 * 40 * 3, rel=1e-5)
    long = built((None, 40, 3), initial_kernel_size=5.0, kernel_size=39, convolution="fourier")
    assert float(long.complexity((None, 40, 3))) == pytest.approx(3 * there_and_back(42), rel=1e-5)
    for padding, points in (("same", 600), ("causal", 799), ("circular", 400)):
        fixed = built((None, 400, 3), learn_kernel_size=False, padding=padding)
        count = fixed.complexity((None, 400, 3))
        assert count == 3 * there_and_back(points) < 3 * 400 * 400 / 4
    both = built((None, 8, 6, 3), learn_resolution=True)
    both.resolution_mask.length.assign([masks.sigmoid_offset(0.1, 0.0, 25.0)] * 2)
    np.testing.assert_allclose([float(r) for r in both.resolutions], [4, 3], rtol=1e-5)
    count = float(both.complexity((None, 8, 6, 3)))
    there, back = 4 * 8 * 6, 4 * 4 * 3
    expected = 3 * (there_and_back(there) + there_and_back(back)) / 2
    assert count == pytest.approx(expected, rel=1e-5)


def there_and_back(points):
    """The multiply–adds of two transforms and a product of spectra."""
    return 2 * points * (np.log2(points) + 1)


@pytest.mark.parametrize("convolution", ["auto", "direct", "fourier"])
@pytest.mark.parametrize("taps, auto", [(3, "direct"), (61, "direct"), (301, "fourier")])
def test_the_static_layer_counts_the_same(taps, auto, convolution):
    """By FFT where that takes less than a quarter of the multiply–adds: .34 and .09 of them."""
    size = {"kernel_size": 399, "initial_kernel_size": float(taps)}
    layer = built((None, 400, 3), convolution=convolution, **size)
    static = layer.finalize()
    assert static.kernel_size == (taps,)
    count = static.multiply_adds((None, 400, 3))
    assert count == keras_xd.complexity(static)
    assert float(layer.complexity((None, 400, 3))) == pytest.approx(count, rel=1e-5)
    ways = {"direct": 400 * taps, "fourier": there_and_back(400 + taps // 2)}
    assert count == 3 * ways[auto if convolution == "auto" else convolution]


def test_a_configuration_of_former_files_makes_the_former_kernel(rng):
    """They do not say how kernels are scaled, and a layer without a network had another one."""
    config = layers.CKConv1D(seed=1).get_config()
    del config["kernel_scaling"]
    layer = layers.CKConv1D.from_config(config)
    layer.build((None, 8, 3))
    own = layer.kernel_network
    found = [layer.kernel_scaling, own.kind, own.units, own.hidden_layers, own.frequency]
    assert [*found, own.features] == ["taps", "fourier", 128, 2, 8.0, 128]
    np.testing.assert_allclose(layer.kernel, numpy_kernel(layer), atol=1e-5)
    assert layers.CKConv1D(seed=1).kernel_network.kind == "magnet"


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"rank": 3}, "rank=3"),
        ({"network": "mlp"}, "network='mlp'"),
        ({"padding": "valid"}, "padding='valid'"),
        ({"rank": 2, "padding": "causal"}, "rank=2"),
        ({"kernel_size": 0}, "kernel_size=0"),
        ({"convolution": "fft"}, "convolution='fft'"),
        ({"rendering": "both"}, "rendering='both'"),
        ({"kernel_scaling": "none"}, "kernel_scaling='none'"),
        ({"temperature": 1.0, "learn_resolution": True}, "temperature=1.0"),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        CKConv(**{"rank": 1, **kwargs})


@pytest.mark.parametrize(
    "kwargs, input_shape, message",
    [
        ({}, (None, None, 3), "to be known.*None, None, 3"),
        ({"rank": 2}, (None, 8, 3), "4 axes"),
        ({"kernel_size": 9, "padding": "circular"}, (None, 8, 3), "kernel_size=\\(9,\\)"),
        ({"kernel_size": 11, "learn_resolution": True}, (None, 8, 3), "sizes=\\(8,\\)"),
        ({"kernel_size": 1}, (None, 8, 3), "at least 2 points"),
    ],
)
def test_bad_shapes_are_refused(kwargs, input_shape, message):
    with pytest.raises(ValueError, match=message):
        built(input_shape, **kwargs)


def test_a_network_has_one_number_of_axes():
    shared = network()
    built((None, 8, 3), shared)
    with pytest.raises(ValueError, match="of 2, network '.*' of 1"):
        built((None, 8, 8, 3), shared)


def test_the_former_head_begins_for_the_taps_under_the_mask():
    network = layers.KernelNetwork("fourier", units=6, seed=1)
    options = {"network": network, "kernel_scaling": "taps", "seed": 3}
    layer = layers.CKConv2D(initial_kernel_size=5, **options)
    layer.build((None, 16, 12, 4))
    draw = keras.initializers.HeUniform(seed=3)((6, 4))
    np.testing.assert_allclose(layer.head, draw / np.sqrt(5 * 5), rtol=1e-6)


def test_flexible_layer():
    init_kwargs = {"initial_kernel_size": 4.0, "alias_penalty": 0.0, "seed": 1}
    check_layer(layers.FlexConv1D, init_kwargs, (2, 9, 2), run_jit=False, run_mixed_precision=False)


@pytest.mark.parametrize("rank", [1, 2])
def test_the_rank_is_that_of_the_class(rank, rng):
    shape = (2, 8, 6)[: rank + 1] + (3,)
    x = rng.normal(size=shape).astype("float32")
    network = layers.KernelNetwork("magnet", units=4, seed=1)
    expected = CKConv(rank, network, seed=2)(x)
    for layer_class in ((layers.CKConv1D, layers.CKConv2D), (layers.FlexConv1D, layers.FlexConv2D)):
        layer = layer_class[rank - 1](network, seed=2)
        np.testing.assert_allclose(layer(x), expected, atol=1e-6)
        assert "rank" not in layer.get_config()


def test_the_penalty_is_part_of_the_loss(rng):
    x = rng.normal(size=(1, 8, 2)).astype("float32")
    network = layers.KernelNetwork("magnet", units=4, frequency=9.0, seed=1)
    layer = layers.FlexConv1D(network, kernel_size=7, alias_penalty=0.5)
    layer(x)
    expected = 0.5 * float(network.alias_penalty((7,)))
    assert expected > 0
    assert [float(loss) for loss in layer.losses] == [pytest.approx(expected)]
    without = layers.FlexConv1D(network, kernel_size=7, alias_penalty=0)
    without(x)
    assert not without.losses


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"network": layers.KernelNetwork("siren")}, "kind='siren'"),
        ({"alias_penalty": -1}, "alias_penalty=-1"),
    ],
)
def test_bad_arguments_of_a_flexible_layer_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        layers.FlexConv1D(**kwargs)


def test_finalized_layer():
    init_kwargs = {
        "kernel_size": (4,),
        "before": (1,),
        "learn_resolution": True,
        "bins": (5,),
        "activation": "relu",
        "data_format": "channels_first",
    }
    check_layer(layers.StaticCKConv, init_kwargs, (2, 3, 8), run_jit=False)


def test_inputs_of_other_sizes_are_refused(rng):
    layer = layers.StaticCKConv((3,), (1,))
    layer.build((None, 8, 2))
    with pytest.raises(ValueError, match="expected axis 1 of input shape to have value 8"):
        layer(np.zeros((1, 9, 2)))
    with pytest.raises(ValueError, match="to be known"):
        layers.StaticCKConv((3,), (1,)).build((None, None, 2))
