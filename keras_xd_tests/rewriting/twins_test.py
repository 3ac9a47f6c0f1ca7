"""Twins of every kind of layer: the same function, with weights and arguments carried over."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd import layers as xd_layers
from keras_xd.core.searchable import searchable_layers
from keras_xd.finalizing.finalizer import finalize
from keras_xd.rewriting import spaces, twins
from keras_xd.rewriting.rewriter import rewrite
from keras_xd.testing import assert_close
from keras_xd_tests import sample_models

RELATIVE_ERROR = 1e-5


# A structured layer takes what its own `start_from` knows, see structured_test.py.
@pytest.mark.parametrize("space", [name for name in spaces.SEARCH_SPACES if name != "structured"])
def test_arguments_of_every_class_are_attributes(space):
    for keras_class, twin in spaces.SEARCH_SPACES[space].twins.items():
        names = twins.arguments_of(keras_class)
        required = {"filters": 4, "kernel_size": 3, "units": 4}
        layer = keras_class(**{name: required[name] for name in names if name in required})
        assert all(hasattr(layer, name) for name in names)
        config = twin.from_config(twin(**{n: 4 for n in set(names) & set(required)}).get_config())
        assert set(names) <= set(config.get_config()) | {"activation", "activity_regularizer"}


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (layers.Conv1DTranspose(3, 3, 2, padding="same", activation="relu"), (7, 2)),
        (layers.Conv2DTranspose(3, (3, 2), 2, output_padding=1, use_bias=False), (4, 5, 2)),
        (layers.Conv3DTranspose(2, 3, dilation_rate=2), (3, 3, 4, 2)),
        (layers.DepthwiseConv1D(3, 2, depth_multiplier=2, padding="same"), (8, 3)),
        (layers.DepthwiseConv2D(3, dilation_rate=2, activation="gelu"), (8, 7, 2)),
        (layers.SeparableConv1D(4, 3, depth_multiplier=2, padding="same"), (8, 3)),
        (layers.SeparableConv2D(4, 3, 2, use_bias=False, activation="relu"), (8, 9, 2)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_other_convolutions(layer, shape, rng):
    model = keras.Sequential([keras.Input(shape), layer])
    sample_models.randomize(model, rng)
    space = rewrite(model, depth=(1, 2, 1))
    assert type(space.layers[0]).__name__ == f"XD{type(layer).__name__}"
    inputs = sample_models.inputs_of(model, rng)
    sample_models.assert_same_outputs(model, space, inputs, RELATIVE_ERROR)
    sample_models.assert_same_outputs(model, finalize(space), inputs, RELATIVE_ERROR)
    config = space.layers[0].get_config()
    for name in set(layer.get_config()) & {"activation", "use_bias", "padding", "strides"}:
        expected = getattr(layer, name)
        expected = keras.activations.serialize(expected) if name == "activation" else expected
        assert config[name] == expected


@pytest.mark.parametrize("padding", ["exact", "circular"])
@pytest.mark.parametrize(
    ("layer", "circular"),
    [
        (layers.Conv1DTranspose(1, 3, 2, padding="same"), True),
        (layers.Conv1DTranspose(1, 3, 2, padding="same", output_padding=1), False),
        (layers.Conv1DTranspose(1, 3, 2), False),
        (layers.DepthwiseConv1D(3, padding="same"), True),
        (layers.DepthwiseConv1D(3, 2, padding="same"), False),
        (layers.DepthwiseConv1D(7, padding="same"), False),
        (layers.SeparableConv1D(1, 3, padding="same"), True),
        (layers.AveragePooling1D(3, 1, padding="same"), True),
        (layers.AveragePooling1D(3, 2, padding="same"), False),
    ],
    ids=range(9),
)
def test_which_layers_become_circular(layer, circular, padding, rng):
    model = keras.Sequential([keras.Input((6, 1)), layer])
    space = rewrite(model, operations=("convolution", "pooling"), padding=padding)
    circular = circular and padding == "circular"
    assert (searchable_layers(space)[0].padding == "circular") == circular
    if circular:  # away from the borders all is as before
        model, space = (
            keras.ops.convert_to_numpy(m(x))
            for x in rng.normal(size=(1, 2, 6, 1))
            for m in (model, space)
        )
        assert model.shape == space.shape
        border = model.shape[1] // 3
        inner = slice(border, -border)
        np.testing.assert_allclose(space[:, inner], model[:, inner], atol=1e-5)
        assert not np.allclose(space, model, atol=1e-3)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"pool_size": 2},
        {"pool_size": 3, "strides": 1, "padding": "same"},
        {"pool_size": 3, "strides": 2, "padding": "same"},
        {"pool_size": 5, "strides": 3},
    ],
    ids=str,
)
def test_average_pooling(rank, options, rng):
    sizes = (7, 8, 6)[:rank]
    pooling = getattr(layers, f"AveragePooling{rank}D")(**options, name="pool")
    model = keras.Sequential([keras.Input((*sizes, 2)), pooling])
    space = rewrite(model, operations="pooling", depth=(1, 2, 1))
    (layer,) = searchable_layers(space)
    assert type(layer) is getattr(xd_layers, f"XDConv{rank}D")
    assert layer.filters == 2 and layer.kernel_size == pooling.pool_size and layer.name == "pool"
    inputs = sample_models.inputs_of(model, rng)
    sample_models.assert_same_outputs(model, space, inputs, RELATIVE_ERROR)


def test_average_pooling_of_channels_first(rng):
    inputs = keras.Input((2, 7, 6))
    pooling = layers.AveragePooling2D((3, 2), 2, data_format="channels_first")
    model = keras.Model(inputs, pooling(inputs))
    space = rewrite(model, operations=("convolution", "pooling"))
    x = rng.normal(size=(2, 2, 7, 6)).astype("float32")
    # TensorFlow's CPU kernels pool channels_first in compiled functions only.
    expected, actual = model.predict(x, verbose=0), space.predict(x, verbose=0)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_circular_pooling(rng):
    model = keras.Sequential(
        [keras.Input((6, 1)), layers.AveragePooling1D(3, strides=1, padding="same")]
    )
    space = rewrite(model, operations="pooling", padding="circular")
    x = rng.normal(size=(2, 6, 1)).astype("float32")
    expected = (np.roll(x, 1, axis=1) + x + np.roll(x, -1, axis=1)) / 3
    np.testing.assert_allclose(space(x), expected, atol=1e-5)


# The model with strides is one of larger kernels below.
@pytest.mark.parametrize("make", sample_models.ALL[1:])
def test_k_operations(make, rng):
    model = sample_models.randomize(make(), rng)
    space = rewrite(model, to="k_operation", depth=(1, 3, 1), radix=4)
    assert all(type(layer).__name__.startswith("KOp") for layer in searchable_layers(space))
    sample_models.assert_same_outputs(
        model, space, sample_models.inputs_of(model, rng), RELATIVE_ERROR * 10
    )


def test_k_operations_from_scratch_have_their_own_depth():
    model = sample_models.sequential()
    space = rewrite(model, to="k_operation", warm_start="random_unitary", seed=3)
    assert [layer.depth for layer in searchable_layers(space)] == [(9, 9, 9)] * 2
    assert [layer.seed for layer in searchable_layers(space)] == [3, 4]


def test_one_operation_for_all_layers(rng):
    inputs = keras.Input((8, 8, 1))
    x = layers.Conv2D(2, 3, padding="same", name="first", trainable=False)(inputs)
    model = keras.Model(inputs, layers.Conv2D(2, 5, padding="same", name="second")(x))
    sample_models.randomize(model, rng)
    operation = xd_layers.KOperation(depth=2)
    space = rewrite(model, to="k_operation", padding="circular", operation=operation)
    first, second = searchable_layers(space)
    assert first.operation is second.operation is operation
    # What a frozen layer shares with one that is not stays trainable there.
    names = sorted(variable.name for variable in space.trainable_variables)
    assert names == ["K0", "K1", "L0", "L1", "M0", "M1", "bias", "kernel"]
    with pytest.raises(ValueError, match="matrices of the same sizes.*layer 'second'.*'first'"):
        rewrite(model, to="k_operation", operation=xd_layers.KOperation())


@pytest.mark.parametrize("operations", ["pooling", ("convolution", "skip"), (), "max", ("a",)])
def test_operations_that_a_space_does_not_have(operations):
    with pytest.raises(ValueError, match=r"`operations` must be one or several of \('convolution'"):
        rewrite(sample_models.residual(), to="k_operation", operations=operations)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operation": 3}, "do not fit the layer 'causal': `operation` must be a KOperation"),
        ({"frequency_bias": True}, "takes the options.*Received: {'frequency_bias': True}"),
        ({"use_bias": False}, "takes the options.*Received: {'use_bias': False}"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        rewrite(sample_models.sequential(), to="k_operation", **options)


@pytest.mark.parametrize("to", ["xd", "k_operation"])
def test_larger_kernels_hold_the_weights_in_their_middle(to, rng):
    model = keras.Sequential(
        [
            keras.Input((11, 12, 2)),
            keras.layers.Conv2D(3, (3, 2), strides=2, padding="same", name="strided"),
            keras.layers.Conv2D(3, 7, padding="same", name="large"),
            keras.layers.Conv2D(3, 3, padding="valid", name="valid"),
        ]
    )
    for weight in model.weights:
        weight.assign(rng.standard_normal(weight.shape))
    x = rng.standard_normal((2, 11, 12, 2)).astype("float32")
    space = rewrite(model, to=to, kernel_size=5)
    sizes = {layer.name: (layer.kernel_size, layer.window_size) for layer in space.layers}
    assert sizes == {
        "strided": ((5, 5), (3, 2)),
        "large": ((7, 7), (7, 7)),
        "valid": ((5, 5), (3, 3)),
    }
    assert_close(space(x), keras.ops.convert_to_numpy(model(x)))


def test_larger_kernels_of_other_kinds(rng):
    inputs = keras.Input((8, 8, 2))
    x = keras.layers.DepthwiseConv2D(3, padding="same", name="depthwise")(inputs)
    x = keras.layers.SeparableConv2D(2, 3, padding="same", name="separable")(x)
    x = keras.layers.Conv2DTranspose(2, 3, name="transposed")(x)
    x = keras.layers.AveragePooling2D(2, name="pool")(x)
    model = keras.Model(inputs, keras.layers.Add(name="add")([x, keras.layers.ReLU()(x)]))
    x = rng.standard_normal((2, 8, 8, 2)).astype("float32")
    operations = ("convolution", "pooling", "skip")
    space = rewrite(model, operations=operations, kernel_size=5)
    sizes = {
        layer.name: layer.kernel_size for layer in space.layers if hasattr(layer, "kernel_size")
    }
    assert sizes.pop("transposed") == (3, 3)
    assert sizes == dict.fromkeys(["depthwise", "separable", "pool", "add_skip"], (5, 5))
    assert_close(space(x), keras.ops.convert_to_numpy(model(x)))


def test_a_kernel_too_large_for_circular_padding_keeps_its_own(rng):
    model = keras.Sequential(
        [keras.Input((4, 2)), keras.layers.Conv1D(2, 3, padding="same", name="conv")]
    )
    layer = rewrite(model, padding="circular", kernel_size=5).layers[0]
    assert (layer.padding, layer.kernel_size) == ("same", (5,))
    with pytest.raises(ValueError, match="`kernel_size` must be a positive integer"):
        rewrite(model, kernel_size=0)


class Searched(xd_layers.XDConv2D):
    """A layer of another package."""


class WithoutOptions(xd_layers.XDConv2D):
    """A layer that does not take what a convolution has."""

    def __init__(self, filters, kernel_size):
        super().__init__(filters, kernel_size)


@pytest.fixture
def own_spaces(monkeypatch):
    """Search spaces that are forgotten after a test."""
    monkeypatch.setattr(spaces, "SEARCH_SPACES", dict(spaces.SEARCH_SPACES))


def test_a_space_of_ones_own_is_rewritten_to(own_spaces, rng):
    twins = {layers.Conv2D: Searched}
    keras_xd.register_search_space("mine", twins)
    keras_xd.register_search_space("mine", dict(twins))  # as a cell of a notebook run again
    twins.clear()
    model = keras.Sequential([keras.Input((6, 6, 1)), layers.Conv2D(2, 3), layers.Conv2D(3, 2)])
    space = rewrite(model, to="mine")
    assert [type(layer) for layer in space.layers] == [Searched, Searched]
    inputs = rng.normal(size=(2, 6, 6, 1)).astype("float32")
    assert_close(space(inputs), model(inputs), RELATIVE_ERROR)
    with pytest.raises(ValueError, match="not be empty or the name of another.*'mine', and there"):
        keras_xd.register_search_space("mine", {layers.Conv2D: xd_layers.XDConv2D})


@pytest.mark.parametrize(
    ("name", "twins", "message"),
    [
        (3, {layers.Conv2D: Searched}, "`name` must be a string"),
        ("", {layers.Conv2D: Searched}, "not be empty"),
        ("xd", {layers.Conv2D: Searched}, "name of another search space"),
        ("mine", [layers.Conv2D], "`twins` must be a dictionary"),
        ("mine", {}, "a class to replace"),
        ("mine", {layers.Dense: Searched}, r"arguments of `Dense`.*without \['units'\]"),
        ("mine", {Searched: Searched}, "Keras' layers. Received: .*Searched"),
        ("mine", {str: Searched}, "Keras' layers. Received: .*str"),
        ("mine", {keras.Sequential: Searched}, "Keras' layers. Received: .*Sequential"),
        ("mine", None, "A name needs `twins`.*name='mine', twins=None"),
        ("mine", {"Conv2D": Searched}, "Keras' layers. Received: 'Conv2D'"),
        ("mine", {layers.Conv2D: layers.Conv2D}, "SearchableLayer`. Received: .*Conv2D"),
        ("mine", {layers.Conv2D: "Searched"}, "SearchableLayer`. Received: 'Searched'"),
        ("mine", {layers.Conv2D: WithoutOptions}, r"arguments of `Conv2D`.*without \['activ"),
        ("mine", {layers.AveragePooling2D: Searched}, r"of `AveragePooling2D`.*\['pool_size'\]"),
    ],
)
def test_what_is_no_search_space_is_refused(own_spaces, name, twins, message):
    before = dict(spaces.SEARCH_SPACES)
    with pytest.raises(ValueError, match=message):
        keras_xd.register_search_space(name, twins)
    assert spaces.SEARCH_SPACES == before


def gated(keras_class):
    """Return a subclass of a layer of Keras that has one architecture variable more."""

    class Gated(xd_layers.SearchableLayer, keras_class):
        def build(self, input_shape):
            super().build(input_shape)
            self.gate = self.add_weight(shape=(), initializer="ones", name="gate")

        @property
        def architecture_variables(self):
            return [self.gate]

    return Gated


@pytest.mark.parametrize(
    "layer",
    [
        layers.Dense(3, activation=layers.ReLU(), use_bias=False),
        layers.LSTM(3, go_backwards=True, return_sequences=True),
        layers.RNN(layers.GRUCell(3)),
        layers.BatchNormalization(epsilon=0.1),
        layers.LayerNormalization(),
        layers.PReLU(shared_axes=[1]),
        layers.MaxPooling1D(2),
        layers.Dropout(0.5),
    ],
    ids=lambda layer: layer.name,
)
def test_any_layer_can_have_a_twin(own_spaces, layer, rng):
    twin = gated(type(layer))
    keras_xd.register_search_space(keras_xd.SearchSpace("mine", {type(layer): twin}))
    model = keras.Sequential([keras.Input((6, 2)), layer])
    sample_models.randomize(model, rng)
    space = rewrite(model, to="mine")
    assert type(space.layers[0]) is twin
    x = rng.normal(size=(2, 6, 2)).astype("float32")
    np.testing.assert_array_equal(space(x), model(x))


def test_a_twin_that_lacks_a_weight_is_refused(own_spaces):
    class Without(gated(layers.Dense)):
        def __init__(self, units, **kwargs):
            super().__init__(units, **{**kwargs, "use_bias": False})

    keras_xd.register_search_space("mine", {layers.Dense: Without})
    model = keras.Sequential([keras.Input((2,)), layers.Dense(3, name="dense")])
    with pytest.raises(ValueError, match="by their names.*'dense' of class Without without 'bias'"):
        rewrite(model, to="mine")


def test_sizes_of_other_layers_are_their_own(own_spaces):
    keras_xd.register_search_space("mine", {layers.ConvLSTM1D: gated(layers.ConvLSTM1D)})
    model = keras.Sequential([keras.Input((3, 8, 1)), layers.ConvLSTM1D(2, 3, name="lstm")])
    with pytest.raises(ValueError, match="layer 'lstm': These are the layer's own.*'kernel_size'"):
        rewrite(model, to="mine", kernel_size=5)


def test_recipes_of_ones_own_are_checked():
    with pytest.raises(ValueError, match="A recipe may have.*recipe={'speed': 1}"):
        keras_xd.SearchSpace("mine", {}, recipe={"speed": 1})
