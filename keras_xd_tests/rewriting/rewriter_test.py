"""Rewritten models: the same function, with everything carried over."""

import logging
import re

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd import layers as xd_layers
from keras_xd.core.searchable import named_layers
from keras_xd.layers.xd.base import XDLayer
from keras_xd.rewriting.rewriter import rewrite
from keras_xd_tests import sample_models

RELATIVE_ERROR = 1e-4


@pytest.mark.parametrize("make", sample_models.ALL)
def test_outputs_are_equal_and_the_original_is_untouched(make, rng):
    model = sample_models.randomize(make(), rng)
    before, operations = sample_models.fingerprint(model), len(model.layers)
    inputs = sample_models.inputs_of(model, rng)
    for depth in (1, (1, 3, 1)):  # a second rewrite works too
        space = rewrite(model, depth=depth)
        assert type(space) is type(model)
        sample_models.assert_same_outputs(model, space, inputs, RELATIVE_ERROR)
    kinds = (layers.Conv1D, layers.Conv2D, layers.Conv3D)
    convolutions = {path: layer for path, layer in named_layers(model) if isinstance(layer, kinds)}
    rewritten = {path: layer for path, layer in named_layers(space) if path in convolutions}
    assert rewritten.keys() == convolutions.keys()
    assert all(isinstance(layer, XDLayer) for layer in rewritten.values())
    for weight in space.weights:
        weight.assign(weight * 0.0)
    assert sample_models.fingerprint(model) == before
    assert len(model.layers) == operations


def test_everything_of_a_layer_is_carried_over():
    model = keras.Sequential(
        [
            keras.Input((9, 9, 2)),
            layers.Conv2D(
                4,
                (3, 2),
                dilation_rate=(2, 1),
                groups=2,
                padding="same",
                activation="gelu",
                use_bias=False,
                kernel_initializer=keras.initializers.HeNormal(seed=5),
                kernel_regularizer=keras.regularizers.L2(0.1),
                activity_regularizer="l1",
                kernel_constraint=keras.constraints.MaxNorm(1.5),
                dtype="mixed_bfloat16",
                trainable=False,
                name="full",
            ),
        ]
    )
    old, new = model.layers[0], rewrite(model).layers[0]
    before, after = old.get_config(), new.get_config()
    assert type(new) is xd_layers.XDConv2D
    assert {name: after[name] for name in before} == before
    assert not new.trainable_variables
    assert new.dtype_policy == old.dtype_policy
    np.testing.assert_array_equal(new.kernel, old.kernel)


@pytest.mark.parametrize(
    "to, options",
    [
        ("xd", {}),
        ("masked", {}),
        ("structured", {}),
        ("structured", {"family": ("low_rank", "dense")}),
    ],
)
def test_lambda_functions_as_activations(to, options):
    """A layer is made again with its function, which no configuration can hold."""
    model = keras.Sequential(
        [
            keras.Input((10, 3)),
            layers.Conv1D(8, 3, activation=lambda x: 2 * x),
            layers.Conv1D(8, 3),
            layers.BatchNormalization(),
            layers.GRU(16, activation=lambda x: x / 2),
            layers.Dense(32, activation=lambda x: 1 + x),
            layers.Dense(8),
        ]
    )
    space = rewrite(model, to, **options)
    x = np.random.default_rng(0).normal(size=(2, 10, 3)).astype("float32")
    if to in ("xd", "masked"):
        sample_models.assert_same_outputs(model, space, x, RELATIVE_ERROR)
    for variable in keras_xd.architecture_variables(space):
        if variable.shape == (2,):  # the logits of two candidates
            variable.assign([-50.0, 50.0])
    sample_models.assert_same_outputs(space, keras_xd.finalize(space), x, 1e-4)


def test_frozen_variables_stay_frozen():
    model = sample_models.sequential()
    model.get_layer("causal").bias.trainable = False
    space = rewrite(model)
    assert not space.get_layer("causal").bias.trainable
    assert space.get_layer("causal").kernel.trainable
    model.trainable = False
    assert not rewrite(model).trainable_variables


@pytest.fixture(scope="module")
def residual():
    """A model that no test changes."""
    return sample_models.residual()


def kinds(space):
    return {
        layer.name: type(layer).__name__.startswith("XD")
        for layer in space.layers
        if "Conv" in type(layer).__name__
    }


