"""Guided search: the loss by NumPy, both levels against a twin with two outputs, the teacher."""

import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_xd.core.searchable import named_layers
from keras_xd.training.attention_transfer import AttentionTransfer, attention
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense

FIT = {"batch_size": 4, "shuffle": False, "verbose": 0}


def attention_reference(features):
    """NumPy, channels last."""
    squares = np.sum(np.asarray(features, "float64") ** 2, axis=-1).reshape(len(features), -1)
    return squares / np.sqrt(np.sum(squares**2, axis=1, keepdims=True))


def student(outputs="logits"):
    inputs = keras.Input((4, 3, 2), name="image")
    x = GatedDense(3, name="stage1")(inputs)
    x = keras.layers.BatchNormalization(name="normalization")(x)
    features = keras.layers.Activation("tanh", name="stage2")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(features)
    logits = keras.layers.Dense(2, name="logits")(x)
    if outputs == "logits":
        return keras.Model(inputs, logits)
    return keras.Model(inputs, [logits, features])


class Count(keras.layers.Layer):
    """Counts its calls."""

    calls = 0
    modes = ()

    def call(self, inputs, training=None):
        if not isinstance(inputs, keras.KerasTensor):
            self.calls += 1
            self.modes = (*self.modes, training)
        return inputs


def teacher():
    keras.utils.set_random_seed(9)
    return keras.Sequential(
        [
            keras.Input((4, 3, 2)),
            keras.layers.Conv2D(5, 3, padding="same", name="conv"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            Count(name="count"),
            keras.layers.Dense(1),
        ]
    )


def data(count=8):
    generator = np.random.default_rng(5)
    x = generator.normal(size=(count, 4, 3, 2)).astype("float32")
    return x, generator.normal(size=(count, 2)).astype("float32")


def guided(mode="joint", guidance=None, **options):
    keras.utils.set_random_seed(2)
    search = SearchModel(student())
    guidance = guidance or AttentionTransfer(teacher(), "count", "stage2", weight=30)
    optimizers = keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.SGD(0.5)
    search.compile(*optimizers, "mse", mode=mode, guidance=guidance, jit_compile=False, **options)
    return search


@pytest.mark.parametrize("channels_last", [True, False])
def test_attention_by_numpy(channels_last, rng):
    features = rng.normal(size=(3, 4, 5, 6))
    given = features if channels_last else np.moveaxis(features, -1, 1)
    found = attention(given.astype("float32"), channels_last)
    np.testing.assert_allclose(found, attention_reference(features), rtol=1e-5)
    half = ops.cast(100 * given, "float16")  # whose squares would overflow
    np.testing.assert_allclose(attention(half, channels_last), found, atol=1e-3)
    assert not np.any(np.asarray(attention(np.zeros((2, 3, 4)))))


@pytest.mark.parametrize("form", ["stable", "literal"])
def test_loss_by_numpy(form, rng):
    sizes = ((3, 4, 4), (3, 2, 2))
    ours = [rng.normal(size=(*size, 5)).astype("float32") for size in sizes]
    theirs = [rng.normal(size=(*size, 7)).astype("float32") for size in sizes]
    expected = 0
    for one, other in zip(ours, theirs, strict=True):
        change = attention_reference(one) - attention_reference(other)
        if form == "stable":
            expected += np.mean(change**2)
        else:
            expected += 0.5 * np.mean(np.linalg.norm(change, axis=1))
    names = ["count", "conv"]
    transfer = AttentionTransfer(teacher(), names, names, weight=7, form=form)
    np.testing.assert_allclose(transfer.loss(ours, theirs), 7 * expected, rtol=1e-5)
    # Where student and teacher agree there is a gradient, and it is zero.
    with tf.GradientTape() as tape:
        value = tf.Variable(ours[0])
        loss = transfer.loss([value], [ops.copy(value)])
    np.testing.assert_allclose(loss, 0, atol=1e-10)
    assert not np.any(tape.gradient(loss, value))


def test_the_teacher_is_no_part_of_the_search(tmp_path):
    x, y = data()
    search = guided("first_order")
    own = search.guide.transfer.teacher
    before = [v.numpy() for v in own.variables]
    keras.utils.set_random_seed(2)
    alone = SearchModel(student())
    alone.compile("sgd", "sgd", "mse", mode="first_order")
    assert [v.path for v in search.trainable_variables] == [
        v.path for v in alone.trainable_variables
    ]
    assert len(search.variables) == len(alone.variables)
    assert len(search.optimizer.variables) - len(alone.optimizer.variables) == 6  # its velocities
    assert [name for name, _ in named_layers(search)] == [name for name, _ in named_layers(alone)]
    history = search.fit(
        x, y, architecture_validation_split=0.5, validation_data=(x, y), **FIT
    ).history
    for old, variable in zip(before, own.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)
    assert set(history) == {
        "loss",
        "architecture_loss",
        "architecture_change",
        "attention_transfer",
        "val_loss",
    }
    assert all(value > 0 for value in history["attention_transfer"])

    search.save(tmp_path / "search.keras")
    with zipfile.ZipFile(tmp_path / "search.keras") as archive:
        assert b"stage2" in archive.read("config.json")
        assert b'"count"' not in archive.read("config.json")
    loaded = keras.saving.load_model(tmp_path / "search.keras")
    np.testing.assert_array_equal(loaded(x), search(x))
    assert loaded.evaluate(x, y, verbose=0) == search.evaluate(x, y, verbose=0)
    with pytest.raises(ValueError, match="not saved with it"):
        loaded.fit(x, y, architecture_validation_split=0.5, **FIT)
    assert search.guide.transfer.attach(loaded) is loaded
    again = [
        model.fit(x, y, architecture_validation_split=0.5, **FIT).history
        for model in (search, loaded)
    ]
    assert again[0] == again[1] and again[0]["attention_transfer"] != history["attention_transfer"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"teacher_layers": ["none"]}, "names of layers of the teacher.*'none'"),
        ({"teacher_layers": []}, "`teacher_layers` must be names"),
        ({"student_layers": ["stage1", "stage2"]}, "as many"),
        ({"weight": -1}, "`weight`"),
        ({"weight": True}, "`weight`"),
        ({"form": "mean"}, "`form` must be one of"),
        ({"data_format": "first"}, "`data_format`"),
        ({"teacher": keras.Model()}, "The teacher must be a Functional"),
    ],
)
def test_bad_arguments(arguments, message):
    good = {"teacher": teacher(), "teacher_layers": "count", "student_layers": "stage2"}
    with pytest.raises(ValueError, match=message):
        AttentionTransfer(**{**good, **arguments})


