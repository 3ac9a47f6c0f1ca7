"""Collapsed mixtures and stalled architectures are reported, others are not."""

import warnings

import keras
import numpy as np
import pytest

from keras_xd.layers import MixedOperation1D
from keras_xd.training.callbacks import CollapseGuard
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense, classification_data

# `pytest.warns` also finds what Keras itself warns of when it reads a variable.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


class Gates(GatedDense):
    """A searchable layer that is no mixture."""

    def describe(self):
        return {"gates": self.gates.numpy()}


CANDIDATES = ("convolution_3", "max_pooling_3", "skip", "zero")


def mixture(name="mix", **options):
    options = {"candidates": CANDIDATES, "other_weight": None, "padding": "same", **options}
    return MixedOperation1D(1, 3, name=name, **options)


def fit(layers, guard, epochs=2, rate=0.0, shape=(8, 1), **options):
    """Train by one batch an epoch; return the history and the messages of the warnings."""
    search = SearchModel(keras.Sequential([keras.Input(shape), *layers]))
    search.compile("sgd", keras.optimizers.SGD(rate), "mse", run_eagerly=True, **options)
    x = classification_data(2)[0].reshape(-1, *shape)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        history = search.fit(
            x, np.asarray(search(x)) * 2, epochs=epochs, callbacks=[guard], verbose=0
        )
    return history.history, [str(w.message) for w in caught if w.category is UserWarning]


def set_probabilities(layer, *probabilities):
    layer.logits.assign(np.log(np.array(probabilities, "float32")))


def test_collapse_is_the_share_of_operations_without_weights():
    layers = [mixture("first"), mixture("second"), Gates(1, name="gated")]
    keras.Sequential([keras.Input((8, 1)), *layers])
    set_probabilities(layers[0], 0.05, 0.35, 0.3, 0.3)
    set_probabilities(layers[1], 0.7, 0.1, 0.1, 0.1)
    history, messages = fit(layers, CollapseGuard(0.9, minimum_distance=None))
    assert messages == [
        "Epoch 1: layer 'first' has collapsed: operations without weights have probability 0.95, "
        "the relative entropy of all probabilities is 0.894."
    ]
    np.testing.assert_allclose(history["parameter_free_probability"], (0.95 + 0.3) / 2, rtol=1e-6)
    first = -(0.05 * np.log(0.05) + 0.35 * np.log(0.35) + 0.6 * np.log(0.3)) / np.log(4)
    second = -(0.7 * np.log(0.7) + 0.3 * np.log(0.1)) / np.log(4)
    np.testing.assert_allclose(history["mixture_entropy"], (first + second) / 2, rtol=1e-6)


def test_stalled_architecture_is_reported_once_after_warmup():
    guard = CollapseGuard(minimum_distance=1e-3, patience=2)
    history, messages = fit(
        [Gates(1, name="gated")], guard, 6, warmup_epochs=2, cooldown_epochs=1, shape=(4,)
    )
    # The epochs of search are the third to the fifth; the fourth is the second of them.
    assert messages == [
        "Epoch 4: layer 'gated' has stalled: after 2 epochs its architecture has the relative "
        "distance 0 from its start."
    ]
    assert history["architecture_distance"] == [0.0] * 4
    assert "parameter_free_probability" not in history


def test_distance_is_relative_to_the_start():
    layer = Gates(1, name="gated")
    history, messages = fit(
        [layer], CollapseGuard(minimum_distance=1e-9, patience=1), 1, rate=0.01, shape=(4,)
    )
    # The gates start at one each, so their length is 2.
    expected = np.linalg.norm(layer.gates.numpy() - 1) / 2
    np.testing.assert_allclose(history["architecture_distance"], expected, rtol=1e-6)
    assert expected > 1e-4 and not messages
    limit = float(expected) * 1.01
    guard = CollapseGuard(minimum_distance=limit, patience=1, stop=True)
    keras.utils.set_random_seed(20)
    history, messages = fit([Gates(1, name="gated")], guard, 3, rate=0.0, shape=(4,))
    assert "has stalled" in messages[0] and len(history["loss"]) == 1


def test_equal_shares_are_a_start_of_length_zero():
    layer = mixture(kernel_initializer="ones")
    history, _ = fit([layer], CollapseGuard(1.0), 1, rate=0.1)
    found = np.linalg.norm(layer.logits.numpy())
    np.testing.assert_allclose(history["architecture_distance"], found, rtol=1e-6)
    assert found > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probability": 0}, "`probability` must be a number in .*probability=0"),
        ({"probability": 1.1}, "`probability` must be a number in .*probability=1.1"),
        ({"probability": "most"}, "`probability` must be a number in .*probability='most'"),
        ({"minimum_distance": 0.0}, "`minimum_distance` must be above 0.*=0.0"),
        ({"operations": "skip"}, "`operations` must be a list of names.*'skip'"),
        ({"patience": 0}, "`patience` must be an integer.*patience=0"),
        ({"stop": 1.5}, "`stop` must be one of True, False"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        CollapseGuard(**arguments)


def test_a_model_without_search_is_refused():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = classification_data(4)[0]
    with pytest.raises(ValueError, match="needs a model with searchable layers.*model="):
        model.fit(x, x[:, :1], callbacks=[CollapseGuard()], verbose=0)


def test_limits_are_borders():
    """A probability that equals the limit is a collapse; a distance that equals it is no stall."""
    _, messages = fit([mixture()], CollapseGuard(0.75, minimum_distance=None), 1)
    assert len(messages) == 1 and "probability 0.75" in messages[0]
    found = []
    for distance in (1e-9, None, 1.001):
        keras.utils.set_random_seed(20)
        limit = distance if distance == 1e-9 else found[0] * (distance or 1)
        guard = CollapseGuard(minimum_distance=limit, patience=1)
        history, messages = fit([Gates(1, name="gated")], guard, 1, rate=0.01, shape=(4,))
        found += history["architecture_distance"]
        assert len(messages) == (distance == 1.001)
    assert found[0] == found[1] == found[2] > 0
