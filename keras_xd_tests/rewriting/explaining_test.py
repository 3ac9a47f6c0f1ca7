"""What is said of models that are rewritten in part or not at all."""

import warnings

import keras
import pytest

import keras_xd
from keras_xd.rewriting.explaining import LONGEST_LIST, described_layers


def partly_unknown(convolutions=1):
    """A model with convolutions at unknown sizes, and one after them whose size is known."""
    inputs = x = keras.Input((None, None, 3), name="image")
    for number in range(convolutions):
        x = keras.layers.Conv2D(4, 3, padding="same", name=f"open{number}")(x)
    x = keras.layers.GlobalAveragePooling2D(keepdims=True)(x)
    return keras.Model(inputs, keras.layers.Conv2D(2, 1, name="known")(x), name="partly")


def test_layers_at_unknown_sizes_are_named():
    message = (
        "Of the 2 convolutions of model 'partly' 1 are left .* spatial size is unknown. Give the "
        "model's Input complete sizes.*Left: open0$"
    )
    with pytest.warns(UserWarning, match=message):
        space = keras_xd.rewrite(partly_unknown())
    assert type(space.get_layer("known")).__name__ == "XDConv2D"
    with pytest.warns(UserWarning, match=message):
        keras_xd.forecast(partly_unknown())


def test_a_long_list_is_cut():
    count = LONGEST_LIST + 3
    with pytest.warns(UserWarning, match=rf"{count} are left.*open{LONGEST_LIST - 1} and 3 more$"):
        keras_xd.rewrite(partly_unknown(count))


@pytest.mark.parametrize("selection", [{"only": "known"}, {"skip": "open.*"}])
def test_what_was_not_asked_for_is_not_named(selection):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keras_xd.rewrite(partly_unknown(), **selection)


def test_nothing_left_but_unknown_sizes():
    model = keras.Sequential([keras.Input((None, None, 3)), keras.layers.Conv2D(2, 3)])
    with pytest.raises(ValueError, match=r"Nothing is left.*complete sizes, such as input_shape="):
        keras_xd.rewrite(model)


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


def test_a_search_model_is_no_backbone():
    space = keras.Sequential([keras.Input((8, 1)), keras_xd.layers.XDConv1D(2, 3)], name="space")
    search = keras_xd.SearchModel(space)
    with pytest.raises(ValueError, match=r"take the model in it, `.model`.*'space' in it"):
        keras_xd.rewrite(search)


def test_a_frozen_backbone_is_searched_by_nobody():
    model = keras.Sequential([keras.Input((8, 1)), keras.layers.Conv1D(2, 3)], name="base")
    model.trainable = False
    search = keras_xd.SearchModel(keras_xd.rewrite(model))
    with pytest.warns(UserWarning, match="Nothing is searched.*'base' of 1 frozen layers"):
        search.compile(loss="mse")
    with pytest.warns(UserWarning, match="Nothing is searched"):
        keras_xd.optimizers.architecture_optimizer(search.model, "sgd", "sgd")


def test_a_frozen_architecture_is_meant():
    model = keras.Sequential([keras.Input((8, 1)), keras_xd.layers.XDConv1D(2, 3)])
    search = keras_xd.SearchModel(keras_xd.freeze_architecture(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.compile(loss="mse")
