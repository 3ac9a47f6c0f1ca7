"""Rollouts over time: beside a loop, with a history, with gradients, unstable models."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import models


def step_model(channels, outputs, rng):
    model = models.fno((8, channels), outputs, width=4, modes=3, blocks=1, normalization=None)
    for variable in model.variables:
        variable.assign(0.3 * rng.normal(size=variable.shape))
    return model


@pytest.mark.parametrize(("channels", "outputs", "fixed"), [(1, 1, 0), (6, 2, 0), (5, 1, 3)])
def test_each_answer_is_the_newest_part_of_the_next_state(channels, outputs, fixed, rng):
    model = step_model(channels, outputs, rng)
    state = rng.normal(size=(5, 8, channels)).astype("float32")
    found = keras_xd.rollout(model, state, steps=4, fixed=fixed, batch_size=2)
    assert found.shape == (5, 4, 8, outputs)
    now = state
    for step in range(4):
        answer = np.array(model(now))
        np.testing.assert_allclose(found[:, step], answer, rtol=1e-4, atol=1e-5)
        moving, still = np.split(now, [channels - fixed], axis=-1)
        now = np.concatenate([moving[..., outputs:], answer, still], axis=-1)
    longer = models.unrolled(model, 4, fixed)
    np.testing.assert_allclose(longer(state), found, rtol=1e-4, atol=1e-5)
    assert longer.count_params() == model.count_params()


def test_unrolled_steps_train_the_model(rng):
    model = step_model(1, 1, rng)
    longer = models.unrolled(model, 3)
    longer.compile(keras.optimizers.Adam(0.01), keras_xd.losses.RelativeL2(), jit_compile=False)
    state = rng.normal(size=(8, 8, 1)).astype("float32")
    truth = state[:, None] * 0.5 ** np.arange(1, 4).reshape(1, 3, 1, 1)
    losses = [longer.train_on_batch(state, truth) for _ in range(40)]
    assert losses[-1] < 0.5 * losses[0]
    found = keras_xd.rollout(model, state, 3)
    error = keras_xd.losses.RelativeL2()(truth, found)
    assert float(error) == pytest.approx(longer.test_on_batch(state, truth), rel=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: keras_xd.rollout(model, np.zeros((1, 9, 1)), 2), "shape of the model"),
        (lambda model: keras_xd.rollout(model, np.zeros((0, 8, 1)), 2), "must hold states"),
        (lambda model: keras_xd.rollout(model, np.full((1, 8, 1), np.nan), 2), "`state` must be"),
        (lambda model: keras_xd.rollout(model, np.zeros((1, 8, 1)), 0), "steps=0"),
        (lambda model: models.unrolled(model, -1), "steps=-1"),
        (lambda _: models.unrolled(models.fno((8, 3), 2, modes=3), 2), "multiple"),
        (lambda model: keras_xd.rollout(model, np.zeros((1, 8, 1)), 2, fixed=1), "fixed=1"),
    ],
)
def test_bad_input(call, message, rng):
    with pytest.raises(ValueError, match=message):
        call(step_model(1, 1, rng))


def test_a_model_that_is_not_stable_is_an_error():
    model = keras.Sequential([keras.Input((2, 1)), keras.layers.Rescaling(1e30)])
    state = np.array([0.0, 1.0]).reshape(2, 1, 1) * np.ones((2, 2, 1))
    with pytest.raises(ValueError, match="sample 1 is not finite from step 2"):
        keras_xd.rollout(model, state.astype("float32"), 3)
