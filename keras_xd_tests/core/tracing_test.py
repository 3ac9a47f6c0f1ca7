import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_xd import layers
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
    assert_called_twice(twice.get_concrete_function(x).graph)


def assert_called_twice(graph):
    nodes = [node for node in graph.get_operations() if node.type == "PartitionedCall"]
    calls = [node.get_attr("f").name for node in nodes]
    assert len(calls) == 4 and len(set(calls)) == 2  # forward and backward, twice each
    library = {f.signature.name: f for f in graph.as_graph_def().library.function}
    assert all(library[name].attr["_noinline"].b for name in calls)


@pytest.mark.tensorflow("traces with tf.function")
def test_operations_of_equal_sizes_are_traced_and_optimized_once():
    operations = [layers.XDConv1D(3, 3, padding="same", depth=1) for _ in range(2)]
    model = keras.Sequential([keras.Input((8, 3)), *operations])

    @tf.function
    def gradients(x):
        with tracing.calls_kept(), tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    x = tf.random.normal((2, 8, 3))
    assert_called_twice(gradients.get_concrete_function(x).graph)
    with tf.GradientTape() as tape:  # eagerly, nothing is shared
        loss = tf.reduce_sum(model(x) ** 2)
    expected = tape.gradient(loss, model.trainable_variables)
    for found, wanted in zip(gradients(x), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
