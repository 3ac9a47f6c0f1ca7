import random
import types

import keras
import numpy as np
import pytest

from keras_xd.core import randomness
from keras_xd.core.randomness import gumbel_noise, python_state


@pytest.mark.parametrize("seed", [None, 3])
def test_the_state_comes_back_even_after_an_error(seed):
    state = random.getstate()
    with pytest.raises(KeyError), python_state(seed):
        assert (random.getstate() == state) == (seed is None)
        random.random()
        raise KeyError
    assert random.getstate() == state


def test_keras_draws_its_seeds_from_it():
    values = []
    for seed in (3, 3, 4):
        with python_state(seed):
            values.append(keras.initializers.GlorotUniform().seed)
    assert values[0] == values[1] != values[2]


def test_noise_is_that_of_a_gumbel_distribution(monkeypatch):
    noise = keras.ops.convert_to_numpy(gumbel_noise((40_000,), keras.random.SeedGenerator(1)))
    assert noise.dtype == "float32"
    assert noise.mean() == pytest.approx(np.euler_gamma, abs=0.02)
    assert noise.var() == pytest.approx(np.pi**2 / 6, rel=0.03)
    again = gumbel_noise((40_000,), keras.random.SeedGenerator(1))
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(again), noise)
    zeros = lambda shape, dtype, seed: keras.ops.zeros(shape, dtype)  # noqa: E731
    seen = types.SimpleNamespace(random=types.SimpleNamespace(uniform=zeros))
    monkeypatch.setattr(randomness, "keras", seen)
    assert np.isfinite(gumbel_noise((1,), keras.random.SeedGenerator(1)))
