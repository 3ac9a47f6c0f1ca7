"""What does not need terms; searches that are killed are tested with the tuner."""

import json
import math

import keras_tuner as kt
import pytest

from tuner_integration.resumable_oracle import ResumableOracle


class Counting(ResumableOracle):
    """Proposes the numbers of its trials."""

    def populate_space(self, trial_id):
        return {"status": "RUNNING", "values": {"number": len(self.trials)}}


def counting(folder=None, **options):
    hyperparameters = kt.HyperParameters()
    hyperparameters.Int("number", 0, 99)
    oracle = Counting(
        objective=kt.Objective("loss", "min"),
        max_trials=9,
        hyperparameters=hyperparameters,
        **options,
    )
    oracle.verbose = 0
    if folder is not None:
        oracle._set_project_dir(folder, "project")
    return oracle


def end(oracle, trial, value):
    oracle.update_trial(trial.trial_id, {"loss": value})
    trial.status = "COMPLETED"
    oracle.end_trial(trial)


def test_without_a_project_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    oracle = counting()
    end(oracle, oracle.create_trial("a"), 0.5)
    oracle.save()
    assert not list(tmp_path.iterdir()) and oracle.get_best_trials()[0].score == 0.5


# KerasTuner looks for the best of no epochs.
@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")
def test_a_state_without_retries_of_what_runs(tmp_path):
    oracle = counting(tmp_path, max_retries_per_trial=1)
    end(oracle, oracle.create_trial("a"), math.nan)
    path = tmp_path / "project" / "oracle.json"
    state = json.loads(path.read_text())
    assert state["retry_queue"] == ["0000"] and state["ongoing_trials"] == {"a": "0000"}
    again = counting(tmp_path, max_retries_per_trial=1)
    again.reload()
    end(again, again.create_trial("a"), 0.5)
    assert again.create_trial("a").trial_id == "0001"


@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")
@pytest.mark.parametrize("retries", [0, 1])
def test_a_reported_nan_runs_again_if_it_may(tmp_path, retries):
    oracle = counting(tmp_path, max_retries_per_trial=retries)
    oracle.update_trial(oracle.create_trial("a").trial_id, {"loss": math.nan})
    again = counting(tmp_path, max_retries_per_trial=retries)
    again.reload()
    assert again.trials["0000"].status == ("RUNNING" if retries else "FAILED")
    assert again.create_trial("a").trial_id == ("0000" if retries else "0001")


def test_leftovers_of_a_kill_are_removed(tmp_path):
    folder = tmp_path / "project" / "trial_0000"
    folder.mkdir(parents=True)
    (folder / "trial.json.999999999.unfinished").touch()
    counting(tmp_path)
    assert not list(folder.iterdir())
