import keras
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.testing import assert_close, check_layer, check_variant
from keras_xd_tests.layers.xd.drop_in_checks import assert_signature, assert_twin

KERNELS = ["depthwise_kernel", "pointwise_kernel"]
TWINS = [
    (keras.layers.SeparableConv1D, layers.XDSeparableConv1D, (9,)),
    (keras.layers.SeparableConv2D, layers.XDSeparableConv2D, (7, 8)),
]


@pytest.mark.parametrize("twin, layer_class, sizes", TWINS)
def test_every_argument_and_default_of_the_twin(twin, layer_class, sizes):
    assert_signature(twin, layer_class, 2, 3)


@pytest.mark.parametrize("search_pointwise", [False, True])
@pytest.mark.parametrize("twin, layer_class, sizes", TWINS)
@pytest.mark.parametrize(
    "arguments",
    [
        {"padding": "same", "activation": "relu"},
        {"padding": "valid", "strides": 2, "depth_multiplier": 2},
        {"padding": "same", "dilation_rate": 2, "use_bias": False},
    ],
)
def test_equals_the_twin(twin, layer_class, sizes, arguments, search_pointwise, rng):
    arguments = {"filters": 4, "kernel_size": 3, **arguments}
    if len(sizes) == 2 and arguments.get("dilation_rate"):
        sizes = (8, 8)
    x = rng.standard_normal((2, *sizes, 3)).astype("float32")
    layer = layer_class(**arguments, search_pointwise=search_pointwise, depth=2)
    assert_twin(twin(**arguments), layer, KERNELS, x)


@pytest.mark.parametrize("search_pointwise", [False, True])
def test_layer_checks(search_pointwise):
    """Without XLA, which compiles the same of the two operations by themselves."""
    arguments = {
        "filters": 3,
        "kernel_size": 3,
        "padding": "same",
        "search_pointwise": search_pointwise,
    }
    check_layer(layers.XDSeparableConv1D, arguments, (3, 4, 2), run_jit=False)


def test_layer_checks_2d(rng):
    arguments = {"filters": 3, "kernel_size": 3, "padding": "same", "depth": 2}
    check_variant(layers.XDSeparableConv2D, arguments, (3, 3, 4, 2), rng)


def test_in_a_model_every_architecture_variable_is_found_once(rng):
    model = keras.Sequential(
        [keras.Input((9, 2)), layers.XDSeparableConv1D(3, 3, search_pointwise=True, name="xd")]
    )
    variables = keras_xd.architecture_variables(model)
    assert len(variables) == len({id(v) for v in variables}) == 6
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
