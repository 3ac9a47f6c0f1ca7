"""Convolutions with long kernels: depthwise ones directly or by spectra, full ones by spectra."""

import math

import numpy as np
from keras import ops

from keras_xd.core import complex_products, transforms, window_padding
from keras_xd.layers.fourier import resampling

# A multiply–add of transforms takes about as long as so many of a depthwise convolution on a CPU,
# forward and backward, as measured.
TRANSFORM_COST = 4
# And one of FFTs of all channels as long as so many of matrix products or full convolutions.
FFT_COST = 10


def direct(x, kernel, before, circular=False, masks=None, bins=None):
    """Return `y[t] = Σ_j kernel[j] x[t + j - before]` for each channel, without an FFT; with
    frequency masks convolved by their inverse transforms, and downsampled.
    """
    taps, sizes = kernel.shape[:-1], x.shape[1:-1]
    padding = [(b, k - 1 - b) for b, k in zip(before, taps, strict=True)]
    if masks is not None:
        lengths = transform_lengths(sizes, taps, circular, scaled=True)
        if not circular:  # the filters read what the taps make beyond the borders
            padding = [(k - 1, k - 1) for k in taps]
    if circular:
        x = window_padding.wrapped(x, padding)
    else:
        x = ops.pad(x, [(0, 0), *padding, (0, 0)])
    y = ops.depthwise_conv(
        x, ops.expand_dims(kernel, -1), padding="valid", data_format="channels_last"
    )
    for axis, mask in enumerate(masks or ()):
        half = lengths[axis] // 2 + 1 if bins is None else bins[axis]
        (new,) = output_sizes(sizes[axis : axis + 1], (half,), circular)
        places = np.arange(y.shape[axis + 1]) + before[axis] - padding[axis][0]
        points = np.arange(new) * sizes[axis] / new
        y = resampling.multiply_axis(
            y, axis + 1, _filter(mask[:half], lengths[axis], places, points)
        )
    return y


def _filter(mask, length, places, points):
    """Return `(places, points)`: the inverse transform of a mask at the distances between them."""
    frequencies = np.arange(mask.shape[0])
    waves = []
    for at in (places, points):
        phases = 2 * np.pi / length * np.outer(at, frequencies)
        waves.append(np.concatenate([np.cos(phases), np.sin(phases)], axis=1))
    once = (frequencies == 0) | (2 * frequencies == length)  # others are pairs of frequencies
    there = ops.convert_to_tensor(waves[0] * np.tile(np.where(once, 1, 2) / length, 2), mask.dtype)
    back = ops.convert_to_tensor(waves[1].T, mask.dtype)
    return ops.matmul(there * ops.concatenate([mask, mask]), back)


