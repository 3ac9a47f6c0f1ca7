"""Points from outside: asked for and told, proposed, given first, imported."""

import json
import math

import keras_tuner as kt
import numpy as np
import pytest

from keras_xd.grammar import spaces
from keras_xd.grammar.graphs import network_digest
from tuner_integration import GrammarOracle

pytestmark = pytest.mark.usefixtures("few_trees", "short_searches")
CELLS = spaces.nas_bench_201_cell()
STRATEGIES = ["bayesian", "evolution", "random"]
BEST = "(CELL Cell " + " ".join(["(OPS conv3x3)"] * 6) + ")"


def loss(text):
    return 6.0 - text.count("conv3x3")


def cell_oracle(trials=20, **options):
    options = {"initial_trials": 4, "num_candidates": 9, "seed": 3, **options}
    oracle = GrammarOracle({"cell": CELLS}, kt.Objective("loss", "min"), trials, **options)
    return oracle


def texts(oracle):
    return [trial.hyperparameters.get("cell") for trial in oracle.trials.values()]


def cell(*operations):
    return f"(CELL Cell {' '.join(f'(OPS {name})' for name in operations)})"


class Tuner(kt.Tuner):
    """Computes the loss of a term instead of training."""

    ran = None

    def run_trial(self, trial, **options):
        self.ran = [*(self.ran or ()), trial.hyperparameters.get("cell")]
        return {"loss": loss(self.ran[-1])}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_asking_and_telling_is_a_search(strategy, tmp_path):
    oracle = cell_oracle(strategy=strategy)
    (first,) = oracle.ask()
    assert oracle.ask(2)[0] != first
    for text in oracle.ask(3):
        oracle.tell(text, loss(text))
    while asked := oracle.ask():
        oracle.tell(CELLS.parse(asked[0]), loss(asked[0]))
    networks = {network_digest(CELLS.parse(text)) for text in texts(oracle)}
    assert len(oracle.trials) == len(networks) == 20
    assert sorted({trial.status for trial in oracle.trials.values()}) == ["COMPLETED", "RUNNING"]
    assert oracle.get_best_trials()[0].score == min(
        loss(trial.hyperparameters.get("cell"))
        for trial in oracle.trials.values()
        if trial.status == "COMPLETED"
    )


def test_what_is_told_is_kept_and_goes_on(tmp_path):
    oracle = cell_oracle()
    oracle.open_project(tmp_path, "asked")
    asked = oracle.ask(3)
    oracle.tell(asked[1], 0.5)
    oracle.propose(BEST)
    oracle.import_trials([(cell(*["avg_pool"] * 6), 6.0)])
    again = cell_oracle()
    again.open_project(tmp_path, "asked")
    assert [trial.score for trial in again.trials.values()] == [None, 0.5, None]
    # What was asked for and not told waits, then comes what was proposed.
    assert sorted(again.ask(2)) == sorted([asked[0], asked[2]])
    assert again.ask() == [BEST]
    with pytest.raises(ValueError, match="tried once"):
        again.propose(cell(*["avg_pool"] * 6))


def test_what_was_not_asked_for_is_a_trial_more():
    oracle = cell_oracle(2, max_retries_per_trial=1)
    oracle.tell(BEST, {"loss": 0.0, "seconds": 3.0})
    (trial,) = oracle.trials.values()
    assert trial.status == "COMPLETED" and trial.score == 0.0
    assert trial.metrics.get_best_value("seconds") == 3.0
    (asked,) = oracle.ask()
    with pytest.raises(ValueError, match=r"raise `oracle.max_trials`.*max_trials=2"):
        oracle.tell(cell(*["conv1x1"] * 6), 1.0)
    oracle.tell(asked, math.nan)
    assert [trial.status for trial in oracle.trials.values()] == ["COMPLETED", "FAILED"]
    oracle.max_trials = 3
    oracle.tell(cell(*["conv1x1"] * 6), 1.0)
    assert oracle.ask() == []


