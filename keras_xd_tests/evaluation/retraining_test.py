"""Choosing settings by short trials, and the training from scratch after it.

"Training" here sets a weight to a number, so that every value can be computed by hand.
"""

import math

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.evaluation import choose_settings, retrain


class Bench:
    """Functions of a training that write down how they are called."""

    def __init__(self):
        self.calls, self.first = [], []

    def build(self):
        return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])

    def fit(self, model, fraction, rate, decay=0.0):
        self.calls.append((fraction, rate, decay))
        self.first.append(model.layers[0].kernel.numpy().sum())
        model.layers[0].bias.assign([rate * fraction - decay])

    def evaluate(self, model):
        return model.layers[0].bias[0]


@pytest.fixture
def bench():
    return Bench()


def chosen(bench, settings, **options):
    return choose_settings(bench.build, bench.fit, bench.evaluate, settings, **options)


def test_every_combination_is_tried_and_the_lowest_value_wins(bench):
    choice = chosen(bench, {"rate": (4, 2.0), "decay": [1.0, 0.0]}, fraction=0.5)
    assert bench.calls == [(0.5, 4, 1.0), (0.5, 4, 0.0), (0.5, 2.0, 1.0), (0.5, 2.0, 0.0)]
    assert choice.setting == {"rate": 2.0, "decay": 1.0}
    assert [trial.value for trial in choice.trials] == [1.0, 2.0, 0.0, 1.0]
    assert all(trial.seconds > 0 and trial.error is None for trial in choice.trials)


def test_trials_that_fail_or_diverge_lose(bench):
    fit = bench.fit

    def failing(model, fraction, rate):
        fit(model, fraction, {1: math.nan, 2: 7.0, 3: -math.inf, 4: 0.0}[rate])
        if rate == 4:
            raise ArithmeticError("too\nhigh")

    bench.fit = failing
    choice = chosen(bench, {"rate": (1, 2, 3, 4)}, fraction=1)
    assert choice.setting == {"rate": 2}
    assert choice.trials[3].error == "ArithmeticError: too\nhigh"
    assert math.isnan(choice.trials[3].value)
    with pytest.raises(ArithmeticError, match="too"):
        chosen(bench, {"rate": (1, 4, 3)})
    with pytest.raises(ValueError, match=r"a finite number.*Received: \[nan, -inf\]"):
        chosen(bench, {"rate": (1, 3)})


@pytest.mark.parametrize("value", ["2", True, np.ones(1), {"loss": 2.0}, None])
def test_other_values_are_refused(bench, value):
    bench.evaluate = lambda model: value
    with pytest.raises(ValueError, match=r"`evaluate` must return a number\. Received"):
        chosen(bench, {"rate": (1,)})


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({}, {}, "one setting at least"),
        ([], {}, "one setting at least"),
        ({"rate": ()}, {}, "one setting at least"),
        ([{}], {}, "one setting at least"),
        ([{"rate": 1}, {"decay": 1}], {}, "the same names"),
        ({"rate": "12"}, {}, "`rate` must be a list or tuple"),
        ([1], {}, "`settings` must be"),
        ({"rate": (1,)}, {"fraction": 0.0}, "`fraction` must be above 0"),
        ({"rate": (1,)}, {"fraction": 1.5}, "at most 1. Received: fraction=1.5"),
        ({"rate": (1,)}, {"seed": -1}, "`seed` must be an integer"),
        ({"rate": (1,)}, {"verbose": 3}, "`verbose`"),
        ({"rate": (1,)}, {"maximize": "max"}, "`maximize`"),
    ],
)
def test_bad_arguments(bench, settings, options, message):
    with pytest.raises(ValueError, match=message):
        chosen(bench, settings, **options)
    assert not bench.calls


def test_retraining_is_the_whole_training_of_the_best_setting(bench):
    grid = {"rate": (4.0, 2.0)}
    model, choice = retrain(bench.build, bench.fit, bench.evaluate, grid, fraction=0.25, seed=1)
    assert bench.calls == [(0.25, 4.0, 0.0), (0.25, 2.0, 0.0), (1.0, 2.0, 0.0)]
    assert float(model.layers[0].bias[0]) == 2.0 and choice.setting == {"rate": 2.0}
    assert len(set(bench.first)) == 1


def test_a_search_in_fit_returns_the_model_to_evaluate(rng):
    x, y = rng.normal(size=(8, 6, 1)), rng.normal(size=(8, 6, 2))

    def build():
        return keras.Sequential([keras.Input((6, 1)), keras.layers.Conv1D(2, 3, padding="same")])

    def fit(model, fraction, rate):
        search = keras_xd.SearchModel(keras_xd.rewrite(model, to="dash", dilations=(1,)))
        search.compile(keras.optimizers.SGD(rate), "adam", "mse", run_eagerly=True)
        search.fit(x, y, epochs=round(4 * fraction), verbose=0)
        return keras_xd.finalize(search)

    model, choice = retrain(
        build, fit, lambda model: np.mean((model(x) - y) ** 2), {"rate": (0.0, 0.05)}, fraction=0.5
    )
    assert choice.setting == {"rate": 0.05}
    assert type(model.layers[-1]) is keras.layers.Conv1D
    assert np.mean((model(x) - y) ** 2) < choice.trials[1].value < choice.trials[0].value
