import re

import keras
import pytest

from tuner_integration import costs


def model(units=3):
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(units)])


def test_costs_of_a_model():
    assert costs.model_costs(model()) == {"multiply_adds": 12.0, "parameters": 15.0}
    found = costs.model_costs(model(), ["latency"])
    assert 0 < found["latency"] < 10


@pytest.mark.parametrize(
    "limits, reason",
    [
        ({"parameters": 15}, None),
        ({"parameters": 14.5}, "parameters 15 exceeds the limit 14.5"),
        ({"latency": 1e-9, "multiply_adds": 11}, "multiply_adds 12 exceeds"),
        ({"latency": 1e-9}, "latency .* exceeds the limit 1e-09"),
    ],
)
def test_limits(limits, reason):
    found = costs.exceeded(model(), costs.check_limits(limits))
    assert found is None if reason is None else re.match(reason, found)


@pytest.mark.parametrize("limits", [{"flops": 3}, {"parameters": 0}, {"latency": "1"}])
def test_limits_are_checked(limits):
    with pytest.raises(ValueError, match="`limits` must be positive"):
        costs.check_limits(limits)


def test_latency_needs_known_shapes():
    x = keras.Input((None, 4))
    with pytest.raises(ValueError, match="known shape"):
        costs.model_costs(keras.Model(x, keras.layers.Dense(2)(x)), ["latency"])
    with pytest.raises(ValueError, match="one of multiply_adds"):
        costs.model_costs(model(), ["flops"])
