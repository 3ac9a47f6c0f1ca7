"""Searches tuned by KerasTuner: settings, validation values, continued trials, found models."""

import keras
import keras_tuner as kt
import numpy as np
import pytest

import keras_xd
from tuner_integration import SearchHyperModel

EAGER = {"run_eagerly": True}


def backbone(hp):
    return keras.Sequential(
        [
            keras.Input((6, 1)),
            keras.layers.Conv1D(2, 3, padding="same", activation="relu", name="conv"),
            keras.layers.Flatten(),
            keras.layers.Dense(1, name="head"),
        ]
    )


def hypermodel(**options):
    return SearchHyperModel(backbone, "mse", compile_options=EAGER, **options)


def data(rng, number=8):
    x = rng.normal(size=(number, 6, 1)).astype("float32")
    return x, x[:, ::-1].sum(axis=1)


def test_settings_reach_the_search():
    hp = kt.HyperParameters()
    model = SearchHyperModel(
        backbone,
        "mse",
        metrics=["mae"],
        optimizer=lambda hp: keras.optimizers.SGD(hp.Float("rate", 0.1, 0.2)),
        architecture_optimizer=lambda rate: keras.optimizers.SGD(rate, momentum=0.5),
        depth=[(1, 3, 1), 2],
        radix=[None, 2],
        warm_start=["zero", None],
        architecture_rate=[0.03, 0.3],
        warmup_epochs=[2, 0],
        mode=["second_order", "joint"],
        rewrite_options={"padding": "circular"},
        compile_options={**EAGER, "perturbation": 0.02},
    )
    search = model.build(hp)
    assert {name: hp.get(name) for name in hp.values} == {
        "rate": 0.1,
        "depth": "(1, 3, 1)",
        "radix": "None",
        "warm_start": "zero",
        "architecture_rate": "0.03",
        "warmup_epochs": 2,
        "mode": "second_order",
    }
    layer = search.model.get_layer("conv")
    config = layer.get_config()
    assert (layer.depth, layer.padding, config["radix"]) == ((1, 3, 1), "circular", None)
    assert config["warm_start"] == "zero"
    assert (search.mode, search.warmup_epochs, search.perturbation) == ("second_order", 2, 0.02)
    optimizers = search.search_optimizer
    assert float(optimizers.weights_optimizer.learning_rate) == pytest.approx(0.1)
    assert float(optimizers.architecture_optimizer.learning_rate) == pytest.approx(0.03)
    assert optimizers.architecture_optimizer.momentum == 0.5
    hp.values |= {"depth": "2", "radix": "2", "mode": "joint", "warm_start": "None"}
    again = model.build(hp)
    config = again.model.get_layer("conv").get_config()
    assert (config["depth"], config["radix"]) == ((2, 2, 2), 2)
    assert (config["warm_start"], again.mode) == ("convolution", "joint")


def test_hyperband_continues_searches_and_the_best_is_finalized(tmp_path, rng):
    x, y = data(rng)
    started = []

    class Tuner(kt.Hyperband):
        def _build_hypermodel(self, hp):
            search = super()._build_hypermodel(hp)
            started.append((dict(hp.values), int(search.search_optimizer.epochs)))
            return search

    model = hypermodel(
        depth=[1, 2], warmup_epochs=1, optimizer=lambda hp: keras.optimizers.SGD(0.05)
    )
    tuner = Tuner(
        model,
        "val_loss",
        max_epochs=2,
        factor=2,
        seed=3,
        directory=tmp_path,
        project_name="burgers",
    )
    started.clear()
    tuner.search(x, y, validation_data=(x, y), batch_size=8, verbose=0)
    # A trial that goes on begins with the epochs of its best checkpoint, so it warms up no longer.
    continued = [(values, epochs) for values, epochs in started if "tuner/trial_id" in values]
    fresh = [epochs for values, epochs in started if "tuner/trial_id" not in values]
    assert continued and all(epochs == 1 for _, epochs in continued)
    assert set(fresh) == {0}
    best = tuner.oracle.get_best_trials(2)
    searches = tuner.get_best_models(2)
    found = model.finalized(tuner, 2)
    for trial, search, plain in zip(best, searches, found, strict=True):
        # What trials are compared by is the search's own value on the validation samples.
        assert search.evaluate(x, y, verbose=0) == pytest.approx(trial.score, rel=1e-4)
        assert not keras_xd.architecture_variables(plain)
        error = np.mean((plain.predict(x, verbose=0) - y) ** 2)
        assert error == pytest.approx(trial.score, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": []}, r"must not be empty. Received: depth=\[\]"),
        ({"architecture_rate": (0.1, 0.01)}, "architecture_rate=.*"),
        ({"architecture_rate": (0.0, 0.01)}, "architecture_rate=.*"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        hypermodel(**options)
