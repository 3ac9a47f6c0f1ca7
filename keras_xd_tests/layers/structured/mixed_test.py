import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.testing import assert_close, check_config, check_file, check_layer

SEARCHED = {"families": ("low_rank", "monarch", "dense"), "densities": (0.5,)}
LAYERS = {
    "dense": (layers.MixedDense, {"units": 12, "activation": "tanh"}, (3, 4, 8)),
    "einsum": (
        layers.MixedEinsumDense,
        {"equation": "abc,dce->aebd", "output_shape": (6, None, 4), "bias_axes": "ed"},
        (3, 5, 8),
    ),
    "lstm": (layers.MixedLSTM, {"units": 6, "return_sequences": True}, (3, 4, 8)),
    "gru": (layers.MixedGRU, {"units": 6}, (3, 4, 8)),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def built(name, **options):
    kind, arguments, shape = LAYERS[name]
    layer = kind(**{**arguments, **SEARCHED, "seed": 3, **options})
    layer.build((None, *shape[1:]))
    return layer, np.random.default_rng(1).normal(size=shape).astype("float32")


def decide(layer):
    layer.logits.assign([0.0, 200.0, 0.0])


@pytest.mark.parametrize("name", ["dense", "einsum"])
def test_layer(name):
    kind, arguments, shape = LAYERS[name]
    options = {**arguments, **SEARCHED, "seed": 1}
    check_layer(kind, options, shape, run_jit=name == "dense", settle=decide)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_recurrent_layers_and_their_files(name):
    kind, arguments, _ = LAYERS[name]
    check_config(kind, {**arguments, **SEARCHED, "seed": 1})
    layer, x = built(name)
    inputs = keras.Input(x.shape[1:])
    check_file(keras.Model(inputs, layer(inputs)), x)


@every_layer
@pytest.mark.parametrize("candidate", range(3))
def test_finalized_layers_equal_mixtures_of_one(name, candidate):
    layer, x = built(name)
    layer.logits.assign(200.0 * np.eye(3)[candidate])
    if layer_bias(layer) is not None:
        layer_bias(layer).assign(np.random.default_rng(4).normal(size=layer_bias(layer).shape))
    plain = layer.finalize()
    assert type(plain) is (layer.dense_class if candidate == 2 else layer.plain_class)
    assert plain.name == layer.name
    assert_close(np.array(plain(x)), np.array(layer(x)), 1e-5)
    if candidate == 1:  # the first one is of the same class, the last one of Keras
        inputs = keras.Input(x.shape[1:])
        check_file(keras.Model(inputs, plain(inputs)), x)


def layer_bias(layer):
    return getattr(layer, "cell", layer).bias


def test_architectures_are_moved_between_equal_mixtures(tmp_path):
    layer, x = built("dense")
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, layer(inputs))
    layer.logits.assign([1.0, 2.0, 3.0])
    keras_xd.save_architecture(model, tmp_path / "found.json")
    other, _ = built("dense", seed=8)
    keras_xd.load_architecture(keras.Model(inputs, other(inputs)), tmp_path / "found.json")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(other.logits), [1.0, 2.0, 3.0])
    third, _ = built("dense", densities=(0.6,))
    with pytest.raises(ValueError, match="candidates"):
        keras_xd.load_architecture(keras.Model(inputs, third(inputs)), tmp_path / "found.json")