@pytest.mark.parametrize(
    ("arguments", "rewritten"),
    [
        ({"only": "stem"}, {"stem"}),
        ({"only": "block._a"}, {"block0_a", "block1_a"}),
        ({"only": re.compile(".*cut")}, {"shortcut"}),
        ({"only": lambda layer: layer.kernel_size == (1, 1)}, {"shortcut"}),
        ({"only": ["stem", "block0_.*", lambda layer: False]}, {"stem", "block0_a", "block0_b"}),
        ({"skip": "block.*"}, {"stem", "shortcut"}),
        ({"skip": ["block.*", "block0_add"]}, {"stem", "shortcut"}),
        ({"only": ["stem", "shortcut"], "skip": "stem"}, {"shortcut"}),
    ],
)
def test_selection(arguments, rewritten, residual):
    space = rewrite(residual, **arguments)
    assert {name for name, is_searchable in kinds(space).items() if is_searchable} == rewritten


@pytest.fixture(scope="module")
def refusing():
    """A model that is not rewritten by the arguments it is given."""
    inputs = keras.Input((8, 8, 3))
    x = layers.DepthwiseConv2D(3, name="depthwise")(layers.Conv2D(2, 3, name="stem")(inputs))
    x = layers.MaxPooling2D(1, name="maximum")(layers.Conv2D(2, 3, name="block0_a")(x))
    return keras.Model(inputs, layers.Dense(2, name="classifier")(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"only": "missing"},
            "only='missing', which does not exist.*'stem', 'depthwise', 'block0_a'",
        ),
        ({"only": ["stem", "mis.*"]}, r"only='mis\.\*', which does not exist"),
        ({"only": "classifier"}, r"only='classifier', which cannot be \('classifier' is a Dense"),
        ({"only": "maximum"}, r"only='maximum', which cannot be \('maximum' is a MaxPooling2D"),
        (
            {"only": "maximum", "operations": ("convolution", "pooling")},
            "cannot be .'maximum': no linear operation can start as a maximum",
        ),
        ({"skip": "missing"}, "skip='missing', which does not exist"),
        ({"only": "stem("}, r"only='stem\(', which is not a pattern"),
        ({"only": 3}, "`only` must be a string.*only=3"),
        ({"skip": ".*"}, r"Nothing is left to rewrite.*skip='\.\*'"),
        ({"only": lambda layer: False}, "Nothing is left to rewrite"),
        ({"to": "k"}, "`to` must be one of 'xd'"),
        ({"padding": "same"}, "`padding` must be one of 'exact', 'circular'"),
        ({"filters": 3}, "takes the options.*'warm_start'.*Received: {'filters': 3}"),
        ({"depth": 0}, "do not fit the layer 'stem': `depth` must be.*depth=0"),
        ({"radix": (5,)}, "do not fit the layer 'stem'.*radix"),
    ],
)
def test_bad_arguments(arguments, message, refusing):
    with pytest.raises(ValueError, match=message):
        rewrite(refusing, **arguments)


def test_what_is_left_is_listed(caplog, rng):
    inputs = keras.Input((8, 8, 1), name="image")
    x = layers.SpectralNormalization(layers.Conv2D(2, 3, name="inner"), name="outer")(inputs)
    x = layers.Conv2D(2, 2, name="seen")(x)
    x = layers.MaxPooling2D(1, name="max_a")(layers.MaxPooling2D(1, name="max_b")(x))
    model = keras.Model(inputs, x)
    with caplog.at_level(logging.WARNING):
        space = rewrite(model, operations=("convolution", "pooling"))
    assert [record.name for record in caplog.records] == ["keras_xd.rewriting"]
    assert caplog.messages == [
        "keras_xd.rewrite: left as they are: outer/inner (it is called inside the layer "
        "SpectralNormalization 'outer'); max_b, max_a (no linear operation can start as a maximum)"
    ]
    inputs = sample_models.inputs_of(model, rng)
    sample_models.assert_same_outputs(model, space, inputs, RELATIVE_ERROR)
    caplog.clear()
    rewrite(sample_models.residual(), skip="stem")
    assert "left as they are" not in caplog.text


def test_channels_first(rng):
    inputs = keras.Input((2, 7, 6))
    convolution = layers.Conv2D(3, 3, padding="same", data_format="channels_first")
    model = keras.Model(inputs, convolution(inputs))
    space = rewrite(model)
    x = rng.normal(size=(2, 2, 7, 6)).astype("float32")
    # TensorFlow's CPU kernels convolve channels_first in compiled functions only.
    expected, actual = model.predict(x, verbose=0), space.predict(x, verbose=0)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize("to", ["xd", "darts", "masked", "structured"])
@pytest.mark.parametrize("argument", ["only", "skip"])
def test_a_glob_is_no_pattern_in_any_space(to, argument):
    inputs = keras.Input((8, 2))
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Conv1D(4, 3)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(16)(x))
    with pytest.raises(ValueError, match=rf"Received: {argument}='\*conv', which is not a pattern"):
        keras_xd.rewrite(model, to, **{argument: "*conv"})