@pytest.mark.parametrize("score", ["0.5", True, {"accuracy": 1.0}, {"loss": "low"}, [0.5]])
def test_scores_are_checked(score):
    oracle = cell_oracle()
    with pytest.raises(ValueError, match="A score must be a number"):
        oracle.tell(BEST, score)
    assert not oracle.trials


def test_initial_terms_are_tried_first(tmp_path):
    other = cell(*["conv1x1"] * 6)
    oracle = cell_oracle(5, initial_terms=[BEST, CELLS.parse(other), {"cell": BEST}])
    tuner = Tuner(oracle=oracle, directory=tmp_path, project_name="first")
    tuner.search(verbose=0)
    assert tuner.ran[:2] == [BEST, other] and len(set(tuner.ran)) == 5
    with pytest.raises(ValueError, match=r"initial_terms\[1\]: OPS has no production.*conv1x1"):
        cell_oracle(initial_terms=[BEST, cell(*["conv9x9"] * 6)])
    with pytest.raises(ValueError, match=r"initial_terms\[0\]: .*violates the constraints"):
        cell_oracle(initial_terms=[cell(*["zero"] * 6)])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_imported_trials_guide_the_search_and_are_not_repeated(tmp_path, strategy):
    tuner = Tuner(oracle=cell_oracle(8, strategy="random"), directory=tmp_path, project_name="old")
    tuner.search(verbose=0)
    path = tmp_path / "old" / "trial_0002" / "trial.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "FAILED", "score": None}))
    oracle = cell_oracle(4, strategy=strategy)
    assert oracle.import_trials(tmp_path / "old") == 8
    assert oracle.import_trials([(text, loss(text)) for text in [*tuner.ran, BEST]]) == 1
    new = oracle.ask(4)
    assert len(new) == 4 and not {*new} & {*tuner.ran, BEST}
    # Nine are known, so that there are no more initial trials.
    near = np.mean([loss(text) for text in new])
    assert strategy == "random" or near < np.mean([loss(text) for text in tuner.ran])


def test_imports_are_checked_before_anything_is_taken_over(tmp_path):
    oracle = cell_oracle()
    for rows, message in (
        ([(BEST, 1.0), (cell("id"), 2.0)], r"Trial 1 cannot be imported. No production"),
        ([(BEST, "good")], "Trial 0 cannot be imported. A score"),
        ([BEST], "Trial 0 cannot be imported"),
        (tmp_path, "without trials"),
    ):
        with pytest.raises(ValueError, match=message):
            oracle.import_trials(rows)
    assert oracle.import_trials([(BEST, 1.0)]) == 1
    Tuner(oracle=cell_oracle(2), directory=tmp_path, project_name="old").search(verbose=0)
    other = GrammarOracle({"cell": CELLS}, kt.Objective("accuracy", "max"), 3)
    with pytest.raises(ValueError, match="same objective"):
        other.import_trials(tmp_path / "old")


def test_points_with_hyperparameters_are_dictionaries():
    hyperparameters = kt.HyperParameters()
    hyperparameters.Float("rate", 0.0, 1.0, default=0.25)
    hyperparameters.Choice("kind", ["a", "b"])
    oracle = cell_oracle(hyperparameters=hyperparameters)
    oracle.propose({"cell": BEST, "kind": "b"})
    oracle.propose(cell(*["conv1x1"] * 6))
    assert oracle.ask() == [{"cell": BEST, "rate": 0.25, "kind": "b"}]
    (asked,) = oracle.ask()
    oracle.tell({**asked}, 0.5)
    for wrong in ({"rate": 2.0}, {"rate": "fast"}, {"kind": "c"}, {"decay": 0.1}):
        with pytest.raises(ValueError, match="A value must be one of its hyperparameter"):
            oracle.propose({"cell": cell(*["id"] * 6), **wrong})
    with pytest.raises(ValueError, match=r"expected id or zero or conv3x3 .*\(position "):
        oracle.propose(cell(*["conv5x5"] * 6))
    with pytest.raises(ValueError, match="dictionary with the terms"):
        oracle.propose({"rate": 0.5})
