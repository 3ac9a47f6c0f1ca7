"""Seeds of all tests."""

import random

import keras
import numpy as np
import tensorflow as tf


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
