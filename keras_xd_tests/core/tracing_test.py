import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_xd.core import tracing
from keras_xd.layers import XDConv1D


def scaled_sum(factor, x, weights):
    total = factor * ops.sum(x * weights["w"])
    return {"total": total}, [ops.stop_gradient(ops.mean(x))]


def test_results_and_what_is_aside():
    part = tracing.traced_part(scaled_sum, 3.0)
    assert part is tracing.traced_part(scaled_sum, 3.0)
    assert part is not tracing.traced_part(scaled_sum, 4.0)
    result, aside = part(ops.ones((4,)), {"w": 2 * ops.ones((4,))})
    assert float(result["total"]) == 24
    np.testing.assert_allclose([float(value) for value in aside], [1.0])


@pytest.mark.tensorflow("traces with tf.function")
def test_it_is_traced_once_for_all_calls():
    traces = []

    def function(x):
        traces.append(x.shape)
        return x * x, [tf.reduce_sum(x)]

    part = tracing.traced_once(function)

    @tf.function
    def twice(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            first, (total,) = part(x)
            second, _ = part(first)
            loss = tf.reduce_sum(second)
        return tape.gradient(loss, x), total

    x = tf.constant([1.0, 2.0])
    gradient, total = twice(x)
    np.testing.assert_allclose(gradient, 4 * np.array([1.0, 8.0]))
    assert float(total) == 3 and len(traces) == 1
    twice(tf.constant([3.0, 2.0]))
    assert len(traces) == 1
    calls = [
        node.get_attr("f").name
        for node in twice.get_concrete_function(x).graph.get_operations()
        if node.type == "PartitionedCall"
    ]
    assert len(calls) == 4 and len(set(calls)) == 2  # forward and backward, twice each


@pytest.mark.tensorflow("compiles with XLA")
def test_what_xla_compiles_has_no_calls():
    """The gradient of a call would read its constants, and XLA compile the batch as one."""
    part = tracing.traced_once(lambda x: (ops.transpose(x, (1, 0)) @ x, [ops.sum(x)]))

    @tf.function(jit_compile=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(part(x)[0])
        return tape.gradient(loss, x)

    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(gradient(x), 2 * np.array([[3.0, 3.0], [7.0, 7.0]]))
    types = {node.type for node in gradient.get_concrete_function(x).graph.get_operations()}
    assert "Transpose" in types and not any("PartitionedCall" in kind for kind in types)


@pytest.mark.parametrize("finalized", [False, True])
def test_where_shapes_alone_are_asked_for_operations_give_zeros(finalized):
    layer = XDConv1D(3, 3, padding="same", dtype="mixed_bfloat16")
    layer.build((None, 8, 2))
    layer = layer.finalize() if finalized else layer
    x = ops.ones((2, 8, 2))
    outputs = layer(x)
    with tracing.shapes_alone():
        zeros = layer(x)
        with pytest.raises(Exception, match="9"):  # of another shape than it was built for
            layer(ops.ones((2, 9, 2)))
    assert zeros.shape == outputs.shape and zeros.dtype == outputs.dtype
    assert np.any(keras.ops.convert_to_numpy(ops.cast(outputs, "float32")))
    assert not np.any(keras.ops.convert_to_numpy(ops.cast(zeros, "float32")))
    np.testing.assert_array_equal(*(ops.cast(y, "float32") for y in (layer(x), outputs)))
