"""Seeds of all tests, and what is made in less time."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd_tests import backend_settings


def drawn():
    """What the generators give next: of Python, NumPy and TensorFlow."""
    shuffled = tf.data.Dataset.range(50).shuffle(50).as_numpy_iterator()
    return random.random(), np.random.rand(), [int(number) for number in shuffled]


class Seen(keras.Model):
    """Notes the samples in the order in which it gets them."""

    def __init__(self):
        super().__init__()
        self.order, self.dense = [], keras.layers.Dense(1)

    def call(self, inputs):
        self.order.append(int(inputs[0, 0]))
        return self.dense(inputs)


def fitted_order():
    model, samples = Seen(), np.arange(12.0)[:, None]
    model.compile(loss="mse", run_eagerly=True)
    model.fit(samples, samples, batch_size=1, verbose=0)
    return model.order


def test_every_test_begins_with_the_same_seeds():
    first = drawn()
    keras.utils.set_random_seed(20)
    assert drawn() == first


def test_the_order_of_a_fit_is_seeded():
    first = fitted_order()
    keras.utils.set_random_seed(20)
    assert fitted_order() == first != sorted(first)


def test_other_seeds_are_kept():
    keras.utils.set_random_seed(3)
    first = fitted_order(), drawn()
    tf.random.set_seed(3)
    random.seed(3)
    np.random.seed(3)
    assert (fitted_order(), drawn()) == first
    keras.utils.set_random_seed(20)
    assert fitted_order() != first[0]


@pytest.mark.tensorflow("the numbers are those of its operations")
@pytest.mark.parametrize("seed", [0, 5, 2**31 + 7, 2**32 - 1])
@pytest.mark.parametrize("shape", [(), (3, 4), (0, 2)])
def test_random_weights_are_those_of_keras(shape, seed):
    found = keras.random.uniform(shape, -0.3, 0.7, seed=seed)
    expected = backend_settings.UNIFORM(shape, -0.3, 0.7, "float32", seed)
    assert found.shape == expected.shape == shape and found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.tensorflow("on other backends Keras makes them")
def test_a_start_of_zeros_is_made_once_and_variables_stay_their_own():
    first, second = (keras.ops.zeros((2, 3), "float32") for _ in range(2))
    assert first is second
    one, other = (keras.Variable("ones", shape=(2,)) for _ in range(2))
    one.assign_add([1.0, 2.0])
    np.testing.assert_array_equal(one, [2, 3])
    np.testing.assert_array_equal(other, keras.ops.ones((2,)))
