"""Bilevel steps on TensorFlow."""

import tensorflow as tf


def loss_and_gradients(function, values):
    """Return a loss, its gradients and whatever else a function computes on the way."""
    values = [tf.convert_to_tensor(value) for value in values]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(values)
        loss, others = function(values)
    gradients = tape.gradient(loss, values)
    # The gradient of an embedding is sparse; the caller adds and scales.
    return loss, others, [None if g is None else tf.convert_to_tensor(g) for g in gradients]


def with_state(search, function):
    """Call a function that updates variables."""
    return [function()]


def apply(optimizer, gradients, variables):
    """Update variables by their gradients."""
    optimizer.apply(gradients, variables)


def after(variables):
    """Return a context whose operations wait until variables have been updated."""
    return tf.control_dependencies([tf.convert_to_tensor(v.value) for v in variables])


def replicas():
    """Return the number of devices among which a batch is divided."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_of_replicas(values):
    """Return the sums over all devices, within a train step."""
    given = [value for value in values if value is not None]
    if replicas() == 1 or not given:
        return values
    sums = iter(tf.distribute.get_replica_context().all_reduce("SUM", given))
    return [None if value is None else next(sums) for value in values]
