import keras
import numpy as np
import pytest

from keras_xd.kmatrix import families
from keras_xd.kmatrix.structured_product import structured_product

CASES = [
    ("dense", (20, 12), {}),
    ("low_rank", (20, 12), {"rank": 3}),
    ("monarch", (20, 12), {"blocks": 4}),
    ("monarch", (12, 12), {"blocks": 1}),
    ("block_tensor_train", (20, 12), {"row_factors": (4, 5), "column_factors": (6, 2), "rank": 3}),
    (
        "block_tensor_train",
        (24, 30),
        {"row_factors": (2, 3, 4), "column_factors": (5, 3, 2), "rank": 2},
    ),
    ("blast", (20, 12), {"blocks": 2, "rank": 5}),
    ("kaleidoscope", (20, 12), {"radix": (4, 5)}),
    ("kaleidoscope", (7, 13), {"radix": None, "depth": 2}),
    ("kaleidoscope", (200, 60), {"radix": (10, 20)}),
]


@pytest.mark.parametrize(("family", "shape", "sizes"), CASES)
def test_products_are_those_of_the_matrix_multiplied_out(family, shape, sizes, rng):
    projection = families.nearest(rng.normal(size=shape), family, sizes)
    times = structured_product(family, shape[1], shape[0], sizes)
    packed = [factor.astype("float32") for factor in times.packed(projection)]
    assert [factor.shape for factor in packed] == list(times.shapes)
    assert times.parameters == projection.parameters
    x = rng.normal(size=(5, shape[1])).astype("float32")
    expected = x @ projection.matrix.T
    np.testing.assert_allclose(times.apply(packed, x), expected, atol=2e-5 * abs(expected).max())
    found = keras.ops.convert_to_numpy(times.multiplied_out(list(map(keras.ops.array, packed))))
    atol = 1e-5 * abs(projection.matrix).max()
    np.testing.assert_allclose(found, projection.matrix.T, atol=atol)
    assert_rows(times, packed, found, rng)


def assert_rows(times, packed, dense, rng):
    """Check some rows of the matrix multiplied out, by themselves."""
    indices = rng.integers(times.inputs, size=17).astype("int32")
    if times.family == "kaleidoscope":
        with pytest.raises(ValueError, match="kaleidoscope matrix has no rows"):
            times.rows(packed, indices)
        return
    rows = keras.ops.convert_to_numpy(times.rows(list(map(keras.ops.array, packed)), indices))
    np.testing.assert_allclose(rows, dense[indices], atol=1e-5 * np.abs(dense).max())


@pytest.mark.parametrize(
    ("family", "sizes", "expected"),
    [
        ("dense", {}, (1,)),
        ("low_rank", {"rank": 4}, (1 / 2, 64 / 4 / 2)),
        ("monarch", {"blocks": 16}, (64 / 4 / 2, 64 / 16 / 2)),
        ("blast", {"blocks": 8, "rank": 2}, (64 / 8 / 3, 64 / 8 / 3, 64 / 2 / 3)),
        ("kaleidoscope", {"radix": (8, 16), "depth": 2}, (64 / 16 / 4,)),
    ],
)
def test_rates_follow_the_sums_of_products(family, sizes, expected):
    assert structured_product(family, 64, 128, sizes).rates == pytest.approx(expected)
