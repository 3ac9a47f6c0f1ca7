"""What is said of models that are rewritten in part or not at all."""

import re

import keras
import pytest

import keras_xd
from keras_xd.rewriting.explaining import described_layers
from keras_xd_tests.core.compile_config_test import user_warnings


def partly_unknown():
    """A model with a convolution at unknown sizes, and one after it whose size is known."""
    inputs = keras.Input((None, None, 3), name="image")
    x = keras.layers.Conv2D(4, 3, padding="same", name="open0")(inputs)
    x = keras.layers.GlobalAveragePooling2D(keepdims=True)(x)
    return keras.Model(inputs, keras.layers.Conv2D(2, 1, name="known")(x), name="partly")


def test_layers_at_unknown_sizes_are_named():
    message = (
        "Of the 2 convolutions of model 'partly' 1 are left .* spatial size is unknown. Give the "
        "model's Input complete sizes.*Left: open0$"
    )
    for function in (keras_xd.rewrite, keras_xd.forecast):
        (text,) = user_warnings(lambda function=function: function(partly_unknown()))
        assert re.match(message, text)


def test_models_without_convolutions():
    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(2)], name="dense"
    )
    assert described_layers(model) == "Dense × 2"
    message = "no convolution was found.*model 'dense' of the layers Dense × 2"
    with pytest.raises(ValueError, match=message):
        keras_xd.rewrite(model)
    recurrent = keras.Sequential([keras.Input((8, 2)), keras.layers.LSTM(3)])
    with pytest.raises(ValueError, match="no convolution or skip was found.*LSTM"):
        keras_xd.rewrite(recurrent, operations=("convolution", "skip"))


def test_a_frozen_backbone_is_searched_by_nobody():
    model = keras.Sequential([keras.Input((8, 1)), keras.layers.Conv1D(2, 3)], name="base")
    model.trainable = False
    search = keras_xd.SearchModel(keras_xd.rewrite(model))
    make = keras_xd.optimizers.architecture_optimizer
    for function in (
        lambda: search.compile(loss="mse"),
        lambda: make(search.model, "sgd", "sgd"),
    ):
        (text,) = user_warnings(function)
        assert re.match("Nothing is searched.*'base' of 1 frozen layers", text)
