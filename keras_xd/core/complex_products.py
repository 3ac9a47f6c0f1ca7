"""Products of spectra as complex numbers, which Keras' operations do not have."""

import keras

from keras_xd.core.transforms import are_matrix_products


def has_complex_products(x, axes):
    """Return whether `circular_correlation` can take a tensor, else pairs of real ones are due.

    On TensorFlow, where without XLA every operation on real and imaginary parts reads and writes
    all of them, and a transform of one or two axes is one operation that has a gradient.

    Args:
        x: tensor, whose last axes are transformed.
        axes: their number.
    """
    possible = keras.backend.backend() == "tensorflow" and not are_matrix_products()
    return possible and axes <= 2 and 0 not in x.shape


def circular_correlation(x, kernel, lengths):
    """Return `y[t] = Σ_j kernel[j] x[(t + j) mod lengths]` over the last axes.

    Args:
        x: tensor `(…, *sizes)` of float32 or float64, on the backend TensorFlow.
        kernel: tensor `(…, *sizes)`, its other axes broadcast against those of `x`.
        lengths: the length of each axis, one or two, which zeros fill up.

    Returns:
        Tensor `(…, *lengths)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd.core import complex_products
    >>> x = np.array([[1.0, 2.0, 3.0]], "float32")
    >>> y = complex_products.circular_correlation(x, np.array([0.0, 1.0], "float32"), [4])
    >>> np.round(y, 5).tolist()
    [[2.0, 3.0, 0.0, 1.0]]
    """
    import tensorflow as tf

    there, back = {
        1: (tf.signal.rfft, tf.signal.irfft),
        2: (tf.signal.rfft2d, tf.signal.irfft2d),
    }[len(lengths)]
    spectrum = tf.math.conj(there(tf.convert_to_tensor(kernel), lengths))
    return back(there(tf.convert_to_tensor(x), lengths) * spectrum, lengths)
