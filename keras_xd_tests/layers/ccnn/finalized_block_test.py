import keras
import numpy as np
import pytest
from keras import ops

from keras_xd import layers
from keras_xd.testing import check_layer
from keras_xd_tests.sample_models import randomize


def convolution(**kwargs):
    return layers.StaticCKConv((3,), (1,), data_format="channels_last", **kwargs)


def test_layer():
    config = keras.saving.serialize_keras_object(convolution())
    check_layer(
        layers.StaticCCNNBlock,
        {"widths": (2, 5, 3), "convolution": config, "statistics": "moving"},
        (2, 6, 4),
        run_jit=False,
    )


def test_channels_beyond_its_widths_pass_by(rng):
    x = rng.normal(size=(2, 6, 5)).astype("float32")
    block = layers.StaticCCNNBlock((2, 4, 3), convolution(), dropout=0.5)
    y = ops.convert_to_numpy(block(x))
    np.testing.assert_array_equal(y[..., 3:], x[..., 3:])
    assert (y[..., :3] != x[..., :3]).all()
    changed = x.copy()
    changed[..., 2:] += 1  # no inputs of the branch
    np.testing.assert_allclose(block(changed) - changed, y - x, atol=1e-6)
    shapes = {w.path.split("/", 1)[1]: tuple(w.shape) for w in block.trainable_variables}
    assert shapes["kernel_middle"] == (2, 4) and shapes["kernel_output"] == (4, 3)
    assert shapes["normalization/gamma"] == (2,)
    assert sum(np.prod(shape) for shape in shapes.values()) == 2 * (3 + 3) + 8 + 4 + 12 + 3


@pytest.mark.parametrize("policy", ["float32", "float64", "mixed_bfloat16"])
@pytest.mark.parametrize("activation", [None, "tanh"])
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("channels", [20, 21, 30])
def test_inference_is_that_of_its_parts(channels, use_bias, activation, policy, rng):
    inside = convolution(use_bias=use_bias, activation=activation)
    block = layers.StaticCCNNBlock((20, 4, 3), inside, statistics="moving", dtype=policy)
    x = rng.normal(size=(2, 6, channels))
    block.build(x.shape)
    randomize(block, rng)
    y = block.convolution(block.normalization(x[..., :20]))
    for kernel, bias in zip(block.kernels, block.biases, strict=True):
        kernel, bias = (ops.cast(weight, y.dtype) for weight in (kernel, bias))
        y = ops.gelu(ops.matmul(y, kernel) + bias, approximate=False)
    expected = x.copy()
    expected[..., :3] += float(block.scale) * ops.convert_to_numpy(ops.cast(y, "float64"))
    outputs = ops.convert_to_numpy(ops.cast(block(x), "float64"))
    tolerance = {"float32": 1e-5, "float64": 1e-12, "mixed_bfloat16": 0.03}[policy]
    np.testing.assert_allclose(outputs, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("channels, computed", [(20, 20), (21, 21), (22, 20), (40, 20)])
def test_few_other_channels_are_computed_rather_than_cut_out(channels, computed, monkeypatch):
    block = layers.StaticCCNNBlock((20, 4, 3), convolution(), statistics="moving")
    block.build((None, 6, channels))
    correlate, seen = block.convolution.correlate, []
    monkeypatch.setattr(
        block.convolution, "correlate", lambda x: seen.append(x.shape[-1]) or correlate(x)
    )
    for training in (False, True):
        block(np.ones((2, 6, channels), "float32"), training=training)
    assert seen == [computed, 20]


@pytest.mark.parametrize("counting", ["counts", "per_channel"])
@pytest.mark.parametrize("learn", ["", "R"])
def test_it_counts_what_the_searched_block_does(learn, counting):
    block = layers.CCNNBlock(learn=learn, counting=counting)
    block.build((None, 8, 6, 10))
    static = block.finalize()
    count = float(block.complexity((None, 8, 6, 10)))
    assert static.multiply_adds((None, 8, 6, 10)) == pytest.approx(count, rel=1e-5)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"widths": (2, 0, 3)}, "widths=\\(2, 0, 3\\)"),
        ({"convolution": None}, "convolution=None"),
        ({"statistics": "none"}, "statistics='none'"),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        layers.StaticCCNNBlock(**{"widths": (2, 4, 3), "convolution": convolution(), **kwargs})


def test_too_few_channels_are_refused():
    block = layers.StaticCCNNBlock((2, 4, 5), convolution())
    with pytest.raises(ValueError, match="at least 5 channels.*None, 6, 4"):
        block.build((None, 6, 4))
    other = layers.StaticCKConv((3,), (1,), data_format="channels_first")
    with pytest.raises(ValueError, match="channels_last"):
        layers.StaticCCNNBlock((2, 4, 5), other)
