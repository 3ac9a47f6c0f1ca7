"""The arithmetic of an XD-operation in `keras.ops`: transform, multiply by the
spectrum, transform.
"""

import dataclasses
import itertools
import math

import keras
from keras import ops

from keras_xd.core import devices, splitting
from keras_xd.kmatrix import product, transform
from keras_xd.layers.xd.placed_kernel import PlacedTransform

# On a CPU a spectrum is kept in at most 8 pieces, of at most 2²¹ numbers (8 MiB in float32) if that
# will do.
LARGEST_PIECE = 2**21
MOST_PIECES = 8


def transforms(analysis_factors, synthesis_factors, plans, geometry):
    """Make the folded `M` and `K` of every axis ready for the sizes in use."""
    axes = list(zip(analysis_factors, synthesis_factors, plans, geometry, strict=True))
    analyses = [
        transform.forward_transform(m, plan, size=g.size, stride=g.input_stride, pair=axis > 0)
        for axis, (m, _, plan, g) in enumerate(axes)
    ]
    syntheses = [
        transform.transposed_transform(k, plan, size=g.output_size, stride=g.stride, pair=axis > 0)
        for axis, (_, k, plan, g) in enumerate(axes)
    ]
    return analyses, syntheses


def spectrum(kernel, matrices, bias=None, gates=None, repeat=True):
    """Return `C ∘ (L w + b)` in pieces: the kernel placed and transformed along every axis.

    As `C ∘ (L w + b) = L (C ∘ w) + b ⊗ C`, the gates are multiplied into the kernel, and the bias,
    of shape `(n_1 ⋯ n_N, 2, 1, 1)`, is one more column of the last matrix.
    """
    kernel = ops.convert_to_tensor(kernel)
    if gates is not None:
        kernel = gates * kernel
    *_, channels, filters = kernel.shape
    direct = [isinstance(matrix, PlacedTransform) for matrix in matrices]
    sizes = [
        len(matrix.weights) if placed else matrix.shape[0]
        for matrix, placed in zip(matrices, direct, strict=True)
    ]
    pieces = spectrum_pieces(sizes, channels, filters)
    if bias is not None:
        ones = ops.ones((channels, filters), kernel.dtype)
        gates = ops.reshape(ones if gates is None else gates, (1, 1, -1))
        bias = ops.cast(ops.reshape(bias, (-1, 2 * sizes[-1], 1)), kernel.dtype)

    result, rows = kernel, 1
    for axis, (n, matrix) in enumerate(zip(sizes, matrices, strict=True)):
        pairs = 2 if axis > 0 else 1
        taps = pairs * kernel.shape[axis]
        if direct[axis]:
            analysis = cast(matrix.analysis, kernel.dtype)
            matrix = dataclasses.replace(matrix, analysis=analysis)
        else:
            if axis > 0:
                matrix = product.complex_blocks(*ops.unstack(matrix, axis=1))  # (n, 2, taps, 2)
                matrix = ops.transpose(matrix, (0, 1, 3, 2))
            matrix = ops.cast(ops.reshape(matrix, (n * 2, taps)), kernel.dtype)
        result = ops.reshape(result, (rows, taps, -1))
        if axis < len(sizes) - 1:
            result = _times(matrix, result, repeat)
        rows *= n
    if len(sizes) == 1 and direct[0]:
        whole = _times(matrix, result, repeat, bias, gates)[0]
        products = _split(whole, [2 * frequencies for frequencies in pieces])
    elif len(sizes) == 1:
        cut = [2 * frequencies for frequencies in pieces]
        biases = [None] * len(cut) if bias is None else splitting.split(bias, cut, axis=1)
        products = [
            _times(rows_of_matrix, result, repeat, own, gates)
            for rows_of_matrix, own in zip(_split(matrix, cut), biases, strict=True)
        ]
    else:
        cut = [math.prod(sizes[1:-1]) * frequencies for frequencies in pieces]
        biases = [None] * len(cut) if bias is None else _split(bias, cut)
        products = [
            _times(matrix, rows_of_result, repeat, own, gates)
            for rows_of_result, own in zip(_split(result, cut), biases, strict=True)
        ]
    return [ops.reshape(piece, (-1, 2, channels, filters)) for piece in products]


def _times(matrix, data, repeat, bias=None, gates=None):
    """Return `L` along one axis of the data, and `b ⊗ C` beside it on the last axis."""
    if isinstance(matrix, PlacedTransform):
        result = matrix(data)
        return result if bias is None else result + bias * gates
    if repeat or bias is not None:
        matrix = product.repeated(matrix, data.shape[:1])
    if bias is not None:
        matrix = ops.concatenate([matrix, bias], axis=-1)
        row = ops.repeat(gates, data.shape[0], axis=0)
        data = ops.concatenate([data, row], axis=1)
    return ops.matmul(matrix, data)


