import keras
import numpy as np
import pytest

from keras_xd import kmatrix, layers, regularizers
from keras_xd.kmatrix import constructions

SIZES = [(12, None), (12, (2, 6)), (7, None), (16, 4)]


def block_cost(block):
    """The docstring's formula for one complex block."""
    t, s = block.real, block.imag
    entries = np.sum(t**2 * (1 - t) ** 2 + s**2)
    return entries + np.sum((t.sum(axis=0) - 1) ** 2) + np.sum((t.sum(axis=1) - 1) ** 2)


def permutation_cost(weights, radices, free):
    stages = [t for b in constructions.butterflies_of(weights, radices)[free:] for t in b]
    return sum(block_cost(block) for t in stages for block in t.reshape(-1, *t.shape[2:]))


def random_matrix(n, radix, depth, seed=5):
    matrix = kmatrix.KMatrix.random_unitary(n, radix, depth, seed=seed)
    return np.array(matrix.weights), matrix.plan


@pytest.mark.parametrize("n, radix", SIZES)
def test_permutations_cost_nothing(n, radix, rng):
    matrix = kmatrix.KMatrix.permutation(rng.permutation(n), radix)
    penalty = regularizers.NearPermutation(2.0, free=0).bind(matrix.weights, matrix.plan)
    assert float(penalty(matrix.weights)) == 0.0
    assert float(penalty(matrix.weights * 1.01)) > 0.0
    assert float(penalty(-matrix.weights)) > 1.0
    exchanged = matrix.weights[:, ::-1]  # blocks i times a permutation
    assert float(penalty(exchanged)) > 1.0


@pytest.mark.parametrize("n, radix", SIZES)
@pytest.mark.parametrize("free", [0, 1, 2])
def test_cost_is_that_of_every_block(n, radix, free):
    weights, plan = random_matrix(n, radix, depth=3)
    penalty = regularizers.NearPermutation(0.3, free).bind(weights, plan)
    expected = 0.3 * permutation_cost(weights, plan.radices, free)
    assert float(penalty(weights)) == pytest.approx(expected, rel=1e-5)


def test_a_free_fourier_transform_before_a_permutation_costs_nothing(rng):
    plan = kmatrix.plan(12)
    order = constructions.permutation(rng.permutation(12), plan.radices)
    weights = constructions.kmatrix_weights([constructions.dft(plan.radices), *order])
    assert float(regularizers.NearPermutation(1.0).bind(weights, plan)(weights)) == 0.0
    assert float(regularizers.NearPermutation(1.0, free=0).bind(weights, plan)(weights)) > 1.0


def test_nothing_to_penalise():
    weights, plan = random_matrix(6, None, depth=1)
    assert regularizers.NearPermutation(1.0).bind(weights, plan) is None
    assert regularizers.NearPermutation(1.0, free=0).bind(np.ones((6, 2))) is None


def test_distance_from_the_start(rng):
    start = rng.normal(size=(4, 3)).astype("float32")
    now = start + rng.normal(size=(4, 3)).astype("float32")
    penalty = regularizers.NearStart(0.5).bind(start)
    assert float(penalty(start)) == 0.0
    assert float(penalty(now)) == pytest.approx(0.5 * np.sum((now - start) ** 2), rel=1e-6)
    change = np.sum((now - start) ** 2)
    start += 1  # the array is copied, as training changes it
    assert float(penalty(now)) == pytest.approx(0.5 * change, rel=1e-6)


def test_attach_binds_each_weight_to_its_plan(rng):
    layer = layers.XDConv2D(2, 3, depth=2, frequency_bias=True, channel_gates=True)
    model = keras.Sequential([keras.Input((7, 9, 2)), layer])
    assert regularizers.attach(model, regularizers.NearPermutation(0.1)) is model
    for variable in layer.architecture_variables:
        variable.assign_add(rng.normal(size=variable.shape))
    expected = [
        0.1 * permutation_cost(variable.numpy(), layer.plans[index % 2].radices, free=1)
        for index, variable in enumerate(layer.architecture_variables[:6])
    ]
    np.testing.assert_allclose(model.losses, expected, rtol=1e-5)

    regularizers.attach(layer, regularizers.NearStart(0.1))
    assert len(model.losses) == 8 and not np.any(model.losses)
    regularizers.attach(layer, keras.regularizers.L2(0.1))
    squares = [0.1 * np.sum(v.numpy() ** 2) for v in layer.architecture_variables]
    np.testing.assert_allclose(model.losses, squares, rtol=1e-5)
    regularizers.attach(layer, None)
    assert model.losses == []
    layer = layers.KOpConv1D(2, 3, padding="circular", warm_start="random_unitary", depth=2, seed=1)
    layer.build((None, 6, 2))
    regularizers.attach(layer, regularizers.NearPermutation(1.0, free=0))
    assert len(layer.losses) == 3 and all(float(loss) > 1 for loss in layer.losses)


def test_bad_arguments_are_refused():
    for weight in (-1, float("nan"), "0.1", True):
        with pytest.raises(ValueError, match="`weight` must be a number of at least 0"):
            regularizers.NearStart(weight)
    for free in (-1, 1.5, True):
        with pytest.raises(ValueError, match="`free` must be an integer of at least 0"):
            regularizers.NearPermutation(0.1, free=free)
    with pytest.raises(ValueError, match="must be bound to a weight"):
        regularizers.NearStart()(np.ones(3))
    with pytest.raises(ValueError, match="must have XD- or K-operations"):
        regularizers.attach(keras.Sequential([keras.layers.Dense(2)]), regularizers.NearStart())
    with pytest.raises(TypeError, match="must implement `bind`"):
        regularizers.ArchitecturePenalty(1.0).bind(np.ones(3))
