import keras
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.testing import assert_close
from keras_xd_tests.layers.xd.drop_in_checks import assert_twin, twins


@pytest.mark.parametrize("name", ["XDSeparableConv1D", "XDSeparableConv2D"])
def test_equals_the_twin_with_a_searched_pointwise_operation(name, rng):
    twin, layer, shape = twins(name, search_pointwise=True, depth=2)
    assert_twin(twin, layer, rng.standard_normal(shape).astype("float32"))


def test_in_a_model_every_architecture_variable_is_found_once(rng):
    model = keras.Sequential(
        [keras.Input((9, 2)), layers.XDSeparableConv1D(3, 3, search_pointwise=True, name="xd")]
    )
    variables = keras_xd.architecture_variables(model)
    assert len(variables) == len({id(v) for v in variables}) == 8  # b and C of the depthwise
    described = keras_xd.describe(model)["xd"]
    assert "pointwise/matrix/K0" in described and "depthwise/matrix/K0" in described
    x = rng.standard_normal((2, 9, 2)).astype("float32")
    final = keras_xd.finalize(model)
    assert not keras_xd.architecture_variables(final)
    assert_close(final(x), keras.ops.convert_to_numpy(model(x)))


def test_multiply_adds_by_hand():
    layer = layers.XDSeparableConv1D(5, 3, padding="circular", depth_multiplier=2, radix=8)
    layer.build((None, 8, 4))
    depthwise = 2 * 8 * 8 * 4 + 4 * 8 * 8 + 2 * 8 * 8 * 8
    assert layer.complexity((None, 8, 4)) == depthwise + 8 * 8 * 5


def test_bad_input():
    with pytest.raises(ValueError, match="depth_multiplier"):
        layers.XDSeparableConv1D(2, 3, depth_multiplier=0)
    with pytest.raises(ValueError, match="must not be larger than the padded input"):
        layers.XDSeparableConv1D(2, 9).build((None, 8, 2))
