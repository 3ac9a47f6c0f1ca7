import functools

import keras
import numpy as np
import pytest
import scipy.signal

import keras_xd
from keras_xd import layers
from keras_xd.testing import assert_close
from keras_xd_tests.layers.fourier.resampling_test import band_limited


def signal(n, modes, channels=2, seed=1):
    """A batch of two signals with frequencies up to `modes`, on a grid of `n` points."""
    parts = [band_limited((n,), modes, seed + i) for i in range(2 * channels)]
    return np.reshape(parts, (2, channels, n)).transpose(0, 2, 1).astype("float32")


def model_of(*inside, shape):
    return keras.Sequential([keras.Input(shape), *inside])


def trained(model, scale=0.1):
    """The model with all architectures and weights moved."""
    rng = np.random.default_rng(7)
    for variable in model.trainable_variables:
        variable.assign_add(scale * rng.normal(size=variable.shape))
    return model


def predict(model, x):
    return keras.ops.convert_to_numpy(model(x))


def circular(filters=3, **kwargs):
    return layers.XDConv1D(filters, 3, padding="circular", depth=2, **kwargs)


@pytest.mark.parametrize("before, after", [(64, 128), (43, 85), (128, 64), (85, 43)])
def test_spectral_models_agree_on_band_limited_functions(before, after):
    model = trained(
        model_of(
            layers.SpectralConv1D(4, 9),
            keras.layers.Conv1D(3, 1),
            layers.SpectralConv1D(2, 8, use_bias=True),
            shape=(before, 2),
        )
    )
    other = keras_xd.resize(model, (after, 2))
    expected = scipy.signal.resample(predict(model, signal(before, 15)), after, axis=1)
    assert_close(predict(other, signal(after, 15)), expected.astype("float32"))


FOURIER_OPERATORS = [
    (layers.XDConv1D, 11, (43,), (85,)),
    (layers.XDConv1D, 11, (85,), (43,)),
    (layers.XDConv1D, 15, (16,), (24,)),
    (layers.XDConv2D, (7, 5), (10, 9), (16, 21)),
    (layers.XDConv2D, (7, 5), (16, 21), (10, 9)),
]


@pytest.mark.parametrize("kind, kernel_size, before, after", FOURIER_OPERATORS)
def test_fourier_operators_are_those_built_at_the_new_size(kind, kernel_size, before, after, rng):
    options = {"padding": "circular", "warm_start": "fourier_operator", "activation": "tanh"}
    model = model_of(kind(3, kernel_size, **options), shape=(*before, 2))
    model.layers[0].bias.assign([1.0, -0.5, 0.2])
    other = keras_xd.resize(model, (*after, 2))
    expected = kind(3, kernel_size, **options)
    expected.build((None, *after, 2))
    expected.kernel.assign(model.layers[0].kernel)
    expected.bias.assign(model.layers[0].bias)
    x = rng.normal(size=(2, *after, 2)).astype("float32")
    assert_close(predict(other, x), predict(expected, x))


@pytest.mark.parametrize("before, after", [(64, 128), (43, 85), (128, 64), (20, 50)])
@pytest.mark.parametrize("moved", [False, True])
def test_convolutions_act_on_the_function_not_on_its_points(before, after, moved):
    model = model_of(circular(), shape=(before, 2))
    model = trained(model) if moved else model
    other = keras_xd.resize(model, (after, 2))
    coarse = predict(model, signal(before, 9))
    expected = scipy.signal.resample(coarse, after, axis=1)
    assert_close(predict(other, signal(after, 9)), expected.astype("float32"))


def test_activations_act_on_the_new_grid():
    model = model_of(circular(activation="relu"), shape=(16, 2))
    fine = keras_xd.resize(model, (32, 2))
    outputs = predict(fine, signal(32, 5))
    assert outputs.min() == 0.0
    assert model.layers[0].activation is keras.activations.relu
    separable = layers.XDSeparableConv1D(3, 3, padding="circular", activation="relu")
    fine = keras_xd.resize(model_of(separable, shape=(16, 2)), (32, 2))
    assert predict(fine, signal(32, 5)).min() == 0.0
    assert separable.pointwise.activation is keras.activations.relu


