"""Pruned models compute what the masked ones do, with fewer channels, taps and blocks."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import keras_xd
from keras_xd.layers import MaskedBranch, MaskedConv1D
from keras_xd.layers.masked.relative_mask import RelativeMask
from keras_xd_tests import sample_models
from keras_xd_tests.rewriting import masked_models

RELATIVE_ERROR = 1e-5


def assert_plain(model):
    for layer in keras_xd.core.searchable.flatten_layers(model):
        assert type(layer).__module__.startswith("keras.") or isinstance(layer, keras.Model), layer


@pytest.fixture(scope="module")
def rewritten_space():
    model = sample_models.randomize(masked_models.residual(), np.random.default_rng(1))
    return keras_xd.rewrite(model, to="masked")


@pytest.fixture
def space(rewritten_space):
    """A model that is made once, with its masks as they began."""
    with sample_models.architecture_restored(rewritten_space):
        yield rewritten_space


def masks(space):
    found = keras_xd.core.searchable.searchable_layers(space)
    return {layer.name: layer for layer in found if isinstance(layer, RelativeMask)}


@pytest.mark.parametrize("seed", range(2))
def test_random_sizes(seed, space, rng):
    keras_xd.randomize_architecture(space, seed=seed)
    x = rng.standard_normal((2, 8, 8, 3)).astype("float32")
    found = keras_xd.finalize(keras_xd.SearchModel(space))
    assert_plain(found)
    sample_models.assert_same_outputs(space, found, x, RELATIVE_ERROR)
    assert found.inputs[0].name == "image" and found.name == "residual"
    count = len(masks(space)["s0b0_a_width"].supports[0])
    assert found.get_layer("s0b0_a").filters == count
    assert found.get_layer("s0b0_a_norm").gamma.shape == (count,)
    assert found.get_layer("s0b0_b").kernel.shape[-2:] == (count, 4)
    assert keras_xd.complexity(found) == float(keras_xd.complexity(space))


def test_dead_blocks_are_left_out(space, rng, tmp_path):
    masks(space)["depth_8x8"].length.assign([-0.5])
    masks(space)["depth_4x4"].length.assign([1.0])
    found = keras_xd.finalize(space)
    names = [layer.name for layer in found.layers]
    assert "s0b0_a" in names and "s0b1_out" in names
    assert not [name for name in names if name in ("s0b1_a", "s0b1_a_norm", "s0b1_add")]
    assert not [name for name in names if name.endswith("depth") or name.endswith("scale")]
    values = masks(space)["depth_4x4"].values[0]
    assert 0.5 < values[1] < 0.9
    np.testing.assert_allclose(
        found.get_layer("s1b1_b_norm").gamma,
        np.asarray(space.get_layer("s1b1_b_norm").gamma) * values[1],
        rtol=1e-6,
    )
    x = rng.standard_normal((2, 8, 8, 3)).astype("float32")
    sample_models.assert_same_outputs(space, found, x, RELATIVE_ERROR)
    found.save(tmp_path / "found.keras")
    again = keras.models.load_model(tmp_path / "found.keras")
    np.testing.assert_array_equal(again(x), found(x))


def rewritten(model, rng, **options):
    sample_models.randomize(model, rng)
    return keras_xd.rewrite(model, to="masked", **options)


def check(space, rng, seeds=(0, 1)):
    x = rng.standard_normal((2, *space.input_shape[1:])).astype("float32")
    for seed in seeds:
        keras_xd.randomize_architecture(space, seed=seed)
        found = keras_xd.finalize(space)
        assert_plain(found)
        sample_models.assert_same_outputs(space, found, x, RELATIVE_ERROR)
    return found


@pytest.mark.parametrize("ending", ["convolution", "activation", "normalization"])
def test_ends_of_branches(ending, rng):
    inputs = x = keras.Input((9, 4))
    for number in range(2):
        y = layers.Conv1D(6, 5, padding="causal", activation="relu", name=f"a{number}")(x)
        y = layers.Conv1D(4, 3, padding="same", name=f"b{number}")(y)
        if ending == "activation":
            y = layers.Activation("tanh")(y)
        elif ending == "normalization":
            y = layers.BatchNormalization(scale=False, name=f"norm{number}")(y)
        x = x + y
    space = rewritten(keras.Model(inputs, x), rng)
    depth = masks(space)["depth_9"]
    found = check(space, rng)
    depth.length.assign([0.9])
    found = keras_xd.finalize(space)
    kinds = [type(layer).__name__ for layer in found.layers]
    assert kinds.count("Rescaling") == (2 if ending == "activation" else 0)
    x = rng.standard_normal((2, 9, 4)).astype("float32")
    sample_models.assert_same_outputs(space, found, x, RELATIVE_ERROR)


def test_what_channels_pass_through(rng):
    inputs = keras.Input((8, 8, 2))
    x = layers.Conv2D(6, 3, padding="same", name="a")(inputs)
    x = layers.BatchNormalization()(x)
    x = ops.relu(x * 0.7 + 0.1)
    x = layers.DepthwiseConv2D(5, 2, padding="same", activation="gelu", name="depthwise")(x)
    x = layers.Dropout(0.5)(layers.MaxPooling2D(2, padding="same")(x))
    y = layers.GlobalAveragePooling2D(keepdims=True)(x)
    y = layers.Conv2D(3, 1, activation="relu", name="squeeze")(y)
    y = layers.Conv2D(6, 1, activation="sigmoid", name="excite")(y)
    x = layers.Multiply(name="calibrated")([x, y])
    x = layers.Conv2D(4, 3, padding="same", groups=2, name="grouped")(x)
    model = keras.Model(inputs, {"map": x, "pooled": layers.GlobalMaxPooling2D()(x)})
    assert not [name for name in masks(rewritten(model, rng)) if name == "a_width"]
    plain = layers.Conv2D(4, 1, name="plain")(model.get_layer("calibrated").output)
    found = check(rewritten(keras.Model(inputs, plain), rng), rng)
    assert found.get_layer("a").filters < 6
    assert found.get_layer("depthwise").kernel.shape[2] == found.get_layer("a").filters


def test_nested_shared_and_frozen(rng):
    inside = keras.Input((6, 6, 4))
    x = layers.Conv2D(5, 3, padding="same", activation="relu", name="a")(inside)
    frozen = layers.Conv2D(4, 1, name="b")
    block = keras.Model(inside, layers.Add()([frozen(x), inside]), name="block")
    inputs = keras.Input((6, 6, 4))
    shared = layers.Conv2D(4, 3, padding="same", name="shared")
    model = keras.Model(inputs, shared(shared(block(block(inputs)))))
    frozen.trainable = False
    found = check(rewritten(model, rng), rng)
    assert len(found.layers) == 3
    assert not found.get_layer("block").get_layer("b").trainable
    assert found.get_layer("block").get_layer("a").trainable
    assert found.get_layer("block").get_layer("a").filters < 5


def inverted_residual(x, filters, stride, expansion, name):
    """A block of MobileNetV2."""
    y = x
    if expansion > 1:
        y = layers.Conv2D(expansion * x.shape[-1], 1, use_bias=False, name=f"{name}_expand")(y)
        y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
    if stride == 2:
        y = layers.ZeroPadding2D(((0, 1), (0, 1)))(y)
    padding = "valid" if stride == 2 else "same"
    y = layers.DepthwiseConv2D(3, stride, padding, use_bias=False, name=f"{name}_depthwise")(y)
    y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
    y = layers.Conv2D(filters, 1, use_bias=False, name=f"{name}_project")(y)
    y = layers.BatchNormalization()(y)
    return layers.Add()([x, y]) if stride == 1 and x.shape[-1] == filters else y


def test_a_network_of_keras_applications(rng):
    """The first blocks of MobileNetV2."""
    inputs = keras.Input((16, 16, 3))
    x = layers.ReLU(6.0)(
        layers.BatchNormalization()(layers.Conv2D(8, 3, 2, padding="same")(inputs))
    )
    blocks = ((8, 1, 1), (8, 2, 6), (8, 1, 6), (16, 2, 6))
    for number, (filters, stride, expansion) in enumerate(blocks):
        x = inverted_residual(x, filters, stride, expansion, f"block_{number}")
    model = keras.Model(inputs, layers.Dense(5)(layers.GlobalAveragePooling2D()(x)))
    space = rewritten(model, rng)
    x = rng.standard_normal((1, 16, 16, 3)).astype("float32")
    np.testing.assert_array_equal(space(x, training=False), model(x, training=False))
    check(space, rng, seeds=(0,))


def test_masked_channels_that_are_mixed_are_refused():
    width = RelativeMask()
    inputs = keras.Input((8, 2))
    x = MaskedConv1D(4, 1, output_width=width, name="masked")(inputs)
    model = keras.Model(inputs, layers.LayerNormalization(name="norm")(x))
    width.length.assign([0.0])
    with pytest.raises(ValueError, match="pass only through.*Received: 'norm' of class LayerNorm"):
        keras_xd.finalize(model)


@pytest.mark.parametrize("value", [0.5, 0.0])
@pytest.mark.parametrize("case", ["called twice", "read twice", "gate read twice"])
def test_factors_of_branches_stay_out_of_what_others_read(case, value, rng):
    mask = RelativeMask(temperature=8.0)
    inputs = keras.Input((9, 4))
    last = layers.BatchNormalization(name="last")
    first, second = (MaskedBranch(mask, (number, 2), name=f"gate{number}") for number in range(2))
    y = last(inputs)
    z = second(y)
    outputs = [first(inputs) + inputs, z + inputs]
    if case == "called twice":
        outputs.append(last(outputs[1]))
    elif case == "read twice":
        outputs.append(layers.Activation("relu")(y))
    else:
        outputs.append(ops.exp(z))
    space = sample_models.randomize(keras.Model(inputs, outputs), rng)
    mask.length.assign([0.0 if value == 0.0 else 1.0])
    assert (float(second.value) == 0) == (value == 0.0)
    x = rng.standard_normal((2, 9, 4)).astype("float32")
    sample_models.assert_same_outputs(space, keras_xd.finalize(space), x, RELATIVE_ERROR)
