import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_xd import layers
from keras_xd.layers.masked import masks
from keras_xd.layers.masked.depth_mask import DepthMask
from keras_xd.testing import check_layer

erf = np.vectorize(math.erf)


def network():
    return layers.KernelNetwork("fourier", 4, features=4, frequency=2.0, seed=1, name="network")


def built(input_shape, learn="KRW", depth=None, **kwargs):
    """A block whose weights and masks are all different from where they begin."""
    block = layers.CCNNBlock(network(), learn, depth, seed=1, **kwargs)
    block.build(input_shape)
    generator = np.random.default_rng(2)
    for weight in block.trainable_variables:
        if weight.name.startswith(("bias", "beta", "gamma")):
            weight.assign(generator.normal(0.5, 0.5, size=weight.shape))
    for mask, size in zip(block.width_masks, (0.7, 0.4, 0.55), strict=bool(block.width_masks)):
        mask.length.assign([masks.sigmoid_offset(0.1, 2 * size - 1, block.width_temperature)])
    if "R" in learn:
        count = len(input_shape) - 2
        block.convolution.resolution_mask.length.assign([-0.2, -0.5][:count])
    return block


def depth_mask(value=None, blocks=3):
    """A mask over blocks with a given value at the second of three."""
    mask = DepthMask(blocks)
    mask.build((None, blocks))
    if value is not None:
        mask.length.assign([masks.sigmoid_offset(value, 0.0, mask.temperature)])
    return mask


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def test_layer():
    check_layer(
        layers.CCNNBlock,
        {"learn": "KW", "kernel_size": 5, "initial_kernel_size": 4.0, "statistics": "moving"},
        (2, 6, 4),
        run_jit=False,
    )


@pytest.mark.parametrize("shape", [(2, 7, 5), (2, 4, 6, 5)])
def test_masks_stand_where_the_paper_has_them(shape, rng):
    """Against NumPy: after the bias and before the nonlinearity, the depth on the branch alone."""
    x = rng.normal(size=shape).astype("float32")
    block = built(shape, "KW", depth_mask(0.6), index=1, statistics="batch")
    w = {v.path.split("/", 1)[1]: ops.convert_to_numpy(v) for v in block.trainable_variables}
    a, b, c = (ops.convert_to_numpy(mask.values[0]) for mask in block.width_masks)
    axes = tuple(range(len(shape) - 1))
    h = (x - x.mean(axes)) / np.sqrt(x.var(axes) + 1e-3)
    h = h * w["normalization/gamma"] + w["normalization/beta"]
    h = ops.convert_to_numpy(block.convolution(h)) * a
    h = gelu((h @ w["kernel_middle"] + w["bias_middle"]) * b)
    h = gelu((h @ w["kernel_output"] + w["bias_output"]) * c)
    np.testing.assert_allclose(block(x), x + 0.6 * h, atol=2e-5)
    assert [np.count_nonzero(m) for m in (a, b, c)] == [3, 2, 3]
    np.testing.assert_allclose(block(x, training=True), block(x), atol=1e-5)


@pytest.mark.parametrize("rendering", ["static", "dynamic"])
def test_a_block_of_depth_zero_is_the_identity(rendering, rng):
    x = rng.normal(size=(2, 6, 4)).astype("float32")
    block = built(x.shape, "KRW", depth_mask(), index=2, rendering=rendering)
    assert float(block.depth.value(2)) == 0
    assert block.update_rendering() == (rendering == "dynamic")
    np.testing.assert_array_equal(block(x), x)
    assert type(block.finalize()) is keras.layers.Identity
    assert block.describe()["depth"] == 0
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(block(x)))
    for gradient in tape.gradient(loss, [v.value for v in block.trainable_variables]):
        assert gradient is not None and not np.any(gradient)


CASES = [
    ((2, 9, 6), "KW", "static", {}),
    ((2, 9, 6), "KRW", "static", {"padding": "causal", "statistics": "moving"}),
    ((2, 12, 6), "KRW", "dynamic", {"statistics": "moving"}),
    ((2, 6, 8, 5), "KRW", "static", {"padding": "circular"}),
    ((2, 6, 8, 5), "KRW", "dynamic", {}),
    ((2, 6, 5, 4), "", "static", {"kernel_size": 3}),
    ((2, 9, 6), "KRW", "static", {"convolution_method": "direct"}),
    ((2, 6, 8, 5), "KRW", "dynamic", {"convolution_method": "direct", "padding": "circular"}),
]


