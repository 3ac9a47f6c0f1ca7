"""Time of a call of networks that take turns, so that what else the machine does hits all alike."""

import statistics
import time

import numpy as np
import tensorflow as tf

ROUNDS = 20  # that are timed


def milliseconds(models, shape, batches):
    """Return the median milliseconds of a call of each network.

    Args:
        models: networks of one input.
        shape: shape of the input, without the batch.
        batches: sizes of the batch.

    Returns:
        A dictionary of a list, one time for each network, by the size of the batch as a text.
    """
    inputs = [tf.TensorSpec((None, *shape))]
    functions = [tf.function(lambda x, m=m: m(x, training=False), inputs) for m in models]
    found = {}
    for batch in batches:
        x = tf.constant(np.zeros((batch, *shape), "float32"))
        times = [[] for _ in models]
        for turn in range(ROUNDS + 2):  # the first two trace and warm up
            for function, values in zip(functions, times, strict=True):
                start = time.perf_counter()
                function(x).numpy()
                if turn > 1:
                    values.append(1000 * (time.perf_counter() - start))
        found[str(batch)] = [round(statistics.median(values), 3) for values in times]
    return found
