"""Encoders of a learned width beside the formula, and what they are finalized to."""

import numpy as np
import pytest
from keras import ops

from keras_xd import layers
from keras_xd.layers.masked import masks
from keras_xd_tests.sample_models import randomize

EPSILON = 1e-3


def built(shape=(None, 8, 3), units=10, **kwargs):
    encoder = layers.CCNNEncoder(units, **kwargs)
    encoder.build(shape)
    return encoder


def number(tensor):
    return float(ops.convert_to_numpy(tensor))


def set_width(encoder, width):
    offset = masks.sigmoid_offset(0.1, 2 * width / encoder.units - 1, encoder.temperature)
    encoder.mask.length.assign([offset])


@pytest.mark.parametrize("shape", [(4, 8, 3), (4, 5, 6, 2)])
@pytest.mark.parametrize("statistics", ["moving", "batch"])
def test_outputs_are_those_of_the_formula(shape, statistics, rng):
    encoder = randomize(built(shape, statistics=statistics), rng)
    set_width(encoder, 6.5)
    x = rng.normal(size=shape).astype("float32")
    kernel, bias = map(ops.convert_to_numpy, encoder.linear.weights)
    gamma, beta, mean, variance = map(ops.convert_to_numpy, encoder.normalization.weights)
    y = x @ kernel + bias
    if statistics == "batch":
        others = tuple(range(len(shape) - 1))
        mean, variance = y.mean(axis=others), y.var(axis=others)
    y = (y - mean) / np.sqrt(variance + EPSILON) * gamma + beta
    y = ops.gelu(y * ops.convert_to_numpy(encoder.mask.values[0]), approximate=False)
    np.testing.assert_allclose(encoder(x), y, atol=1e-5)
    outputs = ops.convert_to_numpy(encoder(x))
    assert np.all(outputs[..., :6]) and not np.any(outputs[..., 6:])
    assert encoder.describe() == {"width": pytest.approx(6.5, rel=1e-4), "channels": 6.0}
    for counting, width in (("counts", 6), ("continuous", 6.5)):
        encoder.counting = counting
        count = number(encoder.complexity(shape))
        assert count == pytest.approx(np.prod(shape[1:]) * width, rel=1e-5)


@pytest.mark.parametrize("statistics", ["moving", "batch"])
def test_finalized_it_computes_the_same_with_fewer_weights(statistics, rng):
    encoder = randomize(built(statistics=statistics), rng)
    set_width(encoder, 4)
    x = rng.normal(size=(4, 8, 3)).astype("float32")
    static = encoder.finalize()
    assert (static.units, static.width, static.statistics) == (10, 4, statistics)
    np.testing.assert_allclose(static(x), encoder(x), atol=1e-5)
    for count in ("complexity", "activations"):
        finalized = getattr(static, {"complexity": "multiply_adds"}.get(count, count))
        assert number(getattr(encoder, count)((None, 8, 3))) == finalized((None, 8, 3))
    assert static.multiply_adds((None, 8, 3)) == 8 * 3 * 4
    assert static.activations((None, 8, 3)) == 8 * 4
    assert number(encoder.parameters()) == static.count_params() == 4 * (3 + 5)
    again = layers.StaticCCNNEncoder.from_config(static.get_config())
    again.build((None, 8, 3))
    again.set_weights(static.get_weights())
    np.testing.assert_array_equal(again(x), static(x))
    assert static.compute_output_shape((None, 8, 3)) == (None, 8, 10)


@pytest.mark.parametrize("mode", [None, "int8"])
def test_finalized_it_normalizes_as_keras_does(mode, rng):
    static = randomize(built(), rng).finalize()
    x = rng.normal(size=(4, 8, 3)).astype("float32")
    if mode:
        static.linear.quantize(mode)

    def parts(training):
        y = static.normalization(static.linear(x), training=training)
        return np.pad(ops.convert_to_numpy(ops.gelu(y, approximate=False)), [(0, 0)] * 2 + [(0, 5)])

    np.testing.assert_allclose(static(x), parts(False), atol=1e-5)
    static.normalization.trainable = False
    np.testing.assert_allclose(static(x, training=True), parts(True), atol=1e-5)
    static.normalization.trainable = True
    static.normalization.momentum = 1.0  # the averages stay
    of_batch = parts(True)
    assert np.abs(of_batch - parts(False)).max() > 0.1
    np.testing.assert_allclose(static(x, training=True), of_batch, atol=1e-5)


def test_wrong_arguments_and_shapes():
    with pytest.raises(ValueError, match="`units` must be.*units=0"):
        layers.CCNNEncoder(0)
    with pytest.raises(ValueError, match="statistics='none'"):
        layers.CCNNEncoder(4, statistics="none")
    with pytest.raises(ValueError, match=r"input_shape=\(None, None, 3\)"):
        layers.CCNNEncoder(4).build((None, None, 3))
    with pytest.raises(ValueError, match="width=5, units=4"):
        layers.StaticCCNNEncoder(4, 5)
