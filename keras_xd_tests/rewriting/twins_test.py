"""Twins of every kind of layer: the same function, with weights and arguments carried over."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd import layers as xd_layers
from keras_xd.core.searchable import searchable_layers
from keras_xd.finalizing.finalizer import finalize
from keras_xd.rewriting import spaces
from keras_xd.rewriting.rewriter import rewrite
from keras_xd.testing import assert_close
from keras_xd_tests import sample_models

RELATIVE_ERROR = 1e-5


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

        def complexity(self, input_shape):
            return 0.0

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
        layers.Conv1D(3, 3, padding="causal"),
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
