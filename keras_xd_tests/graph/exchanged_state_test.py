import keras
import numpy as np
import pytest
from keras import layers

from keras_xd.graph import exchanged_state


class Two(layers.Layer):
    def __init__(self, more=(), **kwargs):
        super().__init__(**kwargs)
        self.first, self.second = layers.Dense(3), layers.Dense(3)
        self.more = more

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(3,), initializer="random_normal", name="scale")
        self.offsets = [self.add_weight(shape=(n,), name=f"offset_{n}") for n in self.more]

    def call(self, inputs):
        return self.second(self.first(inputs)) * self.scale


def test_all_but_some_places_is_copied(rng):
    old, new = Two(), Two()
    x = rng.normal(size=(2, 3)).astype("float32")
    old(x), new(x)
    old.first.trainable = False
    before = keras.ops.convert_to_numpy(new.second.kernel)
    exchanged_state.copy_state_except([(("second",),)], old, new)
    np.testing.assert_array_equal(np.array(old.first(x)), np.array(new.first(x)))
    np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (old.scale, new.scale)))
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(new.second.kernel), before)
    assert not new.first.trainable and new.second.trainable


def test_other_weights_of_a_copy_are_refused():
    old, new = Two(), Two(more=(2,))
    for layer in (old, new):
        layer(np.ones((2, 3)))
    with pytest.raises(ValueError, match="must have the same weights, in the same attributes"):
        exchanged_state.copy_state_except([(("second",),)], old, new)
