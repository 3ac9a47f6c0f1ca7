"""What a bilevel step needs of TensorFlow."""

import tensorflow as tf


def loss_and_gradients(function, values):
    """Return a loss, its gradients and whatever else a function computes on the way.

    Args:
        function: takes a list of tensors; returns a scalar loss and a structure of other things.
        values: the list of tensors or variables at whose values to evaluate.

    Returns:
        A tuple: the loss, the other things, and a list of one gradient for each value, `None`
        where the loss does not depend on it.

    Example:

    >>> import tensorflow as tf
    >>> from keras_xd.training.backends.tensorflow import loss_and_gradients
    >>> loss, other, gradients = loss_and_gradients(
    ...     lambda values: (values[0] ** 2, "nothing"), [tf.constant(3.0), tf.constant(1.0)]
    ... )
    >>> float(loss), other, float(gradients[0]), gradients[1]
    (9.0, 'nothing', 6.0, None)
    """
    values = [tf.convert_to_tensor(value) for value in values]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(values)
        loss, others = function(values)
    gradients = tape.gradient(loss, values)
    # The gradient of an embedding is sparse; the caller adds and scales.
    return loss, others, [None if g is None else tf.convert_to_tensor(g) for g in gradients]


def with_state(search, function):
    """Call a function that updates variables.

    Args:
        search: the `SearchModel` whose variables it updates.
        function: a function without arguments.

    Returns:
        A list of what it returns, alone because TensorFlow's variables hold their values.
    """
    return [function()]


def apply(optimizer, gradients, variables):
    """Update variables by their gradients."""
    optimizer.apply(gradients, variables)


def after(variables):
    """Return a context whose operations wait until variables have been updated.

    A graph has no order but that of its data, and two passes begun together keep the features of
    both.

    Args:
        variables: list of Keras variables.
    """
    return tf.control_dependencies([tf.convert_to_tensor(v.value) for v in variables])


def replicas():
    """Return the number of devices among which a batch is divided."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_of_replicas(values):
    """Return the sums over all devices, within a train step.

    Args:
        values: a list of tensors, or `None`, of which every device has its own.

    Returns:
        The list of the sums, `None` where there was none.
    """
    given = [value for value in values if value is not None]
    if replicas() == 1 or not given:
        return values
    sums = iter(tf.distribute.get_replica_context().all_reduce("SUM", given))
    return [None if value is None else next(sums) for value in values]