def fourier(x, kernel, before, circular=False, masks=None, bins=None):
    """Return what `direct` returns, by FFT; multiplied by frequency masks and downsampled
    if asked.
    """
    sizes, rank = x.shape[1:-1], len(before)
    scaled = masks is not None or bins is not None
    taps = kernel.shape[:-1]
    lengths = transform_lengths(sizes, taps, circular, scaled, reaches(taps, before))
    if bins is None:
        bins = [length // 2 + 1 for length in lengths]
    x = ops.moveaxis(x, -1, 1)
    kernel = ops.moveaxis(kernel, -1, 0)
    missing = [length - k for length, k in zip(lengths, kernel.shape[1:], strict=True)]
    kernel = ops.pad(kernel, [(0, 0), *((0, m) for m in missing)])
    rest = [length - n - b for length, n, b in zip(lengths, sizes, before, strict=True)]
    if min(*before, *rest) >= 0:  # zeros before the points do for a shift of the kernel
        x = ops.pad(x, [(0, 0), (0, 0), *zip(before, rest, strict=True)])
    else:
        kernel = ops.roll(kernel, [-b for b in before], axis=list(range(1, rank + 1)))

    new_sizes, new_lengths = sizes, lengths
    if not scaled and complex_products.has_complex_products(x, rank):
        y = complex_products.circular_correlation(x, kernel, lengths)
    else:
        (a, b), (c, d) = _spectrum(x, lengths, bins), _spectrum(kernel, lengths, bins)
        real, imaginary = a * c + b * d, b * c - a * d
        if scaled:
            new_sizes = output_sizes(sizes, bins, circular)
            new_lengths = [n if circular else 2 * n for n in new_sizes]
            factor = _factor(masks, lengths, bins) * (math.prod(new_lengths) / math.prod(lengths))
            real, imaginary = real * factor, imaginary * factor
        y = _inverse(real, imaginary, lengths, new_lengths, bins)
    return ops.moveaxis(_first_points(y, new_sizes), 1, -1)


def correlate(x, kernel, offsets, groups=1):
    """Return `y[t] = Σ_j x[t + offsets[j]] · kernel[j]` by spectra; `x` is zero outside of its
    sizes.
    """
    counts = correlation_multiply_adds(x.shape[1:], offsets, kernel.shape[-1], groups)
    few = counts["products"] <= FFT_COST * counts["fft"]
    few = few or transforms.are_matrix_products()
    compute = _correlate_by_products if few else _correlate_by_transforms
    y = compute(ops.cast(x, kernel.dtype), kernel, np.asarray(offsets), groups)
    return ops.cast(y, x.dtype)


def correlation_multiply_adds(shape, offsets, filters, groups=1):
    """Return the multiply–adds of `correlate` for one sample, by matrix products and by FFT."""
    *sizes, channels = shape
    pairs, both = channels // groups * filters, channels + filters
    lengths = _lengths(sizes, offsets)
    points = math.prod(map(fast_length, lengths))
    transform, kept = 0, 1
    for axis, length in enumerate(lengths):
        frequencies, parts = (length, 4) if axis else (length // 2 + 1, 2)
        transform += kept * parts * frequencies * math.prod(sizes[axis:])
        kept *= frequencies
    return {
        "products": both * transform + 4 * kept * pairs,
        "fft": 2 * points * pairs + int(both * points * math.log2(max(points, 2))),
    }


def _correlate_by_products(x, kernel, offsets, groups):
    """Transform each axis by a product with a matrix from the left, so that nothing large is
    transposed; the axis of real and imaginary parts stands behind those that are transformed.
    """
    sizes, rank = x.shape[1:-1], len(x.shape) - 2
    inputs, filters = kernel.shape[1], kernel.shape[2] // groups
    lengths = _lengths(sizes, offsets)
    frequencies = [np.arange(n if axis else n // 2 + 1) for axis, n in enumerate(lengths)]

    def transform(y, points):
        lead = groups
        for axis, places in enumerate(points):
            y = _product(_waves(frequencies[axis], places, lengths[axis], axis > 0), y, lead)
            lead *= len(frequencies[axis])
        return y

    points, places = zip(*(np.unique(row, return_inverse=True) for row in offsets.T), strict=True)
    counts = [len(values) for values in points]
    places = np.ravel_multi_index(places, counts).astype("int32")
    rows = ops.segment_sum(ops.reshape(kernel, (len(places), -1)), places, math.prod(counts))
    rows = ops.transpose(ops.reshape(rows, (-1, inputs, groups, filters)), (2, 0, 3, 1))
    rows = ops.reshape(transform(rows, [-values for values in points]), (-1, 2, filters, inputs))
    # One real product for the complex one: (a + ib)(c + id) = (ac - bd) + i(ad + bc).
    real, imaginary = ops.unstack(rows, axis=1)
    columns = [(real, imaginary), (-imaginary, real)]
    block = ops.concatenate([ops.concatenate(column, axis=1) for column in columns], axis=-1)

    y = ops.reshape(x, (-1, *sizes, groups, inputs))
    y = ops.transpose(y, (rank + 1, *range(1, rank + 1), rank + 2, 0))
    y = transform(y, [np.arange(size) for size in sizes])
    lead = block.shape[0]
    y = ops.matmul(block, ops.reshape(y, (lead, 2 * inputs, -1)))
    for axis in reversed(range(rank)):
        rows, length = frequencies[axis], lengths[axis]
        factors = np.full(len(rows), 1 / length)
        if axis == 0:  # of which all frequencies but their own negatives stand for two
            factors[(rows > 0) & (2 * rows != length)] *= 2
        waves = _waves(rows, np.arange(sizes[axis]), length, axis > 0)
        waves = waves * np.repeat(factors, 2)[:, None]
        lead //= len(rows)
        y = _product(waves.T, y, lead)
    y = ops.reshape(y, (groups, *sizes, filters, -1))
    y = ops.transpose(y, (rank + 2, *range(1, rank + 1), 0, rank + 1))
    return ops.reshape(y, (-1, *sizes, groups * filters))


def _waves(frequencies, points, length, is_complex):
    """Return the matrix of a Fourier transform: (frequency, part) × (part, if complex, point)."""
    angles = 2 * np.pi * (np.outer(frequencies, points) % length) / length
    cosines, sines = np.cos(angles), np.sin(angles)
    parts = [[cosines, sines], [-sines, cosines]] if is_complex else [[cosines], [-sines]]
    matrix = np.stack([np.stack(row, axis=1) for row in parts], axis=1)
    return matrix.reshape(2 * len(frequencies), -1)


def _product(matrix, y, lead):
    """Multiply the axis behind the first `lead` vectors' by a matrix."""
    y = ops.reshape(y, (lead, matrix.shape[1], -1))
    matrix = ops.convert_to_tensor(matrix, y.dtype)
    return ops.matmul(matrix, y) if lead > 1 else ops.matmul(matrix, y[0])


def _correlate_by_transforms(x, kernel, offsets, groups):
    """Transform all axes by FFT."""
    sizes, filters = x.shape[1:-1], kernel.shape[-1]
    lengths = [fast_length(length) for length in _lengths(sizes, offsets)]
    places = np.ravel_multi_index((-offsets % lengths).T, lengths)
    rows = ops.reshape(kernel, (len(places), -1))
    rows = ops.segment_sum(rows, places.astype("int32"), math.prod(lengths))
    rows = ops.reshape(ops.transpose(rows), (-1, *lengths))

    bins = [length // 2 + 1 for length in lengths]
    spectra = _spectrum(ops.moveaxis(x, -1, 1), lengths, bins)
    kept = tuple(spectra[0].shape[2:])
    inputs = x.shape[-1] // groups
    features = [ops.reshape(part, (-1, groups, inputs, math.prod(kept))) for part in spectra]
    features = ops.transpose(ops.concatenate(features, axis=2), (3, 1, 0, 2))
    real, imaginary = (
        ops.transpose(
            ops.reshape(part, (inputs, groups, filters // groups, -1)),
            (3, 1, 0, 2),
        )
        for part in _spectrum(rows, lengths, bins)
    )
    # One real product for the complex one: (a + ib)(c + id) = (ac - bd) + i(ad + bc).
    block = ops.concatenate(
        [
            ops.concatenate([real, imaginary], axis=-1),
            ops.concatenate([-imaginary, real], axis=-1),
        ],
        axis=-2,
    )
    y = ops.transpose(ops.matmul(features, block), (2, 1, 3, 0))
    parts = [ops.reshape(part, (-1, filters, *kept)) for part in ops.split(y, 2, axis=2)]
    y = _inverse(*parts, lengths, lengths, bins)
    return ops.moveaxis(_first_points(y, sizes), 1, -1)


def _lengths(sizes, offsets):
    """Return the least length of the transform of each axis that `correlate` needs."""
    reach = np.abs(np.asarray(offsets)).max(axis=0)
    return [n + int(r) for n, r in zip(sizes, reach, strict=True)]


def reaches(taps, before):
    """Return how many points the taps reach at most from the output's point, of each axis."""
    return [max(abs(b), abs(k - 1 - b)) for k, b in zip(taps, before, strict=True)]


def transform_lengths(sizes, taps, circular=False, scaled=False, reach=None):
    """Return the length of the FFT of each axis."""
    longest = [n if circular else n + 1 for n in sizes]
    if circular or scaled:
        if any(k > limit for k, limit in zip(taps, longest, strict=True)):
            raise ValueError(
                "A kernel on a circle must not be longer than the input, and one with frequency "
                "masks not longer by more than one point. "
                f"Received: kernel_size={tuple(taps)}, sizes={tuple(sizes)}, circular={circular}"
            )
        return [n if circular else 2 * n for n in sizes]
    reach = [k - 1 for k in taps] if reach is None else reach
    return [fast_length(max(n + r, k)) for n, k, r in zip(sizes, taps, reach, strict=True)]


def output_sizes(sizes, bins, circular=False):
    """Return the fewest points that hold the kept frequencies, for each axis."""
    return tuple(min(2 * b - 1 if circular else b, n) for n, b in zip(sizes, bins, strict=True))


def fast_bins(bins, sizes, circular=False):
    """Return the numbers of frequencies to keep for fast transforms, at least those given."""
    return [
        b if circular or b >= n else min(fast_length(b), n)
        for b, n in zip(bins, sizes, strict=True)
    ]


def expected_multiply_adds(sizes, taps, circular=False, resolutions=None, reach=None):
    """Return the multiply–adds of one channel, differentiable in kernel size and resolution."""
    if resolutions is None:
        direct = math.prod(sizes) * math.prod(taps)
        reach = [k - 1 for k in taps] if reach is None else reach
        lengths = [n if circular else n + r for n, r in zip(sizes, reach, strict=True)]
        return direct, 2 * _of_transform(math.prod(lengths))
    left = [n if circular else n + k - 1 for n, k in zip(sizes, taps, strict=True)]
    direct = math.prod(left) * math.prod(taps)
    for axis, resolution in enumerate(resolutions):  # a filter reads all points for each one
        direct += resolution * math.prod(left)
        left[axis] = resolution
    times = (1 if circular else 2) ** len(sizes)
    there, back = times * math.prod(sizes), times * math.prod(resolutions)
    return direct, _of_transform(there) + _of_transform(back)


def are_faster(by_transform, by_taps):
    """Return whether transforms take less time than taps, by the multiply–adds of both."""
    return TRANSFORM_COST * by_transform < by_taps


def fast_length(least):
    """Return the smallest number from `least` on without prime factors above 5."""
    least = int(least)
    best, fives = 1 << (least - 1).bit_length(), 1
    while fives < best:
        odd = fives
        while odd < best:
            best = min(best, odd << (-(-least // odd) - 1).bit_length())
            odd *= 3
        fives *= 5
    return best


def _of_transform(length):
    """Return the multiply–adds of one real transform, and half a product of spectra."""
    if isinstance(length, int):
        return length * (math.log2(max(length, 2)) + 1)
    return length * (ops.log(ops.maximum(length, 2.0)) / math.log(2) + 1)


def _first_points(y, sizes):
    """Return the first points of the last axes, in one copy."""
    return y[(..., *(slice(0, size) for size in sizes))]


def _spectrum(x, lengths, bins):
    """Return the kept frequencies of the last axes of a real tensor as (real, imaginary)."""
    parts = transforms.rfft(x, lengths[-1], bins[-1])
    for axis in range(len(lengths) - 1):
        kept = _kept(lengths[axis], bins[axis])
        place = axis - len(lengths)
        padding = [(0, 0)] * len(x.shape)
        padding[-1] = (0, lengths[axis] - x.shape[place])
        parts = [ops.pad(ops.swapaxes(part, place, -1), padding) for part in parts]
        parts = transforms.fft(parts, kept if len(kept) < lengths[axis] else None)
        parts = [ops.swapaxes(part, place, -1) for part in parts]
    return parts


def _inverse(real, imaginary, lengths, new_lengths, bins):
    """Return the real tensor of the given frequencies; others are zero."""
    parts, rank = (real, imaginary), len(lengths)
    for axis in range(rank - 1):
        new, place = new_lengths[axis], axis - rank
        half = bins[axis]
        parts = [ops.swapaxes(part, place, -1) for part in parts]
        zeros = new - parts[0].shape[-1]
        if zeros > 0:
            pad = [(0, 0)] * len(parts[0].shape)
            pad[-1] = (0, zeros)
            parts = [
                ops.concatenate([ops.pad(part[..., :half], pad), part[..., half:]], axis=-1)
                for part in parts
            ]
        # Exchanging the parts before and after turns the FFT into the unscaled inverse FFT.
        imaginary, real = transforms.fft((parts[1], parts[0]))
        parts = [ops.swapaxes(part / new, place, -1) for part in (real, imaginary)]
    pad = [(0, 0)] * len(parts[0].shape)
    pad[-1] = (0, new_lengths[-1] // 2 + 1 - parts[0].shape[-1])
    parts = tuple(ops.pad(part, pad) for part in parts)
    return transforms.irfft(parts, fft_length=new_lengths[-1])


def _kept(length, bins):
    """Return the places of the frequencies `|f| < bins` in a transform of some length."""
    return np.flatnonzero(np.minimum(np.arange(length), length - np.arange(length)) < bins)


def _factor(masks, lengths, bins):
    """Return the product of the masks at the kept frequencies, or 1.0."""
    if masks is None:
        return 1.0
    result = ops.convert_to_tensor(masks[-1])[: bins[-1]]
    for axis in reversed(range(len(lengths) - 1)):
        places = _kept(lengths[axis], bins[axis])
        mask = ops.take(masks[axis], np.minimum(places, lengths[axis] - places))
        result = ops.reshape(mask, (-1,) + (1,) * len(result.shape)) * result
    return result
