"""The temperature by epoch, and what has none."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import models
from keras_xd.training.callbacks import TemperatureSchedule

NAMES = ("identity", "channel_attention")


def temperatures(schedule, relaxation="gumbel", epochs=4):
    """Return the temperature of both kinds of cells in each epoch, by the calls of `fit`."""
    model = models.nos_search_network(3, 1, (8, 8, 3), 2, NAMES, relaxation=relaxation)
    schedule.set_model(model)
    schedule.set_params({"epochs": epochs})
    schedule.on_train_begin()
    seen = []
    for epoch in range(epochs):
        schedule.on_epoch_begin(epoch)
        found = {float(model.get_layer(f"cell{n}").architecture.temperature) for n in (1, 2, 3)}
        seen.append(found.pop())
        assert not found
    return seen


def test_temperature_falls_linearly():
    assert temperatures(TemperatureSchedule(8.0, 2.0)) == [8, 6, 4, 2]
    assert temperatures(TemperatureSchedule(8.0, 2.0, epochs=3)) == [8, 5, 2, 2]
    assert temperatures(TemperatureSchedule(8.0, 2.0), epochs=1) == [8]


def test_bad_arguments():
    with pytest.raises(ValueError, match="`end`"):
        TemperatureSchedule(end=0.0)
    with pytest.raises(ValueError, match="`epochs`"):
        TemperatureSchedule(epochs=0)
    with pytest.raises(ValueError, match="relaxation 'gumbel' or 'single_path'"):
        temperatures(TemperatureSchedule(), "softmax")


def test_mixtures_of_convolutions_get_it_too():
    layer = keras_xd.layers.DashConv1D(2, 3, dilations=(1, 2))
    model = keras.Sequential([keras.Input((12, 1)), layer])
    search = keras_xd.SearchModel(model)
    search.compile("sgd", "sgd", "mse", jit_compile=False)
    schedule = TemperatureSchedule(start=4.0, end=1.0)
    x, y = np.ones((2, 12, 1)), np.ones((2, 10, 2))
    search.fit(x, y, epochs=3, callbacks=[schedule], verbose=0)
    assert float(layer.temperature) == 1.0
    found = keras_xd.layers.DashConv1D.from_config(layer.get_config())
    assert found.initial_temperature == 1.0