@pytest.mark.parametrize("shape, learn, rendering, kwargs", CASES)
def test_the_pruned_block_gives_the_same_outputs(shape, learn, rendering, kwargs, rng):
    x = rng.normal(1.0, 2.0, size=shape).astype("float32")
    block = built(shape, learn, depth_mask(0.6), index=1, rendering=rendering, **kwargs)
    block(x, training=True)  # moves the averages
    full = block(x)
    assert block.update_rendering() == (rendering == "dynamic")
    pruned = block.finalize()
    np.testing.assert_allclose(pruned(x), block(x), atol=1e-5)
    if "W" in learn:
        counts = [np.count_nonzero(mask.values[0]) for mask in block.width_masks]
        assert list(pruned.widths) == counts and max(counts) < shape[-1]
        assert tuple(pruned.kernels[0].shape) == tuple(counts[:2])
        assert pruned.convolution.kernel.shape[-1] == counts[0]
    if "R" not in learn or rendering == "static":
        np.testing.assert_allclose(pruned(x), full, atol=1e-5)
    else:
        inner = pruned.convolution.compute_output_shape((2, *shape[1:-1], pruned.widths[0]))
        assert math.prod(inner[1:-1]) < math.prod(shape[1:-1])


def test_files_keep_what_is_rendered(tmp_path, rng):
    x = rng.normal(size=(2, 12, 6)).astype("float32")
    block = built(x.shape, "KRW", depth_mask(0.6), index=1, rendering="dynamic")
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, block(inputs))
    layers.ccnn.rendering.update_rendering(model)
    for mask in block.width_masks:  # grows, but is cut where it was
        mask.length.assign(mask.length + 0.2)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(x), model(x), atol=1e-6)
    before = loaded(x)
    assert layers.ccnn.rendering.update_rendering(loaded) and np.any(
        np.asarray(loaded(x) != before)
    )


@pytest.mark.parametrize("counting", ["counts", "per_channel"])
def test_complexity_of_what_is_left_is_that_of_the_paper(counting):
    block = built((None, 8, 6, 10), "KRW", depth_mask(), index=1, counting=counting)
    # 0.1 at the coordinate 0.2 of an axis of 10 channels is a size of 6; and so on.
    for mask, size in zip(block.width_masks, (6, 4, 3), strict=True):
        mask.length.assign([masks.sigmoid_offset(0.1, size / 5 - 1, 25.0)])
    offsets = [masks.sigmoid_offset(0.1, 0.0, 25.0), masks.sigmoid_offset(0.1, 1 / 3, 25.0)]
    block.convolution.resolution_mask.length.assign(offsets)  # 4 of 8 and 4 of 6
    block.depth.length.assign([masks.sigmoid_offset(0.1, 2 * 1.75 / 3 - 1, 8.0)])  # 1.75 blocks
    r = 4 * 4
    there, back = 4 * 48, 4 * r  # doubled along both axes
    convolution = r * math.log2(r)
    if counting == "per_channel":
        convolution = 6 * (there * (math.log2(there) + 1) + back * (math.log2(back) + 1))
    count = 48 * 6 + convolution + r * 6 * 4 + 2 * r * 4 + r * 4 * 3 + r * 3
    assert float(block.complexity((None, 8, 6, 10))) == pytest.approx(count, rel=1e-4)
    block.depth.length.assign([masks.sigmoid_offset(0.1, 2 * 1.25 / 3 - 1, 8.0)])
    assert float(block.complexity((None, 8, 6, 10))) == 0


