"""Searches whose trials compute a number, killed before each file that they put into its place."""

import gc
import itertools
import json
import os
import signal

import keras_tuner as kt
import numpy as np

# What each copy of this process would import when it writes a summary.
from tensorboard.plugins.hparams import summary_v2  # noqa: F401
from tensorboard.plugins.scalar import summary_v2 as scalars  # noqa: F401
from tensorboard.summary.writer import event_file_writer  # noqa: F401

from keras_xd.grammar import spaces
from keras_xd_tests import programs
from tuner_integration import GrammarOracle, GrammarTuner, acquisition, forest, oracle
from tuner_integration.kernels import HierarchicalKernel
from tuner_integration.points import PointSpace
from tuner_integration.surrogate import Surrogate

# Each of the many searches would fit a whole forest and look for the best point for long.
forest._TREES = 5
oracle.evolve = lambda *given, **options: acquisition.evolve(
    *given, **{**options, "most_generations": 1}
)
CELLS = spaces.nas_bench_201_cell()


class Tuner(GrammarTuner):
    """Computes a function of the term and of one more hyperparameter."""

    def run_trial(self, trial, **options):
        with open(self.runs, "a") as file:
            file.write(f"{trial.trial_id}\n")
        rate = trial.hyperparameters.Float("rate", 0.0, 1.0)
        return {"loss": 1 + trial.hyperparameters.get("cell").count("avg_pool") + rate}


def search(folder, runs, point=None):
    """Search two trials; die before the `point`-th file is put into its place."""
    replace, number = os.replace, itertools.count()

    def replaced(source, target):
        if next(number) == point:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = replaced
    options = {"initial_trials": 1, "fold_levels": (0,), "num_candidates": 6, "seed": 2}
    searching = GrammarOracle({"cell": CELLS}, kt.Objective("loss", "min"), 2, **options)
    tuner = Tuner(searching, directory=folder, project_name="search")
    tuner.runs = runs
    tuner.search(verbose=0)


def trials_in(folder):
    """Return all trials on the disk."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("search/trial_*/*.json"))]


def found(folder):
    """Return the values and scores of all trials on the disk."""
    trials = trials_in(folder)
    state = json.loads((folder / "search" / "oracle.json").read_text())
    return {
        "values": [json.dumps(t["hyperparameters"]["values"], sort_keys=True) for t in trials],
        "scores": [trial["score"] for trial in trials],
        "statuses": [trial["status"] for trial in trials],
        "end_order": state["end_order"],
    }


def lines(path):
    return path.read_text().split() if path.exists() else []


def killed_searches(folder):
    """Search once, and once for each point at which a search dies and is begun again.

    The first of the two trials is random, the second one is what a surrogate proposes.
    """
    fit_once()
    (folder / "whole").mkdir(parents=True)
    programs.in_child(search, folder / "whole", folder / "whole" / "runs")
    searches = []
    for point in itertools.count():
        place = folder / str(point)
        place.mkdir()
        status = programs.in_child(search, place, place / "before", point)
        if status == 0:  # there are no more files
            break
        trials = [trial for trial in trials_in(place) if "loss" in trial["metrics"]["metrics"]]
        programs.in_child(search, place, place / "after")
        searches.append(
            {
                "status": status,
                "reported": [trial["trial_id"] for trial in trials],
                "ran_before": lines(place / "before"),
                "ran_after": lines(place / "after"),
                "found": found(place),
                "unfinished": [str(path) for path in place.rglob("*.unfinished*")],
            }
        )
    return {"whole": found(folder / "whole"), "searches": searches}


def fit_once():
    """Load what each copy of this process would load when it first fits a surrogate."""
    space, rng = PointSpace({"cell": CELLS}, kt.HyperParameters()), np.random.default_rng(0)
    points = [space.sample(rng) for _ in range(3)]
    surrogate = Surrogate({"cell": HierarchicalKernel((0,))}, space)
    surrogate.fit(points, [1.0, 2.0, 3.0])
    surrogate.improvement(points)
    gc.collect()
    gc.freeze()  # or each copy of this process looks through all that is imported
