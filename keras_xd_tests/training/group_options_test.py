"""What optimizers offer acts within each group, in joint and bilevel modes.

Expected are the variables that two plain Keras optimizers, one for each group, leave behind. They
are given gradients that come from TensorFlow's tape, and for the second order from
`architecture_gradients`, which `bilevel_test.py` checks.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd.core.searchable import architecture_variables, model_variables
from keras_xd.training import bilevel
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense, classification_data

MODES = ("joint", "first_order", "second_order")
BATCH, STEPS = 4, 3
SCHEDULES = keras.optimizers.schedules

# Each option with a value of its own for the weights or for the architecture, small enough to
# act: the gradients of the first step have elements up to 5 and lengths of 8 and 4.
ALL = (
    {
        "learning_rate": SCHEDULES.ExponentialDecay(0.1, 1, 0.5),
        "global_clipnorm": 0.5,
        "weight_decay": 0.5,
    },
    {
        "learning_rate": SCHEDULES.PiecewiseConstantDecay([1], [0.1, 0.02]),
        "clipvalue": 0.1,
        "gradient_accumulation_steps": 2,
    },
)


def optimizers(options):
    weights, architecture = options
    return (
        keras.optimizers.SGD(**{"learning_rate": 0.05, "momentum": 0.5, **weights}),
        keras.optimizers.SGD(**{"learning_rate": 0.1, "momentum": 0.5, **architecture}),
    )


def search_model(mode, options, dtype=None, **compile_options):
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((4,)), GatedDense(2)])
    search = SearchModel(model, **({"dtype": dtype} if dtype else {}))
    search.compile(*optimizers(options), "mse", mode=mode, **compile_options)
    return search


def data():
    """Return training samples and architecture samples."""
    x, labels = classification_data(2 * BATCH * STEPS)
    y = 3 * np.stack([labels, -labels], axis=1).astype("float32")
    half = BATCH * STEPS
    return (x[:half], y[:half]), (x[half:], y[half:])


def fit(search):
    training, held_out = data()
    arguments = {} if search.mode == "joint" else {"architecture_validation_data": held_out}
    search.fit(*training, batch_size=BATCH, shuffle=False, verbose=0, **arguments)
    return values(search)


def values(search):
    return [v.numpy() for v in model_variables(search) + architecture_variables(search)]


def gradients(search, batch, variables):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(search.model(batch[0]) - batch[1]))
    return tape.gradient(loss, [variable.value for variable in variables])


def interleaved(*batches):
    return tuple(
        np.stack(pair, axis=1).reshape(2 * BATCH, -1) for pair in zip(*batches, strict=True)
    )


def expected(mode, options):
    """Return the variables after separate optimizers have had the gradients of each group."""
    # Its own optimizers are never used but for the look ahead of the second order.
    search = search_model(mode, options, run_eagerly=True)
    weights, architecture = model_variables(search), architecture_variables(search)
    for_weights, for_architecture = optimizers(options)
    for_weights.build(weights)
    for_architecture.build(architecture)
    training, held_out = (
        [tuple(part[i : i + BATCH] for part in parts) for i in range(0, BATCH * STEPS, BATCH)]
        for parts in data()
    )
    for batch, other in zip(training, held_out, strict=True):
        if mode == "joint":
            slopes = gradients(search, batch, weights)
            for_architecture.apply(gradients(search, batch, architecture), architecture)
            for_weights.apply(slopes, weights)
            continue
        if mode == "second_order":
            pairs = zip(
                search.search_optimizer.weights_optimizer.variables,
                for_weights.variables,
                strict=True,
            )
            for mine, plain in pairs:
                mine.assign(plain)
            halves = bilevel.halves(interleaved(batch, other))
            slopes = bilevel.architecture_gradients(search, *halves)[1]
        else:
            slopes = gradients(search, other, architecture)
        for_architecture.apply(slopes, architecture)
        for_weights.apply(gradients(search, batch, weights), weights)
    return values(search)


def close(found, wanted, rtol=2e-5):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-6)


@functools.cache
def expected_of_all(mode):
    """Return the variables of a mode with all options."""
    return expected(mode, ALL)


@pytest.mark.parametrize(
    ("mode", "steps_per_execution"), [("joint", 2), ("first_order", 2), ("second_order", 1)]
)
def test_all_at_once_in_a_compiled_step(mode, steps_per_execution):
    """Also where the last call of the compiled step has fewer steps than the others.

    `search_model_bilevel_test` compiles the step of the second order.
    """
    options = {"run_eagerly": steps_per_execution == 1, "jit_compile": mode == "joint"}
    search = search_model(mode, ALL, steps_per_execution=steps_per_execution, **options)
    close(fit(search), expected_of_all(mode))
    optimizer = search.search_optimizer
    assert int(optimizer.iterations) == int(optimizer.weights_optimizer.iterations) == STEPS


@pytest.mark.parametrize("mode", MODES)
def test_steps_that_overflow_are_skipped_and_lower_the_scale(mode):
    search = search_model(mode, ({}, {}), "mixed_float16", run_eagerly=True)
    search.optimizer.dynamic_scale.assign(2.0**127)
    before = values(search)
    (x, y), (other_x, other_y) = ([part[:BATCH] for part in parts] for parts in data())
    samples = (x, y) if mode == "joint" else interleaved((x, y), (other_x, other_y))
    # Targets so large that half of the scale is too much, too.
    search.train_on_batch(samples[0], 100 * samples[1])
    for old, new in zip(before, values(search), strict=True):
        np.testing.assert_array_equal(new, old)
    steps = 1 if mode == "joint" else 2
    assert float(search.optimizer.dynamic_scale) == 2.0 ** (127 - steps)
    optimizer = search.search_optimizer
    assert int(optimizer.weights_optimizer.iterations) == 0
    assert int(optimizer.architecture_optimizer.iterations) == 0
