"""Seconds to a proposal of `GrammarOracle` after many trials of large terms.

    python benchmarks/proposals.py [--observations 200] [--proposals 5] [--dry-run]

A search by Bayesian optimisation of hierarchical NAS-Bench-201 begins with random trials, with a
number computed from the term as their loss. Then it goes on, twice, in a process of its own each.
"""

import json
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras_tuner as kt
import timing

from keras_xd.grammar import spaces
from tuner_integration import GrammarOracle

TARGET = 2.0
TASKS = {"initial": "after random trials", "again": "after a restart"}


def oracle(folder, initial=10):
    """Return an oracle with the trials that the folder holds."""
    grammars = {"network": spaces.hierarchical_nas_bench_201()}
    result = GrammarOracle(
        grammars, kt.Objective("loss", "min"), 10**6, initial_trials=initial, seed=1
    )
    result.verbose = 0
    result._set_project_dir(folder, "project")
    if (pathlib.Path(folder) / "project" / "oracle.json").exists():
        result.reload()
    return result


def trial(searched):
    """Run a trial whose loss is computed from the text of its term; return seconds to it."""
    started = time.perf_counter(), time.process_time()
    proposed = searched.create_trial("worker")
    seconds = time.perf_counter() - started[0], time.process_time() - started[1]
    text = proposed.hyperparameters.get("network")
    convolutions = text.count("OPS Linear1")
    loss = 0.1 + abs(convolutions - 60) / 100 + text.count("instance") / max(1, convolutions)
    searched.update_trial(proposed.trial_id, {"loss": loss})
    proposed.status = "COMPLETED"
    searched.end_trial(proposed)
    return seconds


def measure(task, folder, observations, proposals):
    """Return the seconds of each proposal; before the first task fill the project."""
    if task == "initial":
        random = oracle(folder, observations)
        for _ in range(observations):
            trial(random)
    bayesian = oracle(folder)
    return [trial(bayesian) for _ in range(proposals)]


def main(arguments=None):
    """Measure all tasks; return the seconds of each, those of the wall and of the processor."""
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--observations", type=int, default=200)
    parser.add_argument("--proposals", type=int, default=5, help="after each start")
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return None
    numbers = options.observations, options.proposals
    lines = [
        "# Proposals of GrammarOracle",
        "",
        "Written by `python benchmarks/proposals.py`; "
        f"{timing.versions(('keras-tuner', 'numpy', 'scipy'))}, {os.cpu_count()} cores, "
        f"{options.observations} observations of hierarchical NAS-Bench-201 before the first "
        f"proposal. At most {TARGET:g} s are aimed at.",
        "",
        *timing.head("process", "proposal", "s", "processor, s"),
    ]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for task, name in TASKS.items():
            found[task] = timing.apart(__file__, [task, folder, *numbers])
            for number, (wall, processor) in enumerate(found[task], start=1):
                lines.append(timing.row(name, number, f"{wall:.2f}", f"{processor:.2f}"))
    timing.write(options, lines)
    return found


if __name__ == "__main__":
    main()
