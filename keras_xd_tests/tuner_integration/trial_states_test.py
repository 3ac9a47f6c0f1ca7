"""What is read from and put right in saved searches."""

import keras_tuner as kt
import pytest
from keras_tuner.engine.trial import Trial

from tuner_integration import trial_states


def trial(name, status="RUNNING", **scores):
    made = Trial(kt.HyperParameters(), name, status)
    for metric, value in scores.items():
        made.metrics.register(metric, direction="min")
        made.metrics.update(metric, value)
        made.score = value
    return made


def test_limits_are_numbers_with_a_wide_text():
    limit = trial_states.TrialLimit(12, 4)
    assert limit == 12 and limit > 3 and str(limit) == "0012" and f"{limit}" == repr(limit) == "12"
    assert f"{{:0{len(str(limit))}d}}".format(7) == "0007"  # as KerasTuner makes ids


def test_objectives_are_described():
    several = kt.Oracle([kt.Objective("b", "max"), kt.Objective("a", "min")]).objective
    expected = {"name": "multi_objective", "objectives": {"a": "min", "b": "max"}}
    assert trial_states.described_objective(several) == expected


@pytest.mark.parametrize(
    ("saved", "scores", "fits"),
    [
        (None, {}, True),
        (None, {"loss": 1.0}, True),
        (None, {"accuracy": 1.0}, False),
        ({"name": "loss", "direction": "min"}, {"loss": 1.0}, True),
        ({"name": "loss", "direction": "max"}, {}, False),
        ({"name": "multi_objective", "objectives": {"loss": "min"}}, {}, False),
    ],
)
def test_objectives_are_compared(saved, scores, fits):
    arguments = kt.Objective("loss", "min"), saved, [trial("0"), trial("1", **scores)]
    if fits:
        trial_states.check_objective(*arguments)
    else:
        with pytest.raises(ValueError, match="another `project_name`"):
            trial_states.check_objective(*arguments)


def test_results_are_forgotten():
    made = trial("0", loss=2.0)
    trial_states.forget_results(made)
    assert made.score is None and not made.metrics.exists("loss")


def test_no_trial_waits_that_runs_or_has_ended():
    trials = {"0": trial("0", "COMPLETED"), "1": trial("1"), "2": trial("2", "INVALID")}
    state = {"ongoing_trials": {"a": "0", "b": "1"}, "retry_queue": ["0", "1", "2", "2"], "seed": 3}
    assert trial_states.repaired_state(state, trials) == {
        "ongoing_trials": {"b": "1"},
        "retry_queue": ["2"],
        "seed": 3,
    }
