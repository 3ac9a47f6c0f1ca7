"""Multiply–adds: each formula against a loop, and each call of a layer counted."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import keras_xd
from keras_xd import layers as xd
from keras_xd.graph import cost as complexity_module
from keras_xd.graph.cost import complexity
from keras_xd.layers.xd.conv import XDConv2D
from keras_xd.training.search_model import SearchModel
from keras_xd_tests import sample_models
from keras_xd_tests.training.gated_dense import GatedDense

FOLDING = "folding_of_matrices"
TRANSFORMS = {"RFFT": 1, "FFT": 2, "IRFFT": 1}


def uses_of_weights(layer, shape):
    """Count multiply–adds by the outputs' sum with all weights and inputs one: each adds one."""
    layer.build(shape)
    for weight in layer.weights:
        weight.assign(np.full(weight.shape, float(weight.name != "bias")))
    return float(np.sum(np.asarray(layer(np.ones((1, *shape[1:]), "float32")))))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (layers.Conv1D(4, 3, 2), (None, 9, 2)),
        (layers.Conv2D(6, (2, 3), groups=2), (None, 7, 6, 4)),
        (layers.Conv3D(2, 2, dilation_rate=2), (None, 5, 4, 6, 3)),
        (layers.Conv1DTranspose(3, 3, 2), (None, 5, 2)),
        (layers.Conv2DTranspose(3, (2, 3), 2), (None, 4, 5, 2)),
        (layers.Conv3DTranspose(2, 2), (None, 2, 3, 4, 2)),
        (layers.DepthwiseConv1D(3, depth_multiplier=2), (None, 8, 3)),
        (layers.DepthwiseConv2D(3, 2), (None, 8, 9, 3)),
        (layers.Dense(4), (None, 3)),
        (layers.Dense(4), (None, 5, 6, 3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_formulas_count_every_product(layer, shape):
    assert complexity_module.multiply_adds(layer, shape) == uses_of_weights(layer, shape)


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (layers.SeparableConv1D(5, 3, depth_multiplier=2), (None, 8, 3), 6 * (3 * 6 + 6 * 5)),
        (layers.SeparableConv2D(5, 3), (None, 8, 7, 4), 30 * (9 * 4 + 4 * 5)),
        (layers.Conv2D(2, 3, data_format="channels_first"), (None, 3, 8, 7), 30 * 9 * 3 * 2),
        (layers.Conv2D(2, 3), (None, None, 7, 3), None),
        (layers.BatchNormalization(), (None, 7, 3), None),
    ],
)
def test_formulas(layer, shape, expected):
    assert complexity_module.multiply_adds(layer, shape) == expected


