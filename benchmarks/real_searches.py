"""Searches on three real tasks: Bayesian, evolution, random, and KerasTuner's own.

    taskset -c 1 python benchmarks/real_searches.py [--seeds 10] [--trials 30] [--redraw]

The tasks are those of benchmarks/real_tasks.py. A search goes on until it has made its trials and
used the seconds of its task, so that strategies are compared at equal trials and at equal seconds.
"""

import argparse
import gc
import json
import math
import os
import pathlib
import sys
import tempfile
import time
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_tuner as kt
import numpy as np
import real_report
import real_tasks
import tensorflow as tf
from keras_tuner.oracles import BayesianOptimizationOracle
from sklearn.exceptions import ConvergenceWarning

from keras_xd.visualization import style
from tuner_integration import GrammarOracle

FOLDER = pathlib.Path(__file__).parent
NAME = pathlib.Path(__file__).stem
INITIAL, CHANCE = 10, math.log(10)
# A search makes at most this many times the trials, KerasTuner's own with what is refused.
MOST = 10
STRATEGIES = ("bayesian", "evolution", "random", "keras_tuner")


def initial_points(name, task, seed):
    """Return the first points of all strategies: pairs of values and KerasTuner's own values."""
    rng = np.random.default_rng([seed, len(name)])
    found = {}
    while len(found) < INITIAL:
        values, given = real_tasks.drawn(task, rng)
        if real_tasks.refusal(task, values) is None:
            found.setdefault(real_tasks.identity(task, values), (values, given))
    return list(found.values())


def objective(row):
    """Return what a search minimises: the loss, that of guessing at most."""
    return CHANCE if row["loss"] is None else min(row["loss"], CHANCE)


class Refusal:
    """Says why values must not be tried, and how long that took.

    A search takes the time off: its network is built for its training, too.

    Attributes:
        seconds: of the processor, of all calls.
    """

    def __init__(self, task):
        self.task, self.seconds = task, 0.0

    def __call__(self, values):
        started = time.process_time()
        found = real_tasks.refusal(self.task, values)
        self.seconds += time.process_time() - started
        return found


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
        hyperparameters=real_tasks.hyperparameters(task),
    )
    oracle.verbose = 0
    oracle.first = [given for _, given in points]
    oracle._set_project_dir(str(folder), f"{name}-keras_tuner-{seed}")
    known = dict(enumerate(values for values, _ in points))

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
    hyperparameters = kt.HyperParameters()
    if task.rate is None:
        real_tasks.add_rate(hyperparameters)
    refusal = Refusal(task)
    oracle = GrammarOracle(
        {"term": task.space},
        kt.Objective("loss", "min"),
        MOST * trials,
        strategy,
        initial_trials=INITIAL,
        initial_terms=[values for values, _ in initial_points(name, task, seed)],
        seed=seed,
        hyperparameters=hyperparameters,
        refuse=refusal,
    )
    oracle.open_project(folder, f"{name}-{strategy}-{seed}")
    while True:
        started, before = time.process_time(), refusal.seconds
        asked = oracle.ask()
        seconds = time.process_time() - started - (refusal.seconds - before)
        if not asked:
            return
        values = asked[0] if isinstance(asked[0], dict) else {"term": asked[0]}
        row = scores(name, values)
        oracle.tell(asked[0], objective(row))
        yield row["network"], seconds


def own_search(scores, name, task, seed, trials, folder):
    """Yield as `search`; what is refused is told to be as good as guessing, and is no trial."""
    oracle, values = own_oracle(name, task, seed, trials, folder)
    spent = 0.0
    while True:
        started = time.process_time()
        with warnings.catch_warnings():
            # Its process says where it stops at a bound.
            warnings.simplefilter("ignore", ConvergenceWarning)
            trial = oracle.create_trial("own")
        if trial.status != "RUNNING":
            return
        proposed = values(len(oracle.trials) - 1, trial.hyperparameters.values)
        spent += time.process_time() - started
        refused = real_tasks.refusal(task, proposed) is not None
        row = None if refused else scores(name, proposed)
        oracle.update_trial(trial.trial_id, {"loss": CHANCE if refused else objective(row)})
        trial.status = "COMPLETED"
        oracle.end_trial(trial)
        if not refused:
            yield row["network"], spent
            spent = 0.0


