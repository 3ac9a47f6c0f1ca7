import numpy as np
import pytest
import tensorflow as tf

from tuner_integration import fidelity


def test_epochs():
    values = fidelity.fidelity_values("epochs", (1, 3, 9), 1)
    assert values == {"tuner/epochs": 3, "tuner/round": 1, "tuner/initial_epoch": 1}
    _, kwargs = fidelity.fit_arguments(values, (), {"epochs": 50, "verbose": 0})
    assert kwargs == {"epochs": 3, "initial_epoch": 1, "verbose": 0}
    assert fidelity.fidelity_values("epochs", (1, 3), 0)["tuner/initial_epoch"] == 0


def test_data():
    values = fidelity.fidelity_values("data", (0.25, 1.0), 0)
    x, y = np.arange(8), {"a": np.arange(8), "b": tf.range(8)}
    (part, targets, batch), kwargs = fidelity.fit_arguments(
        values, (x, y, 4), {"sample_weight": np.ones(8), "validation_data": (x, y)}
    )
    assert part.tolist() == [0, 1] and targets["b"].numpy().tolist() == [0, 1] and batch == 4
    assert kwargs["sample_weight"].shape == (2,) and kwargs["validation_data"][0] is x
    batches = tf.data.Dataset.range(40).batch(5)
    (taken,), _ = fidelity.fit_arguments(values, (batches,), {})
    assert int(taken.cardinality()) == 2
    full = fidelity.fidelity_values("data", (0.25, 1.0), 1)
    (whole,), kwargs = fidelity.fit_arguments(full, (x,), {"validation_split": 0.5})
    assert whole is x and kwargs == {"validation_split": 0.5}


def test_data_that_has_no_share():
    values = {"tuner/data": 0.5}
    with pytest.raises(ValueError, match="same `validation_data`.*validation_split=0.5"):
        fidelity.fit_arguments(values, (np.arange(4),), {"validation_split": 0.5})
    with pytest.raises(ValueError, match="generator"):
        fidelity.fit_arguments(values, ((i for i in range(3)),), {})
    endless = tf.data.Dataset.range(3).repeat()
    with pytest.raises(ValueError, match="known size"):
        fidelity.fit_arguments(values, (endless,), {})


def test_what_a_trial_begins_with():
    assert fidelity.resumed_from({"tuner/trial_id": "0003", "tuner/epochs": 3}) == "0003"
    assert fidelity.resumed_from({"tuner/trial_id": "0003", "tuner/channels": 8}) is None
    assert fidelity.resumed_from({"rate": 0.1}) is None


@pytest.mark.parametrize(
    "kind, rungs",
    [
        ("epochs", (1,)),
        ("epochs", (3, 1)),
        ("epochs", (0.5, 1)),
        ("data", (0.5, 1.5)),
        ("channels", None),
    ],
)
def test_rungs_are_checked(kind, rungs):
    with pytest.raises(ValueError, match="`rungs` must be at least two ascending"):
        fidelity.check_rungs(kind, rungs)


def test_default_rungs():
    assert fidelity.check_rungs("epochs", None) == (1, 3, 9)
    assert fidelity.check_rungs("data", None)[-1] == 1.0


def test_a_share_is_rounded_up():
    (x, texts), _ = fidelity.fit_arguments({"tuner/data": 0.3}, (np.arange(7), ["a"] * 7), {})
    assert len(x) == len(texts) == 3
    (taken,), _ = fidelity.fit_arguments(
        {"tuner/data": 0.3}, (tf.data.Dataset.range(14).batch(2),), {}
    )
    assert int(taken.cardinality()) == 3