def products(layer, shapes):
    """Count the multiply–adds of the matrix products and transforms in the graph of a call."""
    signature = [tf.TensorSpec((1, *shape[1:]), "float32") for shape in shapes]
    called = tf.function(lambda *inputs: layer(*inputs), autograph=False)
    total = 0
    for operation in called.get_concrete_function(*signature).graph.get_operations():
        kind = operation.type
        if FOLDING in operation.name:
            continue
        if kind in ("MatMul", "BatchMatMulV2"):
            transposed = "transpose_a" if kind == "MatMul" else "adj_x"
            summed = operation.inputs[0].shape[-2 if operation.get_attr(transposed) else -1]
            total += np.prod(operation.outputs[0].shape) * summed
        elif kind in TRANSFORMS:
            whole = (operation.outputs if kind == "IRFFT" else operation.inputs)[0].shape
            total += TRANSFORMS[kind] * np.prod(whole) * np.log2(whole[-1])
    return total


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (xd.XDConv1D(5, 3, padding="same", depth=2), (None, 40, 4)),
        (xd.XDConv2D(4, 3, 2, depth=(1, 2, 3)), (None, 9, 11, 3)),
        (xd.XDConv2D(4, 3, groups=2, padding="circular", radix=12), (None, 12, 12, 8)),
        (xd.XDConv2DTranspose(3, 2, 2), (None, 5, 6, 2)),
        (xd.XDConv3D(2, 2, padding="same"), (None, 3, 4, 5, 2)),
        (xd.KOpConv2D(3, 3, padding="same"), (None, 8, 8, 2)),
        (xd.XDCausalConv1D(3, 2), (None, 9, 2)),
        (xd.XDConv1D(2, 300, padding="causal", data_format="channels_first"), (None, 2, 900)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_finalized_layers_count_the_products_they_make(layer, shape):
    layer.build(shape)
    static = layer.finalize()
    assert complexity_module.multiply_adds(static, shape) == products(static, [shape])
    assert static.multiply_adds(shape) == layer.complexity(shape)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        # Of so many modes that they are transformed by FFT.
        (xd.SpectralConv1D(4, 33), (None, 128, 2)),
        (xd.SpectralConv2D(4, (2, 33), data_format="channels_first"), (None, 3, 8, 128)),
        (xd.SpectralConv3D(2, (2, 1, 33)), (None, 4, 5, 128, 3)),
        (xd.FourierResampling((9, 5)), (None, 7, 8, 3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fourier_layers_count_the_products_they_make(layer, shape):
    layer.build(shape)
    expected = products(layer, [shape])
    assert complexity_module.multiply_adds(layer, shape) == pytest.approx(expected, abs=0.5)


def test_searchable_layers_count_themselves():
    layer = XDConv2D(3, 3, padding="same")
    model = keras.Sequential([keras.Input((8, 8, 2)), layer, layers.Flatten(), layers.Dense(5)])
    assert complexity(model) == layer.complexity((None, 8, 8, 2)) + 192 * 5
    assert complexity(layer) == layer.complexity((None, 8, 8, 2))
    assert complexity(SearchModel(model)) == complexity(model)


def test_time_distributed_counts_every_step():
    inner = keras.Sequential([keras.Input((6, 6, 1)), layers.Conv2D(2, 3), layers.Flatten()])
    inputs = keras.Input((5, 6, 6, 1))
    for layer in (inner, layers.Conv2D(2, 3)):
        model = keras.Model(inputs, layers.TimeDistributed(layer)(inputs))
        assert complexity(model) == 5 * 16 * 9 * 2


def test_time_distributed_may_be_nested():
    inputs = keras.Input((3, 4, 5))
    layer = layers.TimeDistributed(layers.TimeDistributed(layers.Dense(2)))
    assert complexity(keras.Model(inputs, layer(inputs))) == 3 * 4 * 5 * 2


def test_subclassed_models_count_each_layer_once():
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [GatedDense(3), layers.Dense(2)]

        def call(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    model = Subclassed()
    model(np.ones((2, 4)))
    assert float(complexity(model)) == 4 * 3 + 3 * 2


def test_unknown_sizes_are_refused():
    inputs = keras.Input((None, 8, 1))
    model = keras.Model(inputs, layers.Conv2D(2, 3, name="open")(inputs))
    with pytest.raises(ValueError, match=r"layer 'open' called with shape \(None, None, 8, 1\)"):
        complexity(model)


class Scaled(layers.Layer):
    """Has a weight of its own beside that of a layer inside."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(3)

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.scale = self.add_weight(shape=(3,), initializer="ones", name="scale")

    def call(self, x):
        return self.scale * self.dense(x)


def test_layers_without_a_count_are_named_in_one_warning():
    inputs = keras.Input((6, 8, 1))
    x = layers.ConvLSTM1D(2, 3, name="loop")(inputs)
    x = layers.Flatten()(x)
    x = Scaled(name="scaled")(x)
    inner = keras.Sequential([keras.Input((3,)), Scaled(name="again")], name="block")
    model = keras.Model(inputs, inner(x))
    message = "without those of 'loop' .ConvLSTM1D., 'scaled' .Scaled., 'block/again' .Scaled."
    with pytest.warns(UserWarning, match=message) as caught:
        assert complexity(model) == 12 * 3 + 3 * 3
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_finalized_model_costs_what_its_search_space_costs():
    model = sample_models.residual()
    space = keras_xd.rewrite(model, depth=1, only=["shortcut", "block1_."])
    found = keras_xd.finalize(space, form="spectrum")
    assert complexity(found) == complexity(space) > complexity(model)

    inputs = keras.Input((12, 12, 2))
    x = xd.XDSeparableConv2D(3, 3, search_pointwise=True, padding="circular")(inputs)
    x = xd.SearchableResampled(xd.XDConv2D(3, 3, padding="circular"), (8, 8))(x)
    separable = xd.XDSeparableConv2D(3, 3, padding="circular")
    x = xd.SearchableResampled(separable, (6, 6))(x)
    space = keras.Model(inputs, x)
    assert complexity(keras_xd.finalize(space, form="spectrum")) == complexity(space) > 0


def test_the_models_of_the_package_have_no_uncounted_layers():
    networks = [
        keras_xd.models.lenet((28, 28, 1), 10),
        keras_xd.models.fno((16, 16, 1), width=4, modes=3, blocks=1),
        keras_xd.models.tcn((20, 3), 2, channels=4, levels=1),
        keras_xd.models.ccnn(2, 4, (16, 3), classes=2),
        keras_xd.models.nos_search_network(3, 2, (8, 8, 3), 2),
        keras_xd.models.pyramidnet(11, 4, (8, 8, 3), 2),
    ]
    for network in networks:
        assert complexity_module.uncounted_layers(network) == {}, network.name


@pytest.mark.parametrize("make", [lambda: XDConv2D(4, 3), lambda: layers.Dense(2)])
def test_what_is_not_built_has_no_count(make):
    layer = make()
    for unbuilt in (layer, keras.Sequential([layer])):
        with pytest.raises(ValueError, match="must be built before.*Received: "):
            keras_xd.complexity(unbuilt)
