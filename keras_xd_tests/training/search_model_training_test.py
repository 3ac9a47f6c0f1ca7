"""`SearchModel` with what else Keras' training offers: it does as the model alone would."""

import keras
import numpy as np
import pytest

from keras_xd.core.searchable import architecture_variables
from keras_xd.training.optimizers import architecture_optimizer
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import classification_data, gated_model

LOSS = "sparse_categorical_crossentropy"
FIT = {"batch_size": 8, "shuffle": False, "verbose": 0}


def pair(make=gated_model, loss=LOSS, **compile_arguments):
    """Return a search model, and its twin: the model alone with the same two optimizers."""
    compiled = []
    compile_arguments = {"jit_compile": False, **compile_arguments}
    for wrap in (SearchModel, lambda model: model):
        keras.utils.set_random_seed(4)
        model = wrap(make())
        optimizers = keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.05, momentum=0.9)
        if isinstance(model, SearchModel):
            model.compile(*optimizers, loss, **compile_arguments)
        else:
            optimizer = architecture_optimizer(model, *optimizers)
            model.compile(optimizer=optimizer, loss=loss, **compile_arguments)
        compiled.append(model)
    return compiled


def same_history(search, twin, *data, **arguments):
    ours = search.fit(*data, **arguments).history
    theirs = twin.fit(*data, **arguments).history
    assert {name: ours[name] for name in theirs} == theirs
    assert set(ours) - set(theirs) <= {"architecture_change"}
    return ours


def test_metrics_weights_and_validation():
    x, y = classification_data(16)
    search, twin = pair(
        metrics=["accuracy"], weighted_metrics=["sparse_top_k_categorical_accuracy"]
    )
    same_history(
        search,
        twin,
        x,
        y,
        epochs=1,
        class_weight={0: 1.0, 1: 2.0, 2: 0.5},
        validation_split=0.4,
        **FIT,
    )
    weights = np.linspace(0.1, 2, len(x))
    same_history(
        search,
        twin,
        x,
        y,
        epochs=2,
        sample_weight=weights,
        validation_data=(x, y, weights),
        validation_freq=2,
        **FIT,
    )
    arguments = {"sample_weight": weights, "return_dict": True, "verbose": 0}
    assert search.evaluate(x, y, **arguments) == twin.evaluate(x, y, **arguments)


@pytest.fixture
def mixed_float16():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(before)


def test_mixed_float16_scales_the_loss_around_both(mixed_float16, tmp_path):
    x, y = classification_data(16)
    arguments = {"warmup_epochs": 1, "complexity_target": 10.0, "complexity_weight": 0.1}
    keras.utils.set_random_seed(4)
    search = SearchModel(gated_model())
    search.compile("adam", "adam", LOSS, jit_compile=False, **arguments)
    assert isinstance(search.optimizer, keras.optimizers.LossScaleOptimizer)
    gates = architecture_variables(search)[0]
    whole = search.fit(x, y, epochs=1, **FIT).history["loss"]
    np.testing.assert_array_equal(gates.numpy(), np.ones(4))
    search.save(tmp_path / "search.keras")
    whole += search.fit(x, y, epochs=2, **FIT).history["loss"]
    assert not np.any(gates.numpy() == 1.0)
    assert np.all(np.isfinite(whole)) and whole[-1] < whole[0]
    loaded = keras.saving.load_model(tmp_path / "search.keras")
    assert isinstance(loaded.optimizer, keras.optimizers.LossScaleOptimizer)
    assert loaded.fit(x, y, epochs=2, **FIT).history["loss"] == whole[1:]
