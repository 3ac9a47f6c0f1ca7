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

The rates are those of the dense network, the same for every method. Each finished run is kept at
once and not repeated when the script is started again with the same settings; several processes
with different tasks, methods or seeds may share the work.
"""

import argparse
import math
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import numpy as np
import parsing
import reporting

import keras_xd
from experiments.dnarch.dnarch_training import schedule
from experiments.structured.structured_models import TASKS
from experiments.structured.structured_report import METHODS, page
from keras_xd.graph.size_counts import count_parameters

FAMILIES = ("low_rank", "monarch", "block_tensor_train", "blast")
FACTORS = (1.5, 1.0, 0.5)  # of the share, for the candidates of a search
NUMBERS = ("width", "blocks", "mlp_width", "length", "batch_size")
RATES = ("dropout", "architecture_rate", "complexity_weight")
WARMUP = 0.1


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--shares", nargs="+", type=parsing.fraction, default=[0.5, 0.25])
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0, 1, 2])
    parser.add_argument("--epochs", type=parsing.positive, help="by default those of the task")
    parser.add_argument("--subset", type=parsing.positive, help="by default that of the task")
    parser.add_argument("--width", type=parsing.positive, default=64, help="of the transformers")
    parser.add_argument("--blocks", type=parsing.positive, default=2, help="of the transformers")
    parser.add_argument("--mlp-width", type=parsing.positive, default=512)
    parser.add_argument("--length", type=parsing.positive, default=64, help="of pieces of text")
    parser.add_argument("--batch-size", type=parsing.positive, default=64)
    parser.add_argument("--dropout", type=parsing.number, default=0.1)
    parser.add_argument("--architecture-rate", type=parsing.rate, default=0.05)
    parser.add_argument("--complexity-weight", type=parsing.rate, default=10.0)
    parser.add_argument("--data-dir", help="folder of the texts; else KERAS_XD_DATA_DIR")
    parser.add_argument("--image-dir", help="folder of tensorflow-datasets; else TFDS_DATA_DIR")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    if not all(options.shares):
        parser.error("--shares must be above 0")
    names = ["epochs", "subset", *NUMBERS, *RATES]
    shown = ["tasks", "methods", "shares", "seeds", *names]
    options.command = reporting.command("structured/structured.py", parser, options, shown)
    try:
        results = reporting.Results(
            "structured",
            page,
            options.output,
            {name: getattr(options, name) for name in names},
            options.command,
            options.overwrite,
            key=("task", "method", "share", "seed"),
        )
    except ValueError as error:
        parser.error(str(error))
    return options, results


class Data:
    """The data of a task, and its network.

    Args:
        name: of the task.
        options: of the command.
    """

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
        model = keras_xd.SearchModel(model)
        optimizers.append(keras.optimizers.Adam(options.architecture_rate))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(*optimizers, loss=loss, jit_compile=False, **target)
    model.optimizer.build(model.trainable_variables)  # else TensorFlow traces the step twice
    return model


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
    """Return the network that a search leaves, with its choices, and the CPU seconds.

    Args:
        model: the network of dense layers.
        data: the `Data` of the task.
        total: numbers in the kernels that are replaced.
        share: how much of them is to be left.
        seed: that of the weights.
    """
    options = data.options
    candidates = [factor * share for factor in FACTORS]
    space = keras_xd.rewrite(model, to="structured", family=FAMILIES, share=candidates, skip="head")
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
        complexity_weight=options.complexity_weight,
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
                options = {"family": method, "share": float(share)}
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
    for task in options.tasks:
        data = Data(task, options)
        for method in options.methods:
            for share in ["1"] if method == "dense" else [f"{s:g}" for s in options.shares]:
                for seed in options.seeds:
                    key = (task, method, share, seed)
                    record = results.obtain(key, run, *key, data)
                    print(
                        f"{task}, {method}, share {share}, seed {seed}: "
                        f"{record['score']:.4f}, {record['left']:,} of {record['kernels']:,} "
                        f"numbers, {sum(record.get('cpu_seconds', [])):.0f} s",
                        flush=True,
                    )
    print(f"\n{results.paths['md'].read_text()}")
    return results


if __name__ == "__main__":
    main()
