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


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("oracle.json", b"{"),
        ("oracle.json", b"[]"),
        ("oracle.json", b'{"ongoing_trials": {}}'),
        ("oracle.json", b"\xff"),
        ("oracle.json", b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}"),
        ("trial_0000/trial.json", b'{"trial_id": "0000"}'),
        ("trial_0000/trial.json", b""),
    ],
)
def test_damaged_files_are_refused(name, content, tmp_path):
    oracle = counting(tmp_path)
    end(oracle, oracle.create_trial("a"), 0.5)
    (tmp_path / "project" / name).write_bytes(content)
    again = counting(tmp_path)
    with pytest.raises(ValueError, match="whole files of its project.*Received: .*project"):
        again.reload()
    assert not again.trials


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("start_order", 3),
        ("end_order", ["0007"]),
        ("run_times", {"0000": "x"}),
        ("seed", None),
        ("id_to_hash", {"0000": []}),
        ("hyperparameters", {"space": [], "values": 3}),
    ],
)
def test_states_that_would_fail_later_are_refused(key, value, tmp_path):
    oracle = counting(tmp_path)
    end(oracle, oracle.create_trial("a"), 0.5)
    path = tmp_path / "project" / "oracle.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ValueError, match="whole files of its project"):
        counting(tmp_path).reload()


def test_a_completed_trial_with_nan_in_its_file_has_failed(tmp_path):
    oracle = counting(tmp_path)
    for score in (0.5, 0.25):
        end(oracle, oracle.create_trial("a"), score)
    path = tmp_path / "project" / "trial_0001" / "trial.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "score": math.nan}))
    again = counting(tmp_path)
    again.reload()
    assert [trial.status for trial in again.trials.values()] == ["COMPLETED", "FAILED"]
    assert [trial.trial_id for trial in again.get_best_trials(2)] == ["0000"]
