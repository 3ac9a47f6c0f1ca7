"""Warm restarts: the rates of the formula, fresh weights and slots, an untouched architecture."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd.core.searchable import architecture_variables, model_variables
from keras_xd.training.callbacks import WarmRestarts
from keras_xd.training.callbacks.warm_restarts import place, reset_slots
from keras_xd_tests.training.gated_dense import classification_data, gated_search

FIT = {"batch_size": 4, "shuffle": False, "verbose": 0}


def state(variables):
    return [variable.numpy().copy() for variable in variables]


def groups(search):
    """Return copies of what belongs to the weights and of what belongs to the architecture."""
    optimizer = search.search_optimizer
    return (
        state(model_variables(search) + optimizer.weights_optimizer.variables),
        state(architecture_variables(search) + optimizer.architecture_optimizer.variables),
    )


class Recorder(keras.callbacks.Callback):
    """Keeps both groups at the begin and the end of every epoch, and the rates of every batch."""

    def __init__(self):
        super().__init__()
        self.begins, self.ends, self.rates = [], [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.begins.append(groups(self.model))

    def on_train_batch_end(self, batch, logs=None):
        optimizer = self.model.search_optimizer
        rates = [optimizer.weights_optimizer, optimizer.architecture_optimizer]
        self.rates.append([float(part.learning_rate.numpy()) for part in rates])

    def on_epoch_end(self, epoch, logs=None):
        self.ends.append(groups(self.model))


def fit(search, restarts, epochs, **arguments):
    """Train by two batches an epoch; return the recorder and the history."""
    recorder = Recorder()
    callbacks = [*arguments.pop("callbacks", []), restarts, recorder]
    x, y = classification_data(8)
    arguments = {**FIT, **arguments}
    return recorder, search.fit(x, y, epochs=epochs, callbacks=callbacks, **arguments).history


def same(one, other):
    return [np.array_equal(a, b) for a, b in zip(one, other, strict=True)]


@pytest.mark.parametrize(("first", "factor"), [(1, 1), (3, 1), (2, 2), (1, 3)])
def test_place_is_that_of_a_walk_through_the_epochs(first, factor):
    restarts, over, period = 0, 0, first
    for count in range(60):
        assert place(count, first, factor) == (restarts, over, period)
        over += 1
        if over == period:
            restarts, over, period = restarts + 1, 0, period * factor


def expected_rates(times, first, factor, highest, lowest):
    """Equation 5 of the paper, with its T_i and T_cur."""
    rates = []
    for time in times:
        period = first
        while time >= period:
            time, period = time - period, period * factor
        rates.append(lowest + 0.5 * (highest - lowest) * (1 + np.cos(np.pi * time / period)))
    return rates


@pytest.mark.parametrize(
    ("granularity", "run"),
    [("epoch", {}), ("batch", {}), ("batch", {"steps_per_execution": 2})],
)
def test_rates(granularity, run):
    search = gated_search(**run)
    restarts = WarmRestarts(
        1,
        2,
        learning_rate=0.1,
        architecture_learning_rate=0.02,
        minimum=0.01,
        granularity=granularity,
        reset_weights=False,
    )
    recorder, history = fit(search, restarts, 4)
    times = np.arange(8) // 2 if granularity == "epoch" else np.arange(8) / 2
    if run:
        times = times[::2]
    for column, highest in enumerate([0.1, 0.02]):
        np.testing.assert_allclose(
            np.array(recorder.rates)[:, column],
            expected_rates(times, 1, 2, highest, 0.01),
            rtol=1e-6,
        )
    calls = len(times) // 4
    assert history["learning_rate"] == [row[0] for row in recorder.rates[calls - 1 :: calls]]
    assert history["restarts"] == [0, 1, 1, 2]
    # Nothing but the rates has been touched: the optimizers have counted on.
    assert int(search.search_optimizer.weights_optimizer.iterations) == 8


@pytest.mark.parametrize("mode", ["joint", "second_order"])
def test_weights_and_slots_start_from_scratch_and_the_architecture_does_not(mode):
    search = gated_search(keras.optimizers.Adam(0.01), mode=mode, run_eagerly=True)
    start = groups(search)[0]
    data = {} if mode == "joint" else {"architecture_validation_split": 0.5}
    recorder, _ = fit(search, WarmRestarts(2, seed=7), 5, **data)
    # Kernel, bias; count, rate and two slots for each of the weights.
    for epoch in (2, 4):
        (weights, architecture), (old, kept) = recorder.begins[epoch], recorder.ends[epoch - 1]
        assert all(same(architecture, kept))
        # The learning rate alone is what it was.
        assert same(weights, old) == [False, False, False, True] + [False] * 4
        # The bias is initialised to zeros, the kernel is drawn again.
        assert same(weights, start) == [False] + [True] * 7
        assert not np.any(weights[1]) and np.any(start[0])
    assert not np.array_equal(recorder.begins[2][0][0], recorder.begins[4][0][0])
    for epoch in (1, 3):
        assert all(same(recorder.begins[epoch][0], recorder.ends[epoch - 1][0]))
    batches = 2 if mode == "joint" else 1
    assert int(search.search_optimizer.weights_optimizer.iterations) == batches
    assert int(search.search_optimizer.architecture_optimizer.iterations) == 5 * batches


@pytest.mark.parametrize(
    "optimizer",
    [
        keras.optimizers.Adagrad(0.01, initial_accumulator_value=0.3),
        keras.optimizers.Nadam(0.01),
        keras.optimizers.SGD(0.01, use_ema=True, gradient_accumulation_steps=2),
    ],
)
def test_slots_start_where_those_of_a_new_optimizer_do(optimizer):
    search = gated_search(optimizer)
    start = state(optimizer.variables)
    x, y = classification_data(4)
    search.train_on_batch(x, y)
    assert not all(same(state(optimizer.variables), start))
    reset_slots(search)
    assert all(same(state(optimizer.variables), start))


def grouped_search(bias=None, **options):
    """Return a search whose bias has an optimizer of its own."""
    weights = keras.optimizers.OptimizerMap(keras.optimizers.Adam(0.03))
    weights[".*/bias"] = bias or keras.optimizers.SGD(0.015, momentum=0.9)
    return gated_search(keras.optimizers.MultiOptimizer(weights), **options)


def rates_of(search):
    optimizers = [*search.search_optimizer.weights_optimizers]
    optimizers.append(search.search_optimizer.architecture_optimizer)
    return [float(optimizer.learning_rate.numpy()) for optimizer in optimizers]


@pytest.mark.parametrize("granularity", ["epoch", "batch"])
def test_groups_of_weights_restart_together(granularity):
    """The rate of the second is half of the first; a factor of zero does not lose that."""
    search, seen = grouped_search(), []
    record = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(rates_of(search))
    )
    factors = {0.0: 1.0, 0.25: 0.5, 0.5: 0.0, 0.75: 0.1}
    restarts = WarmRestarts(
        2, learning_rate=0.3, granularity=granularity, annealing=factors.get, seed=0
    )
    fit(search, restarts, 4, callbacks=[record])
    expected = np.array([0.3, 0.3, 0.0, 0.0] if granularity == "epoch" else [0.3, 0.15, 0.0, 0.03])
    expected, found = np.tile(expected, 2), np.array(seen)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], expected / 2, rtol=1e-6)
    np.testing.assert_allclose(found[:, 2], 0.01, rtol=1e-6)


def test_a_group_with_a_schedule_is_named():
    search = grouped_search(keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 4)))
    with pytest.raises(ValueError, match=r"`learning_rate` must be None.*optimizer\['\.\*/bias"):
        fit(search, WarmRestarts(2, learning_rate=0.1), 1)
    fit(search, WarmRestarts(2, architecture_learning_rate=0.1), 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"first_period": 0}, "`first_period` must be an integer.*first_period=0"),
        ({"period_factor": 1.5}, "`period_factor` must be an integer.*period_factor=1.5"),
        ({"learning_rate": -0.1}, "`learning_rate` must be a number of at least 0.*=-0.1"),
        ({"architecture_learning_rate": "fast"}, "`architecture_learning_rate` must be a number"),
        ({"minimum": float("nan")}, "`minimum` must be a number of at least 0.*minimum=nan"),
        ({"learning_rate": 0.1, "minimum": 0.2}, "No rate may be below `minimum`.*minimum=0.2"),
        ({"annealing": "linear"}, "`annealing` must be one of 'cosine'.*'linear'"),
        ({"granularity": "step"}, "`granularity` must be one of 'epoch', 'batch'"),
        ({"reset_weights": "yes"}, "`reset_weights` must be one of True, False"),
        ({"reset_weights": False}, "needs a rate to anneal or weights to reset"),
        ({"seed": 1.0}, "`seed` must be an integer of at least 0 or None.*seed=1.0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        WarmRestarts(**{"first_period": 2, **arguments})


def test_bad_models_and_data():
    x, y = classification_data(8)
    plain = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    plain.compile("sgd", "mse")
    with pytest.raises(ValueError, match="is for a compiled `keras_xd.SearchModel`.*model="):
        plain.fit(x, y, callbacks=[WarmRestarts(2)], verbose=0)
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 4)
    with pytest.raises(ValueError, match="`learning_rate` must be None.*learning_rate=0.1"):
        fit(gated_search(keras.optimizers.SGD(schedule)), WarmRestarts(2, learning_rate=0.1), 1)
    with pytest.raises(ValueError, match="`architecture_learning_rate` must be None"):
        fit(
            gated_search(architecture_optimizer=keras.optimizers.SGD(schedule)),
            WarmRestarts(2, architecture_learning_rate=0.1),
            1,
        )
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4).filter(lambda x, y: True)
    restarts = WarmRestarts(2, learning_rate=0.1, granularity="batch")
    with pytest.raises(ValueError, match='`granularity="batch"` needs data of known length'):
        gated_search().fit(data, callbacks=[restarts], shuffle=False, verbose=0)


def test_a_rate_may_equal_the_minimum():
    restarts = WarmRestarts(2, learning_rate=0.1, minimum=0.1)
    recorder, _ = fit(gated_search(), restarts, 3)
    np.testing.assert_allclose(np.array(recorder.rates)[:, 0], 0.1, rtol=1e-6)


def test_the_first_period_begins_with_the_weights_that_are_there():
    search = gated_search()
    before = state(model_variables(search))
    recorder, _ = fit(search, WarmRestarts(2), 1)
    assert all(same(before, recorder.begins[0][0][: len(before)]))
