"""The relative L2 error: against NumPy, at zero, in half precision, weighted, saved."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_xd.losses import RelativeL2


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


def test_shapes_must_be_equal():
    with pytest.raises(ValueError, match=r"same shape.*\(2, 4, 1\).*\(2, 3, 1\)"):
        RelativeL2()(np.ones((2, 4, 1)), np.ones((2, 3, 1)))
    with pytest.raises(ValueError, match="same shape"):
        RelativeL2()(np.ones((2, 4, 3)), np.ones((2, 4)))


def test_models_with_it_are_saved(tmp_path, rng):
    model = keras.Sequential([keras.Input((4, 1)), keras.layers.Dense(1)])
    model.compile("sgd", RelativeL2(reduction="sum", name="error"))
    model.save(tmp_path / "model.keras")
    loss = keras.models.load_model(tmp_path / "model.keras").loss
    assert isinstance(loss, RelativeL2) and loss.get_config() == model.loss.get_config()
    assert (loss.reduction, loss.name) == ("sum", "error")
