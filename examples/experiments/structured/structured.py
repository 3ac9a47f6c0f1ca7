"""Dense kernels against structured ones of a half and a quarter of their numbers, from scratch.

    python examples/experiments/structured/structured.py
    python examples/experiments/structured/structured.py --tasks trec --methods dense searched

Small transformers on sentences (TREC, SST-2), on the characters of the Penn Treebank and on images
(CIFAR-10, averaged to 16 × 16), and an MLP. All kernels of attention and of dense layers but the
last are replaced by `rewrite(to="structured")`, at `--shares` of their numbers:

- `dense`: the network as it is;
- `low_rank`, `monarch`, `block_tensor_train`: one family for all kernels;
- `searched`: mixtures of all families at 1.5, 1 and 0.5 times the share, whose expected number of
  parameters is brought to that of the share for half of the epochs. `finalize` chooses within
  that number, and the network that it leaves is trained on for the other half.

The rates are those of the dense network, the same for every method. Finished runs are kept in the
results and not repeated; several processes may share the work.
"""

import argparse
import functools
import itertools
import math
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import fitting
import keras
import numpy as np
import parsing
import reporting

import keras_xd
from experiments.dnarch.dnarch_training import schedule
from experiments.structured.structured_models import DROPOUT, TASKS
from keras_xd.graph.size_counts import count_parameters

ARCHITECTURE_RATE, COMPLEXITY_WEIGHT = 0.05, 10.0
METHODS = {
    "dense": "dense",
    "low_rank": "low rank",
    "monarch": "Monarch",
    "block_tensor_train": "block tensor train",
    "searched": "searched",
}


def values(runs):
    """Return the scores of runs by seed, accuracy in percent."""
    percent = 1 if TASKS[runs[0]["task"]].bits else 100
    return {run["seed"]: percent * run["score"] for run in runs}


def rows(runs, task):
    """Return the runs of each share and method of a task, in the order of the table."""
    own = reporting.select(runs, task=task)
    shares = sorted({run["share"] for run in own}, key=float, reverse=True)
    for share, method in itertools.product(shares, METHODS):
        found = reporting.select(own, share=share, method=method)
        if found:
            yield share, method, found


def page(settings, runs, written):
    """Return the page of results."""
    seeds = sorted({run["seed"] for run in runs})
    parts = [
        reporting.written_by(reporting.commands(runs), written),
        "Networks with dense kernels, and with structured ones of a share of their numbers, "
        "trained from random weights on the same samples for as many epochs, at the learning rate "
        f"of the dense network; {reporting.over(seeds)}. Numbers: those that the replaced kernels "
        "have left, as a share. Lost: how far behind the dense network of the same seed. Searched: "
        "half of the epochs are those of the search.",
    ]
    for task in (task for task in TASKS if reporting.select(runs, task=task)):
        bits, whole, lines = TASKS[task].bits, {}, []
        for share, method, own in rows(runs, task):
            scores = values(own)
            if method == "dense":
                whole = scores
            lost = reporting.gains(scores, whole)
            lost = [value if bits else -value for value in lost]
            digits = 3 if bits else 1
            lines.append(
                [
                    share,
                    METHODS[method],
                    reporting.cell(scores, seeds, digits),
                    reporting.spread(lost, digits) if lost and method != "dense" else "–",
                    reporting.spread([run["left"] / run["kernels"] for run in own], 2),
                ]
            )
        unit = "bits for each character" if bits else "accuracy, %"
        count = reporting.select(runs, task=task)[0]["kernels"]
        parts += [
            f"## {TASKS[task].title}",
            f"{count:,} numbers in the kernels that are replaced.",
            reporting.table(["share", "kernels", unit, "lost", "numbers"], lines),
        ]
    parts += [*chosen(runs), "## Settings", reporting.points(described(settings))]
    return reporting.markdown("Structured matrices from scratch", *parts)


