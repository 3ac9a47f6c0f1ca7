import keras
import numpy as np
import pytest
from keras import ops

import keras_xd
from keras_xd import layers
from keras_xd.finalizing.normalization_folding import fold_normalizations


def settled(model, rng):
    """The model, its normalizations with random statistics and weights, its biases random."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            for weight in layer.weights:
                weight.assign(rng.uniform(0.5, 2.0, weight.shape))
        elif getattr(layer, "bias", None) is not None:
            layer.bias.assign(rng.normal(size=layer.bias.shape))
    return model


def kinds(model):
    return [type(layer).__name__ for layer in model.layers]


def assert_same(model, folded, rng, atol=1e-5):
    inputs = rng.normal(size=(3, *model.input_shape[1:])).astype("float32")
    expected = ops.convert_to_numpy(model(inputs, training=False))
    outputs = ops.convert_to_numpy(folded(inputs, training=False))
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=atol * np.abs(expected).max())


OPERATIONS = {
    "spectrum": ({"form": "spectrum"}, {}),
    "kernel": ({"form": "kernel"}, {}),
    "low rank": ({"form": "low_rank"}, {}),
    "gates": ({"form": "kernel"}, {"frequency_bias": True, "channel_gates": True}),
    "groups": ({"form": "low_rank"}, {"groups": 2}),
    "channels first": ({"form": "spectrum"}, {"data_format": "channels_first"}),
    "bfloat16": ({"weight_dtype": "bfloat16"}, {}),
}


@pytest.mark.parametrize(
    ("use_bias", "name"),
    [
        *((True, name) for name in OPERATIONS),
        *((False, name) for name in ("spectrum", "kernel")),
    ],
)
def test_operations_take_in_their_normalization(name, use_bias, rng):
    form, options = OPERATIONS[name]
    axis = 1 if "data_format" in options else -1
    shape = (4, 12, 13) if axis == 1 else (12, 13, 4)
    stack = [
        keras.Input(shape),
        layers.XDConv2D(6, 3, padding="same", use_bias=use_bias, name="conv", **options),
        keras.layers.BatchNormalization(axis=axis, name="normalization"),
        keras.layers.ReLU(),
    ]
    space = settled(keras.Sequential(stack), rng)
    plain = keras_xd.finalize(space, **form)
    folded = keras_xd.finalize(space, **form, fold_normalization=True)
    assert [k for k in kinds(plain) if k != "BatchNormalization"] == kinds(folded)
    assert len(kinds(folded)) == len(kinds(plain)) - 1
    assert folded.get_layer("conv").use_bias and folded.report.rows == plain.report.rows
    assert type(folded) is type(plain)
    assert_same(plain, folded, rng, 2e-2 if name == "bfloat16" else 1e-5)


def test_a_bias_of_the_spectrum_without_gates_is_left(rng):
    stack = [
        keras.Input((12, 13, 4)),
        layers.XDConv2D(6, 3, channel_gates=False),
        keras.layers.BatchNormalization(),
    ]
    space = settled(keras.Sequential(stack), rng)
    folded = keras_xd.finalize(space, form="kernel", fold_normalization=True)
    assert "BatchNormalization" in kinds(folded)


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Conv2D(6, 3, groups=2),
        keras.layers.Conv2D(6, 3, use_bias=False, strides=2),
        keras.layers.Dense(5),
    ],
)
@pytest.mark.parametrize("options", [{}, {"center": False, "scale": False, "epsilon": 0.1}])
def test_layers_of_keras_take_in_theirs(layer, options, rng):
    layer = type(layer).from_config(layer.get_config())
    normalization = keras.layers.BatchNormalization(**options)
    model = settled(keras.Sequential([keras.Input((9, 8, 4)), layer, normalization]), rng)
    model = keras.Model(model.inputs[0], model.outputs[0])
    folded = fold_normalizations(model)
    assert kinds(folded) == ["InputLayer", type(layer).__name__]
    assert "BatchNormalization" in kinds(model)
    assert_same(model, folded, rng)


def graph(kind):
    inputs = keras.Input((8, 8, 4))
    conv = keras.layers.Conv2D(4, 3, padding="same", activation="relu" if kind == "relu" else None)
    axis = 1 if kind == "axis" else -1
    normalization = keras.layers.BatchNormalization(axis=axis)
    x = conv(inputs)
    outputs = normalization(x)
    if kind == "read twice":
        outputs = outputs + x
    elif kind == "shared operation":
        outputs = outputs + conv(outputs)
    elif kind == "shared normalization":
        outputs = normalization(outputs)
    elif kind == "output":
        outputs = [outputs, x]
    elif kind == "depthwise":
        outputs = keras.layers.BatchNormalization()(keras.layers.DepthwiseConv2D(3)(inputs))
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize(
    "kind",
    [
        *("read twice", "shared operation", "shared normalization", "output", "relu", "axis"),
        "depthwise",
    ],
)
def test_what_others_read_or_normalize_stays(kind):
    model = graph(kind)
    assert fold_normalizations(model) is model


def test_numbers_that_float16_cannot_hold_are_left(rng):
    stack = [
        keras.Input((12, 13, 4)),
        layers.XDConv2D(6, 3, padding="same"),
        keras.layers.BatchNormalization(),
    ]
    space = settled(keras.Sequential(stack), rng)
    space.layers[-1].gamma.assign(np.full(6, 1e6))
    folded = keras_xd.finalize(space, weight_dtype="float16", fold_normalization=True)
    assert "BatchNormalization" in kinds(folded)
    assert (
        kinds(keras_xd.finalize(space, form="spectrum", fold_normalization=True))[-1] == "StaticXD"
    )


class Subclassed(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.conv = keras.layers.Conv2D(2, 3, padding="same")

    def call(self, inputs):
        return self.conv(inputs)


def test_subclassed_models_and_other_values_are_refused():
    model = Subclassed()
    model(np.ones((1, 6, 6, 1)))
    space = keras_xd.rewrite(model)
    with pytest.raises(ValueError, match=r"fold_normalization.*Received: .*"):
        keras_xd.finalize(space, fold_normalization=True)
    with pytest.raises(ValueError, match="fold_normalization='yes'"):
        keras_xd.finalize(space, fold_normalization="yes")
