"""Models rewritten to mixtures of the DARTS operations."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.layers.mixed.discrete_operation import DARTS_OPERATIONS
from keras_xd.testing import assert_close
from keras_xd_tests import sample_models


def backbone(rng):
    """A small ResNet of unusual convolutions, with random weights."""
    inputs = keras.Input((9, 8, 2), name="images")
    x = keras.layers.Conv2D(4, 3, padding="same", activation="relu", name="first")(inputs)
    y = keras.layers.Conv2D(6, 3, 2, padding="same", groups=2, use_bias=False, name="strided")(x)
    y = keras.layers.BatchNormalization(name="norm")(y)
    shortcut = keras.layers.Conv2D(6, 1, 2, name="shortcut")(x)
    x = keras.layers.Add(name="add")([y, shortcut])
    x = keras.layers.Conv2D(3, (2, 4), dilation_rate=(2, 1), name="odd")(x)
    model = keras.Model(inputs, x)
    sample_models.randomize(model, rng)
    return model


CONVOLUTIONS = ("first", "strided", "shortcut", "odd")


def test_without_perturbation_it_is_the_same_function(rng):
    model = backbone(rng)
    space = keras_xd.rewrite(model, to="darts", other_weight=0)
    x = rng.standard_normal((3, 9, 8, 2)).astype("float32")
    assert_close(keras.ops.convert_to_numpy(space(x)), keras.ops.convert_to_numpy(model(x)), 1e-6)
    assert_close(
        keras.ops.convert_to_numpy(keras_xd.finalize(space)(x)),
        keras.ops.convert_to_numpy(model(x)),
        1e-6,
    )
    for name in CONVOLUTIONS:
        assert type(space.get_layer(name)) is keras_xd.layers.MixedOperation2D
        assert type(keras_xd.finalize(space).get_layer(name)) is keras.layers.Conv2D
    assert type(space.get_layer("norm")) is keras.layers.BatchNormalization
    names = {name: space.get_layer(name).operation_names for name in CONVOLUTIONS}
    assert names["first"] == names["strided"] == DARTS_OPERATIONS
    assert names["shortcut"] == names["odd"] == ("convolution", *DARTS_OPERATIONS)


def test_weights_flags_and_shared_layers_are_carried_over(rng):
    inputs = keras.Input((9, 2))
    shared = keras.layers.Conv1D(2, 3, padding="causal", kernel_regularizer="l2", name="shared")
    frozen = keras.layers.Conv1D(2, 3, padding="same", name="frozen", dtype="mixed_bfloat16")
    model = keras.Model(inputs, frozen(shared(shared(inputs))))
    sample_models.randomize(model, rng)
    frozen.trainable = False
    space = keras_xd.rewrite(model, to="darts", candidates=("convolution_5", "skip"))
    new_shared, new_frozen = space.get_layer("shared"), space.get_layer("frozen")
    for old, new in ((shared, new_shared), (frozen, new_frozen)):
        np.testing.assert_array_equal(new.kernel, old.kernel)
        np.testing.assert_array_equal(new.bias, old.bias)
        assert new.dtype_policy == old.dtype_policy
    assert new_shared.operation_names == ("convolution", "convolution_5", "skip")
    assert len(new_shared.losses) == 2 and not new_frozen.trainable_variables
    assert [v.name for v in keras_xd.architecture_variables(space)] == ["logits", "logits"]
    assert len(space.trainable_variables) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 3}, r"takes the options \['candidates', 'other_weight', 'update'\].*'depth': 3"),
        ({"partial_channels": 4}, "takes the options.*'partial_channels': 4"),
        ({"kernel_size": 5}, "takes the options.*'kernel_size': 5"),
        ({"other_weight": 2}, "do not fit the layer 'first': `other_weight` must be a number"),
        ({"candidates": ("conv",)}, "do not fit the layer 'first': `candidates` must be"),
        ({"padding": "circular"}, "do not fit the layer 'first': `padding` must be"),
        ({"operations": "pooling"}, r"must be one or several of \('convolution',\)"),
    ],
)
def test_bad_options(options, message, rng):
    with pytest.raises(ValueError, match=message):
        keras_xd.rewrite(backbone(rng), to="darts", **options)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_dash_begins_as_the_model_and_its_result_goes_on_as_xd(rank, rng):
    convolution = getattr(keras.layers, f"Conv{rank}D")
    shape = (8, 7, 6)[:rank]
    model = keras.Sequential(
        [
            keras.Input((*shape, 2)),
            convolution(3, 3, padding="same", activation="relu", name="first"),
            convolution(2, 3, 2, padding="same", name="strided"),
        ]
    )
    sample_models.randomize(model, rng)
    x = rng.standard_normal((2, *shape, 2)).astype("float32")
    expected = keras.ops.convert_to_numpy(model(x))
    options = {"kernel_sizes": (3, 5), "dilations": (1, 2)}
    same = keras_xd.rewrite(model, to="dash", other_weight=0, **options)
    assert_close(keras.ops.convert_to_numpy(same(x)), expected, 1e-5)

    space = keras_xd.rewrite(model, to="dash", **options)
    first, strided = space.get_layer("first"), space.get_layer("strided")
    assert type(first) is getattr(keras_xd.layers, f"DashConv{rank}D")
    forecast = keras_xd.forecast(model, to="dash", **options)
    assert forecast.parameters_after == space.count_params()
    for layer, name in ((first, "convolution_5_dilated_2"), (strided, "convolution_5")):
        layer.logits.assign(150.0 * (np.array(layer.operation_names) == name))
    expected = keras.ops.convert_to_numpy(space(x))
    found = keras_xd.finalize(space)
    assert [type(found.get_layer(name)) for name in ("first", "strided")] == [convolution] * 2
    assert_close(keras.ops.convert_to_numpy(found(x)), expected, 1e-5)
    searched = keras_xd.rewrite(found, to="xd")
    assert_close(keras.ops.convert_to_numpy(searched(x)), expected, 1e-5)
