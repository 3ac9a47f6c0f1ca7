"""Losses of operators: against NumPy, at zero, in half precision, weighted, saved."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_xd.losses import H1, Quantile, RelativeL2


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
    model.compile(keras.optimizers.SGD(1.0), RelativeL2("sum"))
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


def h1_by_numpy(field, lengths, periodic):
    """The H¹ norm of a field, with derivatives of the Fourier series or by `numpy.gradient`."""
    squares = np.sum(field**2)
    for axis, length in enumerate(lengths):
        size = field.shape[axis]
        if periodic:
            waves = 2j * np.pi / length * np.fft.fftfreq(size, 1 / size)
            moved = waves * np.fft.fft(np.moveaxis(field, axis, -1))
            derivative = np.fft.ifft(moved)
        else:
            derivative = np.gradient(field, length / (size - 1), axis=axis)
        squares += np.sum(np.abs(derivative) ** 2)
    return np.sqrt(squares)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("shape", [(3, 9, 2), (2, 8, 7, 1), (2, 4, 3, 5, 2)])
def test_the_sobolev_error_is_that_of_numpy(shape, periodic, rng):
    y, answers = rng.normal(size=(2, *shape))
    lengths = (2.0, 0.5, 3.0)[: len(shape) - 2]
    norms = [[h1_by_numpy(f, lengths, periodic) for f in fields] for fields in (y - answers, y)]
    loss = H1(lengths, periodic)
    y, answers = y.astype("float32"), answers.astype("float32")
    assert float(loss(y, answers)) == pytest.approx(np.mean(np.divide(*norms)), rel=1e-5)
    model = keras.Sequential([keras.Input((None,) * (len(shape) - 1)), keras.layers.Identity()])
    model.compile(loss=loss)
    if len(shape) == 3 and keras.backend.backend() == "tensorflow":  # sizes that are not known
        found = model.evaluate(answers, y, batch_size=len(y), verbose=0)
        assert found == pytest.approx(float(loss(y, answers)), rel=1e-5)


def test_the_loss_of_quantiles(rng):
    y, answers = rng.normal(size=(2, 4, 3, 5, 1)).astype("float32")
    error = y - answers
    expected = np.where(error > 0, 0.9 * error, -0.1 * error)
    assert float(Quantile(0.9)(y, answers)) == pytest.approx(np.mean(expected), rel=1e-5)
    # A constant that has the least loss is the quantile.
    constants = np.linspace(-2, 2, 401)
    losses = [float(Quantile(0.9)(y, np.full_like(y, constant))) for constant in constants]
    assert abs(constants[np.argmin(losses)] - np.quantile(y, 0.9)) < 0.3
    for wrong in (0, 1, 1.5):
        with pytest.raises(ValueError, match=f"between 0 and 1.*Received: quantile={wrong}"):
            Quantile(wrong)


@pytest.mark.parametrize(
    ("options", "shape", "received"),
    [
        ({"lengths": 0.0}, (2, 4, 1), "lengths=0.0"),
        ({"lengths": ()}, (2, 4, 1), "lengths="),
        ({"lengths": (1.0, 2.0)}, (2, 4, 1), "a shape of"),
        ({"periodic": False}, (2, 4, 1, 1), "a shape of"),
        ({}, (2, 4), "a shape of"),
    ],
)
def test_fields_without_derivatives_are_refused(options, shape, received):
    with pytest.raises(ValueError, match=f"must.*Received: {received}"):
        H1(**options)(np.ones(shape), np.ones(shape))


def test_shapes_must_be_equal():
    with pytest.raises(ValueError, match=r"same shape.*\(2, 4, 1\).*\(2, 3, 1\)"):
        RelativeL2()(np.ones((2, 4, 1)), np.ones((2, 3, 1)))
    with pytest.raises(ValueError, match="same shape"):
        RelativeL2()(np.ones((2, 4, 3)), np.ones((2, 4)))


@pytest.mark.parametrize(
    "loss",
    [
        RelativeL2(reduction="sum", name="error"),
        H1((2.0, 1.0), periodic=False, reduction="sum"),
        Quantile(0.9, name="upper"),
    ],
)
def test_models_with_losses_are_saved(loss, tmp_path):
    model = keras.Sequential([keras.Input((4, 3, 1)), keras.layers.Dense(1)])
    model.compile("sgd", loss)
    model.save(tmp_path / "model.keras")
    found = keras.models.load_model(tmp_path / "model.keras").loss
    assert type(found) is type(loss) and found.get_config() == loss.get_config()
