"""Searches whose trials compute a number, in processes that are killed or work together.

`faults.planted_program` kills searches; here others work together:

python -m keras_xd_tests.tuner_integration.tuner_program <folder>
"""

import argparse
import gc
import itertools
import json
import math
import os
import pathlib
import signal
import time
import types

import keras_tuner as kt
import numpy as np
from keras_tuner.src.distribute import oracle_chief

# What each copy of this process would import when it writes a summary.
from tensorboard.plugins.hparams import summary_v2  # noqa: F401
from tensorboard.plugins.scalar import summary_v2 as scalars  # noqa: F401
from tensorboard.summary.writer import event_file_writer  # noqa: F401

from keras_xd.grammar import spaces
from keras_xd_tests import programs
from tuner_integration import (
    GrammarOracle,
    GrammarTuner,
    HierarchicalKernel,
    PointSpace,
    Surrogate,
    acquisition,
    forest,
    oracle,
)

# Each of the many searches would fit a whole forest and look for the best point for long.
forest._TREES = 5
oracle.evolve = lambda *given, **options: acquisition.evolve(
    *given, **{**options, "most_generations": 1}
)
CELLS = spaces.nas_bench_201_cell()
TRIALS = 2
# Two for the start of the search, and seven.
FILES_OF_THE_FIRST_TRIAL = 9


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def note(path, text):
    """Append a line, all of it or nothing."""
    with open(path, "a") as file:
        file.write(f"{text}\n")


class Tuner(GrammarTuner):
    """Computes a function of the term and of one more hyperparameter."""

    runs = None
    seconds = 0.0
    die_in = None
    fails_once = None

    def run_trial(self, trial, **options):
        self.ran = [*getattr(self, "ran", ()), trial.trial_id]
        note(self.runs, trial.trial_id)
        if len(self.ran) == self.die_in:
            die()
        time.sleep(self.seconds)
        marker = self.runs.with_name(f"failed_{trial.trial_id}")
        if int(trial.trial_id) == self.fails_once and not marker.exists():
            marker.touch()
            return {"loss": math.nan}
        rate = trial.hyperparameters.Float("rate", 0.0, 1.0)
        value = 1 + trial.hyperparameters.get("cell").count("avg_pool") + rate
        if self.seconds:
            note(self.runs, f"end:{trial.trial_id}")
        return {"loss": value}


def tuner(folder, trials, runs, retries=0, initial_trials=2):
    searching = GrammarOracle(
        {"cell": CELLS},
        kt.Objective("loss", "min"),
        trials,
        initial_trials=initial_trials,
        fold_levels=(0,),
        num_candidates=6,
        seed=2,
        max_retries_per_trial=retries,
    )
    tuner = Tuner(searching, directory=folder, project_name="search")
    tuner.runs = runs
    tuner.fails_once = 1 if retries else None
    return tuner


def search(folder, runs, retries):
    tuner(folder, TRIALS, runs, retries, 1 + (retries > 0)).search(verbose=0)


def killed_search(folder, runs, retries, point):
    """Search, and die before the `point`-th file is put into its place."""
    replace, number = os.replace, -1

    def replaced(source, target):
        nonlocal number
        number += 1
        if point == number:
            die()
        replace(source, target)

    os.replace = replaced
    search(folder, runs, retries)


def found(folder):
    """Return the values and scores of all trials on the disk."""
    trials = [json.loads(path.read_text()) for path in sorted(folder.glob("search/trial_*/*.json"))]
    values = [json.dumps(trial["hyperparameters"]["values"], sort_keys=True) for trial in trials]
    state = json.loads((folder / "search" / "oracle.json").read_text())
    return {
        "values": values,
        "scores": [trial["score"] for trial in trials],
        "statuses": [trial["status"] for trial in trials],
        "end_order": state["end_order"],
    }


