import warnings

import keras
import numpy as np
import pytest
from keras import ops

import keras_xd
from keras_xd import layers
from keras_xd.training import budget
from keras_xd_tests.training.gated_dense import (
    GatedDense,
    Uncounted,
    classification_data,
    gated_model,
)

LOSS = "sparse_categorical_crossentropy"


@keras.saving.register_keras_serializable(package="keras_xd_tests")
def sum_of_gates(model):
    return ops.sum(ops.convert_to_tensor(model.layers[0].gates))


def compiled(model=None, **kwargs):
    search = keras_xd.SearchModel(gated_model() if model is None else model)
    search.compile("sgd", "sgd", LOSS, jit_compile=False, **kwargs)
    return search


@pytest.mark.parametrize(
    "measure, cost",
    [
        ("multiply_adds", 4 * 5 + 15),
        ("parameters", 20 + 5 + 4 * 5 + 15 + 3),
        ("activations", 5 + 3),
        (sum_of_gates, 4),
    ],
)
def test_the_term_measures_what_it_is_told(measure, cost):
    search = compiled(complexity_target=cost / 3, complexity_weight=0.5, complexity_measure=measure)
    assert float(budget.complexity_term(search)) == pytest.approx(0.5 * 4, rel=1e-5)
    assert float(search.complexity_metric.result()) == pytest.approx(3, rel=1e-5)


def test_the_weight_changes_without_a_new_trace():
    x, y = classification_data()
    search = compiled(complexity_target=70, complexity_weight=0.0)
    search.optimizer.weights_optimizer.learning_rate.assign(0.0)
    search.optimizer.architecture_optimizer.learning_rate.assign(0.0)
    first = search.fit(x, y, batch_size=20, verbose=0).history["loss"][0]
    traces = search.model.layers[0].traces
    search.complexity_weight = 2.0
    assert search.complexity_weight == 2.0
    again = search.fit(x, y, batch_size=20, verbose=0).history["loss"][0]
    assert again == pytest.approx(first + 2.0 * 0.25, rel=1e-5)
    assert search.model.layers[0].traces == traces


def test_a_target_that_nothing_aims_at_is_warned_of():
    x, y = classification_data()
    message = "is measured and never moved to `complexity_target`.*=70, complexity_weight=None"
    search = compiled(complexity_target=70)
    with pytest.warns(UserWarning, match=message):
        search.fit(x, y, verbose=0)
    # Those that something makes aim, or that are told to measure only, are silent.
    callback = keras_xd.callbacks.ComplexityWeight(lambda epoch: 0.5)
    search.fit(x, y, callbacks=[callback], verbose=0)
    search.complexity_weight = 0.5
    search.fit(x, y, verbose=0)
    measured = compiled(complexity_target=70, complexity_weight=0.0)
    measured.fit(x, y, verbose=0)


def test_smallest_masks_bound_the_target():
    mask = layers.DifferentiableMask(minimum_size=10)
    model = keras.Sequential([keras.Input((40,)), mask])
    before = ops.convert_to_numpy(mask.length)
    budget.check_reachable(model, 10, "multiply_adds")
    budget.check_reachable(model, None, "multiply_adds")
    with pytest.raises(ValueError, match="are allowed, 10:.*Received: complexity_target=9.9"):
        budget.check_reachable(model, 9.9, "multiply_adds")
    with pytest.raises(ValueError, match="are allowed, 20:.*Received: complexity_target=19"):
        budget.check_reachable(model, 19, lambda found: 2 * keras_xd.complexity(found))
    np.testing.assert_array_equal(mask.length, before)
    budget.check_reachable(gated_model(), 1e-3, "multiply_adds")  # no masks: nothing is known


@pytest.mark.parametrize("measure", ["multiply_adds", keras_xd.complexity])
def test_layers_without_a_count_are_named_once_and_not_at_every_trace(measure):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, GatedDense(3)(Uncounted(name="own")(inputs)))
    search = keras_xd.SearchModel(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        search.compile(
            "sgd",
            "sgd",
            "mse",
            complexity_target=9,
            complexity_weight=1.0,
            complexity_measure=measure,
        )
        x = np.ones((4, 4), "float32")
        search.fit(x, np.ones((4, 3)), validation_data=(x, np.ones((4, 3))), verbose=0)
    (warning,) = (item for item in caught if item.category is UserWarning)
    assert "without those of 'own'" in str(warning.message)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, 0.0, "parameters"), "`complexity_target` must be a positive.*complexity_target=0"),
        ((5, float("inf"), "parameters"), "complexity_weight=inf"),
        ((5, "x", "parameters"), "complexity_weight='x'"),
        ((None, 1.0, "parameters"), "needs a `complexity_target`"),
        ((5, 1.0, "watts"), "complexity_measure='watts'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        budget.check_arguments(*arguments)
