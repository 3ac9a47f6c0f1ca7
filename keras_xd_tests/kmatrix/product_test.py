import numpy as np
import pytest
import tensorflow as tf

from keras_xd import kmatrix
from keras_xd.kmatrix import product, transform
from keras_xd_tests.kmatrix.folding_cases import TOLERANCE, pairs, random_case


def test_matrices_of_several_plans_and_depths_are_multiplied_out_together():
    cases = [(12, 1), (12, 3), (30, 2), (12, 3), (30, 9)]
    weights, matrices = zip(*[random_case(n, d, seed=d)[:2] for n, d in cases], strict=True)
    plans = [kmatrix.plan(n, groups=(1, 2)) for n, _ in cases]
    folded = product.multiply_out(list(weights), plans)
    for factors, plan, matrix in zip(folded, plans, matrices, strict=True):
        identity = np.eye(plan.n, dtype="float32")[None]
        result = np.array(transform.forward_transform(factors, plan, pair=False)(identity))[0]
        np.testing.assert_allclose(result, pairs(matrix, 1), atol=TOLERANCE)


@pytest.mark.parametrize("groups", [(3,), (1, 2), (1, 1, 1)])
def test_without_imaginary_parts_the_blocks_are_the_real_parts(groups, rng):
    for depth in [1, 2, 3]:
        plan = kmatrix.plan(24, (2, 3, 4), groups=groups)
        weights = rng.standard_normal((depth, 1, plan.parameters))
        padded = np.concatenate([weights, np.zeros_like(weights)], axis=1)
        (real,), (pairs,) = (product.multiply_out([w], [plan]) for w in (weights, padded))
        assert [factor.group for factor in real] == [factor.group for factor in pairs]
        for single, double in zip(real, pairs, strict=True):
            blocks = np.array(double.matrices())
            assert (single.parts, double.parts) == (1, 2)
            np.testing.assert_allclose(single.matrices(), blocks[:, ::2, ::2], 1e-9)
            assert not blocks[:, 1::2, ::2].any()
        with pytest.raises(ValueError, match="without imaginary parts"):
            transform.forward_transform(real, plan, pair=True)


@pytest.mark.parametrize("groups", [(3,), (1, 2)])
def test_any_number_of_butterflies_is_multiplied_in_order(groups):
    for depth in range(1, 10):
        weights, matrix, _ = random_case(12, depth)
        plan = kmatrix.plan(12, groups=groups)
        (factors,) = product.multiply_out([weights], [plan])
        result = transform.forward_transform(factors, plan, pair=False)(
            np.eye(12, dtype="float32")[None]
        )
        np.testing.assert_allclose(np.array(result)[0], pairs(matrix, 1), atol=TOLERANCE)


def test_derivatives_of_multiplied_out_blocks(rng):
    plan = kmatrix.plan(8, groups=(3,))

    def blocks(weights):
        (factors,) = product.multiply_out([weights], [plan])
        return tf.concat([tf.reshape(factor.matrices(), [-1]) for factor in factors], axis=0)

    weights = rng.standard_normal((1, 2, plan.parameters))
    (exact,), (estimated,) = tf.test.compute_gradient(blocks, [weights])
    np.testing.assert_allclose(exact, estimated, atol=1e-6)
