"""Gradients of functions on TensorFlow against derivatives by hand."""

import keras
import numpy as np
import tensorflow as tf

from keras_xd.training.backends.tensorflow import after, loss_and_gradients
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense


def test_gradients_of_embeddings_are_dense():
    table = tf.ones((4, 2))
    _, _, (gradient,) = loss_and_gradients(
        lambda values: (tf.reduce_sum(tf.gather(values[0], [1, 3, 1])), None), [table]
    )
    assert isinstance(gradient, tf.Tensor)
    np.testing.assert_array_equal(gradient, [[0, 0], [2, 2], [0, 0], [1, 1]])


def test_operations_wait_for_what_was_updated():
    variable = keras.Variable([1.0])

    @tf.function(autograph=False)
    def step(x):
        variable.assign(x)
        with after([variable]):
            return tf.square(x, name="later")

    graph = step.get_concrete_function(tf.TensorSpec([1])).graph
    (read,) = graph.get_operation_by_name("later").control_inputs
    assert read.type == "ReadVariableOp"
    assert "AssignVariableOp" in {op.type for op in read.control_inputs}
    np.testing.assert_array_equal(step(tf.constant([3.0])), [9.0])


def test_weights_wait_for_the_architecture():
    # Together the two passes would keep the features of both.
    search = SearchModel(
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), GatedDense(1)])
    )
    search.compile("sgd", "sgd", "mse", mode="first_order")
    data = tf.ones((4, 2)), tf.ones((4, 1))
    step = tf.function(lambda x, y: search.train_step((x, y)), autograph=False)
    graph = step.get_concrete_function(*data).graph
    reached = set()

    def reach(op):
        if op not in reached:
            reached.add(op)
            for other in [*op.control_inputs, *(tensor.op for tensor in op.inputs)]:
                reach(other)

    # Two products forward and one backward in the architecture's pass, then the weights' pass.
    *earlier, first = [op for op in graph.get_operations() if op.type == "MatMul"][:4]
    reach(first)
    assert set(earlier) <= reached
