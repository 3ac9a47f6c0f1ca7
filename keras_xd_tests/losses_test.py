"""The relative L2 error: against NumPy, at zero, in half precision, weighted, saved."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_xd
from keras_xd import losses
from keras_xd.losses import RelativeL2
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    from datasets import navier_stokes


def errors_by_numpy(y, answers):
    y, answers = (np.asarray(values, "float64") for values in (y, answers))
    return [
        np.linalg.norm(np.ravel(p - t)) / np.linalg.norm(np.ravel(t))
        for t, p in zip(y, answers, strict=True)
    ]


@pytest.mark.parametrize("shape", [(4,), (3, 7), (2, 5, 1), (3, 4, 6, 2)])
def test_it_is_the_mean_of_the_relative_errors(shape, rng):
    y, answers = rng.normal(size=(2, *shape)).astype("float32")
    expected = errors_by_numpy(y, answers)
    assert float(RelativeL2()(y, answers)) == pytest.approx(np.mean(expected), rel=1e-5)
    assert float(RelativeL2("sum")(y, answers)) == pytest.approx(np.sum(expected), rel=1e-5)
    np.testing.assert_allclose(RelativeL2(None)(y, answers), expected, rtol=1e-5)


def test_samples_are_weighted(rng):
    y, answers = rng.normal(size=(2, 3, 4, 2)).astype("float32")
    weights = np.array([1.0, 0.0, 3.0], "float32")
    expected = np.sum(weights * errors_by_numpy(y, answers))
    found = RelativeL2("sum")(y, answers, sample_weight=weights)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def gradient(y, answers):
    """Return the derivative by a factor of the answers at 1, as training computes it."""
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")  # of one channel
    model = keras.Sequential([keras.Input(np.shape(answers)[1:]), layer])
    model.compile(keras.optimizers.SGD(1.0), RelativeL2("sum"), run_eagerly=True)
    model.fit(answers, y, batch_size=len(y), verbose=0)
    return 1.0 - float(ops.convert_to_numpy(layer.kernel)[0, 0])


def test_a_target_of_zeros_counts_with_its_absolute_error():
    y, answers = np.zeros((2, 3, 1), "float32"), np.ones((2, 3, 1), "float32")
    y[1] = 2.0
    found = RelativeL2(None)(y, answers)
    np.testing.assert_allclose(found, [np.sqrt(3.0), 0.5], rtol=1e-6)
    # d/ds of ‖s · 1‖ and of ‖s · 1 - 2‖ / ‖2‖ at s = 1.
    assert gradient(y, answers) == pytest.approx(np.sqrt(3.0) - 0.5, rel=1e-5)


def test_answers_without_an_error_have_the_gradient_zero(rng):
    y = rng.normal(size=(2, 5, 1)).astype("float32")
    assert gradient(y, y) == 0.0
    zeros = np.zeros_like(y)
    assert gradient(zeros, zeros) == 0.0


def test_the_gradient_is_that_of_differences(rng):
    y, answers = rng.normal(size=(2, 3, 5, 1))
    step = 1e-5
    sides = [np.sum(errors_by_numpy(y, (1 + sign * step) * answers)) for sign in (1, -1)]
    expected = (sides[0] - sides[1]) / (2 * step)
    found = gradient(y.astype("float32"), answers.astype("float32"))
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("dtype", "scale"), [("float16", 300.0), ("bfloat16", 1e18)])
def test_half_precision_is_summed_in_float32(dtype, scale, rng):
    """The sum of squares would be infinite in these types, or in float32 unscaled."""
    y, answers = (scale * rng.normal(size=(2, 4, 500, 1))).astype("float32")
    expected = np.mean(errors_by_numpy(y, answers))
    found = RelativeL2(dtype=dtype)(y, answers)
    assert float(ops.cast(found, "float32")) == pytest.approx(expected, rel=2e-2)


def test_shapes_must_be_equal():
    with pytest.raises(ValueError, match=r"same shape.*\(2, 4, 1\).*\(2, 3, 1\)"):
        RelativeL2()(np.ones((2, 4, 1)), np.ones((2, 3, 1)))
    with pytest.raises(ValueError, match="same shape"):
        RelativeL2()(np.ones((2, 4, 3)), np.ones((2, 4)))


def h1_by_numpy(function, lengths, method):
    """Return ‖f‖² of a sample `(*sizes, channels)`."""
    total = np.sum(function**2)
    for axis, length in enumerate(lengths):
        size = function.shape[axis]
        if method == "spectral":
            waves = 2j * np.pi / length * np.fft.fftfreq(size, 1 / size)
            if size % 2 == 0:
                waves[size // 2] = 0
            moved = np.moveaxis(function, axis, -1)
            slope = np.fft.ifft(waves * np.fft.fft(moved)).real
        else:
            slope = np.gradient(function, length / (size - 1), axis=axis, edge_order=2)
        total = total + np.sum(slope**2)
    return total


@pytest.mark.parametrize("method", ["spectral", "differences"])
@pytest.mark.parametrize("sizes", [(8,), (7, 6), (4, 3, 5)])
def test_h1_is_the_sobolev_norm(sizes, method, rng):
    lengths = tuple(1.0 + axis for axis in range(len(sizes)))
    y, answers = rng.normal(size=(2, 3, *sizes, 2)).astype("float32")
    expected = [
        np.sqrt(h1_by_numpy(p - t, lengths, method) / h1_by_numpy(t, lengths, method))
        for t, p in zip(np.float64(y), np.float64(answers), strict=True)
    ]
    loss = losses.H1(lengths, method, reduction=None)
    np.testing.assert_allclose(loss(y, answers), expected, rtol=1e-4)
    again = losses.H1.from_config(loss.get_config())
    np.testing.assert_array_equal(again(y, answers), loss(y, answers))
    assert float(losses.H1()(y, y)) == 0.0


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_least_quantile_loss_is_at_the_quantile(quantile, rng):
    y = rng.normal(size=(1, 1001, 1)).astype("float32")
    loss = losses.Quantile(quantile)
    answers = np.sort(y.ravel())[:, None, None] * np.ones_like(y)
    found = losses.Quantile(quantile, reduction=None)(np.broadcast_to(y, answers.shape), answers)
    assert np.argmin(found) == pytest.approx(1000 * quantile, abs=1)
    missing = y.astype("float64") - 0.3
    expected = np.mean(np.maximum(quantile * missing, (quantile - 1) * missing))
    assert float(loss(y, np.full_like(y, 0.3))) == pytest.approx(expected, rel=1e-5)


def burgers_step(state, viscosity, step, substeps=200):
    """Integrate Burgers' equation by Runge–Kutta of fourth order with spectral derivatives."""
    waves = 2j * np.pi * np.fft.rfftfreq(len(state), 1 / len(state))

    def change(u):
        spectrum = np.fft.rfft(u)
        slope, curvature = (np.fft.irfft(waves**order * spectrum, len(u)) for order in (1, 2))
        return viscosity * curvature - u * slope

    h = step / substeps
    for _ in range(substeps):
        a = change(state)
        b = change(state + h / 2 * a)
        c = change(state + h / 2 * b)
        d = change(state + h * c)
        state = state + h / 6 * (a + 2 * b + 2 * c + d)
    return state


