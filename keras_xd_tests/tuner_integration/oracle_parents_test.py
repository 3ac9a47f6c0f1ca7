"""Which trials the proposals of a `GrammarOracle` are made from."""

import keras_tuner as kt
import numpy as np
import pytest

from keras_xd.grammar import spaces
from tuner_integration import GrammarOracle
from tuner_integration import oracle as oracle_module
from tuner_integration.points import PointSpace

CELLS = spaces.nas_bench_201_cell()


def told(scores, **options):
    """An oracle that knows a term for each of these scores, in this order, and the terms."""
    options = {"num_candidates": 9, "fold_levels": (0,), **options}
    oracle = GrammarOracle({"cell": CELLS}, kt.Objective("loss", "min"), 40, seed=3, **options)
    rng, terms = np.random.default_rng(0), []
    while len(terms) < len(scores):
        term = str(CELLS.sample(rng))
        if term not in terms:
            oracle.tell(term, scores[len(terms)])
            terms.append(term)
    return oracle, terms


@pytest.fixture
def parents(monkeypatch):
    """The terms that are mutated, as texts."""
    found, mutate = [], PointSpace.mutate

    def recorded(self, point, rng):
        found.append(str(dict(point)["cell"]))
        return mutate(self, point, rng)

    monkeypatch.setattr(PointSpace, "mutate", recorded)
    return found


def test_evolution_mutates_the_best_of_the_youngest(parents):
    scores = [0.1, 0.9, 0.5, 0.4, 0.8]
    options = {"strategy": "evolution", "population": 3, "tournament_size": 3, "initial_trials": 5}
    oracle, terms = told(scores, **options)
    oracle.ask()
    assert set(parents) == {terms[3]}


@pytest.mark.parametrize("known", [3, 4, 5])
def test_proposals_begin_after_the_initial_trials(known, parents):
    oracle, _ = told([0.5] * known, strategy="evolution", population=3, initial_trials=4)
    oracle.ask()
    assert bool(parents) == (known >= 4)


def test_the_acquisition_starts_from_the_best_ten(monkeypatch):
    scores = np.random.default_rng(1).permutation(14) / 14
    oracle, terms = told(scores.tolist(), initial_trials=4)
    starts = []

    def evolve(score, start, *arguments, **options):
        starts.append([str(dict(point)["cell"]) for point in start])

    monkeypatch.setattr(oracle_module, "evolve", evolve)
    oracle.ask()
    assert [start[:10] for start in starts] == [[terms[i] for i in np.argsort(scores)[:10]]]
    assert len(starts[0]) == 10 + 9