def reported(folder):
    """Return the trials whose results are on the disk, not counting NaN."""
    names = []
    for path in folder.glob("search/trial_*/trial.json"):
        trial = json.loads(path.read_text())
        loss = trial["metrics"]["metrics"].get("loss")
        if loss and not math.isnan(loss["observations"][0]["value"][0]):
            names.append(trial["trial_id"])
    return names


def lines(path):
    return path.read_text().split() if path.exists() else []


def killed(folder, retries):
    """Search once, and once for each point at which a search dies and is begun again.

    The first of the two trials is random, the second one is what a surrogate proposes where each
    runs once.

    It dies before a file is put into its place: what is on the disk is what the file before has
    left. With retries it dies after the first trial only, whose files are those of any search.
    """
    (folder / "whole").mkdir(parents=True)
    programs.in_child(search, folder / "whole", folder / "whole" / "runs", retries)
    searches, points = [], itertools.count(FILES_OF_THE_FIRST_TRIAL if retries else 0)
    for point in points:
        place = folder / str(point)
        place.mkdir()
        status = programs.in_child(killed_search, place, place / "before", retries, point)
        if status == 0:  # there are no more files
            break
        record = {"status": status, "reported": reported(place)}
        programs.in_child(search, place, place / "after", retries)
        searches.append(
            {
                **record,
                "ran_before": lines(place / "before"),
                "ran_after": lines(place / "after"),
                "found": found(place),
                "unfinished": [str(path) for path in place.rglob("*.unfinished*")],
            }
        )
    return {"whole": found(folder / "whole"), "searches": searches}


def worker(folder, die_in=None):
    """Be the chief or a worker, as the environment says; record which trials were run."""
    # The chief asks every 20 seconds whether all have ended.
    oracle_chief.time = types.SimpleNamespace(sleep=lambda seconds: time.sleep(0.1))
    worker = tuner(folder, 12, folder / "runs")
    worker.seconds, worker.die_in = 0.3, die_in
    if worker.tuner_id != "chief":
        # Both workers have something to do only if they begin at the same moment.
        (folder / f"ready_{worker.tuner_id}").touch()
        while len(list(folder.glob("ready_*"))) < 2:
            time.sleep(0.05)
    worker.search(verbose=0)
    (folder / f"ran_{worker.tuner_id}").write_text(json.dumps(getattr(worker, "ran", [])))


def workers(folder):
    """Let a chief and two workers search, the second of which is killed and begun again."""

    def start(name, die_in=None):
        environment = {
            "KERASTUNER_TUNER_ID": name,
            "KERASTUNER_ORACLE_IP": "127.0.0.1",
            "KERASTUNER_ORACLE_PORT": str(port),
        }
        return programs.fork(worker, folder, die_in, **environment)

    (port,) = programs.free_ports(1)
    chief, first, second = start("chief"), start("tuner0"), start("tuner1", 2)
    killed = programs.wait(second)
    statuses = [programs.wait(process) for process in (start("tuner1"), first, chief)]
    ran = [json.loads((folder / f"ran_{name}").read_text()) for name in ("tuner0", "tuner1")]
    return {"killed": killed, "statuses": statuses, "ran": ran}


def fit_once():
    """Load what each copy of this process would load when it first fits a surrogate."""
    space, rng = PointSpace({"cell": CELLS}, kt.HyperParameters()), np.random.default_rng(0)
    points = [space.sample(rng) for _ in range(3)]
    surrogate = Surrogate({"cell": HierarchicalKernel((0,))}, space)
    surrogate.fit(points, [1.0, 2.0, 3.0])
    surrogate.improvement(points)
    gc.collect()
    gc.freeze()  # or each copy of this process looks through all that is imported


def killed_searches(folder):
    """Return what became of searches that were killed, whose trials run once or are retried."""
    fit_once()
    names = {"once": 0, "retried": 1}
    return {name: killed(folder / name, retries) for name, retries in names.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    fit_once()
    print("RESULT " + json.dumps(workers(options.folder)))


if __name__ == "__main__":
    main()