def test_true_solutions_of_burgers_leave_little_and_others_more():
    x = np.arange(33) / 33
    states = [np.sin(2 * np.pi * x) + 0.5 * np.cos(4 * np.pi * x)]
    rest = {}
    for step in (0.02, 0.01):
        several = [states[0]]
        for _ in range(2):
            several.append(burgers_step(several[-1], 0.05, step))
        start, later = several[0][None, :, None], np.stack(several[1:])[None, ..., None]
        loss = losses.BurgersResidual(0.05, step)
        rest[step] = float(loss(start, later)) ** 0.5
        assert float(loss(start, later[:, 0])) ** 0.5 < 2 * rest[step]
        wrong = float(losses.BurgersResidual(0.1, step)(start, later)) ** 0.5
        assert wrong > 5 * rest[step]
    assert 3 < rest[0.02] / rest[0.01] < 5  # of second order


def test_true_flows_leave_little_of_the_navier_stokes_equations():
    start = navier_stokes.initial_vorticity([3], 32, modes=6)
    points = np.arange(32) / 32
    angle = 2 * np.pi * (points[:, None] + points)
    force = 0.1 * (np.sin(angle) + np.cos(angle))
    rest = {}
    for step in (0.02, 0.01):
        later = navier_stokes.solve_navier_stokes(start, 1e-2, step, courant=0.05)
        loss = losses.NavierStokesResidual(1e-2, step, force)
        rest[step] = float(loss(start[..., None], later[..., None])) ** 0.5
        unforced = losses.NavierStokesResidual(1e-2, step)
        assert float(unforced(start[..., None], later[..., None])) ** 0.5 > 5 * rest[step]
    assert 3 < rest[0.02] / rest[0.01] < 5  # of second order
    again = losses.NavierStokesResidual.from_config(loss.get_config())
    assert float(again(start[..., None], later[..., None])) == pytest.approx(rest[0.01] ** 2)


