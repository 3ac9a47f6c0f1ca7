import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_xd.core import tracing


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
