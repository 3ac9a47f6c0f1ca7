import keras
import numpy as np
import pytest

from keras_xd.core.mixtures import SMALLEST_PROBABILITY, CandidateMixture, chosen_candidates


class Two(CandidateMixture):
    """A sum of two numbers by probabilities."""

    operation_names = ("one", "two")

    def build(self, input_shape):
        self.logits = self.add_weight(name="logits", shape=(2,), initializer="zeros")

    def call(self, inputs):
        return inputs * keras.ops.sum(self.probabilities * keras.ops.arange(1.0, 3.0))


def built(logits):
    layer = Two()
    layer.build((None, 1))
    layer.logits.assign(logits)
    return layer


def test_what_a_mixture_tells():
    layer = built([0.0, np.log(3)])
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(layer.probabilities), [0.25, 0.75], rtol=1e-6
    )
    assert layer.largest == "two" and layer.architecture_variables == [layer.logits]
    described = layer.describe()
    assert described["probability/two"] == pytest.approx(0.75)
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert described["entropy"] == pytest.approx(entropy)
    assert described["entropy/relative"] == pytest.approx(entropy / np.log(2))
    assert layer.architecture_signature()["operations"] == ["one", "two"]


def test_candidates_that_are_chosen_from_outside():
    layer, other = built([0.0, 1.0]), built([0.0, 1.0])
    with chosen_candidates([layer], ["one"]):
        assert (layer.largest, other.largest) == ("one", "two")
    assert layer.largest == "two"


def test_random_shares_are_even_and_bounded(rng):
    layer = built([5.0, 0.0])
    drawn = np.array([layer.random_architecture(rng)[0] for _ in range(400)])
    assert 0.4 < np.mean(drawn[:, 0] > drawn[:, 1]) < 0.6
    assert drawn.min() >= np.log(SMALLEST_PROBABILITY)
