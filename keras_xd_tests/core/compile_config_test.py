"""What a search takes over from how a model was compiled, and what it says of the rest."""

import warnings

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.core.compile_config import (
    compilation_of,
    note_compilation,
    own_training_methods,
    refuse_loss,
    warn_of_own_training,
)


def user_warnings(function):
    """Return the texts of the `UserWarning`s of a call; others are Keras' own."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function()
    return [str(w.message) for w in found if issubclass(w.category, UserWarning)]


def backbone(**compile_arguments):
    model = keras.Sequential(
        [
            keras.Input((9, 1)),
            keras.layers.Conv1D(2, 3, name="conv"),
            keras.layers.GlobalAveragePooling1D(),
        ]
    )
    if compile_arguments:
        model.compile(**compile_arguments)
    return model


class OwnStep(keras.Model):
    def train_step(self, data):
        return {"loss": 0.0}


def functional(kind):
    inputs = keras.Input((9, 1))
    return kind(inputs, keras.layers.Conv1D(2, 3)(inputs), name="steps")


def test_a_rewritten_model_knows_how_its_backbone_was_compiled():
    loss = keras.losses.MeanAbsoluteError()
    model = backbone(optimizer=keras.optimizers.SGD(0.5), loss=loss, metrics=["mse"])
    known = compilation_of(keras_xd.rewrite(model))
    assert known.loss is loss
    assert known.restored("metrics") == ["mse"]
    optimizer = known.restored("optimizer")
    assert isinstance(optimizer, keras.optimizers.SGD) and optimizer is not model.optimizer
    assert float(optimizer.learning_rate) == 0.5
    assert known.restored("loss_weights") is None


def test_nothing_is_known_of_an_uncompiled_model():
    model = backbone()
    copy = keras_xd.rewrite(model)
    assert compilation_of(model) is None and compilation_of(copy) is None
    note_compilation(model, copy)
    assert compilation_of(copy) is None


def test_what_cannot_be_made_again_has_to_be_given():
    def own(y_true, y_pred):
        return keras.ops.mean(y_true - y_pred)

    space = keras_xd.rewrite(backbone(loss="mse", metrics=[own]))
    with pytest.raises(ValueError, match="Give `metrics`.*Received: metrics="):
        keras_xd.SearchModel(space).compile()
    search = keras_xd.SearchModel(space)
    search.compile(metrics=[own])
    assert search.loss == "mse"


@pytest.mark.parametrize("kind", [keras.Model, OwnStep])
def test_own_training_methods(kind):
    model = functional(kind)
    assert own_training_methods(model) == (["train_step"] if kind is OwnStep else [])
    texts = user_warnings(lambda: warn_of_own_training(model, "A search"))
    texts += user_warnings(lambda: keras_xd.rewrite(model))
    if kind is OwnStep:
        assert [text.split(" trains")[0] for text in texts] == ["A search", "A rewritten model"]
        assert "model 'steps' of class OwnStep, which has its own `train_step`" in texts[0]
    else:
        assert texts == []


def test_a_search_model_warns_of_the_train_step_it_drops():
    inputs = keras.Input((9, 1))
    space = OwnStep(inputs, keras_xd.layers.XDConv1D(2, 3)(inputs))
    (text,) = user_warnings(lambda: keras_xd.SearchModel(space))
    assert text.startswith("A SearchModel trains") and "its own `train_step`" in text


@pytest.mark.parametrize(
    "loss", ["mse", keras.losses.MeanSquaredError(), keras.losses.mean_squared_error]
)
def test_losses_are_no_optimizers(loss):
    with pytest.raises(ValueError, match="`second` must be an optimizer, not a loss.*second="):
        refuse_loss(loss, "second")
    search = keras_xd.SearchModel(keras_xd.rewrite(backbone()))
    with pytest.raises(ValueError, match="not a loss.*give the loss as `loss=…`"):
        search.compile("adam", loss)


@pytest.mark.parametrize("to", ["xd", "masked"])
def test_plain_training_of_a_rewritten_model_is_told_once(to, caplog):
    data = np.ones((4, 9, 1), "float32"), np.zeros((4, 2), "float32")

    def told(space, **arguments):
        caplog.clear()
        space.compile(loss="mse", **arguments)
        for _ in range(2):
            space.fit(*data, verbose=0)
        space.evaluate(*data, verbose=0)
        return [r.message for r in caplog.records if "without a budget" in r.message]

    def rewritten():
        return keras_xd.rewrite(backbone(), to=to)

    both = keras_xd.optimizers.architecture_optimizer
    assert len(told(rewritten(), optimizer="sgd")) == 1
    frozen = keras_xd.freeze_architecture(rewritten())
    assert not told(frozen, optimizer="sgd", run_eagerly=True)
    space = rewritten()
    assert not told(space, optimizer=both(space, "sgd", "sgd"), run_eagerly=True)
    search = keras_xd.SearchModel(keras_xd.randomize_architecture(rewritten(), seed=0))
    target = {"complexity_target": float(keras_xd.complexity(search)), "complexity_weight": 1.0}
    assert not told(search, optimizer="sgd", run_eagerly=True, **target)