def chosen(runs):
    """Return the lines that tell what the searches chose."""
    counts = {}
    for run in reporting.select(runs, method="searched"):
        own = counts.setdefault((run["task"], run["share"]), {})
        for name in run["chosen"].values():
            family = METHODS.get(name.rpartition("_")[0], name.rpartition("_")[0].upper())
            own[family] = own.get(family, 0) + 1
    if not counts:
        return []
    lines = [
        [task, share, ", ".join(f"{n} × {name}" for name, n in sorted(own.items()))]
        for (task, share), own in counts.items()
    ]
    head = ["task", "share", "kernels by family, all seeds"]
    return ["## What the searches chose", reporting.table(head, lines)]


def described(settings):
    """Return the lines of the settings."""
    return [
        f"Transformers: {settings['blocks']} blocks of width {settings['width']}, four heads, "
        f"dropout {DROPOUT}. The MLP: three hidden layers of {settings['mlp_width']}.",
        f"Adam, norm of all gradients at most 1, batches of {settings['batch_size']}; "
        "rates rise for a tenth of the steps, then fall to 0 along a cosine. "
        + "; ".join(
            f"{name}: {settings['epochs'] or task.epochs} epochs of at most "
            f"{settings['subset'] or task.subset:,} samples, rate {task.learning_rate}"
            for name, task in TASKS.items()
        )
        + ".",
        f"Searches: Adam, rate {ARCHITECTURE_RATE}, `complexity_weight` "
        f'{COMPLEXITY_WEIGHT}, `complexity_measure="parameters"`.',
    ]


FAMILIES = ("low_rank", "monarch", "block_tensor_train", "blast")
FACTORS = (1.5, 1.0, 0.5)  # of the share, for the candidates of a search
NUMBERS = ("epochs", "subset", "width", "blocks", "mlp_width", "length", "batch_size")
WARMUP = 0.1


def parse(arguments):
    parser = reporting.parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parsing.add_runs(parser, [0, 1, 2], METHODS)
    parser.add_argument("--shares", nargs="+", type=parsing.fraction, default=[0.5, 0.25])
    parsing.add(parser, parsing.positive, epochs=None, subset=None)
    parsing.add(parser, parsing.positive, width=64, blocks=2, mlp_width=512, length=64)
    parsing.add(parser, parsing.positive, batch_size=64)
    parser.add_argument("--data-dir", help="folder of the texts; else KERAS_XD_DATA_DIR")
    parser.add_argument("--image-dir", help="folder of tensorflow-datasets; else TFDS_DATA_DIR")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    if not all(options.shares):
        parser.error("--shares must be above 0")
    shown = ["tasks", "methods", "shares", "seeds", *NUMBERS]
    options.command = reporting.command("structured/structured.py", parser, options, shown)
    settings, key = {n: getattr(options, n) for n in NUMBERS}, ("task", "method", "share", "seed")
    return options, reporting.open_results(
        parser, options, "structured", page, settings, options.command, key=key
    )


class Data:
    """The data of a task, and its network."""

    def __init__(self, name, options):
        self.name, self.task, given = name, TASKS[name], argparse.Namespace(**vars(options))
        given.subset = options.subset or self.task.subset
        self.options, self.epochs = given, options.epochs or self.task.epochs
        (self.train, self.test), *self.sizes = self.task.load(given)
        self.ready = {}

    def network(self):
        """Return the network of dense layers."""
        return self.task.build(*self.sizes, self.options)


def kernels(model):
    """Return how many numbers are in the kernels of a network that are replaced."""
    space = keras_xd.rewrite(model, to="structured", family="dense", skip="head")
    return sum(row.parameters_before for row in space.report.rows)


def compiled(model, data, epochs, **target):
    """Return a network, or the search of one that has mixtures, compiled and ready to be fit."""
    options = data.options
    steps = epochs * math.ceil(len(data.train[0]) / options.batch_size)
    rates = schedule(data.task.learning_rate, steps, WARMUP)
    optimizers = [keras.optimizers.Adam(rates, global_clipnorm=1.0)]
    if target:
        optimizers.append(keras.optimizers.Adam(ARCHITECTURE_RATE))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return fitting.compiled(model, *optimizers, loss=loss, jit_compile=False, **target)


