import keras
import numpy as np
import pytest

from keras_xd import layers


@pytest.mark.parametrize("padding", ["valid", "same", "causal", "circular"])
@pytest.mark.parametrize(
    "kernel, window, dilation, strides", [(5, 3, 1, 1), (6, 3, 1, 2), (4, 4, 2, 1), (5, 2, 2, 1)]
)
def test_weights_around_the_window(padding, kernel, window, dilation, strides, rng):
    layer = layers.XDConv1D(
        2,
        kernel,
        strides,
        padding,
        dilation_rate=dilation,
        window_size=window,
        bias_initializer="ones",
    )
    x = rng.standard_normal((2, 14, 3)).astype("float32")
    actual = np.array(layer(x))
    first, left = (kernel - window) // 2, 0
    span = dilation * (window - 1) + 1
    count = (14 - span) // strides + 1 if padding == "valid" else -(-14 // strides)
    if padding == "causal":
        left = span - 1
    elif padding != "valid":
        left = max((count - 1) * strides + span - 14, 0) // 2
    w = keras.ops.convert_to_numpy(layer.kernel)
    expected = np.ones((2, count, 2))
    for t in range(count):
        for j in range(kernel):
            source = strides * t + dilation * (j - first) - left
            if padding == "circular":
                source %= 14
            if 0 <= source < 14:
                expected[:, t] += x[:, source] @ w[j]
    assert actual.shape == expected.shape == layer.compute_output_shape(x.shape)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_average_pooling_of_a_window_in_a_larger_kernel(rng):
    x = rng.standard_normal((2, 9, 3)).astype("float32")
    expected = keras.layers.AveragePooling1D(3, 2, padding="same")(x)
    layer = layers.XDConv1D(3, 5, 2, "same", window_size=3, warm_start="average_pooling")
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_a_window_larger_than_the_kernel_is_refused():
    with pytest.raises(ValueError, match=r"not be larger.*window_size=\(5,\), kernel_size=\(3,\)"):
        layers.XDConv1D(2, 3, window_size=5)
