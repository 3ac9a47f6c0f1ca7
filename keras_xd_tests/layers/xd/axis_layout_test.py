import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from keras_xd import layers
from keras_xd.layers.xd import axis_layout


@given(
    size=st.integers(1, 40),
    kernel=st.integers(1, 6),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 3),
    padding=st.sampled_from(["valid", "same", "causal", "circular"]),
)
def test_the_circle_computes_the_convolution(size, kernel, stride, dilation, padding):
    span = dilation * (kernel - 1) + 1
    if padding in ("valid", "circular") and span > size:
        with pytest.raises(ValueError, match="must not be larger than the padded input"):
            axis_layout.axis_geometry(size, kernel, stride, dilation, padding)
        return
    axis = axis_layout.axis_geometry(size, kernel, stride, dilation, padding)
    rng = np.random.default_rng(size)
    x, w = rng.standard_normal(size), rng.standard_normal(kernel)
    expected = []
    for t in range(axis.output_size):
        total = 0.0
        for j in range(kernel):
            source = stride * t + dilation * j - axis.left
            if padding == "circular":
                source %= size
            if 0 <= source < size:
                total += w[j] * x[source]
        expected.append(total)
    circle = axis.placement() @ w
    padded = np.pad(x, (0, axis.padded_size - size))
    result = np.fft.ifft(np.fft.fft(circle) * np.fft.fft(padded)).real
    np.testing.assert_allclose(
        result[: stride * axis.output_size : stride][: axis.output_size], expected, atol=1e-6
    )
    # Every weight has a place of its own.
    np.testing.assert_array_equal(axis.placement().sum(axis=0), np.ones(kernel))
    assert axis.placement().sum(axis=1).max() == 1


def test_sizes_are_the_cheapest_that_are_exact():
    assert axis_layout.axis_geometry(32, 3, 1, 1, "same").padded_size == 36
    assert axis_layout.axis_geometry(32, 3, 1, 1, "valid").padded_size == 32
    assert axis_layout.axis_geometry(85, 3, 1, 1, "circular").padded_size == 85
    assert axis_layout.axis_geometry(32, 3, 1, 1, "same", radix=64).padded_size == 33


@pytest.mark.parametrize("kernel, stride, dilation", [(2, 1, 1), (3, 2, 1), (4, 1, 3), (5, 3, 1)])
@pytest.mark.parametrize("size", [12, 13])
def test_same_padding_and_its_windows_are_those_of_keras(size, kernel, stride, dilation):
    axis = axis_layout.axis_geometry(size, kernel, stride, dilation, "same")

    def outputs(x, taps):
        x, taps = np.reshape(x, (1, -1, 1)), np.reshape(taps, (-1, 1, 1))
        return np.array(ops.conv(x, taps, stride, "same", dilation_rate=dilation))[0, :, 0]

    places = outputs(np.arange(1.0, size + 1), np.eye(kernel)[0])
    last = len(places) - 1
    assert axis.output_size == len(places)
    assert axis.left == stride * last - (places[last] - 1)  # of the output whose window is whole
    inside = outputs(np.ones(size), np.ones(kernel))
    np.testing.assert_array_equal(axis.inputs_in_window(), inside)


def test_layers_take_the_fastest_size_where_they_are_asked_to(tmp_path):
    """Without it they keep the size of the fewest parameters, which files rely on."""

    def model(radix):
        layer = layers.XDConv2D(2, 3, padding="same", radix=radix, name="conv")
        made = keras.Sequential([keras.Input((32, 64, 1)), layer])
        return made, [plan.n for plan in layer.plans]

    fastest, sizes = model("fastest")
    assert [sizes, model(None)[1], model(("fastest", None))[1]] == [[33, 65], [36, 72], [33, 72]]
    fastest.save(tmp_path / "model.keras")
    found = keras.saving.load_model(tmp_path / "model.keras")
    assert [plan.n for plan in found.layers[0].plans] == sizes
    # Weights alone do not tell the size, but the radices do.
    fastest.save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match=r"must have the radices.*\[33, 3, 11, 65, 5, 13\]"):
        model(None)[0].load_weights(tmp_path / "model.weights.h5")