@pytest.mark.parametrize("index, part", [(0, 1.0), (1, 0.75), (2, 0.0)])
def test_the_continuous_complexity_is_that_of_the_paper(index, part):
    """Against NumPy: sizes by equations 4 and 10, costs of appendix C, a depth of 1.75 blocks."""
    block = built((None, 8, 6, 10), "KRW", depth_mask(), index=index, counting="continuous")
    offsets = ([0.13], [-0.26], [-0.4])
    for mask, offset in zip(block.width_masks, offsets, strict=True):
        mask.length.assign(offset)
    block.convolution.resolution_mask.length.assign([0.31, -0.2])
    block.depth.length.assign([masks.sigmoid_offset(0.1, 2 * 1.75 / 3 - 1, 8.0)])

    def edge(offset):
        return offset - np.log(1 / 0.9 - 1) / 25

    # Widths begin with 5 of 10 channels, the edge at 0; resolutions with 0.85 at the end.
    a, b, c = (5 * (edge(offset[0]) + 1) / (0 + 1) for offset in offsets)
    start = edge(1 + np.log(0.85 / 0.15) / 25)
    r = np.prod([n * (edge(o) + 1) / (start + 1) for n, o in ((8, 0.31), (6, -0.2))])
    count = 48 * a + r * np.log2(r) + r * (a * b + 2 * b + b * c + c)
    with tf.GradientTape() as tape:
        found = block.complexity((None, 8, 6, 10))
    assert float(found) == pytest.approx(part * count, rel=1e-5)
    *widths, resolution, depth = tape.gradient(
        found, [v.value for v in block.architecture_variables if v.name == "offset"]
    )
    if part:
        slope = 5 * part * (48 + r * b)
        assert float(widths[0][0]) == pytest.approx(slope, rel=1e-5)
        assert np.all(resolution > 0)
    # One more block is half as much again of the axis from -1 to 1 and three blocks.
    assert float(depth[0]) == pytest.approx(1.5 * count * (index == 1), rel=1e-5)


def test_configurations_with_the_earlier_argument_of_counting_load():
    config = layers.CCNNBlock().get_config()
    del config["counting"]
    for earlier, counting in ((True, "per_channel"), (False, "counts")):
        block = layers.CCNNBlock.from_config({**config, "per_channel": earlier})
        assert block.counting == counting


def test_other_costs_are_those_of_the_pruned_block():
    block = built((None, 10, 10), "KW", depth_mask(), index=1, kernel_size=9)
    block.depth.length.assign([1.0])
    for mask, size in zip(block.width_masks, (6, 4, 3), strict=True):
        mask.length.assign([masks.sigmoid_offset(0.1, size / 5 - 1, 25.0)])
    block.convolution.kernel_mask.length.assign([masks.gaussian_width(0.1, 5 / 9)])  # 5 taps
    assert [round(float(n), 3) for n in block.widths] == [6, 4, 3]
    trained = block.finalize().trainable_variables
    assert sum(math.prod(v.shape) for v in trained) == 6 * (5 + 3) + 24 + 4 + 12 + 3
    left = block.finalize().count_params()
    assert float(block.parameters()) == pytest.approx(left, rel=1e-4)
    outputs = 10 * 6 + 10 * 6 + 10 * 6 + 2 * 10 * 4 + 2 * 10 * 3
    assert float(block.activations((None, 10, 10))) == pytest.approx(outputs, rel=1e-4)
    assert block.finalize().activations((None, 10, 10)) == outputs
    block.depth.length.assign([masks.sigmoid_offset(0.1, 2 * 0.75 / 3 - 1, 8.0)])
    assert float(block.activations((None, 10, 10))) == 0


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"learn": "KRWD"}, "letters among 'KRW'. Received: learn='KRWD'"),
        ({"network": "mlp"}, "network='mlp'"),
        ({"depth": 3}, "depth=3"),
        ({"depth": DepthMask(3), "index": 3}, "from 0 to 2. Received: index=3, blocks=3"),
        ({"statistics": "none"}, "statistics='none'"),
        ({"rendering": "both"}, "rendering='both'"),
        ({"counting": True}, "counting=True"),
        ({"convolution_method": "fft"}, "convolution_method='fft'"),
        ({"width_temperature": 2.0}, "temperature=2.0, which takes 1.285"),
        ({"resolution_temperature": -1.0}, "temperature=-1.0"),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        layers.CCNNBlock(**kwargs)


@pytest.mark.parametrize("shape", [(None, None, 4), (None, 4), (None, 8, 8, None)])
def test_axes_of_unknown_size_are_refused(shape):
    with pytest.raises(ValueError, match="to be known.*None|number of spatial axes"):
        layers.CCNNBlock().build(shape)