def test_activations_of_separable_operations_act_once():
    def fine(activation):
        layer = layers.XDSeparableConv1D(3, 3, padding="circular", activation=activation)
        model = model_of(layer, shape=(16, 2))
        return predict(keras_xd.resize(trained(model), (32, 2)), signal(32, 5))

    keras.utils.set_random_seed(0)
    linear = fine("linear")
    keras.utils.set_random_seed(0)
    assert_close(fine("tanh"), np.tanh(linear))


def network(shape=(8, 8, 2)):
    """Nested, with skips, normalization, a shared layer, and all that can be resized."""
    inputs = keras.Input(shape)
    x = layers.XDConv2D(4, 3, padding="circular", depth=2, activation="relu", name="first")(inputs)
    x = keras.layers.BatchNormalization()(x)
    block = keras.Sequential(
        [
            keras.layers.Conv2D(4, 3, padding="same", activation="relu"),
            layers.XDSeparableConv2D(4, 3, padding="circular", name="separable"),
        ],
        name="block",
    )
    block.build((None, *shape[:2], 4))
    x = keras.layers.Add()([x, block(x)])
    shared = layers.XDConv2D(4, 3, padding="circular", name="shared")
    x = shared(keras.ops.relu(shared(x)))
    x = keras.layers.AveragePooling2D(2)(x)
    x = layers.SpectralConv2D(3, (2, 3))(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, keras.layers.Dense(2)(x), name="network")


@functools.cache
def trained_network():
    """A network that no test changes."""
    return trained(network())


def test_a_network_keeps_weights_and_structure(rng):
    model = trained_network()
    before = [v.numpy() for v in model.variables]
    fine = keras_xd.resize(model, (12, 10, 2))
    assert fine.input_shape == (None, 12, 10, 2)
    assert [layer.name for layer in fine.layers] == [layer.name for layer in model.layers]
    assert type(fine.get_layer("first")) is layers.SearchableResampled
    assert type(fine.get_layer("block").layers[-1]) is layers.SearchableResampled
    for now, then, value in zip(fine.variables, model.variables, before, strict=True):
        assert now.name == then.name
        np.testing.assert_array_equal(now, value)
    names = [v.name for v in keras_xd.architecture_variables(model)]
    assert [v.name for v in keras_xd.architecture_variables(fine)] == names
    assert not {id(v) for v in fine.variables} & {id(v) for v in model.variables}
    for variable in fine.variables:
        variable.assign(variable * 0)
    for now, then in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("options", [{}, {"padding": "same"}, {"padding": "same", "strides": 2}])
def test_operations_at_their_start_are_made_again(options, rng):
    backbone = model_of(keras.layers.Conv2D(3, 3, **options), shape=(9, 8, 2))
    backbone.layers[0].bias.assign([1.0, 2.0, 3.0])
    search = keras_xd.rewrite(backbone, depth=2)
    keras_xd.freeze_architecture(search)
    other = keras_xd.resize(search, (14, 11, 2))
    assert type(other.layers[-1]) is layers.XDConv2D
    assert not any(v.trainable for v in keras_xd.architecture_variables(other))
    assert other.layers[-1].kernel.trainable
    expected = keras_xd.resize(backbone, (14, 11, 2))
    x = rng.normal(size=(2, 14, 11, 2)).astype("float32")
    assert_close(predict(other, x), predict(expected, x))


def refused(*inside, shape, to, match):
    model = trained(model_of(*inside, shape=shape))
    before = [v.numpy() for v in model.variables]
    with pytest.raises(ValueError, match=match) as raised:
        keras_xd.resize(model, to)
    for now, then in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(now, then)
    return str(raised.value)


