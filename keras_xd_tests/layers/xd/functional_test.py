import math

import keras
import numpy as np
import pytest

from keras_xd import kmatrix
from keras_xd.kmatrix import product
from keras_xd.layers.xd import axis_layout, functional, placed_kernel


def case(rng, sizes=(5, 6), kernel=(3, 2), strides=(1, 2), depths=(2, 1, 3)):
    geometry = [
        axis_layout.axis_geometry(n, k, s, 1, "same")
        for n, k, s in zip(sizes, kernel, strides, strict=True)
    ]
    plans = [kmatrix.plan(g.padded_size, depth=max(depths)) for g in geometry]
    weights = [
        kmatrix.KMatrix.random_unitary(plan.n, depth=depth, seed=rng.integers(1000)).weights
        for depth in depths
        for plan in plans
    ]
    dense = []
    for weight, plan in zip(weights, plans * 3, strict=True):
        real, imaginary = kmatrix.KMatrix(weight, plan).dense()
        dense.append(np.array(real) + 1j * np.array(imaginary))
    factors = product.multiply_out(weights, plans * 3)
    rank = len(sizes)
    split = [slice(i * rank, (i + 1) * rank) for i in range(3)]
    return geometry, plans, [factors[s] for s in split], [dense[s] for s in split]


def kronecker(matrices):
    result = np.eye(1)
    for matrix in matrices:
        result = np.kron(result, matrix)
    return result