def test_pressures_of_the_discrete_equation_leave_nothing_of_darcys(rng):
    sizes, h = (9, 7), (1 / 8, 2 / 6)
    a = rng.uniform(3, 12, size=sizes)
    places = {index: number for number, index in enumerate(np.ndindex(*sizes))}
    matrix, right = np.eye(len(places)), np.zeros(len(places))
    for (i, j), row in places.items():
        if 0 < i < sizes[0] - 1 and 0 < j < sizes[1] - 1:
            matrix[row] = 0
            right[row] = 2.0
            for di, dj, width in ((1, 0, h[0]), (-1, 0, h[0]), (0, 1, h[1]), (0, -1, h[1])):
                flow = (a[i, j] + a[i + di, j + dj]) / 2 / width**2
                matrix[row, row] += flow
                matrix[row, places[i + di, j + dj]] -= flow
    u = np.linalg.solve(matrix, right).reshape(1, *sizes, 1)
    loss = losses.DarcyResidual(2.0, lengths=(1.0, 2.0))
    assert float(loss(a.reshape(1, *sizes, 1), u)) < 1e-6
    assert float(loss(a.reshape(1, *sizes, 1), 0 * u)) == 4.0


def test_an_operator_learns_burgers_without_solutions(rng):
    x = np.arange(16) / 16
    phases = rng.uniform(size=(16, 1))
    states = np.sin(2 * np.pi * (x + phases))[..., None].astype("float32")
    model = keras_xd.models.fno((16, 1), width=8, modes=4, blocks=1, normalization=None)
    model.compile(keras.optimizers.Adam(0.01), losses.BurgersResidual(0.1, 0.1), jit_compile=False)
    losses_of_steps = [model.train_on_batch(states, states) for _ in range(60)]
    assert losses_of_steps[-1] < 0.1 * losses_of_steps[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y: losses.H1(lengths=(1.0, 1.0))(y, y), r"lengths=\(1.0, 1.0\)"),
        (lambda y: losses.H1(method="exact"), "method='exact'"),
        (lambda y: losses.H1()(y[:, :2], y[:, :2]), "at least 3 points"),
        (lambda y: losses.Quantile(1.0), "quantile=1.0"),
        (lambda y: losses.BurgersResidual(-1.0, 0.1), "viscosity=-1.0"),
        (lambda y: losses.BurgersResidual(0.1, 0.0), "step=0.0"),
        (lambda y: losses.BurgersResidual(0.1, 0.1)(y, y[:, :4]), "y_pred"),
        (lambda y: losses.BurgersResidual(0.1, 0.1)(y[..., 0], y), "y_true"),
        (lambda y: losses.DarcyResidual()(y, y), "Coefficients"),
        (
            lambda y: losses.NavierStokesResidual(0.1, 0.1, [[1.0]])(
                np.ones((1, 4, 4, 1)), np.ones((1, 4, 4, 1))
            ),
            "forcing",
        ),
    ],
)
def test_bad_input_of_losses_of_operators(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.ones((2, 8, 1), "float32"))
