"""Trained transformers brought to half of their multiply–adds in several ways.

    python examples/experiments/structured/small_transformers.py
    python examples/experiments/structured/small_transformers.py --tasks sst2 --methods taylor both

Networks of the sizes of BERT-tiny (SST-2) and of DeiT-tiny with two blocks (CIFAR-10, averaged to
16 × 16 pixels) are trained once for each seed (`given`) and made smaller:

- `taylor`, `magnitude`: `keras_xd.compress` cuts heads, hidden size and feed-forward, by the loss
  of training samples or by the weights alone;
- `low_rank`, `low_rank_inputs`, `block_tensor_train_inputs`: `rewrite(to="structured")` of all
  dense kernels but the last, by the weights alone or by the outputs for training samples;
- `both`: half of the way by `compress`, the rest by low rank;
- `narrow`: a transformer of a smaller width, trained from random weights for all epochs.

All but `narrow` are trained on as `compress` does it, on the labels and on the outputs of the given
network. Finished runs are kept in the results and not repeated.
"""

import argparse
import dataclasses
import functools
import itertools
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import numpy as np
import parsing
import reporting
import timing

import keras_xd
from experiments.structured import structured
from keras_xd.compressing.training import Student

# Sizes, samples, epochs of the given network and of those made of it, and the rates.
NETWORKS = {
    "sst2": ({"width": 128, "heads": 2, "blocks": 2, "post_norm": True}, 3500, 3, 1, 1e-3, 3e-4),
    "vit": ({"width": 192, "heads": 3, "blocks": 2}, 2500, 8, 2, 1e-3, 3e-4),
}
TITLES = {"sst2": "SST-2, BERT-like", "vit": "CIFAR-10, ViT-like"}
METHODS = {
    "given": "as it is",
    "taylor": "`compress`",
    "magnitude": "`compress`, by weights alone",
    "low_rank": "low rank",
    "low_rank_inputs": "low rank, by outputs",
    "block_tensor_train_inputs": "block tensor train, by outputs",
    "both": "`compress`, then low rank",
    "narrow": "narrow, from scratch",
}
DISTILLATION, TEMPERATURE, SAMPLES = 0.5, 4.0, 256
PER_TASK = ("subset", "epochs", "more_epochs")
NUMBERS = ("share", *PER_TASK, "batch_size")


def page(settings, runs, written):
    """Return the page of results."""
    seeds = sorted({run["seed"] for run in runs})
    head = ["network", "accuracy, %", "lost", "before training", "multiply–adds", "parameters"]
    parts = [
        reporting.written_by(reporting.commands(runs), written),
        f"Trained transformers at {settings['share']} of their multiply–adds; accuracy on test "
        f"samples, {reporting.over(seeds)}. Lost: points below the given network of the seed. "
        "Before training: accuracy of what is left as it is cut. By outputs: the structured "
        f"kernels are nearest in the outputs for {SAMPLES} training samples. Time: of a call of 32 "
        "samples, as a part of that of the given network, whose calls alternate with it. Minutes: "
        "of CPU, without the training of the given network.",
    ]
    for task in (task for task in NETWORKS if reporting.select(runs, task=task)):
        lines, left = [], []
        for method, name in METHODS.items():
            own = reporting.select(runs, task=task, method=method)
            if not own:
                continue
            columns = [[100 * run["score"] for run in own]]
            columns.append([100 * (run["given"] - run["score"]) for run in own])
            columns.append([100 * run["at_once"] for run in own])
            cells = [name, *(reporting.spread(values, 1) for values in columns)]
            for key in ("multiply_adds", "parameters"):
                cells.append(f"{statistics.mean(run[key] for run in own):,.0f}")
            cells.append(reporting.spread([np.divide(*run["milliseconds"]) for run in own], 2))
            cells.append(f"{statistics.mean(run['seconds'] for run in own) / 60:.1f}")
            lines.append(cells)
            if method in ("taylor", "magnitude", "narrow"):
                left += [[name, run["seed"], *map(str, run["left"])] for run in own]
        parts += [
            f"## {TITLES[task]}",
            reporting.table([*head, "time, batch 32", "minutes"], lines),
            "Sizes of the blocks that are left:",
            reporting.table(["network", "seed", "hidden", "heads", "feed-forward"], left),
        ]
        sizes, *numbers, rate, later_rate = NETWORKS[task]
        subset, epochs, more = (
            settings[key] or n for key, n in zip(PER_TASK, numbers, strict=True)
        )
        parts.append(
            f"{sizes['blocks']} blocks of width {sizes['width']}, {sizes['heads']} heads. At most "
            f"{subset:,} samples; {epochs} epochs at rate {rate}, {more} more at {later_rate}: "
            "sizes and epochs for the time of a core, nothing chosen by a score. Adam, norm of all "
            f"gradients at most 1, batches of {settings['batch_size']}; distillation "
            f"{DISTILLATION}, temperature {TEMPERATURE}."
        )
    return reporting.markdown("Transformers made smaller", *parts)


