import itertools

import numpy as np
import pytest

from keras_xd import kmatrix
from keras_xd.kmatrix import families

every_family = pytest.mark.parametrize("family", families.FAMILIES)


@every_family
def test_shares_are_kept_and_errors_told(family, rng):
    for shape, share in itertools.product([(48, 96), (64, 64), (30, 42)], [0.6, 0.4]):
        matrix = rng.normal(size=shape)
        found = kmatrix.project_to(matrix, family, share)
        assert found.family == family and found.matrix.shape == shape
        assert found.parameters <= share * matrix.size
        error = np.linalg.norm(matrix - found.matrix) / np.linalg.norm(matrix)
        assert found.error == pytest.approx(error) and found.bound <= found.error < 1
        rank = found.parameters // sum(shape)
        scale = np.linalg.svd(matrix, compute_uv=False)
        tail = np.sqrt((scale[rank:] ** 2).sum() / (scale**2).sum())
        assert found.low_rank_error == pytest.approx(tail, abs=1e-7)
        assert repr(found).startswith(f"Projection({family!r}, shape={shape}, parameters=")


@pytest.mark.parametrize("family", ["monarch", "block_tensor_train", "blast", "low_rank"])
def test_most_of_a_share_is_used(family, rng):
    """A share that factors well is used to nine tenths; the radices of a butterfly are coarser."""
    found = kmatrix.project_to(rng.normal(size=(128, 128)), family, 0.25)
    assert found.parameters > 0.85 * 0.25 * 128**2


@pytest.mark.parametrize("family", families.WITH_INPUTS)
def test_inputs_lower_the_error_of_outputs(family, rng):
    matrix = rng.normal(size=(24, 36))
    inputs = rng.normal(size=(500, 36)) * np.geomspace(1, 0.01, 36)
    plain, found = (kmatrix.project_to(matrix, family, 0.5, given) for given in (None, inputs))
    assert plain.output_error is None and "output_error" not in repr(plain)
    outputs = inputs @ matrix.T
    lost = np.linalg.norm(outputs - inputs @ plain.matrix.T) / np.linalg.norm(outputs)
    assert found.output_error < 0.8 * lost and "output_error" in repr(found)
    assert found.parameters == plain.parameters


def low_rank(shape=(3, 4), rank=1, **options):
    return kmatrix.project_to(np.ones(shape), "low_rank", sizes={"rank": rank}, **options)


def sized(shape, family, **sizes):
    return kmatrix.project_to(np.ones(shape), family, sizes=sizes)


def train(rows, columns):
    return sized((4, 4), "block_tensor_train", row_factors=rows, column_factors=columns, rank=1)


BAD = [
    (lambda: kmatrix.project_to(np.zeros(3), "low_rank", 1.0), "two axes"),
    (lambda: sized((4, 6), "blast", blocks=2), r"sizes of a blast matrix are \['blocks', 'rank'\]"),
    (lambda: sized((4, 6), "blast", blocks=2, rank=1, seed=0), "sizes={'blocks': 2, 'rank'"),
    (lambda: kmatrix.project_to(1j * np.ones((3, 3)), "low_rank"), "real array"),
    (lambda: kmatrix.project_to(np.full((3, 3), np.nan), "low_rank"), "9 NaN"),
    (lambda: low_rank(rank=4), "rank=4"),
    (lambda: low_rank(rank=0), "rank"),
    (lambda: low_rank(inputs=np.ones((5, 3))), r"\(samples, 4\)"),
    (lambda: low_rank(inputs=np.full((5, 4), np.inf)), "finite"),
    (lambda: sized((3, 4), "monarch", blocks=2), "blocks=2"),
    (lambda: train((2, 2), (4, 2)), "multiply"),
    (lambda: train((4,), (4,)), "at least two"),
    (lambda: train((2, 2), (1, 2, 2)), "as many"),
    (lambda: train(4, (2, 2)), "`row_factors` must be a list"),
    (lambda: sized((4, 6), "blast", blocks=4, rank=1), "blocks=4"),
    (lambda: sized((4, 6), "blast", blocks=2, rank=5), "rank=5"),
    (lambda: sized((4, 6), "blast", blocks=2, rank=1, steps=-1), "steps=-1"),
    (lambda: sized((4, 8), "kaleidoscope", radix=(2, 3)), "product 6"),
    (lambda: sized((4, 8), "kaleidoscope", depth=0), "depth"),
    (lambda: sized((4, 8), "kaleidoscope", steps=-1), "steps"),
    (lambda: kmatrix.project_to(np.ones((8, 8)), "blast", 0.5, np.ones((3, 8))), "family='blast'"),
    *(
        (lambda case=case: kmatrix.project_to(np.ones(case[0]), *case[1:3]), case[3])
        for case in [
            ((6, 9), "dense", 0.5, "family"),
            ((6, 9), "monarch", 0.0, "density=0.0"),
            ((6, 9), "monarch", 1.5, "density=1.5"),
            ((5, 9), "monarch", 0.9, r"common divisor above 1. Received: matrix of .* \(5, 9\)"),
            ((5, 9), "blast", 0.9, "common divisor"),
            ((5, 7), "block_tensor_train", 0.9, r"must factor. Received: .* shape \(5, 7\)"),
            (
                (6, 9),
                "low_rank",
                0.1,
                "has 15 numbers, a density of 0.28. Received: a density for 5",
            ),
            ((6, 9), "monarch", 0.3, "has 45 numbers"),
            ((6, 9), "blast", 0.3, "has 24 numbers"),
            ((6, 8), "block_tensor_train", 0.1, "smallest block_tensor_train matrix"),
            ((6, 8), "kaleidoscope", 0.1, "smallest kaleidoscope matrix"),
        ]
    ),
]


@pytest.mark.parametrize("call, message", BAD)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
