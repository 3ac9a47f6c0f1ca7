import keras
import numpy as np
import pytest
from keras import ops

from keras_xd import layers
from keras_xd.layers.fourier import upsampling
from keras_xd.layers.fourier.resampling import resampling_matrix
from keras_xd.layers.fourier.upsampling import resample_by_transform
from keras_xd.testing import check_layer


def test_layer():
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


def test_sizes_may_be_unknown_when_the_model_is_built():
    model = keras.Sequential([keras.Input((None, 2)), layers.FourierUpsampling(9)])
    assert model.output_shape == (None, 9, 2)


@pytest.mark.parametrize("after", range(1, 10))
@pytest.mark.parametrize("before", [1, 2, 5, 6, 8])
def test_transforms_give_what_the_matrix_gives(before, after, rng):
    x = rng.normal(size=(2, before, 3))
    actual = resample_by_transform(ops.convert_to_tensor(x, "float64"), 1, after)
    expected = np.einsum("ab,nbc->nac", resampling_matrix(before, after), x)
    np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize("largest", [0, 40, 10**6])
def test_axes_may_be_resampled_each_in_its_way(largest, rng, monkeypatch):
    x = rng.normal(size=(2, 4, 6, 3)).astype("float32")
    expected = layers.FourierResampling((7, 9))(x)
    monkeypatch.setattr(upsampling, "LARGEST_MATRIX", largest)
    model = keras.Sequential([keras.Input((4, 6, 3)), layers.FourierUpsampling((7, 9))])
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-5)


@pytest.mark.parametrize("sizes", [0, (1, 2, 3, 4), "8"])
def test_bad_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="sizes"):
        layers.FourierUpsampling(sizes)


def test_inputs_of_another_rank_are_refused():
    with pytest.raises(ValueError, match="ndim=4"):
        layers.FourierUpsampling(8)(np.zeros((1, 4, 4, 2)))