@pytest.mark.parametrize(
    "options",
    [{}, {"padding": "same"}, {"padding": "causal"}, {"padding": "circular", "strides": 2}],
)
def test_operations_without_a_meaning_at_other_sizes(options):
    layer = layers.XDConv1D(3, 3, name="conv", **options)
    message = refused(layer, shape=(16, 2), to=(32, 2), match="padding='circular'")
    assert "'conv'" in message and "(16,)" in message and "(32,)" in message


def test_finalized_operations_without_a_meaning_at_other_sizes():
    space = model_of(layers.XDConv1D(3, 3, name="conv"), shape=(16, 2))
    model = keras_xd.finalize(space, form="spectrum")
    with pytest.raises(ValueError, match="'conv' belong to sizes"):
        keras_xd.resize(model, (32, 2))


def test_layers_of_one_size():
    head = (keras.layers.Flatten(), keras.layers.Dense(2, name="head"))
    message = refused(
        circular(), *head, shape=(16, 2), to=(32, 2), match="Dense layer after Flatten"
    )
    assert "head" in message
    spectral = layers.SpectralConv1D(2, 9)
    refused(spectral, shape=(32, 2), to=(8, 2), match="`modes` must not exceed the spectrum")
    inside = keras.layers.TimeDistributed(circular(), name="inside")
    refused(inside, shape=(4, 16, 2), to=(4, 32, 2), match="not inside other layers.*'inside'")
    start = layers.warm_starts.GraphConvolution(np.eye(6))
    graph = layers.XDConv1D(2, 1, padding="circular", radix=6, warm_start=start, name="graph")
    refused(graph, shape=(6, 2), to=(8, 2), match="'graph'")
    fresh = layers.XDConv1D(2, 1, padding="circular", radix=6, warm_start=start, name="fresh")
    with pytest.raises(ValueError, match="'fresh' cannot be made again at sizes"):
        keras_xd.resize(model_of(fresh, shape=(6, 2)), (8, 2))


@pytest.mark.parametrize("how", ["searched", "finalized", "resized"])
def test_channels_stay(how):
    space = keras.Sequential([keras.Input((16, 2)), circular()])
    made = {"finalized": keras_xd.finalize, "resized": lambda m: keras_xd.resize(m, (8, 2))}
    model = made[how](space) if how in made else space
    with pytest.raises(ValueError, match="2 input channels.*channels may not. Received: .* 3"):
        keras_xd.resize(model, (32, 3))
    assert keras_xd.resize(model, (32, 2)).output_shape[1] == 32


@pytest.mark.parametrize("size", [-1, 0, 2.5, "8"])
def test_sizes_are_positive_integers(size):
    space = keras.Sequential([keras.Input((16, 2)), circular()])
    with pytest.raises(ValueError, match="`input_shape` must"):
        keras_xd.resize(space, (size, 2))


def test_a_finalized_operation_that_keeps_its_kernel_is_resampled(rng):
    operation = keras_xd.layers.XDConv1D(2, 3, padding="circular")
    space = keras.Sequential([keras.Input((16, 1)), operation])
    inputs = rng.normal(size=(2, 32, 1)).astype("float32")
    keeps = ("spectrum", "kernel", "low_rank")
    forms = [keras_xd.finalize(space, form=keep) for keep in keeps]
    spectrum, kernel, low_rank = (keras_xd.resize(m, (32, 1))(inputs) for m in forms)
    assert type(forms[1].layers[-1]) is keras_xd.layers.StaticKernelXD
    assert type(forms[2].layers[-1]) is keras_xd.layers.StaticLowRankXD
    np.testing.assert_allclose(spectrum, kernel, atol=1e-5)
    np.testing.assert_allclose(spectrum, low_rank, atol=1e-5)


def test_low_ranks_of_an_operation_off_the_circle_are_not_resampled():
    operation = keras_xd.layers.XDConv1D(2, 3, padding="same")
    model = keras_xd.finalize(keras.Sequential([keras.Input((16, 1)), operation]), form="low_rank")
    assert type(model.layers[-1]) is keras_xd.layers.StaticLowRankXD
    with pytest.raises(ValueError, match="circular"):
        keras_xd.resize(model, (32, 1))