class Runs:
    """What the searches tried, a line of JSON for each trial: network and seconds to propose it.

    Args:
        path: the file, which need not exist.
    """

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
    for seed in range(options.seeds):
        for name in options.tasks:
            for strategy in options.strategies:
                if whole(scores, runs, options, name, strategy, seed):
                    continue
                if time.strftime("%H:%M") > options.until:
                    return
                before, started = len(scores.rows), time.process_time()
                trials = search(scores, name, strategy, seed, options.trials, folder)
                for network, seconds in trials:
                    runs.add(name, strategy, seed, network, seconds)
                    if whole(scores, runs, options, name, strategy, seed):
                        break
                tried = [scores.rows[name, n] for n, _ in runs.rows[name, strategy, seed]]
                print(
                    f"{name}, {strategy}, seed {seed}: {min(map(objective, tried)):.4f}, "
                    f"{len(scores.rows) - before} new networks, "
                    f"{time.process_time() - started:.0f} s",
                    flush=True,
                )


def gathered(scores, runs, options):
    """Return what the page is written from: searches that are whole, and their networks."""
    found = {"initial": INITIAL, "trials": options.trials, "seconds": {}}
    found |= {key: {} for key in ("tasks", "by_hand", "networks", "runs")}
    for name in options.tasks:
        own = {}
        for strategy in options.strategies:
            found_runs = []
            # Paired tests need the same seeds, from the first on.
            for seed in range(options.seeds):
                if not whole(scores, runs, options, name, strategy, seed):
                    break
                found_runs.append(runs.rows[name, strategy, seed])
            if found_runs:
                own[strategy] = found_runs
        if own:
            hand = scores.by_hand(name)
            all_runs = [run for strategy_runs in own.values() for run in strategy_runs]
            for run in all_runs:
                best = min((scores.rows[name, n] for n, _ in run[: options.trials]), key=objective)
                scores.measured(name, best["network"], hand)
            tried = dict.fromkeys(n for run in all_runs for n, _ in run)
            tried[hand["network"]] = None
            found["by_hand"][name] = hand["network"]
            rows = {n: scores.rows[name, n] for n in tried}
            found["tasks"][name] = scores.tasks[name].words()
            found["seconds"][name] = options.share * scores.tasks[name].seconds
            found["runs"][name] = own
            found["networks"][name] = {
                n: {k: v for k, v in row.items() if k not in ("task", "network")}
                for n, row in rows.items()
            }
    return found


def text_of(found):
    """Return what was found as JSON, a line for each network and each search."""
    parts = []
    for key, value in found.items():
        if key in ("networks", "runs"):
            inner = [f"{json.dumps(task)}: {_lines(rows)}" for task, rows in value.items()]
            parts.append(json.dumps(key) + ": {\n" + ",\n".join(inner) + "\n}")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(rows):
    lines = [f"{json.dumps(key)}: {json.dumps(row)}" for key, row in rows.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


def command(words):
    """Return the command of a page: without folders and times, which are those of one machine."""
    own = ("--searches", "--data-dir", "--output", "--until")
    before = ["", *words][: len(words)]
    pairs = zip(before, words, strict=True)
    shown = ["…" if option in own else word for option, word in pairs]
    return " ".join(["python benchmarks/real_searches.py", *shown])


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
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--share", type=float, default=1.0, help="of the seconds of each task")
    parser.add_argument("--tasks", nargs="+", choices=real_tasks.TASKS, default=[*real_tasks.TASKS])
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=[*STRATEGIES])
    parser.add_argument("--data-dir", default=os.environ.get("TFDS_DATA_DIR"))
    parser.add_argument("--searches", help="keep trials in this folder, and go on with them")
    parser.add_argument("--until", default="99:99", help="begin no search after this time of day")
    parser.add_argument("--output", type=pathlib.Path, default=FOLDER)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--dry-run", action="store_true", help="print, but write no file")
    group.add_argument("--redraw", action="store_true", help="only write page and picture anew")
    options = parser.parse_args(arguments)
    if options.trials <= INITIAL:
        parser.error(f"--trials must exceed the {INITIAL} random ones")
    if options.share < 0:
        parser.error("--share must be at least 0")
    paths = {ending: options.output / f"{NAME}.{ending}" for ending in ("json", "md", "svg")}
    if options.redraw:
        found = json.loads(paths["json"].read_text(encoding="utf-8"))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(options.searches or temporary)
            folder.mkdir(parents=True, exist_ok=True)
            scores = real_tasks.Scores(folder / "networks.jsonl", options.data_dir)
            runs = Runs(folder / "runs.jsonl")
            searched(scores, runs, options, folder)
            found = {"command": command(arguments), **gathered(scores, runs, options)}
    lines = real_report.page(found, objective, found["command"])
    print("\n".join(lines))
    if not options.dry_run:
        style.save(real_report.draw(found, objective), paths["svg"])
        lines.append(f"![best so far]({NAME}.svg)")
        paths["md"].write_text("\n".join(lines) + "\n", encoding="utf-8")
        paths["json"].write_text(text_of(found), encoding="utf-8")
    return found


if __name__ == "__main__":
    one_core()
    main()