def parse(arguments):
    parser = reporting.parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parsing.add_runs(parser, [0, 1, 2], METHODS)
    parsing.add(parser, parsing.fraction, share=0.5)
    parsing.add(parser, parsing.positive, epochs=None, more_epochs=None, subset=None, batch_size=64)
    parser.add_argument("--data-dir", help="folder of the texts; else KERAS_XD_DATA_DIR")
    parser.add_argument("--image-dir", help="folder of tensorflow-datasets; else TFDS_DATA_DIR")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    shown = ["tasks", "methods", "seeds", *NUMBERS]
    script = "structured/small_transformers.py"
    options.command = reporting.command(script, parser, options, shown)
    settings = {name: getattr(options, name) for name in NUMBERS}
    return options, reporting.open_results(
        *(parser, options, "small_transformers", page, settings, options.command),
        key=("task", "method", "seed"),
    )


class Given(structured.Data):
    """The data of a task and the network that is trained on it with a seed."""

    def __init__(self, name, seed, options):
        sizes, *numbers, self.rate, self.later_rate = NETWORKS[name]
        given = {key: getattr(options, key) or n for key, n in zip(PER_TASK, numbers, strict=True)}
        self.more_epochs = given["more_epochs"]
        super().__init__(name, argparse.Namespace(**{**vars(options), **sizes, **given}))
        keras.utils.set_random_seed(seed)
        self.model = self.fit(self.network(), self.epochs, self.rate)
        self.accuracy = structured.score(self.model, self)
        self.cost = keras_xd.complexity(self.model)

    def fit(self, model, epochs, rate):
        self.task = dataclasses.replace(self.task, learning_rate=rate)
        model = structured.compiled(model, self, epochs)
        structured.fit(model, self, epochs)
        return model

    def fit_on(self, small):
        """Train what was made of the network on labels and on the outputs of the network."""
        student = Student(small, self.model, DISTILLATION, TEMPERATURE, "logits")
        self.fit(student, self.more_epochs, self.later_rate)

    def narrow(self, cost):
        """Return the widest network of random weights within a cost."""
        options = vars(self.options)
        for width in range(self.options.width - self.options.heads, 0, -self.options.heads):
            model = self.task.build(*self.sizes, argparse.Namespace(**{**options, "width": width}))
            if keras_xd.complexity(model) <= cost:
                break
        return model

    def cut(self, share, importance="taylor"):
        """Return what `compress` leaves."""
        target = {"multiply_adds": share}
        return keras_xd.compress(
            self.model,
            *self.train,
            target=target,
            importance=importance,
            samples=SAMPLES,
            epochs=0,
            verbose=0,
        ).model


def rewritten(model, family, cost, inputs=None):
    """Return a network with structured kernels of the density that brings it to a cost."""
    tokens = model.get_layer("positions").output.shape[1]  # each of which passes all kernels
    replaced = tokens * structured.kernels(model)
    return keras_xd.rewrite(
        model,
        to="structured",
        family=family,
        density=1 - (keras_xd.complexity(model) - cost) / replaced,
        calibration_data=inputs,
        skip="head",
    )


def run(method, seed, given, options):
    """Make one network; return what was measured."""
    keras.utils.set_random_seed(seed)
    start, cost = time.process_time(), options.share * given.cost
    family, by_outputs, _ = method.partition("_inputs")
    inputs = given.train[0][:SAMPLES]
    if method == "given":
        small = given.model
    elif method == "narrow":
        small = given.narrow(cost)
    elif method == "both":
        small = rewritten(given.cut(options.share**0.5), "low_rank", cost, inputs)
    elif method in ("taylor", "magnitude"):
        small = given.cut(options.share, method)
    else:
        small = rewritten(given.model, family, cost, inputs if by_outputs else None)
    at_once = structured.score(small, given)
    if method == "narrow":
        given.fit(small, given.epochs + given.more_epochs, given.rate)
    elif method != "given":
        given.fit_on(small)
    seconds, shape = time.process_time() - start, given.sizes[0]
    return {
        "task": given.name,
        "method": method,
        "seed": seed,
        "score": structured.score(small, given),
        "given": given.accuracy,
        "at_once": at_once,
        "multiply_adds": float(keras_xd.complexity(small)),
        "parameters": small.count_params(),
        "left": left(small),
        "milliseconds": timing.milliseconds([small, given.model], shape, (32,))["32"],
        "seconds": round(seconds, 1),
        "command": options.command,
    }


def left(model):
    """Return the hidden size, and the heads and the feed-forward of the blocks that are left."""
    heads = [x.num_heads for x in model.layers if isinstance(x, keras.layers.MultiHeadAttention)]
    wide = [x.output.shape[-1] for x in model.layers if x.name.startswith("wide")]
    return model.get_layer("head").input.shape[-1], heads, wide


def main(arguments=None):
    options, results = parse(arguments)
    given = functools.lru_cache(1)(lambda task, seed: Given(task, seed, options))

    def measured(task, method, seed):
        return run(method, seed, given(task, seed), options)

    def line(record):
        return (
            f"{record['task']}, {record['method']}, seed {record['seed']}: "
            f"{100 * record['at_once']:.2f} → {100 * record['score']:.2f} %, "
            f"{record['multiply_adds']:,.0f} multiply–adds, "
            f"{record['seconds']} s"
        )

    tasks = itertools.product(options.seeds, options.tasks, options.methods)
    keys = [(task, method, seed) for seed, task, method in tasks]
    return reporting.run_all(results, keys, measured, line)


if __name__ == "__main__":
    main()