def test_stages_that_do_not_fit():
    with pytest.raises(ValueError, match="names of layers of the student.*'stage9'"):
        guided(guidance=AttentionTransfer(teacher(), "count", "stage9"))
    other = keras.Sequential([keras.Input((4, 3, 2)), keras.layers.Conv2D(2, 3, name="conv")])
    with pytest.raises(ValueError, match=r"same spatial sizes.*\(4, 3\).*\(2, 1\)"):
        guided(guidance=AttentionTransfer(other, "conv", "stage2"))


def test_a_second_compile_has_the_guidance_that_it_is_given():
    x, y = data()
    search = guided()
    search.compile("sgd", "sgd", "mse", jit_compile=False)
    assert "attention_transfer" not in search.fit(x, y, **FIT).history
    search.compile("sgd", "sgd", "mse", guidance=AttentionTransfer(teacher(), "count", "stage2"))
    assert "attention_transfer" in search.fit(x, y, **FIT).history


def test_with_channels_first_the_other_sizes_are_compared():
    def widened(shape):
        inputs = keras.Input(shape)
        return keras.Model(inputs, keras.layers.Concatenate(1, name="wide")([inputs] * 3))

    inputs = keras.Input((2, 5, 3))
    x = GatedDense(3, name="stage2")(inputs)
    search = SearchModel(keras.Model(inputs, keras.layers.Flatten()(x)))
    names = {"teacher_layers": "wide", "student_layers": "stage2"}
    transfer = AttentionTransfer(widened((2, 5, 3)), data_format="channels_first", **names)
    search.compile("sgd", "sgd", "mse", guidance=transfer)
    other = AttentionTransfer(widened((2, 4, 3)), data_format="channels_first", **names)
    with pytest.raises(ValueError, match=r"same spatial sizes.*\(5, 3\).*\(4, 3\)"):
        search.compile("sgd", "sgd", "mse", guidance=other)
