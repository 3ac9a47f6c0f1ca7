import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_xd import kmatrix
from keras_xd.kmatrix import product, transform
from keras_xd.kmatrix.radix import factorise
from keras_xd_tests.kmatrix.folding_cases import TOLERANCE, pairs, random_case


def all_groups(stages):
    one = [(stages,)]
    two = [(a, stages - a) for a in range(1, stages)]
    three = [(a, b, stages - a - b) for a in range(1, stages) for b in range(1, stages - a)]
    return one + two + three


@pytest.mark.parametrize("pre", [1, 3])
def test_more_columns_than_rows(pre):
    """Matrices that are smaller than the data are repeated for them, or not: the same results."""
    weights, matrix, rng = random_case(12, 3)
    signal = rng.standard_normal((pre, 12, 40)) + 1j * rng.standard_normal((pre, 12, 40))
    forward = pairs(np.einsum("fs,psc->pfc", matrix, signal), 2)
    back = pairs(np.einsum("fs,pfc->psc", matrix, signal), 1)
    for groups in all_groups(3):
        plan = kmatrix.plan(12, groups=groups)
        (factors,) = product.multiply_out([weights], [plan])
        for make, data, expected in (
            (transform.forward_transform, pairs(signal, 1), forward),
            (transform.transposed_transform, pairs(signal, 2), back),
        ):
            for repeat in (True, False):
                made = dataclasses.replace(make(factors, plan, pair=True), repeat=repeat)
                result = np.array(made(data)).reshape(expected.shape)
                np.testing.assert_allclose(result, expected, atol=TOLERANCE)


def test_matrices_of_files_of_earlier_versions_have_two_axes_of_positions():
    plan = kmatrix.plan(12, groups=(1, 1, 1))
    weights, _, rng = random_case(12, 1)
    (factors,) = product.multiply_out([weights], [plan])
    made = transform.forward_transform(factors, plan, pair=True)
    first, middle, last = made.matrices
    earlier = dataclasses.replace(made, matrices=[first, ops.reshape(middle, (3, 2, 4, 4)), last])
    x = rng.standard_normal((1, 2, 12, 3))
    np.testing.assert_array_equal(earlier(x), made(x))


@pytest.mark.tensorflow("reads operations of a graph")
@pytest.mark.parametrize(
    ("pre", "columns", "expected"),
    [(6, 16, True), (6, 15, False), (6, None, True), (2**15, None, True), (2**15 + 1, None, False)],
)
def test_matrices_are_repeated_where_they_are_smaller(pre, columns, expected):
    weights, *_ = random_case(8, 1)
    plan = kmatrix.plan(8, groups=(3,))
    (factors,) = product.multiply_out([weights], [plan])  # one matrix of 16 by 16
    analysis = transform.forward_transform(factors, plan, pair=True)
    specification = tf.TensorSpec((pre, 2, 8, columns), "float32")
    graph = tf.function(analysis, autograph=False).get_concrete_function(specification).graph
    types = {operation.type for operation in graph.get_operations()}
    assert ("BroadcastTo" in types) == expected


@settings(max_examples=30)
@given(
    n=st.integers(1, 90),
    depth=st.integers(1, 4),
    count=st.integers(1, 3),
    stride=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_any_size_and_stride(n, depth, count, stride, seed):
    weights, matrix, rng = random_case(n, depth, seed=seed)
    stages = len(factorise(n))
    groups = all_groups(stages)
    plan = kmatrix.plan(n, groups=groups[(count * 7 + seed) % len(groups)])
    (factors,) = product.multiply_out([weights], [plan])
    kept = matrix[:, ::stride]
    y = rng.standard_normal((1, n, 2)) + 1j * rng.standard_normal((1, n, 2))
    synthesis = transform.transposed_transform(factors, plan, stride=stride, pair=True)
    expected = np.einsum("fs,pfc->psc", kept, y)
    np.testing.assert_allclose(synthesis(pairs(y, 2)), pairs(expected, 1), atol=TOLERANCE)
    synthesis = transform.transposed_transform(factors, plan, stride=stride, pair=False)
    np.testing.assert_allclose(synthesis(pairs(y, 2)), expected.real, atol=TOLERANCE)
    size = max(1, kept.shape[1] - seed % 3)
    x = rng.standard_normal((1, size, 2)) + 1j * rng.standard_normal((1, size, 2))
    expected = np.einsum("fs,psc->pfc", kept[:, :size], x)
    analysis = transform.forward_transform(factors, plan, size=size, stride=stride, pair=True)
    np.testing.assert_allclose(analysis(pairs(x, 1)), pairs(expected, 2), atol=TOLERANCE)
    analysis = transform.forward_transform(factors, plan, size=size, stride=stride, pair=False)
    expected = np.einsum("fs,psc->pfc", kept[:, :size], x.real)
    np.testing.assert_allclose(analysis(pairs(x, 1)[:, 0]), pairs(expected, 2), atol=TOLERANCE)


@pytest.mark.parametrize("groups", [(4,), (2, 2), (1, 2, 1)], ids=str)
def test_multiply_adds_are_the_entries_of_the_matrices(groups):
    """Every vector is multiplied once by every entry that a transform holds."""
    for depth, (size, stride) in itertools.product([1, 2, 3], [(36, 1), (10, 1), (12, 3), (5, 7)]):
        plan = kmatrix.plan(36, groups=groups)
        (factors,) = product.multiply_out([random_case(36, depth)[0]], [plan])
        for pair in (False, True):
            options = {"size": size, "stride": stride, "pair": pair}
            count = transform.multiply_adds(plan, depth, columns=7, **options)
            for made in (transform.forward_transform, transform.transposed_transform):
                matrices = made(factors, plan, **options).matrices
                assert count == 7 * sum(np.prod(matrix.shape) for matrix in matrices)
