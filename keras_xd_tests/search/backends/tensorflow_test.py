"""Gradients of functions on TensorFlow against derivatives by hand."""

import numpy as np
import tensorflow as tf

from keras_xd.search.backends.tensorflow import loss_and_gradients


def test_gradients_of_tensors_and_variables():
    values = [tf.constant([1.0, 2.0]), tf.Variable([3.0, -1.0]), tf.constant(5.0)]

    def function(found):
        return tf.reduce_sum(found[0] ** 2 * found[1]), {"sum": found[0] + found[1]}

    for compiled in (loss_and_gradients, tf.function(loss_and_gradients)):
        loss, others, gradients = compiled(function, values)
        assert float(loss) == 3.0 - 4.0
        np.testing.assert_array_equal(others["sum"], [4.0, 1.0])
        np.testing.assert_array_equal(gradients[0], [6.0, -4.0])
        np.testing.assert_array_equal(gradients[1], [1.0, 4.0])
        assert gradients[2] is None


def test_gradients_of_embeddings_are_dense():
    table = tf.ones((4, 2))
    _, _, (gradient,) = loss_and_gradients(
        lambda values: (tf.reduce_sum(tf.gather(values[0], [1, 3, 1])), None), [table]
    )
    assert isinstance(gradient, tf.Tensor)
    np.testing.assert_array_equal(gradient, [[0, 0], [2, 2], [0, 0], [1, 1]])
