"""A search over XD-operations: training, resuming, and files of other operations."""

import keras
import numpy as np
import pytest

from keras_xd.core.searchable import architecture_variables, model_variables
from keras_xd.layers import XDConv2D
from keras_xd.training.optimizers import architecture_optimizer
from keras_xd.training.search_model import SearchModel

FIT = {"batch_size": 8, "shuffle": False, "verbose": 0}


def xd_model(layers=2, **arguments):
    """XD-operations on images of 6 by 6, circular so that the matrices have size 6 too."""
    arguments = {"padding": "circular", "activation": "relu", **arguments}
    return keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            *(XDConv2D(3, 3, **arguments) for _ in range(layers)),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )


def images():
    generator = np.random.default_rng(5)
    x = generator.normal(size=(24, 6, 6, 1)).astype("float32")
    return x, (x[:, ::2].sum((1, 2, 3)) > x[:, 1::2].sum((1, 2, 3))).astype("int32")


def search_model(seed=4, **arguments):
    keras.utils.set_random_seed(seed)
    search = SearchModel(xd_model(**arguments))
    search.compile(
        keras.optimizers.Adam(0.02),
        keras.optimizers.Adam(0.003),  # at 0.01 the loss of single epochs jumps above 1
        "sparse_categorical_crossentropy",
        warmup_epochs=2,
        complexity_target=1000,
        complexity_weight=0.0,
    )
    return search


def test_search_resumes_to_the_same_losses_and_beats_fixed_operations(tmp_path):
    x, y = images()
    search = search_model(layers=1)
    start = [variable.numpy() for variable in architecture_variables(search)]
    history = search.fit(x, y, epochs=3, **FIT).history
    search.save(tmp_path / "search.keras")
    rest = search.fit(x, y, epochs=9, **FIT).history["loss"]
    loaded = keras.saving.load_model(tmp_path / "search.keras")
    assert loaded.fit(x, y, epochs=9, **FIT).history["loss"] == rest
    assert history["complexity"][0] == pytest.approx(
        search.model.layers[0].complexity((None, 6, 6, 1)) / 1000 + 3 * 2 / 1000  # the Dense layer
    )
    moved = [
        not np.array_equal(before, variable.numpy())
        for before, variable in zip(start, architecture_variables(search), strict=True)
    ]
    assert len(moved) == 6 and all(moved)

    fixed = search_model(layers=1)
    for variable in architecture_variables(fixed):
        variable.trainable = False
    fixed.compile(keras.optimizers.Adam(0.02), "adam", "sparse_categorical_crossentropy")
    fixed_loss = fixed.fit(x, y, epochs=12, **FIT).history["loss"][-1]
    assert rest[-1] < 0.8 * fixed_loss


def test_plain_fit_with_the_architecture_optimizer(tmp_path):
    (x, y), fit = images(), {**FIT, "batch_size": 24}
    keras.utils.set_random_seed(4)
    model = xd_model(layers=1, frequency_bias=True, channel_gates=True)
    optimizer = architecture_optimizer(model, keras.optimizers.SGD(0.0), "adam")
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", run_eagerly=True)
    groups = architecture_variables(model), model_variables(model)
    before = [[variable.numpy() for variable in group] for group in groups]
    model.fit(x, y, epochs=1, **fit)
    changed, kept = (
        [not np.array_equal(b, v.numpy()) for b, v in zip(values, group, strict=True)]
        for values, group in zip(before, groups, strict=True)
    )
    assert len(changed) == 8 and all(changed) and len(kept) == 4 and not any(kept)
    model.save(tmp_path / "model.keras")
    rest = model.fit(x, y, epochs=1, **fit).history["loss"]
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.fit(x, y, epochs=1, **fit).history["loss"] == rest


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"depth": 2}, r"file \['depth=\(2, 2, 2\)', 'K0.*model \['depth=\(1, 1, 1\)'"),
        ({"radix": (3, 2)}, r"file \['radix=\(\(3, 2\), \(3, 2\)\)'\]"),
        ({"radix": 6}, r"file \['radix=\(6, 6\)', 'K0"),
        ({"padding": "same"}, r"file \['K0: "),
        ({"frequency_bias": True}, r"file \['frequency_bias=True', 'frequency_bias: \(6, 6, 2\)'"),
    ],
)
def test_weights_of_other_operations_are_refused(other, message, tmp_path):
    """Also of those with as many weights, such as radices in another order."""
    SearchModel(xd_model(**other)).save_weights(tmp_path / "other.weights.h5")
    search = SearchModel(xd_model())
    with pytest.raises(ValueError, match=f"(?s)architecture in a file must match.*{message}"):
        search.load_weights(tmp_path / "other.weights.h5")
