"""`architecture_optimizer`: groups found, refused, trained, saved."""

import keras
import numpy as np
import pytest

from keras_xd.core.searchable import architecture_variables
from keras_xd.training.optimizers import architecture_optimizer
from keras_xd_tests.training.gated_dense import GatedDense, classification_data, gated_model

LOSS = "sparse_categorical_crossentropy"


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Subclassed(keras.Model):
    """A subclassed model whose layers get new automatic names each time it is made."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.gated = GatedDense(6)
        self.plain = keras.layers.Dense(5)
        self.inner = keras.Sequential([GatedDense(4), keras.layers.Dense(3)])

    def build(self, input_shape):
        self.gated.build(input_shape)
        self.plain.build((None, 6))
        self.inner.build((None, 5))

    def call(self, inputs):
        return self.inner(self.plain(self.gated(inputs)))


class PlainGates(keras.layers.Layer):
    """A layer that is not searchable, with a weight named as the architecture of another."""

    def build(self, input_shape):
        self.gates = self.add_weight(shape=(input_shape[-1],), name="gates")

    def call(self, inputs):
        return inputs * self.gates


def subclassed_model():
    model = Subclassed()
    model(np.zeros((1, 4), "float32"))
    return model


def nested_model():
    """Nested and shared parts, with a plain layer of the same name as a searchable one."""
    inner = keras.Sequential([keras.Input((4,)), GatedDense(4, name="mix")], name="inner")
    twin = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="mix")], name="twin")
    inputs = keras.Input((4,))
    shared = GatedDense(4, name="a.b")
    x = shared(inner(shared(inner(inputs))))
    return keras.Model(inputs, keras.layers.Dense(3, name="gates")(twin(x)))


def lazy_sequential():
    """A model built by its first call, whose variables lie in the model's name scope."""
    model = keras.Sequential([GatedDense(4), keras.layers.Dense(3)])
    model(np.zeros((1, 4), "float32"))
    assert architecture_variables(model)[0].path.startswith(f"{model.name}/")
    return model


MODELS = [gated_model, nested_model, subclassed_model, lazy_sequential]


def identities(variables):
    return {id(variable) for variable in variables}


def moved(before, after):
    """Return which of two lists of arrays differ."""
    return [not np.array_equal(b, a) for b, a in zip(before, after, strict=True)]


@pytest.mark.parametrize("make", MODELS)
def test_each_group_moves_by_its_own_optimizer(make):
    model = make()
    x, y = classification_data()
    frozen_rate = keras.optimizers.SGD(0.0)
    model.compile(
        optimizer=architecture_optimizer(model, frozen_rate, keras.optimizers.SGD(0.5)),
        loss="mse",
        run_eagerly=make is not gated_model,
    )
    before = [variable.numpy() for variable in model.trainable_variables]
    model.fit(x, np.eye(3)[y], batch_size=10, verbose=0)
    after = [variable.numpy() for variable in model.trainable_variables]
    architecture = identities(architecture_variables(model))
    assert moved(before, after) == [id(v) in architecture for v in model.trainable_variables]


def test_names_may_not_hide_the_architecture_among_other_variables():
    searchable = keras.Sequential([keras.Input((4,)), GatedDense(4, name="same")])
    model = keras.Sequential([searchable, keras.Sequential([PlainGates(name="same")])])
    model(np.zeros((1, 4), "float32"))
    with pytest.raises(ValueError, match=r"different names.*same/gates"):
        architecture_optimizer(model, "sgd", "adam")


@pytest.mark.parametrize("names", [("part_1", "part_2"), ("a.b", "axb"), ("a_1", "b_1")])
def test_layers_of_similar_names_are_told_apart(names):
    model = keras.Sequential(
        [keras.Input((4,)), GatedDense(4, name=names[0]), PlainGates(name=names[1])]
    )
    optimizer = architecture_optimizer(model, "sgd", "adam")
    chosen = [v for v in model.variables if optimizer.optimizer_map(v).name == "architecture"]
    assert identities(chosen) == identities(architecture_variables(model))


def test_bad_input():
    model = gated_model()
    adam = keras.optimizers.Adam()
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())
    grouped = architecture_optimizer(model, "sgd", "adam")
    plain = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    unbuilt = keras.Sequential([GatedDense(3)])
    for arguments, message in [
        ((plain, "sgd", "adam"), r"must have architecture variables.*Received: model="),
        ((unbuilt, "sgd", "adam"), r"must be a built Keras model.*Received: model="),
        (("model", "sgd", "adam"), r"must be a Keras model.*Received: model='model'"),
        ((model, adam, adam), "the same object twice"),
        ((model, scaled, "adam"), r"LossScaleOptimizer\(architecture_optimizer.*weights="),
        ((model, "adam", scaled), r"LossScaleOptimizer\(architecture_optimizer.*architecture="),
        ((model, grouped, "adam"), r"A `MultiOptimizer` cannot be.*weights="),
        ((model, None, "adam"), r"`weights` must be a string or a Keras optimizer"),
        ((model, "adam", None), r"`architecture` must be a string or a Keras optimizer"),
        ((model, "adam", "nothing"), "nothing"),
        (
            (model, keras.optimizers.SGD(loss_scale_factor=8.0), "adam"),
            r"same `loss_scale_factor`.*8.0 and None",
        ),
    ]:
        with pytest.raises(ValueError, match=f"(?s){message}"):
            architecture_optimizer(*arguments)


def test_freezing_after_the_optimizer_was_made_is_an_error():
    x, y = classification_data()
    model = gated_model()
    model.compile(optimizer=architecture_optimizer(model, "sgd", "sgd"), loss=LOSS)
    architecture_variables(model)[0].trainable = False
    with pytest.raises(ValueError, match="Make a new one after freezing"):
        model.fit(x, y, verbose=0)
    model.compile(optimizer=architecture_optimizer(model, "sgd", "sgd"), loss=LOSS)
    model.fit(x, y, verbose=0)
    architecture_variables(model)[0].trainable = True
    model.make_train_function(force=True)
    with pytest.raises(ValueError, match=r"Compile the model again.*7 gradients, built on 6"):
        model.fit(x, y, verbose=0)


def test_moving_average_of_an_unused_architecture_optimizer_is_not_taken():
    model = gated_model()
    optimizer = architecture_optimizer(
        model, "sgd", keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
    )
    model.compile(optimizer=optimizer, loss=LOSS, run_eagerly=True)
    optimizer.architecture_fixed = True
    model.fit(*classification_data(), verbose=0)
    np.testing.assert_array_equal(architecture_variables(model)[0].numpy(), np.ones(4))
    optimizer.architecture_fixed = False
    model.make_train_function(force=True)
    model.fit(*classification_data(), verbose=0)
    final = architecture_variables(model)[0].numpy()
    assert np.all(final > 0.5) and not np.array_equal(final, np.ones(4))
