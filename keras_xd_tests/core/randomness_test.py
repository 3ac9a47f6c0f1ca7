import random

import keras
import pytest

from keras_xd.core.randomness import python_state


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