def spectrum_pieces(sizes, channels, filters, largest=None, most=None):
    """Return by how many frequencies of the first axis a spectrum is cut into pieces."""
    if most is None:
        most = 1 if devices.has_accelerator() else MOST_PIECES
    largest = LARGEST_PIECE if largest is None else largest
    needed = -(-2 * math.prod(sizes) * channels * filters // largest)
    count = min(needed, most, sizes[0])
    ends = [(index + 1) * sizes[0] // count for index in range(count)]
    return [end - start for start, end in itertools.pairwise([0, *ends])]


def apply(x, analyses, spectrum, syntheses, groups):
    """Compute `Σ_j Re(K diag(D_ij) M x_j)`."""
    channels, filters, batch = x.shape[-1], spectrum[0].shape[-1], ops.shape(x)[-2]
    rows = 1
    for axis, analysis in enumerate(analyses):
        shape = (rows, 2, analysis.size, -1) if axis else (1, analysis.size, -1)
        x = analysis(ops.reshape(x, shape))
        rows *= analysis.plan.n
    x = ops.cast(ops.reshape(x, (rows, 2, -1, channels)), spectrum[0].dtype)
    x = exact(channel_product(x, spectrum, groups))
    for synthesis in reversed(syntheses):
        n = synthesis.plan.n
        rows //= n
        x = synthesis(ops.reshape(x, (rows, n, 2, -1)))
    # LiteRT's converter writes files without a meaning where an unknown batch is a -1 here.
    return ops.reshape(x, (*(s.size for s in syntheses), batch, filters))


def channel_product(x, spectrum, groups):
    """Multiply by a complex matrix between the channels at every frequency."""
    cut = _split(x, [piece.shape[0] for piece in spectrum])
    products = [_piece_product(*both, groups) for both in zip(cut, spectrum, strict=True)]
    return ops.concatenate(products, axis=0) if len(products) > 1 else products[0]


def with_bias(outputs, bias):
    """Add a layer's bias to its outputs, if it has one."""
    if bias is None:
        return outputs
    return outputs + ops.cast(ops.convert_to_tensor(bias), outputs.dtype)


def to_columns(inputs, data_format):
    """Bring a batch to `(*sizes, batch, channels)`."""
    rank = len(inputs.shape) - 2
    if data_format == "channels_last":
        return ops.transpose(inputs, (*range(1, rank + 1), 0, rank + 1))
    return ops.transpose(inputs, (*range(2, rank + 2), 0, 1))


def from_columns(outputs, data_format):
    """Undo `to_columns`."""
    rank = len(outputs.shape) - 2
    if data_format == "channels_last":
        return ops.transpose(outputs, (rank, *range(rank), rank + 1))
    return ops.transpose(outputs, (rank, rank + 1, *range(rank)))


def exact_dtype(dtype):
    """Return the type that numbers of a type are computed in: float32 in place of a shorter one."""
    dtype = keras.backend.standardize_dtype(dtype)
    return "float32" if dtype in ("bfloat16", "float16") else dtype


def exact(tensor):
    """Return a tensor in the type that it is computed in, see `exact_dtype`."""
    return ops.cast(tensor, exact_dtype(tensor.dtype))


def cast(transform, dtype):
    """Return the transform with its matrices cast to `dtype`."""
    matrices = [ops.cast(matrix, dtype) for matrix in transform.matrices]
    return dataclasses.replace(transform, matrices=matrices)


def multiply_adds(plans, geometry, depths, channels, filters, groups):
    """Multiply–adds of `apply` for one sample."""
    total, frequencies = 0, math.prod(plan.n for plan in plans)
    before, after_in = 1, math.prod(g.size for g in geometry)
    after_out = math.prod(g.output_size for g in geometry)
    for axis, (plan, g) in enumerate(zip(plans, geometry, strict=True)):
        after_in //= g.size
        after_out //= g.output_size
        for depth, size, stride, after, width in (
            (depths[2], g.size, g.input_stride, after_in, channels),
            (depths[0], g.output_size, g.stride, after_out, filters),
        ):
            total += transform.multiply_adds(
                plan,
                depth,
                size=size,
                stride=stride,
                pair=axis > 0,
                columns=before * after * width,
            )
        before *= plan.n
    return total + 4 * frequencies * (channels // groups) * filters


def forming_multiply_adds(sizes, kernel_size, connections):
    """Multiply–adds of the spectrum of a kernel, on axes of these padded sizes."""
    total, before, taps = 0, 1, math.prod(kernel_size)
    for axis, (n, size) in enumerate(zip(sizes, kernel_size, strict=True)):
        total += before * 2 * n * (2 if axis else 1) * taps
        taps //= size
        before *= n
    return total * connections


def _piece_product(x, spectrum, groups):
    """`channel_product` with a single piece of the spectrum."""
    frequencies, _, channels, filters = spectrum.shape
    upper, lower = ops.unstack(x, axis=1)
    turned = ops.stack([-lower, upper], axis=1)  # i x; so the product is x D_r + (i x) D_i
    if groups > 1:
        real, imaginary = ops.unstack(spectrum, axis=1)
        return _real_product(x, real, groups) + _real_product(turned, imaginary, groups)
    x = ops.reshape(ops.concatenate([x, turned], axis=-1), (frequencies, -1, 2 * channels))
    y = ops.matmul(x, ops.reshape(spectrum, (frequencies, 2 * channels, filters)))
    return ops.reshape(y, (frequencies, 2, -1, filters))


def _split(x, sizes):
    """Cut a tensor along its first axis into pieces of these sizes."""
    return splitting.split(x, sizes, axis=0)


def _real_product(x, matrix, groups):
    """`channel_product` with a real matrix `(frequencies, channels / groups, filters)`."""
    frequencies, group_channels, filters = matrix.shape
    if group_channels == 1:
        x = ops.reshape(x, (frequencies, -1, groups, 1))
        y = x * ops.reshape(matrix, (frequencies, 1, groups, filters // groups))
    else:
        x = ops.reshape(x, (frequencies, -1, groups, group_channels))
        shape = (frequencies, group_channels, groups, filters // groups)
        matrix = ops.transpose(ops.reshape(matrix, shape), (0, 2, 1, 3))
        y = ops.transpose(ops.matmul(ops.transpose(x, (0, 2, 1, 3)), matrix), (0, 2, 1, 3))
    return ops.reshape(y, (frequencies, 2, -1, filters))
