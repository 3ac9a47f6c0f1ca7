import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_xd import kmatrix
from keras_xd.kmatrix import kmatrix as kmatrix_module
from keras_xd.kmatrix import radix as radices
from keras_xd.kmatrix import special
from keras_xd.kmatrix.constructions import digit_reversal

CASES = [
    lambda: kmatrix.KMatrix.identity(30, depth=3),
    lambda: kmatrix.KMatrix.dft(30),
    lambda: kmatrix.KMatrix.dft(36, radix=6, depth=2, inverse=True),
    lambda: kmatrix.KMatrix.dft(7, unitary=True),
    lambda: kmatrix.KMatrix.random_unitary(300, depth=3, seed=1),
    lambda: kmatrix.KMatrix.random_orthogonal(48, depth=2, seed=1),
    lambda: kmatrix.KMatrix.permutation(np.random.default_rng(0).permutation(60), depth=4),
    lambda: kmatrix.KMatrix.identity(1),
]
every_case = pytest.mark.parametrize("make", list(map(functools.cache, CASES)))


def complex_of(pair):
    return np.array(pair[0]) + 1j * np.array(pair[1])


@every_case
def test_columns_and_magnitudes_are_those_of_the_whole_matrix(make):
    for transpose in [False, True]:
        matrix = make()
        n = matrix.plan.n
        dense = complex_of(matrix.dense())
        dense = dense.T if transpose else dense
        positions = [n - 1, 0, n // 2]
        np.testing.assert_allclose(
            matrix.columns(positions, transpose=transpose), dense[:, positions], atol=1e-5
        )
        step = -(-n // 7)
        blocks = [np.abs(dense[i : i + step, ::step]) ** 2 for i in range(0, n, step)]
        expected = [np.sqrt(np.mean(block, axis=0)) for block in blocks]
        np.testing.assert_allclose(matrix.magnitudes(7, transpose=transpose), expected, atol=1e-5)


def test_magnitudes_are_made_in_batches(monkeypatch):
    matrix = kmatrix.KMatrix.random_unitary(90, seed=1)
    expected = matrix.magnitudes(30)
    monkeypatch.setattr(kmatrix_module, "LARGEST_BATCH", 900)
    np.testing.assert_allclose(matrix.magnitudes(30), expected, atol=1e-6)


@every_case
def test_apply_and_dense_agree_along_any_axis(make):
    for axis in [0, 1, -1]:
        matrix = make()
        n = matrix.plan.n
        dense = complex_of(matrix.dense())
        rng = np.random.default_rng(3)
        shape = [2, 3, 4]
        shape[axis] = n
        x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        parts = (x.real.astype("float32"), x.imag.astype("float32"))
        for transpose in (False, True):
            applied = dense.T if transpose else dense
            expected = np.moveaxis(np.tensordot(applied, x, (1, axis)), 0, axis)
            result = complex_of(matrix.apply(parts, axis, transpose=transpose))
            np.testing.assert_allclose(result, expected, atol=3e-5)
            expected = np.moveaxis(np.tensordot(applied, x.real, (1, axis)), 0, axis)
            result = complex_of(matrix.apply(parts[0], axis, transpose=transpose))
            np.testing.assert_allclose(result, expected, atol=3e-5)


def test_random_matrices_are_unitary_and_reproducible():
    make = kmatrix.KMatrix.random_unitary
    first, second = (complex_of(make(36, depth=9, seed=5).dense()) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first @ first.conj().T, np.eye(36), atol=1e-5)
    assert np.abs(first - complex_of(make(36, depth=9, seed=6).dense())).max() > 0.1


@pytest.mark.tensorflow("traces with tf.function")
def test_compiles_under_xla():
    matrix = kmatrix.KMatrix.dft(6, depth=2)
    x = np.random.default_rng(2).standard_normal((3, 6)).astype("float32")
    real, imaginary = tf.function(matrix.apply, jit_compile=True, autograph=False)(tf.constant(x))
    expected = np.fft.fft(x)[:, digit_reversal((2, 3))]
    np.testing.assert_allclose(complex_of((real, imaginary)), expected, atol=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match=r"size 6 with radices \(2, 3\).*\(1, 2, 31\)"):
        kmatrix.KMatrix(np.zeros((1, 2, 31)), kmatrix.plan(6))
    with pytest.raises(ValueError, match=r"size 6\. Received: shape \(2, 5\), axis=-1"):
        kmatrix.KMatrix.dft(6).apply(np.zeros((2, 5), "float32"))


@pytest.mark.parametrize("n, radix, depth", [(32, None, 1), (36, 6, 3), (1, None, 2)])
def test_parameter_count(n, radix, depth):
    weights = kmatrix.KMatrix.identity(n, radix, depth).weights
    assert radices.parameter_count(n, radix, depth) == weights.size


OPERATORS = [
    lambda: kmatrix.KMatrix.dct(12),
    lambda: kmatrix.KMatrix.dft(12),
    lambda: kmatrix.KMatrix.hadamard(8),
    lambda: kmatrix.KMatrix.random_unitary(300, depth=3, seed=1).T,
    lambda: kmatrix.KMatrix.random_orthogonal(12, depth=2, seed=0),
    lambda: kmatrix.KMatrix.dst(12, kind=3).T,
]
OPERATORS = list(map(functools.cache, OPERATORS))
every_operator = pytest.mark.parametrize("make", OPERATORS)


# Every operator with every kind of numbers, and both with every number of axes.
PRODUCTS = [
    (kind, [(), (2,), (2, 3)][(row + column) % 3], make)
    for row, make in enumerate(OPERATORS)
    for column, kind in enumerate([float, complex, int])
]


@pytest.mark.parametrize("kind, leading, make", PRODUCTS)
def test_products_with_arrays_are_those_of_numpy(make, leading, kind):
    matrix = make()
    n, dense, rng = matrix.shape[0], matrix.numpy(), np.random.default_rng(4)

    def array(*shape):
        values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        return (
            values if kind is complex else values.real.round(0 if kind is int else 9).astype(kind)
        )

    for x in (array(*leading, n, 4), array(n)):
        result = matrix @ x
        assert isinstance(result, np.ndarray)
        np.testing.assert_allclose(result, dense @ x, atol=1e-3)
    for x in (array(*leading, 4, n), array(n)):
        result = x @ matrix
        assert isinstance(result, np.ndarray)
        np.testing.assert_allclose(result, x @ dense, atol=1e-3)
        assert np.iscomplexobj(result) == (kind is complex or bool(np.any(dense.imag)))


@every_operator
def test_transposition(make):
    matrix = make()
    np.testing.assert_allclose(matrix.T.numpy(), matrix.numpy().T, atol=1e-5)
    assert matrix.T.weights is matrix.weights
    np.testing.assert_array_equal(matrix.T.T.numpy(), matrix.numpy())
    product = special.kmatrix_dense(matrix.T.butterflies)
    product = product.real if matrix.real else product
    np.testing.assert_allclose(product, matrix.numpy().T, atol=1e-4)
    np.testing.assert_allclose(matrix.T.columns([1, 0]), matrix.numpy()[[1, 0]].T, atol=1e-5)


@every_operator
def test_products_with_tensors(make):
    """A real matrix gives a tensor, a complex one a pair, from either side."""
    matrix = make()
    n = matrix.shape[0]
    x = np.random.default_rng(5).standard_normal((2, n, n)).astype("float32")
    tensor = ops.convert_to_tensor(x)
    for result, expected in (
        (matrix @ tensor, matrix.numpy() @ x),
        (tensor @ matrix, x @ matrix.numpy()),
    ):
        assert isinstance(result, tuple) != matrix.real
        result = ops.convert_to_numpy(result) if matrix.real else complex_of(result)
        np.testing.assert_allclose(result, expected, atol=1e-3)
    pair = matrix @ (tensor, 2 * tensor)
    np.testing.assert_allclose(complex_of(pair), matrix.numpy() @ (x + 2j * x), atol=2e-3)


@pytest.mark.tensorflow("takes gradients by tf.GradientTape")
def test_gradients_reach_the_weights():
    start = kmatrix.KMatrix.dct(8)
    variable = keras.Variable(start.weights)
    matrix = kmatrix.KMatrix(variable, start.plan, real=True)
    x = np.random.default_rng(6).standard_normal((3, 8)).astype("float32")

    def loss():
        return ops.sum(ops.square(tf.constant(x) @ matrix)) + ops.sum(matrix @ np.ones(8))

    with tf.GradientTape() as tape:
        value = loss()
    gradient = tape.gradient(value, variable.value).numpy()
    place = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
    changed = np.zeros(gradient.shape, "float32")
    changed[place] = 0.01
    values = []
    for sign in (1, -1):
        variable.assign(start.weights + sign * changed)
        values.append(float(loss()))
    assert gradient[place] == pytest.approx((values[0] - values[1]) / 0.02, rel=1e-2)


def test_symbolic_inputs_of_a_model():
    matrix = kmatrix.KMatrix.dct(8)
    inputs = keras.Input((8, 3))
    model = keras.Model(inputs, matrix @ inputs)
    x = np.random.default_rng(7).standard_normal((5, 8, 3)).astype("float32")
    np.testing.assert_allclose(model.predict(x, verbose=0), matrix.numpy() @ x, atol=1e-4)


def test_what_keras_takes_for_its_own_is_refused():
    """A variable or symbolic input on the left: refused, never multiplied as something else."""
    matrix, variable = kmatrix.KMatrix.dct(8), keras.Variable(np.ones((8, 8)))
    for left in (variable, keras.Input((3, 8))):
        with pytest.raises(ValueError, match="KMatrix"):
            left @ matrix
    np.testing.assert_allclose(matrix @ variable, matrix.numpy() @ np.ones((8, 8)), atol=1e-5)
    assert matrix.apply(keras.Input((3, 8)), axis=-1).shape == (None, 3, 8)


@pytest.mark.tensorflow("traces with tf.function")
@pytest.mark.parametrize("jit", [False, True])
def test_products_in_compiled_functions(jit):
    matrix = kmatrix.KMatrix.dct(8)
    x = tf.constant(np.random.default_rng(9).standard_normal((8, 8)).astype("float32"))
    both = tf.function(lambda x: (matrix @ x, x @ matrix), jit_compile=jit, autograph=False)(x)
    dense = matrix.numpy()
    np.testing.assert_allclose(both[0], dense @ x.numpy(), atol=1e-4)
    np.testing.assert_allclose(both[1], x.numpy() @ dense, atol=1e-4)


def test_weights_without_imaginary_parts():
    plan = kmatrix.plan(12, depth=2)
    weights = np.random.default_rng(8).standard_normal((2, 2, plan.parameters)).astype("float32")
    weights[:, 1] = 0
    alone, both = kmatrix.KMatrix(weights[:, :1], plan), kmatrix.KMatrix(weights, plan)
    assert alone.real and not both.real and 2 * alone.parameters == both.parameters
    np.testing.assert_array_equal(alone.numpy(), both.numpy())
    np.testing.assert_array_equal(alone.magnitudes(5), both.magnitudes(5))


def test_names():
    matrix = kmatrix.KMatrix.dct(16)
    assert matrix.shape == (16, 16)
    assert matrix.parameters == radices.parameter_count(16, depth=4) == matrix.weights.size
    assert repr(matrix) == (
        "KMatrix(shape=(16, 16), radices=(2, 2, 2, 2), depth=4, parameters=1024, real=True)"
    )
    assert repr(matrix.T).endswith("real=True, transposed=True)")


def test_bad_operands():
    matrix = kmatrix.KMatrix.dct(8)
    with pytest.raises(ValueError, match=r"size 8\. Received: shape \(5, 3\)"):
        matrix @ np.zeros((5, 3))
    with pytest.raises(ValueError, match="at least one axis"):
        matrix @ np.float64(3)
    with pytest.raises(ValueError, match="numbers. Received: array of dtype <U1"):
        matrix @ np.array(["a"] * 8)
    with pytest.raises(TypeError):
        matrix @ 3
    with pytest.raises(ValueError, match=r"shape \(8, 8\)"):
        matrix.relative_error(np.zeros((3, 3)))
