import numpy as np
import pytest
from keras import ops

from keras_xd.layers.fourier import fft_convolution as convolution

CASES = [
    ((9,), (5,), (2,)),
    ((9,), (4,), (1,)),
    ((8,), (8,), (3,)),
    ((8,), (9,), (4,)),
    ((7,), (7,), (6,)),
    ((6, 5), (3, 4), (1, 1)),
    ((5, 6), (5, 6), (2, 2)),
]


def tensor(array):
    return ops.convert_to_tensor(array, "float64")


def reference(x, kernel, before, circular):
    """The definition, one tap at a time."""
    sizes, y = x.shape[1:-1], np.zeros_like(x)
    for t in np.ndindex(*sizes):
        for j in np.ndindex(*kernel.shape[:-1]):
            s = tuple(a + b - c for a, b, c in zip(t, j, before, strict=True))
            if circular:
                s = tuple(a % n for a, n in zip(s, sizes, strict=True))
            elif not all(0 <= a < n for a, n in zip(s, sizes, strict=True)):
                continue
            y[(slice(None), *t)] += kernel[j] * x[(slice(None), *s)]
    return y


@pytest.mark.parametrize(
    "sizes, taps, before, circular",
    [(*case, circular) for case in CASES for circular in (False, True) if case[1] != (9,)]
    + [((8,), (9,), (4,), False)],  # which is too long for a circle
)
def test_both_ways_are_the_definition(sizes, taps, before, circular, rng):
    x, kernel = rng.normal(size=(2, *sizes, 3)), rng.normal(size=(*taps, 3))
    expected = reference(x, kernel, before, circular)
    for function in (convolution.direct, convolution.fourier):
        actual = function(tensor(x), tensor(kernel), before, circular)
        np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize(
    "size, taps, before", [(9, 4, -2), (9, 3, 5), (4, 11, 5), (8, 8, 3), (8, 8, 7), (8, 1, 0)]
)
def test_short_transforms_hold_taps_wherever_they_are(size, taps, before, rng):
    """Also beside the output's point, and kernels longer than transforms need to be."""
    x, kernel = rng.normal(size=(2, size, 3)), rng.normal(size=(taps, 3))
    expected = reference(x, kernel, (before,), False)
    actual = convolution.fourier(tensor(x), tensor(kernel), (before,))
    np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize("sizes", [(16,), (15,), (12, 9)])
