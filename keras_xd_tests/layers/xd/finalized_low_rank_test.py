import itertools

import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers.xd import finalized_low_rank, low_rank
from keras_xd.testing import assert_close, check_layer
from keras_xd_tests.layers.xd.finalized_test import CASES, moved, own_arguments
from keras_xd_tests.layers.xd.low_rank_test import whole_case


def exact(layer, whole=None):
    """The static layer of all ranks."""
    whole = whole or low_rank.tucker(layer, layer._grouped_kernel())
    return layers.StaticLowRankXD.from_decomposition(layer, whole, periodic=False)


@pytest.mark.parametrize("name", CASES)
def test_all_ranks_have_the_outputs_of_the_searched_layer(name, rng):
    layer, shape, whole = whole_case(name)
    inputs = rng.standard_normal(shape).astype("float32")
    static = exact(layer, whole)
    assert static.name == layer.name and static.error < 1e-7
    assert_close(np.array(static(inputs)), np.array(layer(inputs)))
    assert static.compute_output_shape(shape) == layer.compute_output_shape(shape)
    again = layers.StaticLowRankXD.from_config(static.get_config())
    again.build(shape)
    again.set_weights(static.get_weights())
    assert_close(np.array(again(inputs)), np.array(static(inputs)))
    assert again.error is None


@pytest.mark.parametrize("name", ["strided", "2-D", "3-D", "depthwise"])
def test_finalizing_keeps_to_the_tolerance(name, rng):
    layer, shape = moved(name, rng)
    inputs = rng.standard_normal((32, *shape[1:])).astype("float32")
    layer.bias.assign(np.zeros(layer.bias.shape))
    layer.activation = keras.activations.linear
    for tolerance in (0.05, 0.3):
        static = layer.finalize("low_rank", tolerance=tolerance)
        assert type(static) is layers.StaticLowRankXD and static.error <= tolerance
        expected = np.array(layer(inputs))
        error = np.linalg.norm(np.array(static(inputs)) - expected) / np.linalg.norm(expected)
        assert 0.5 * static.error < error < 1.5 * static.error
        whole = layer.finalize()
        assert static.count_params() < whole.count_params()
        limit = finalized_low_rank.RATE * whole.multiply_adds(shape)
        assert static.multiply_adds(shape) <= limit


def test_an_operation_without_low_ranks_keeps_its_kernel(rng):
    layer, shape = moved("2-D, several groups", rng)
    static = layer.finalize("low_rank", "bfloat16", 1e-4)
    assert type(static) is layers.StaticKernelXD and static.storage == "bfloat16"
    short = layers.XDConv1D(16, 9, padding="same")  # nine products of an axis take too long
    short.build((None, 16, 16))
    assert type(short.finalize("low_rank")) is layers.StaticKernelXD
    long = layers.XDConv1D(2, 3, padding="same")
    long.build((None, 8192, 2))
    assert type(long.finalize("low_rank")) is layers.StaticKernelXD
    long = layers.XDConv1D(4, 63, padding="same")  # here the spectrum is the smaller one
    long.build((None, 64, 4))
    assert type(long.finalize("low_rank")) is layers.StaticXD


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (layers.XDConv1D(6, 39, padding="same"), (150, 6)),
        (layers.XDConv1D(6, 3, padding="same"), (16, 6)),
        (layers.XDConv2D(16, 3, padding="same"), (32, 32, 16)),
    ],
)
def test_low_ranks_shrink_an_operation_that_has_not_moved(layer, shape, rng):
    inputs = rng.standard_normal((2, *shape)).astype("float32")
    expected, static = layer(inputs), layer.finalize("low_rank")
    exact_forms = [layer.finalize(keep).count_params() for keep in ("spectrum", "kernel")]
    assert static.count_params() <= max(min(exact_forms), 2 * layer.count_params())
    if type(static) is not layers.StaticLowRankXD:
        assert static.count_params() == min(exact_forms)
    assert_close(np.array(static(inputs)), np.array(expected))


@pytest.mark.parametrize("groups", [1, 2])
def test_multiply_adds_are_those_of_the_products(groups):
    sizes, outputs, ranks, channels, filters = (4, 5, 3), (2, 5, 7), (2, 3, 2), 4, 6
    count, inner = 0, [4, 5, 3]
    for axis in (0, 1):  # every number that is written sums over an axis of inputs
        inner[axis] = outputs[axis] * ranks[axis]
        count += np.prod(inner) * channels * sizes[axis]
    places = 2 * 5 * 3
    count += places * ranks[2] * filters * (2 * 3 * channels // groups)
    count += 2 * 5 * 7 * filters * 3 * ranks[2]
    shapes = (sizes, outputs, ranks, channels, filters, groups)
    assert finalized_low_rank.multiply_adds(*shapes) == count
    static = layers.StaticLowRankXD(*shapes[:-1], groups=groups)
    static.build((None, *sizes, channels))
    assert static.multiply_adds(None) == count
    assert finalized_low_rank.count_parameters(*shapes) == static.count_params() - filters


def test_the_best_ranks_are_the_best_of_all(rng):
    sizes, outputs, widths = (6, 9), (3, 9), (4, 8, 2)
    errors = np.sort(rng.random((5, 4)))[:, ::-1]
    for tolerance, numbers, counts in itertools.product(
        (0.2, 0.6), (150, 400, 10**9), (1e3, 2e4, 1e9)
    ):
        expected = None
        for ranks in itertools.product(range(1, 6), range(1, 5)):
            shapes = (sizes, outputs, ranks, *widths)
            cost = finalized_low_rank.multiply_adds(*shapes)
            size = finalized_low_rank.count_parameters(*shapes)
            fits = errors[ranks[0] - 1, ranks[1] - 1] <= tolerance
            if fits and size < numbers and cost <= counts:
                expected = min(expected or (cost, size, ranks), (cost, size, ranks))
        allowed = errors <= tolerance
        found = finalized_low_rank.best_ranks(allowed, sizes, outputs, widths, numbers, counts)
        assert found == (None if expected is None else expected[2])


@pytest.mark.parametrize("name", ["2-D", "depthwise"])
def test_layer_checks(name, rng):
    layer, shape = moved(name, rng)
    static = exact(layer)
    assert static.trainable_weights == [static.core, static.bias]
    check_layer(type(static), own_arguments(static), shape, run_jit=name == "2-D")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sizes": 4}, "1 to 3 axes.*sizes=4"),
        ({"sizes": ()}, r"1 to 3 axes.*sizes=\(\)"),
        ({"sizes": (4, 0)}, "sizes"),
        ({"output_sizes": (4,)}, "output_sizes"),
        ({"ranks": (2, 0)}, "ranks"),
        ({"groups": 3}, "groups=3"),
        ({"periodic": 2}, "periodic=2"),
        ({"storage": "int8"}, "storage='int8'"),
        ({"data_format": "last"}, "data_format='last'"),
    ],
)
def test_arguments_without_a_meaning_are_refused(changed, message):
    sizes = {"sizes": (4, 5), "output_sizes": (4, 5), "ranks": (2, 3)}
    with pytest.raises(ValueError, match=message):
        layers.StaticLowRankXD(**{**sizes, "channels": 4, "filters": 6, **changed})
