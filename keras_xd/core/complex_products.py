"""Products of spectra as complex numbers, which Keras' operations do not have."""

import keras

from keras_xd.core.transforms import are_matrix_products


def has_complex_products(x, axes):
    """Return whether `circular_correlation` can take a tensor, else pairs of real ones are due."""
    possible = keras.backend.backend() == "tensorflow" and not are_matrix_products()
    return possible and axes <= 2 and 0 not in x.shape


def circular_correlation(x, kernel, lengths):
    """Return `y[t] = Σ_j kernel[j] x[(t + j) mod lengths]` over the last axes."""
    import tensorflow as tf

    there, back = {
        1: (tf.signal.rfft, tf.signal.irfft),
        2: (tf.signal.rfft2d, tf.signal.irfft2d),
    }[len(lengths)]
    spectrum = tf.math.conj(there(tf.convert_to_tensor(kernel), lengths))
    return back(there(tf.convert_to_tensor(x), lengths) * spectrum, lengths)
