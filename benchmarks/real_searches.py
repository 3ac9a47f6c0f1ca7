"""Searches on real tasks: Bayesian, evolution, random, and KerasTuner's own.

    taskset -c 1 python benchmarks/real_searches.py [--seeds 10] [--trials 30] [--redraw]
    taskset -c 1 python benchmarks/real_searches.py --tasks hierarchical --seeds 3 --trials 100 \
        --strategies bayesian evolution random --output benchmarks/hierarchical_search.md

The tasks are those of benchmarks/real_tasks.py. A search goes on until it has made its trials and
used the seconds of its task, so that strategies are compared at equal trials and at equal seconds.
"""

import gc
import itertools
import json
import os
import pathlib
import tempfile
import time
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_tuner as kt
import numpy as np
import real_report
import real_tasks
import tensorflow as tf
import timing
from keras_tuner.oracles import BayesianOptimizationOracle
from real_tasks import objective
from sklearn.exceptions import ConvergenceWarning

from keras_xd.visualization import style
from tuner_integration import GrammarOracle

INITIAL = 10
# A search makes at most this many times the trials.
MOST = 10

STRATEGIES = ("bayesian", "evolution", "random", "keras_tuner")


def initial_points(name, task, seed):
    """Return the values of the first points of all strategies."""
    rng = np.random.default_rng([seed, len(name)])
    found = {}
    while len(found) < INITIAL:
        values = {"term": str(task.space.sample(rng))}
        found.setdefault(real_tasks.identity(task, values), values)
    return list(found.values())


class Own(BayesianOptimizationOracle):
    """KerasTuner's Bayesian optimisation, which begins with given values."""

    first = ()

    def populate_space(self, trial_id):
        if len(self.trials) < len(self.first):
            return {"status": "RUNNING", "values": dict(self.first[len(self.trials)])}
        return super().populate_space(trial_id)


def own_oracle(name, task, seed, trials, folder):
    """Return KerasTuner's oracle, and the function from its trials to values."""
    points = initial_points(name, task, seed)
    oracle = Own(
        kt.Objective("loss", "min"),
        MOST * trials,
        num_initial_points=INITIAL,
        seed=seed + 1,
        hyperparameters=real_tasks.hyperparameters(),
    )
    oracle.verbose = 0
    oracle.first = list(map(real_tasks.given, points))
    oracle._set_project_dir(str(folder), f"{name}-keras_tuner-{seed}")
    known = dict(enumerate(points))

    def values(number, given):
        return known.get(number) or real_tasks.decoded(task, given)

    return oracle, values


def search(scores, name, strategy, seed, trials, folder):
    """Run a search, or go on with it; yield the network and the seconds of each proposal.

    It goes on for `MOST` times the trials at most: who takes them decides when to stop.
    """
    task = scores.tasks[name]
    if strategy == "keras_tuner":
        yield from own_search(scores, name, task, seed, trials, folder)
        return
    oracle = GrammarOracle(
        {"term": task.space},
        kt.Objective("loss", "min"),
        MOST * trials,
        strategy,
        initial_trials=INITIAL,
        initial_terms=initial_points(name, task, seed),
        seed=seed,
    )
    oracle.open_project(folder, f"{name}-{strategy}-{seed}")
    while True:
        started = time.process_time()
        asked = oracle.ask()
        seconds = time.process_time() - started
        if not asked:
            return
        row = scores(name, {"term": asked[0]})
        oracle.tell(asked[0], objective(row))
        yield row["network"], seconds


def own_search(scores, name, task, seed, trials, folder):
    """Yield as `search`."""
    oracle, values = own_oracle(name, task, seed, trials, folder)
    while True:
        started = time.process_time()
        with warnings.catch_warnings():
            # Its process says where it stops at a bound.
            warnings.simplefilter("ignore", ConvergenceWarning)
            trial = oracle.create_trial("own")
        if trial.status != "RUNNING":
            return
        proposed = values(len(oracle.trials) - 1, trial.hyperparameters.values)
        spent = time.process_time() - started
        row = scores(name, proposed)
        oracle.update_trial(trial.trial_id, {"loss": objective(row)})
        trial.status = "COMPLETED"
        oracle.end_trial(trial)
        yield row["network"], spent


