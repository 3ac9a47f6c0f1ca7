import functools

import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers.xd import low_rank
from keras_xd_tests.layers.xd.finalized_test import CASES, moved


def decomposed(layer):
    return low_rank.tucker(layer, layer._grouped_kernel())


@functools.cache
def whole_case(name):
    """Return a layer that has moved, its shape and its decomposition, which no test changes."""
    layer, shape = moved(name, np.random.default_rng(20))
    return layer, shape, decomposed(layer)


def dense(layer, shape):
    """The matrix of a layer without its bias, all inputs of a sample in rows."""
    shape = shape[1:]
    unit = np.eye(int(np.prod(shape)), dtype="float32").reshape(-1, *shape)
    layer.activation = None
    outputs = np.array(layer(unit)) - np.array(layer(0 * unit[:1]))
    return outputs.reshape(len(unit), -1).astype("float64")


def multiplied_out(tucker, groups):
    """The matrix of a decomposition, by its definition, channels last."""
    rank, letters = len(tucker.factors), "abc"
    outs, ins = "xyz", "uvw"
    terms = [f"{letters[n]}{outs[n]}{ins[n]}" for n in range(rank)]
    pattern = f"{','.join(terms)},{letters[:rank]}ij->{ins[:rank]}i{outs[:rank]}j"
    width, filters = tucker.core.shape[-2:]
    whole = np.zeros((*tucker.core.shape[:-2], width * groups, filters))
    for group in range(groups):
        rows = slice(group * width, (group + 1) * width)
        columns = slice(group * filters // groups, (group + 1) * filters // groups)
        whole[..., rows, columns] = tucker.core[..., columns]
    result = np.einsum(pattern, *tucker.factors, whole, optimize=True)
    return result.reshape(int(np.prod(result.shape[: rank + 1])), -1)


SMALL = ("strided", "bias and gates", "depthwise", "transposed", "triangular")


@pytest.mark.parametrize("name", SMALL)
def test_decompositions_are_the_linear_map_and_their_errors_true(name):
    layer, shape, whole = whole_case(name)
    expected = dense(layer, shape)
    np.testing.assert_allclose(
        multiplied_out(whole, layer.groups), expected, atol=2e-6 * np.abs(expected).max()
    )
    errors = whole.errors()
    assert errors.shape == whole.ranks and errors.flat[-1] < 1e-7
    for ranks in ((1,) * layer.rank, (2,) * layer.rank, tuple(range(1, layer.rank + 1))):
        truncated = whole.truncated(ranks)
        assert truncated.ranks == ranks
        difference = multiplied_out(truncated, layer.groups) - expected
        error = np.linalg.norm(difference) / np.linalg.norm(expected)
        assert truncated.error == errors[tuple(r - 1 for r in ranks)]
        assert truncated.error == pytest.approx(error, abs=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_matrices_of_an_axis_are_orthonormal_and_sorted(name):
    _, _, whole = whole_case(name)
    for axis, factor in enumerate(whole.factors):
        flat = factor.reshape(len(factor), -1)
        np.testing.assert_allclose(flat @ flat.T, np.eye(len(flat)), atol=1e-9)
        sizes = np.linalg.norm(np.moveaxis(whole.core, axis, 0).reshape(len(flat), -1), axis=1)
        assert np.all(np.diff(sizes) <= 1e-9 * sizes[0])


def test_a_convolution_needs_its_taps_alone():
    layer = layers.XDConv2D(3, (3, 5), padding="same", dilation_rate=(2, 1))
    layer.build((None, 12, 9, 2))
    errors = decomposed(layer).errors()
    assert errors[2, 4] < 1e-6 < 0.05 < min(errors[1, 4], errors[2, 3])


def test_a_map_of_zeros_has_no_error(rng):
    layer, _ = moved("2-D", rng)
    layer.architecture_variables[-1].assign(np.zeros((2, 3)))
    whole = decomposed(layer)
    assert not np.any(whole.errors()) and whole.truncated((1, 1)).error == 0


def test_too_large_maps_are_told(rng):
    layer, _ = moved("gates", rng)
    assert low_rank.is_decomposable(layer, layer._grouped_kernel())
    long = layers.XDConv1D(2, 5, padding="same")
    long.build((None, 16384, 2))
    assert not low_rank.is_decomposable(long, long._grouped_kernel())
