import dataclasses
import itertools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_xd import kmatrix
from keras_xd.kmatrix import product, radix, transform
from keras_xd.kmatrix.radix import factorise
from keras_xd_tests.kmatrix.folding_cases import TOLERANCE, pairs, random_case


def all_groups(stages):
    one = [(stages,)]
    two = [(a, stages - a) for a in range(1, stages)]
    three = [(a, b, stages - a - b) for a in range(1, stages) for b in range(1, stages - a)]
    return one + two + three


@pytest.mark.parametrize(
    ("n", "depth"),
    # Even and odd depths of all sizes; one, and more of them, of a prime and of a product.
    [(n, depth) for n in (1, 2, 7, 12, 30, 36, 210) for depth in (2, 3)]
    + [(n, depth) for n in (7, 12) for depth in (1, 4, 9)],
)
def test_every_plan_computes_the_same_matrix(n, depth):
    weights, matrix, rng = random_case(n, depth)
    size = max(1, 2 * n // 3)
    signal = rng.standard_normal((2, size, 3)) + 1j * rng.standard_normal((2, size, 3))
    frequencies = rng.standard_normal((2, n, 3)) + 1j * rng.standard_normal((2, n, 3))
    forward = np.einsum("fs,psc->pfc", matrix[:, :size], signal)
    forward_real = np.einsum("fs,psc->pfc", matrix[:, :size], signal.real)
    back = np.einsum("fs,pfc->psc", matrix[:, :size], frequencies)
    for groups in all_groups(len(radix.prime_factors(n))):
        plan = kmatrix.plan(n, groups=groups)
        (factors,) = product.multiply_out([weights], [plan])
        x, y = pairs(signal, 1), pairs(frequencies, 2)
        result = np.array(transform.forward_transform(factors, plan, size=size, pair=True)(x))
        np.testing.assert_allclose(result, pairs(forward, 2), atol=TOLERANCE)
        result = np.array(
            transform.forward_transform(factors, plan, size=size, pair=False)(x[:, 0])
        )
        np.testing.assert_allclose(result, pairs(forward_real, 2), atol=TOLERANCE)
        result = np.array(transform.transposed_transform(factors, plan, size=size, pair=True)(y))
        np.testing.assert_allclose(result, pairs(back, 1), atol=TOLERANCE)
        result = np.array(transform.transposed_transform(factors, plan, size=size, pair=False)(y))
        np.testing.assert_allclose(result, back.real, atol=TOLERANCE)


@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("pre", [1, 2, 3])
def test_more_columns_than_rows(pre, repeat):
    """Matrices that are smaller than the data are repeated for them, or not: the same results."""
    weights, matrix, rng = random_case(12, 3)
    signal = rng.standard_normal((pre, 12, 40)) + 1j * rng.standard_normal((pre, 12, 40))
    x, y = pairs(signal, 1), pairs(signal, 2)
    for groups in all_groups(3):
        plan = kmatrix.plan(12, groups=groups)
        (factors,) = product.multiply_out([weights], [plan])
        analysis = transform.forward_transform(factors, plan, pair=True)
        synthesis = transform.transposed_transform(factors, plan, pair=True)
        result = np.array(dataclasses.replace(analysis, repeat=repeat)(x))
        forward = np.einsum("fs,psc->pfc", matrix, signal)
        np.testing.assert_allclose(
            result.reshape(pre, 12, 2, 40), pairs(forward, 2), atol=TOLERANCE
        )
        result = np.array(dataclasses.replace(synthesis, repeat=repeat)(y))
        back = np.einsum("fs,pfc->psc", matrix, signal)
        np.testing.assert_allclose(result.reshape(pre, 2, 12, 40), pairs(back, 1), atol=TOLERANCE)


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


@pytest.mark.tensorflow("reads the program of XLA")
@pytest.mark.parametrize("repeat", [True, False])
def test_data_keep_their_order_under_xla(repeat):
    """With matrices repeated for them, XLA multiplies vectors where they lie."""
    weights, *_ = random_case(8, 1)
    plan = kmatrix.plan(8, groups=(3,))
    (factors,) = product.multiply_out([weights], [plan])
    x = tf.random.stateless_normal((6, 2, 8, 64), (0, 1))

    @tf.function(jit_compile=True, autograph=False)
    def run(x):
        analysis = transform.forward_transform(factors, plan, pair=True)
        return dataclasses.replace(analysis, repeat=repeat)(x)

    compiled = run.experimental_get_compiler_ir(x)(stage="optimized_hlo")
    products = re.findall(r"= f32\[([\d,]+)\]\S* dot\(", compiled)
    assert products == (["6,16,64"] if repeat else ["16,384"])


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
    size = max(1, kept.shape[1] - seed % 3)
    x = rng.standard_normal((1, size, 2)) + 1j * rng.standard_normal((1, size, 2))
    expected = np.einsum("fs,psc->pfc", kept[:, :size], x)
    analysis = transform.forward_transform(factors, plan, size=size, stride=stride, pair=True)
    np.testing.assert_allclose(analysis(pairs(x, 1)), pairs(expected, 2), atol=TOLERANCE)
    analysis = transform.forward_transform(factors, plan, size=size, stride=stride, pair=False)
    expected = np.einsum("fs,psc->pfc", kept[:, :size], x.real)
    np.testing.assert_allclose(analysis(pairs(x, 1)[:, 0]), pairs(expected, 2), atol=TOLERANCE)


@pytest.mark.tensorflow("takes gradients by tf.GradientTape")
@pytest.mark.parametrize("groups", [(3,), (1, 2), (1, 1, 1)])
def test_gradients_by_finite_differences(groups):
    n, depth = 12, 3
    plan = kmatrix.plan(n, groups=groups)
    weights, _, rng = random_case(n, depth)
    x = rng.standard_normal((1, 10, 2)).astype("float32")
    target = rng.standard_normal((1, n, 2, 2)).astype("float32")

    def loss(w):
        (factors,) = product.multiply_out([w], [plan])
        y = transform.forward_transform(factors, plan, size=10, pair=False)(x)
        z = transform.transposed_transform(factors, plan, size=5, stride=2, pair=False)(y * target)
        return keras.ops.sum(z**2)

    variable = tf.Variable(weights)
    with tf.GradientTape() as tape:
        value = loss(variable)
    gradient = np.array(tape.gradient(value, variable))
    for slot in range(depth):
        direction = np.zeros_like(gradient)
        direction[slot] = gradient[slot] / np.linalg.norm(gradient[slot])
        step = 1e-2
        change = float(loss(weights + step * direction)) - float(loss(weights - step * direction))
        np.testing.assert_allclose(np.sum(gradient * direction), change / (2 * step), rtol=2e-3)


@pytest.mark.tensorflow("reads the program of XLA")
@pytest.mark.parametrize("n, groups", [(36, (4,)), (36, (2, 2))])
def test_compiles_under_xla_with_static_shapes(n, groups):
    plan = kmatrix.plan(n, groups=groups)
    weights, matrix, rng = random_case(n, 2)
    x = rng.standard_normal((1, n, 4)).astype("float32")

    @tf.function(jit_compile=True, autograph=False)
    def run(w, x):
        (factors,) = product.multiply_out([w], [plan])
        y = transform.forward_transform(factors, plan, pair=False)(x)
        return transform.transposed_transform(factors, plan, pair=False)(y)

    expected = np.einsum("fs,fc->sc", matrix, matrix @ x[0]).real
    np.testing.assert_allclose(run(weights, x)[0], expected, atol=1e-4)
    hlo = run.experimental_get_compiler_ir(weights, x)(stage="hlo")
    assert "custom-call" not in hlo and "<=" not in hlo  # no host callback, no dynamic size


@pytest.mark.parametrize("groups, pair", [((4,), True), ((4,), False), ((2, 2), True)])
def test_multiply_adds_by_hand(groups, pair):
    plan = kmatrix.plan(36, groups=groups)
    products = len(radix.block_products(plan, 3))
    if groups == (4,):
        expected = 36 * 36 * (4 if pair else 2)
    else:  # blocks of sizes 4 and 9; in product order groups 0, 1, 0, 1
        expected = 4 * 36 * (4 + 9 + 4 + 9)
    assert products == (1 if groups == (4,) else 4)
    assert transform.multiply_adds(plan, 3, size=36, pair=pair, columns=5) == 5 * expected


@pytest.mark.tensorflow("traces with tf.function")
def test_a_dynamic_batch_passes_through():
    plan = kmatrix.plan(36, groups=(2, 2))
    weights, matrix, rng = random_case(36, 3)

    @tf.function(input_signature=[tf.TensorSpec((1, 36, None))])
    def run(x):
        (factors,) = product.multiply_out([tf.constant(weights)], [plan])
        return transform.forward_transform(factors, plan, pair=False)(x)

    for columns in (1, 5):
        x = rng.standard_normal((1, 36, columns)).astype("float32")
        np.testing.assert_allclose(run(x)[0], pairs(matrix @ x[0], 1), atol=TOLERANCE)


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