@pytest.mark.parametrize("circular", [False, True])
def test_masked_frequencies_are_those_of_numpy(sizes, circular, rng):
    rank = len(sizes)
    x, kernel = rng.normal(size=(2, *sizes, 2)), rng.normal(size=(*(3,) * rank, 2))
    lengths = convolution.transform_lengths(sizes, (3,) * rank, circular, True)
    masks = [rng.uniform(size=n // 2 + 1) for n in lengths]
    axes = tuple(range(1, rank + 1))
    spectrum = np.fft.fftn(x, lengths, axes) * np.conj(
        np.fft.fftn(kernel, lengths, tuple(range(rank)))
    )
    for axis, (mask, n) in enumerate(zip(masks, lengths, strict=True), start=1):
        shape = [1] * x.ndim
        shape[axis] = n
        spectrum *= mask[np.minimum(np.arange(n), n - np.arange(n))].reshape(shape)
    full = np.fft.ifftn(spectrum, axes=axes).real
    expected = full[(slice(None), *(slice(n) for n in sizes))]
    for function in (convolution.direct, convolution.fourier):
        actual = function(
            tensor(x), tensor(kernel), (0,) * rank, circular, [tensor(m) for m in masks]
        )
        np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize("circular", [False, True])
@pytest.mark.parametrize("bins", [(4,), (3, 5)])
def test_cropping_before_the_product_is_cropping_after_it(circular, bins, rng):
    """The kept samples are those of the full result's frequencies, by interpolation in NumPy."""
    rank = len(bins)
    sizes = (12, 10)[:rank]
    x, kernel = rng.normal(size=(1, *sizes, 1)), rng.normal(size=(*(5,) * rank, 1))
    before = (2,) * rank
    lengths = convolution.transform_lengths(sizes, (5,) * rank, circular, True)
    new = convolution.output_sizes(sizes, bins, circular)
    spectrum = np.fft.fftn(x, lengths, tuple(range(1, rank + 1)))
    spectrum *= np.conj(np.fft.fftn(kernel, lengths, tuple(range(rank))))
    value = spectrum[0, ..., 0]
    for axis, (n, kept, m, b) in enumerate(zip(lengths, bins, new, before, strict=True)):
        frequencies = np.fft.fftfreq(n, 1 / n)
        position = np.arange(m) * (sizes[axis] / m) - b
        matrix = np.exp(2j * np.pi * np.outer(position, frequencies) / n) / n
        matrix[:, np.abs(frequencies) >= kept] = 0
        value = np.moveaxis(np.tensordot(matrix, value, (1, axis)), 0, axis)
    masks = [tensor(np.ones(n // 2 + 1)) for n in lengths]
    for function in (convolution.direct, convolution.fourier):
        actual = function(tensor(x), tensor(kernel), before, circular, masks, bins)
        assert actual.shape == (1, *new, 1)
        np.testing.assert_allclose(actual[0, ..., 0], value.real, atol=1e-12)
    assert np.abs(value.imag).max() < 1e-12


def test_lengths_of_transforms_hold_the_convolution_and_are_fast():
    assert convolution.transform_lengths((97, 8), (7, 8)) == [108, 15]
    assert convolution.transform_lengths((97, 8), (7, 8), reach=(3, 4)) == [100, 12]
    assert convolution.transform_lengths((4,), (11,), reach=(5,)) == [12]
    assert convolution.transform_lengths((97,), (98,), scaled=True) == [194]
    assert convolution.transform_lengths((97,), (7,), circular=True) == [97]


def test_kept_frequencies_make_fast_sizes():
    assert convolution.output_sizes((16, 12), [3, 4], circular=True) == (5, 7)
    assert convolution.output_sizes((16, 12), [3, 4], circular=False) == (3, 4)
    assert convolution.fast_bins([7, 30, 31, 64, 65], [64] * 5) == [8, 30, 32, 64, 65]
    assert convolution.fast_bins([59], [59]) == [59]
    assert convolution.fast_bins([58], [59]) == [59]
    assert convolution.fast_bins([7], [64], circular=True) == [7]


@pytest.mark.parametrize(
    ("sizes", "groups", "faster"),
    [
        ((7,), 1, "products"),
        ((5, 6), 2, "products"),
        ((3, 4, 5), 1, "products"),
        ((301,), 2, "fft"),
        ((3, 301), 1, "fft"),
    ],
)
def test_correlation_of_all_channels(sizes, groups, faster, rng):
    rank, taps = len(sizes), 6
    x = rng.normal(size=(2, *sizes, 4)).astype("float32")
    kernel = rng.normal(size=(taps, 4 // groups, 6)).astype("float32")
    offsets = np.stack([rng.integers(1 - n, n, size=taps) for n in sizes], axis=1)
    expected = np.zeros((2, *sizes, 6))
    for tap, offset in zip(kernel, offsets, strict=True):
        moved = np.zeros_like(x)
        target, source = [], []
        for o, n in zip(offset, sizes, strict=True):
            target.append(slice(max(-o, 0), n - max(o, 0)))
            source.append(slice(max(o, 0), n - max(-o, 0)))
        moved[(slice(None), *target)] = x[(slice(None), *source)]
        for g in range(groups):
            part = moved[..., g * 4 // groups : (g + 1) * 4 // groups]
            place = slice(g * 6 // groups, (g + 1) * 6 // groups)
            expected[..., place] += part @ tap[:, place]
    found = convolution.correlate(x, kernel, offsets, groups)
    counts = convolution.correlation_multiply_adds((*sizes, 4), offsets, 6, groups)
    counts["fft"] *= convolution.FFT_COST
    assert min(counts, key=counts.get) == faster
    assert found.shape == (2, *sizes, 6) and len(offsets[0]) == rank
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    "circular, by_taps, by_fft",
    [(True, 8 * 3 + 4 * 8, 8 * 4 + 4 * 3), (False, 10 * 3 + 4 * 10, 16 * 5 + 8 * 4)],
)
def test_the_way_back_counts_at_the_resolution(circular, by_taps, by_fft):
    found = convolution.expected_multiply_adds((8,), (3,), circular, (4,))
    assert found == (by_taps, by_fft)
    # The first axis of 8 points to 4, then the second of 6 to 3.
    found, _ = convolution.expected_multiply_adds((8, 6), (3, 1), True, (4, 3))
    assert found == 48 * 3 + 4 * 48 + 3 * 24
