import keras
import numpy as np
import pytest

from keras_xd.layers.mixed import window_padding
from keras_xd.testing import assert_close


def test_spans():
    assert window_padding.spans((1, 3, 3, 5), (4, 1, 2, 2)) == (1, 3, 5, 9)


@pytest.mark.parametrize("padding", ["valid", "same", "causal"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 3, 4])
@pytest.mark.parametrize("n", [4, 7])
def test_output_sizes_and_own_borders_are_those_of_keras(n, size, stride, padding, rng):
    x = rng.standard_normal((1, n, 1)).astype("float32")
    twin = keras.layers.Conv1D(1, size, stride, padding, use_bias=False)
    expected = keras.ops.convert_to_numpy(twin(x))
    sizes = window_padding.output_sizes((n,), (size,), (stride,), padding)
    assert sizes == expected.shape[1:-1]
    border = window_padding.borders((n,), (size,), (size,), (stride,), padding)
    y = window_padding.convolve(x, twin.kernel, border, (stride,), (1,))
    assert_close(keras.ops.convert_to_numpy(y), expected)


def test_windows_of_valid_padding_have_the_same_middles():
    def border(span, window):
        return window_padding.borders((10,), (span,), (window,), (1,), "valid")

    assert border(3, 5) == [(-1, -1)]
    assert border(9, 5) == [(2, 2)]
    assert border(1, 4) == [(-1, -2)]
    assert border(4, 1) == [(1, 2)]


def test_extended_adds_and_cuts():
    x = np.arange(3.0)[None, :, None]

    def values(*border):
        return keras.ops.convert_to_numpy(window_padding.extended(x, [border], 9.0)).ravel()

    np.testing.assert_array_equal(values(1, -1), [9, 0, 1])
    np.testing.assert_array_equal(values(-1, 2), [1, 2, 9, 9])
    np.testing.assert_array_equal(values(0, 0), [0, 1, 2])
    np.testing.assert_array_equal(values(-2, 0), [2])


@pytest.mark.parametrize(("stride", "rate"), [(1, 1), (1, 3), (2, 1), (2, 3), (3, 2), (4, 4)])
def test_strided_dilated_convolution(stride, rate, rng):
    size, count = 3, 5
    x = rng.standard_normal((2, stride * (count - 1) + rate * (size - 1) + 1, 2))
    kernel = rng.standard_normal((size, 2, 3))
    y = window_padding.convolve(
        keras.ops.convert_to_tensor(x, "float32"),
        keras.ops.convert_to_tensor(kernel, "float32"),
        [(0, 0)],
        (stride,),
        (rate,),
    )
    expected = [
        sum(x[:, stride * t + rate * j] @ kernel[j] for j in range(size)) for t in range(count)
    ]
    assert_close(keras.ops.convert_to_numpy(y), np.stack(expected, axis=1).astype("float32"))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("n", [5, 6])
def test_poolings_equal_keras(n, stride, rng):
    x = -1 - rng.random((2, n, n + 1, 3)).astype("float32")  # padding by zeros would be seen
    border = window_padding.borders((n, n + 1), (3, 3), (3, 3), (stride, stride), "same")
    for pool, twin in (
        (window_padding.max_pool, keras.layers.MaxPooling2D),
        (window_padding.average_pool, keras.layers.AveragePooling2D),
    ):
        y = keras.ops.convert_to_numpy(pool(x, (3, 3), border, (stride, stride)))
        assert_close(y, keras.ops.convert_to_numpy(twin(3, stride, padding="same")(x)))


def test_channels():
    x = keras.ops.convert_to_tensor(np.arange(4.0)[None, None])

    def values(tensor):
        return keras.ops.convert_to_numpy(tensor).ravel().tolist()

    assert values(window_padding.with_channels(x, 2)) == [0, 1]
    assert values(window_padding.with_channels(x, 4)) == [0, 1, 2, 3]
    assert values(window_padding.with_channels(x, 6)) == [0, 1, 2, 3, 0, 0]
    assert values(window_padding.shuffled(x, 2)) == [0, 2, 1, 3]
    assert values(window_padding.every(keras.ops.reshape(x, (1, 4, 1)), (3,))) == [0, 3]


@pytest.mark.parametrize("sizes", [(8,), (9,), (6, 4), (7, 6), (4, 6, 6)])
@pytest.mark.parametrize("steps", [(2, 2, 2), (3, 3, 3), (2, 1, 3), (1, 2, 1)])
def test_every_step_th_place_from_any_start(sizes, steps, rng):
    steps = steps[: len(sizes)]
    x = rng.normal(size=(2, *sizes, 3)).astype("float32")
    for starts in (None, tuple(step - 1 for step in steps)):
        places = zip(starts or (0,) * len(sizes), steps, strict=True)
        expected = x[(slice(None), *(slice(start, None, step) for start, step in places))]
        found = window_padding.every(keras.ops.convert_to_tensor(x), steps, starts)
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(found), expected)
