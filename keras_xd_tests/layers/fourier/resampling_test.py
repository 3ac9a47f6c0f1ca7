import keras
import numpy as np
import pytest
import scipy.signal

from keras_xd import layers
from keras_xd.layers.fourier import resampling
from keras_xd.testing import check_layer

PAIRS = [(43, 85), (64, 128), (128, 64), (85, 43), (7, 12), (8, 6), (6, 9), (9, 4), (5, 5), (1, 4)]
pairs = pytest.mark.parametrize("before, after", PAIRS)


def band_limited(sizes, modes, seed=1):
    """Samples of one real trigonometric polynomial of frequencies up to `modes` on any grid."""
    rng = np.random.default_rng(seed)
    grid = np.meshgrid(*(np.arange(n) / n for n in sizes), indexing="ij")
    result = np.zeros(sizes)
    for frequency in np.ndindex(*(2 * modes + 1 for _ in sizes)):
        phase = sum((f - modes) * x for f, x in zip(frequency, grid, strict=True))
        amplitude, shift = rng.normal(size=2)
        result += amplitude * np.cos(2 * np.pi * phase + shift)
    return result


@pytest.mark.parametrize(
    "init_kwargs, input_shape",
    [
        ({"sizes": (9,), "data_format": "channels_last"}, (2, 6, 3)),
        ({"sizes": (5, 8), "data_format": "channels_last"}, (3, 8, 5, 2)),
        ({"sizes": (4, 3, 6), "data_format": "channels_first"}, (2, 2, 3, 3, 4)),
    ],
)
def test_layer(init_kwargs, input_shape):
    check_layer(layers.FourierResampling, init_kwargs, input_shape)


@pairs
def test_any_signal_is_resampled_as_by_the_fourier_transform(before, after, rng):
    x = rng.normal(size=(before, 3))
    expected = scipy.signal.resample(x, after)
    actual = resampling.resampling_matrix(before, after) @ x
    np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_every_axis_of_an_image(data_format):
    x, expected = (band_limited(sizes, 2) for sizes in ((6, 8), (15, 5)))
    axis = -1 if data_format == "channels_last" else 1
    layer = layers.FourierResampling((15, 5), data_format=data_format)
    batch = np.expand_dims(np.stack([x, 2 * x]), axis)
    actual = keras.ops.convert_to_numpy(layer(batch))
    np.testing.assert_allclose(
        actual, np.expand_dims(np.stack([expected, 2 * expected]), axis), atol=2e-4
    )


def test_multiply_adds():
    assert resampling.multiply_adds((6, 8), (15, 8), 2) == 15 * 6 * 8 * 2
    assert resampling.multiply_adds((6, 8), (3, 4), 1) == 3 * 6 * 8 + 4 * 3 * 8
    assert resampling.multiply_adds((6,), (6,), 5) == 0


def test_bad_arguments_are_refused():
    for sizes in (0, (3, -1), "3", (2, 2, 2, 2), ()):
        with pytest.raises(ValueError, match="sizes"):
            layers.FourierResampling(sizes)
    with pytest.raises(ValueError, match="`data_format` must be one of"):
        layers.FourierResampling(3, data_format="last")
    with pytest.raises(ValueError, match="needs inputs of 3 axes"):
        layers.FourierResampling(3)(np.ones((1, 4, 4, 1)))
    with pytest.raises(ValueError, match="every spatial size to be known"):
        layers.FourierResampling(3)(keras.Input((None, 2)))


def test_upsampling_layer():
    init_kwargs = {"sizes": (7, 8), "data_format": "channels_last"}
    check_layer(layers.FourierUpsampling, init_kwargs, (2, 5, 8, 3), run_jit=False)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_waves_come_back_on_the_finer_grid(data_format):
    layer = layers.FourierUpsampling((16, 12), data_format)

    def wave(sizes):
        x, y = (2 * np.pi * np.arange(n) / n for n in sizes)
        values = np.cos(2 * x + 0.3)[:, None] * np.sin(y - 1)
        return values.reshape(1, *sizes, 1) if data_format[9:] == "last" else values[None, None]

    for sizes in ((5, 3), (9, 12), (16, 5)):
        np.testing.assert_allclose(layer(wave(sizes)), wave((16, 12)), atol=1e-5)


def test_inputs_of_another_rank_are_refused():
    with pytest.raises(ValueError, match="ndim=4"):
        layers.FourierUpsampling(8)(np.zeros((1, 4, 4, 2)))