class Runs:
    """What the searches tried, a line of JSON for each trial: network and seconds to propose it."""

    def __init__(self, path):
        self.path, self.rows = pathlib.Path(path), {}
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        for name, strategy, seed, *trial in map(json.loads, lines):
            self.rows.setdefault((name, strategy, seed), []).append(trial)

    def add(self, name, strategy, seed, network, seconds):
        """Keep a trial."""
        trial = [network, round(seconds, 3)]
        self.rows.setdefault((name, strategy, seed), []).append(trial)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, strategy, seed, *trial]) + "\n")


def whole(scores, runs, options, name, strategy, seed):
    """Return whether a search has made its trials and used its seconds."""
    trials = runs.rows.get((name, strategy, seed), ())
    seconds = sum(scores.rows[name, network]["seconds"] + own for network, own in trials)
    return len(trials) >= options.trials and seconds >= options.share * scores.tasks[name].seconds


def searched(scores, runs, options, folder):
    """Run what is missing of all searches, seed by seed."""
    every = itertools.product(range(options.seeds), options.tasks, options.strategies)
    for seed, name, strategy in every:
        if whole(scores, runs, options, name, strategy, seed):
            continue
        for network, seconds in search(scores, name, strategy, seed, options.trials, folder):
            runs.add(name, strategy, seed, network, seconds)
            if whole(scores, runs, options, name, strategy, seed):
                break
        tried = [scores.rows[name, n] for n, _ in runs.rows[name, strategy, seed]]
        print(f"{name}, {strategy}, seed {seed}: {min(map(objective, tried)):.4f}", flush=True)


def gathered(scores, runs, options):
    """Return what the page is written from."""
    found = {"initial": INITIAL, "trials": options.trials, "seconds": {}}
    found |= {key: {} for key in ("tasks", "by_hand", "networks", "runs")}
    for name in options.tasks:
        own = {
            strategy: [runs.rows[name, strategy, seed] for seed in range(options.seeds)]
            for strategy in options.strategies
        }
        hand = scores.by_hand(name)
        tried = {hand["network"]: None}
        for run in itertools.chain(*own.values()):
            best = min((scores.rows[name, n] for n, _ in run[: options.trials]), key=objective)
            scores.measured(name, best["network"], hand)
            tried |= dict.fromkeys(network for network, _ in run)
        found["by_hand"][name] = hand["network"]
        found["tasks"][name] = scores.tasks[name].words()
        found["seconds"][name] = options.share * scores.tasks[name].seconds
        found["runs"][name] = own
        found["networks"][name] = {
            n: {k: v for k, v in scores.rows[name, n].items() if k not in ("task", "network")}
            for n in tried
        }
    return found


def one_core():
    """Let TensorFlow use one core, and spend no time on what pays in long trainings only."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    tf.get_logger().setLevel("ERROR")  # that every network is traced anew
    gc.collect()
    gc.freeze()  # `clear_session` collects garbage; what was imported is none


def main(arguments=None):
    """Search, and write the page; return what was found."""
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--share", type=float, default=1.0, help="of the seconds of each task")
    parser.add_argument("--tasks", nargs="+", choices=real_tasks.TASKS, default=["cells"])
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=[*STRATEGIES])
    parser.add_argument("--data-dir", default=os.environ.get("TFDS_DATA_DIR"))
    parser.add_argument("--searches", help="keep trials in this folder, and go on with them")
    parser.add_argument("--redraw", action="store_true", help="only write page and picture anew")
    options = parser.parse_args(arguments)
    if options.trials <= INITIAL:
        parser.error(f"--trials must exceed the {INITIAL} random ones")
    if "keras_tuner" in options.strategies and options.tasks != ["cells"]:
        parser.error("keras_tuner searches cells alone: give the other --strategies")
    if options.share < 0:
        parser.error("--share must be at least 0")
    records = options.output.with_suffix(".json")
    if options.redraw:
        found = json.loads(records.read_text(encoding="utf-8"))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(options.searches or temporary)
            folder.mkdir(parents=True, exist_ok=True)
            scores = real_tasks.Scores(folder / "networks.jsonl", options.data_dir)
            runs = Runs(folder / "runs.jsonl")
            searched(scores, runs, options, folder)
            found = gathered(scores, runs, options)
    lines = real_report.page(found)
    print("\n".join(lines))
    timing.write(options, [*lines, "", f"![best so far]({options.output.stem}.svg)"])
    if not options.dry_run:
        style.save(real_report.draw(found), options.output.with_suffix(".svg"))
        records.write_text(json.dumps(found) + "\n", encoding="utf-8")
    return found


if __name__ == "__main__":
    one_core()
    main()