@pytest.mark.parametrize(
    "sizes, pieces, groups, direct",
    [  # Any two of them in all combinations.
        ((5, 6), 1, 1, False),
        ((6,), 3, 1, True),
        ((6,), 1, 2, False),
        ((5, 6), 3, 2, True),
        ((5, 6), 3, 4, False),
        ((6,), 1, 4, True),
    ],
)
def test_the_operation_is_its_definition(rng, monkeypatch, sizes, pieces, groups, direct):
    filters, channels, batch, rank = 8, 4, 3, len(sizes)
    geometry, plans, (k, l_factors, m), (k_dense, l_dense, m_dense) = case(
        rng, sizes, (3, 2)[:rank], (1, 2)[:rank]
    )
    kernel = rng.standard_normal((*(3, 2)[:rank], channels // groups, filters)).astype("float32")
    x = rng.standard_normal((*sizes, batch, channels)).astype("float32")
    numbers = 2 * math.prod(plan.n for plan in plans) * channels // groups * filters
    monkeypatch.setattr(functional, "LARGEST_PIECE", -(-numbers // pieces))
    placements = [g.placement() for g in geometry]
    axes = [
        placed_kernel.KernelAxis(plan, g.placed_weights(), g.kernel_size, direct)
        for plan, g in zip(plans, geometry, strict=True)
    ]
    matrices = placed_kernel.kernel_transforms(l_factors, axes)
    assert [isinstance(m, placed_kernel.PlacedTransform) for m in matrices] == [direct] * rank
    spectrum = functional.spectrum(kernel, matrices)
    for piece, other in zip(spectrum, functional.spectrum(kernel, matrices, False), strict=True):
        np.testing.assert_allclose(piece, other, rtol=1e-5, atol=1e-5)
    assert len(spectrum) == pieces
    analyses, syntheses = functional.transforms(m, k, plans, geometry)
    result = np.array(functional.apply(x, analyses, spectrum, syntheses, groups))

    # y_i = Σ_j Re(K diag(L w_ij) M x_j) with Kronecker products, on zero-padded vectors.
    big_k = kronecker(
        [
            d.T[: g.stride * g.output_size : g.stride][: g.output_size]
            for d, g in zip(k_dense, geometry, strict=True)
        ]
    )
    big_l = kronecker([d @ p for d, p in zip(l_dense, placements, strict=True)])
    big_m = kronecker([d[:, : g.size] for d, g in zip(m_dense, geometry, strict=True)])
    expected = np.zeros((big_k.shape[0], batch, filters))
    for i in range(filters):
        group = i // (filters // groups)
        for j in range(channels // groups):
            diagonal = big_l @ kernel[..., j, i].reshape(-1)
            source = x[..., group * (channels // groups) + j].reshape(-1, batch)
            expected[..., i] += (big_k @ (diagonal[:, None] * (big_m @ source))).real
    np.testing.assert_allclose(result.reshape(expected.shape), expected, atol=1e-4)


@pytest.mark.parametrize(
    "sizes, frequencies",
    [
        ((1024,), [256, 256, 256, 256]),  # of 2²³ numbers, at most 2²¹ in each
        ((32, 36), [6, 6, 7, 6, 7]),
        ((128, 128), [16] * 8),  # no more than 8, however large
        ((3, 4096), [1, 1, 1]),
        ((32, 8), [32]),
    ],
)
def test_pieces_of_a_spectrum(sizes, frequencies):
    assert functional.spectrum_pieces(sizes, 64, 64) == frequencies


@pytest.mark.parametrize("pieces", [[5], [2, 3]])
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_channel_product_multiplies_complex_numbers(rng, groups, pieces):
    x = rng.standard_normal((5, 2, 3, 6)).astype("float32")
    spectrum = rng.standard_normal((2, 5, 6 // groups, 12)).astype("float32")
    cut = np.split(np.moveaxis(spectrum, 0, 1), np.cumsum(pieces)[:-1])
    result = np.array(functional.channel_product(x, cut, groups))
    z = (x[:, 0] + 1j * x[:, 1]).reshape(5, 3, groups, 6 // groups)
    d = (spectrum[0] + 1j * spectrum[1]).reshape(5, 6 // groups, groups, 12 // groups)
    expected = np.einsum("fbgc,fcgo->fbgo", z, d).reshape(5, 3, 12)
    np.testing.assert_allclose(result[:, 0], expected.real, atol=1e-5)
    np.testing.assert_allclose(result[:, 1], expected.imag, atol=1e-5)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_columns_round_trip(rng, data_format):
    x = rng.standard_normal((2, 3, 4, 5))
    columns = functional.to_columns(x, data_format)
    assert columns.shape == ((3, 4, 2, 5) if data_format == "channels_last" else (4, 5, 2, 3))
    np.testing.assert_array_equal(functional.from_columns(columns, data_format), x)


def test_multiply_adds_by_hand():
    geometry = [axis_layout.axis_geometry(32, 3, 1, 1, "circular")] * 2
    plans = [kmatrix.plan(32)] * 2
    # Per element 12 n for the transforms (real 2 n and complex 4 n, twice) and 4 C for channels.
    count = functional.multiply_adds(plans, geometry, (1, 1, 1), 64, 64, 1)
    assert count == 32 * 32 * 64 * (12 * 32 + 4 * 64) == 32 * 32 * 64 * 640
    # Fewer outputs and filters, more groups: every term by itself.
    geometry = [axis_layout.axis_geometry(32, 3, 2, 1, "same")]
    n = geometry[0].padded_size
    plans = [kmatrix.plan(n)]
    count = functional.multiply_adds(plans, geometry, (3, 1, 3), 8, 16, 4)
    assert count == 2 * n * 32 * 8 + 2 * n * 16 * 16 + 4 * n * 2 * 16


def test_multiply_adds_are_the_entries_of_the_matrices(rng):
    """Of matrices of different depths, whose transforms have different costs."""
    depths = (2, 1, 3)
    geometry, plans, (k, _, m), _ = case(rng, (250, 9), (3, 2), (1, 2), depths)
    assert len(plans[0].groups) > 1
    analyses, syntheses = functional.transforms(m, k, plans, geometry)
    before = plans[0].n
    columns = [9 * 4, before * 4, geometry[1].output_size * 6, before * 6]
    expected = sum(
        count * math.prod(matrix.shape)
        for count, transform in zip(columns, [*analyses, *syntheses], strict=True)
        for matrix in transform.matrices
    )
    expected += 4 * before * plans[1].n * 2 * 6
    assert functional.multiply_adds(plans, geometry, depths, 4, 6, 2) == expected


def test_cast_changes_the_matrices_alone(rng):
    geometry, plans, (k, _, m), _ = case(rng)
    analyses, _ = functional.transforms(m, k, plans, geometry)
    cast = functional.cast(analyses[1], "bfloat16")
    assert keras.backend.standardize_dtype(cast.matrices[0].dtype) == "bfloat16"
    assert (cast.plan, cast.size, cast.pair) == (analyses[1].plan, analyses[1].size, True)


def test_input_spec_fixes_sizes_and_channels():
    assert functional.input_spec((5, 6), 3, "channels_last").axes == {1: 5, 2: 6, -1: 3}
    assert functional.input_spec((5, 6), 3, "channels_first").axes == {2: 5, 3: 6, 1: 3}