def begin(model, seed):
    """Set weights, random states and the optimizer of a compiled network to those of a seed."""
    keras.utils.set_random_seed(seed)
    keras_xd.reset_weights(model, seed)
    states = [v for v in model.variables if "seed_generator" in v.path]
    for number, state in enumerate(states):
        state.assign(np.random.default_rng((seed, number)).integers(2**31, size=state.shape))
    for variable in model.optimizer.variables:
        variable.assign(keras.ops.zeros_like(variable))


def fit(model, data, epochs):
    """Train a compiled network; return its losses and the seconds of CPU."""
    start, (x, y) = time.process_time(), data.train
    batch = data.options.batch_size
    history = model.fit(x, y, batch_size=batch, epochs=epochs, verbose=0).history
    return history["loss"], time.process_time() - start


def score(model, data):
    """Return accuracy on test samples, or bits for each symbol."""
    x, y = data.test
    logits = model.predict(x, batch_size=250, verbose=0).astype("float64")
    if not data.task.bits:
        return float(np.mean(logits.argmax(axis=-1) == y))
    logits -= logits.max(axis=-1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return float(-np.take_along_axis(logs, y[..., None], axis=-1).mean() / math.log(2))


def search_epochs(data):
    """Return how many epochs of a task are those of the search."""
    return math.ceil(data.epochs / 2)


def search(model, data, total, share, seed):
    """Return the network that a search leaves, with its choices, and the CPU seconds."""
    candidates = [factor * share for factor in FACTORS]
    space = keras_xd.rewrite(
        model, to="structured", family=FAMILIES, density=candidates, skip="head"
    )
    keras_xd.reset_weights(space, seed)
    others = model.count_params() - total
    target = others + share * total
    epochs = search_epochs(data)
    model = compiled(
        space,
        data,
        epochs,
        complexity_target=target,
        complexity_measure="parameters",
        complexity_weight=COMPLEXITY_WEIGHT,
    )
    _, seconds = fit(model, data, epochs)
    expected = (float(count_parameters(space)) - others) / total
    small = keras_xd.finalize(model)  # within the target
    chosen = {row.name: row.candidate for row in small.report.rows}
    return small, {"chosen": chosen, "expected": round(expected, 4)}, seconds


def run(task, method, share, seed, data):
    """Train one network; return what was measured."""
    keras.utils.set_random_seed(seed)
    network, record, seconds = data.network(), {}, []
    total, before = kernels(network), network.count_params()
    epochs = data.epochs
    model = data.ready.get((method, share))  # of another seed, whose step is traced
    if method == "searched":
        model, record, spent = search(network, data, total, float(share), seed)
        seconds.append(round(spent, 2))
        epochs = max(1, data.epochs - search_epochs(data))
        model = compiled(model, data, epochs)
    else:
        if model is None:
            model = network
            if method != "dense":
                options = {"family": method, "density": float(share)}
                model = keras_xd.rewrite(model, to="structured", skip="head", **options)
            model = data.ready[method, share] = compiled(model, data, epochs)
        begin(model, seed)
    history, spent = fit(model, data, epochs)
    return {
        "task": task,
        "method": method,
        "share": share,
        "seed": seed,
        "score": score(model, data),
        "kernels": total,
        "left": model.count_params() - (before - total),
        "parameters": model.count_params(),
        **record,
        "loss": [round(value, 5) for value in history],
        "cpu_seconds": [*seconds, round(spent, 2)],
        "command": data.options.command,
    }


def main(arguments=None):
    options, results = parse(arguments)
    data = functools.lru_cache(1)(lambda task: Data(task, options))
    shares = [f"{share:g}" for share in options.shares]

    def measured(task, *key):
        return run(task, *key, data(task))

    def line(record):
        return (
            f"{record['task']}, {record['method']}, share {record['share']}, seed "
            f"{record['seed']}: {record['score']:.4f}, {record['left']:,} of "
            f"{record['kernels']:,} numbers"
        )

    keys = [
        (task, method, share, seed)
        for task, method in itertools.product(options.tasks, options.methods)
        for share in (["1"] if method == "dense" else shares)
        for seed in options.seeds
    ]
    return reporting.run_all(results, keys, measured, line)


if __name__ == "__main__":
    main()
