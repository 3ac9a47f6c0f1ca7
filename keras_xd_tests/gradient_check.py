"""Gradients against finite differences."""

import keras
import numpy as np
import tensorflow as tf


def assert_gradients(loss, variables, step=1e-2):
    """Check the gradients of a loss along each of them, for each variable by itself."""
    with tf.GradientTape() as tape:
        value = loss()
    gradients = tape.gradient(value, [variable.value for variable in variables])
    for variable, gradient in zip(variables, gradients, strict=True):
        start, norm = keras.ops.convert_to_numpy(variable), np.linalg.norm(gradient)
        values = []
        for sign in (1, -1):
            variable.assign(start + sign * step * np.array(gradient) / norm)
            values.append(float(loss()))
        variable.assign(start)
        change = (values[0] - values[1]) / (2 * step)
        np.testing.assert_allclose(change, norm, rtol=5e-3, err_msg=variable.path)
