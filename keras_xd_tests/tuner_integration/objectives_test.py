import warnings

import keras_tuner as kt
import numpy as np
import pytest

from keras_xd.grammar import spaces
from tuner_integration import GrammarOracle
from tuner_integration.objectives import errors_of_scores, score_of_trial

pytestmark = pytest.mark.usefixtures("few_trees", "short_searches")
CELLS = spaces.nas_bench_201_cell()
TWO = [kt.Objective("error", "min"), kt.Objective("size", "min")]


def several():
    return kt.Oracle(objective=TWO).objective


def costs(text):
    """An error that falls with the convolutions, at the cost of their number."""
    labels = [node.operator for node in CELLS.parse(text).nodes()]
    three = labels.count("conv3x3")
    one, pools = labels.count("conv1x1"), labels.count("avg_pool")
    return {"error": 1 / (1 + three + 0.4 * one) + 0.05 * pools, "size": 9 * three + one}


def oracle(trials=12, strategy="bayesian", seed=0, **options):
    options = {"initial_trials": 6, "num_candidates": 20, "fold_levels": (0,), **options}
    return GrammarOracle({"cell": CELLS}, TWO, trials, strategy, seed=seed, **options)


def searched(oracle):
    while asked := oracle.ask():
        oracle.tell(asked[0], costs(asked[0]))
    return oracle


def test_each_point_of_the_front_is_the_best_for_some_weights(rng):
    # The third lies on a concave part of the front, where no weighted sum has its minimum.
    values = [(0.0, 9e6), (1.0, 0.0), (0.8, 7e6), (0.9, 8e6), (1e9, 1e9)]
    scores = [{"error": a, "size": b} for a, b in values]
    best = set()
    for _ in range(60):
        errors = errors_of_scores([*scores, None], several(), rng)
        best.add(int(np.argmin(errors)))
        assert errors[5] == errors.max() and np.isfinite(errors).all()
    assert best == {0, 1, 2}


@pytest.mark.parametrize("strategy", ["bayesian", "evolution", "random"])
def test_the_front_of_a_search(strategy):
    found = searched(oracle(strategy=strategy))
    front = [score_of_trial(trial, found.objective) for trial in found.pareto()]
    assert [s["error"] for s in front] == sorted(s["error"] for s in front)
    assert [s["size"] for s in front] == sorted((s["size"] for s in front), reverse=True)
    again = searched(oracle(strategy=strategy))
    assert [t.hyperparameters.values for t in again.trials.values()] == [
        t.hyperparameters.values for t in found.trials.values()
    ]


def test_scores_of_several_objectives_are_complete_dictionaries():
    asked = oracle()
    (text,) = asked.ask()
    for score in (0.5, {"error": 0.5}, {"error": 0.5, "size": "small"}):
        with pytest.raises(ValueError, match="'error', 'size'"):
            asked.tell(text, score)
    asked.tell(text, {"error": 0.5, "size": 3})
    (failed,) = asked.ask()
    asked.tell(failed, None)
    assert [trial.status for trial in asked.trials.values()] == ["COMPLETED", "FAILED"]
    assert [t.trial_id for t in asked.pareto()] == ["0000"]


def test_several_objectives_are_kept_and_imported(tmp_path):
    first = oracle()
    first.open_project(tmp_path, "first")
    for _ in range(8):
        (text,) = first.ask()
        first.tell(text, costs(text))
    again = oracle()
    again.open_project(tmp_path, "first")
    assert [t.trial_id for t in again.pareto()] == [t.trial_id for t in first.pareto()]
    assert again.ask() == first.ask()
    other = oracle()
    assert other.import_trials(tmp_path / "first") == 8
    assert other.import_trials([(CELLS.first(), {"error": 0.9, "size": 0.0})]) in (0, 1)
    assert other.get_state()["imported"][0]["score"] == pytest.approx(
        costs(other.get_state()["imported"][0]["values"]["cell"])
    )
    other.tell(other.ask()[0], {"error": 0.1, "size": 1})


def test_what_is_refused_costs_no_trial_and_is_not_tried_again(tmp_path):
    def refuse(values):
        size = costs(values["cell"])["size"]
        return f"size {size}" if size > 5 else None

    limited = oracle(10, refuse=refuse)
    limited.open_project(tmp_path, "limited")
    searched(limited)
    assert len(limited.trials) == 10
    sizes = [costs(t.hyperparameters.get("cell"))["size"] for t in limited.trials.values()]
    assert max(sizes) <= 5
    assert limited.refused and all(costs(v["cell"])["size"] > 5 for v, _ in limited.refused)
    texts = [values["cell"] for values, _ in limited.refused]
    assert len(set(texts)) == len(texts)
    again = oracle(11, refuse=refuse)
    again.open_project(tmp_path, "limited")
    assert again.refused == limited.refused
    with pytest.raises(ValueError, match="size 54"):
        again.propose("(CELL Cell" + 6 * " (OPS conv3x3)" + ")")


def test_a_search_stops_when_everything_is_refused():
    refusing = oracle(refuse=lambda values: "too hot")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert refusing.ask() == []
    messages = [str(warning.message) for warning in caught if warning.category is UserWarning]
    assert len(messages) == 1 and "50 proposals in a row were refused" in messages[0]
    assert "too hot" in messages[0]
    assert len(refusing.refused) == 50 and not refusing.trials


def test_what_is_skipped_is_not_tried_again_and_does_not_count_as_bad(tmp_path):
    skipping = oracle(8, strategy="random")
    skipping.skip = lambda values: costs(values["cell"])["size"] > 5
    skipping.open_project(tmp_path, "skipping")
    searched(skipping)
    assert len(skipping.trials) == 8 and skipping.skipped and not skipping.refused
    texts = [values["cell"] for values in skipping.skipped]
    assert len(set(texts)) == len(texts)
    assert all(costs(t.hyperparameters.get("cell"))["size"] <= 5 for t in skipping.trials.values())
    again = oracle(9, strategy="random")
    again.open_project(tmp_path, "skipping")
    assert again.skipped == skipping.skipped


class Weights:
    """A generator that draws these weights."""

    def __init__(self, *weights):
        self.weights = np.array(weights)

    def dirichlet(self, alpha):
        assert len(alpha) == len(self.weights)
        return self.weights


def test_the_worst_weighted_objective_counts():
    """With equal weights the middle of a front is best, which is worst by the best objective."""
    scores = [{"error": e, "size": s} for e, s in ((1, 3), (2, 2), (3, 1))]
    for weights, best in (((0.5, 0.5), 1), ((0.9, 0.1), 0), ((0.1, 0.9), 2)):
        errors = errors_of_scores(scores, several(), Weights(*weights))
        assert int(np.argmin(errors)) == best
