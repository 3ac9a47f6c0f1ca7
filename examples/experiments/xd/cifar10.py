"""Compare LeNet, its search space of XD-operations and two baselines on CIFAR-10.

    python examples/experiments/xd/cifar10.py
    python examples/experiments/xd/cifar10.py --methods backbone xd --kinds permuted --seeds 0 \\
        --epochs 5

Two kinds of data: the images as they are, and with their rows and their columns permuted, in the
same way for all images. Convolutions are wrong for the second; an operation that undoes the
permutation is in the search space. Every method trains for the same number of epochs:

- `backbone`: LeNet;
- `xd`: LeNet with average pooling, its convolutions and poolings made searchable;
- `linear`: a dense layer in place of each convolution with its pooling, as in "Searching for
  Convolutions and a More Ambitious NAS"; it has as many units as these have outputs;
- `k_layer`: a K-matrix (`keras_xd.layers.KDense`) in place of each of these dense layers.

Each finished run is kept in examples/results/cifar10.json at once, and not repeated when the script
is started again with the same settings; cifar10.md holds the table of the
runs finished so far.
"""

import argparse
import itertools
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
from datasets import images, permutation
from datasets.batches import ImageBatches, normalize
from parsing import positive
from reporting import count

import keras_xd
from experiments.xd import cifar10_report
from experiments.xd.cifar10_models import METHODS

KINDS = cifar10_report.KINDS
WEIGHTS_RATE, MOMENTUM, WEIGHT_DECAY = 1e-2, 0.9, 1e-4
ARCHITECTURE_RATES = {"plain": 1e-4, "permuted": 1e-3}
XLA = ("k_layer",)  # on a CPU the steps of the other methods are slower with XLA than without


def schedule(rate, steps):
    """Return the rate, halved after half of the steps and a tenth after three quarters."""
    borders, rates = [steps // 2, steps * 3 // 4], [rate, rate / 2, rate / 10]
    return keras.optimizers.schedules.PiecewiseConstantDecay(borders, rates)


def compiled(method, kind, steps, options):
    """Return the model of a method, ready to train."""
    # Keras' weight decay passes by the momentum, which multiplies by 1 / (1 - momentum).
    optimizer = keras.optimizers.SGD(
        schedule(WEIGHTS_RATE, steps),
        momentum=MOMENTUM,
        weight_decay=WEIGHT_DECAY / (1 - MOMENTUM),
    )
    arguments = {
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "metrics": ["accuracy"],
        "jit_compile": method in XLA,
    }
    model = METHODS[method]()
    if method == "xd":
        rate = options.architecture_rate or ARCHITECTURE_RATES[kind]
        model = keras_xd.SearchModel(model)
        arguments["architecture_optimizer"] = keras.optimizers.Adam(schedule(rate, steps))
    model.compile(optimizer, **arguments)
    return model


def run(method, kind, seed, train, evaluation, options):
    """Train one model; return what was measured."""
    keras.utils.set_random_seed(seed)
    batches = ImageBatches(*train, options.batch_size, seed, augment=kind == "plain")
    evaluation = normalize(evaluation[0]), evaluation[1]
    model = compiled(method, kind, options.epochs * len(batches), options)
    clock = EpochClock()
    history = model.fit(
        batches,
        epochs=options.epochs,
        validation_data=evaluation,
        validation_batch_size=250,
        callbacks=[clock],
        verbose=0,
    ).history
    record = {"method": method, "kind": kind, "seed": seed}
    architecture, found = [], model
    if method == "xd":
        architecture = keras_xd.architecture_variables(model)
        found = keras_xd.finalize(model)
        record["distances"] = distances(model)
    answers = found.predict(evaluation[0], batch_size=250, verbose=0).argmax(axis=-1)
    return {
        **record,
        "accuracy": float(np.mean(answers == evaluation[1])),
        "parameters": count(model.trainable_variables),
        "architecture_parameters": count(architecture),
        "seconds": [round(seconds, 2) for seconds in clock.seconds],
        "curves": {
            name: [round(float(value), 5) for value in history[key]]
            for name, key in (
                ("training_loss", "loss"),
                ("training_accuracy", "accuracy"),
                ("evaluation_loss", "val_loss"),
                ("evaluation_accuracy", "val_accuracy"),
            )
        },
    }


def distances(search):
    """Return the relative distance of `K`, `L` and `M` of each operation from its start."""
    return {
        layer.name: {
            matrix: round(layer.describe()[f"distance_from_start/{matrix}"], 4) for matrix in "KLM"
        }
        for layer in search.model.layers
        if isinstance(layer, keras_xd.layers.SearchableLayer)
    }


class EpochClock(keras.callbacks.Callback):
    """Notes the seconds that the training steps of every epoch take, without the evaluation."""

    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_test_begin(self, logs=None):
        self.seconds.append(time.perf_counter() - self.start)


def load_data(options, name="cifar10"):
    """Return training images and those for the evaluation, as uint8, with their labels."""
    parts = images.load(name, options.data_dir, options.subset)
    train, validation, test = [(np.round(x * 255).astype("uint8"), y) for x, y in parts]
    if options.evaluate_on == "validation":
        return train, validation
    joined = [
        np.concatenate(pair)[: options.subset] for pair in zip(train, validation, strict=True)
    ]
    return tuple(joined), test


def describe(options, train, evaluation):
    """Return what all runs of a results file have in common."""
    rates = options.architecture_rate or ARCHITECTURE_RATES
    if isinstance(rates, dict):
        rates = ", ".join(f"{rate:g} {kind}" for kind, rate in rates.items())
    return {
        "epochs": options.epochs,
        "batch_size": options.batch_size,
        "training_images": len(train[0]),
        "evaluation_images": len(evaluation[0]),
        "evaluate_on": options.evaluate_on,
        "text": [
            f"Weights: SGD, momentum {MOMENTUM}, rate {WEIGHTS_RATE}, halved after half of the "
            f"epochs and a tenth after three quarters; weight decay {WEIGHT_DECAY:g}; batches of "
            f"{options.batch_size}.",
            f"Architecture: Adam, rate {rates}, the same schedule, no weight decay, no warm-up; "
            "K-matrices of depth 3, frequency bias and channel gates in both convolutions and both "
            "poolings.",
            "Images: ImageNet's mean and deviation taken out; random crops and flips of plain "
            "images only; permuted: one permutation of the rows and one of the columns, drawn from "
            "the seed.",
            "Linear layers: 1,176 and 400 units with ReLU in place of the two convolutions with "
            "their poolings, then LeNet's three dense layers. K-layers: `KDense`, depth 2, of as "
            "many units.",
        ],
    }


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0, 1, 2])
    parser.add_argument("--epochs", type=positive, default=20)
    parser.add_argument("--batch-size", type=positive, default=128)
    parser.add_argument("--subset", type=positive, help="use at most so many images of each split")
    parser.add_argument(
        "--architecture-rate", type=parsing.rate, help="instead of 1e-4 plain and 1e-3"
    )
    parser.add_argument("--evaluate-on", choices=["test", "validation"], default="test")
    parsing.add_data_folder(parser)
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    shown = ("methods", "kinds", "seeds", "epochs", "batch_size", "subset", "architecture_rate")
    command = reporting.command("xd/cifar10.py", parser, options, (*shown, "evaluate_on"))
    try:
        train, evaluation = load_data(options)
        results = reporting.Results(
            "cifar10",
            cifar10_report.page,
            options.output,
            describe(options, train, evaluation),
            command,
            options.overwrite,
        )
    except ValueError as error:
        parser.error(str(error))
    return options, train, evaluation, results


def main(arguments=None):
    options, train, evaluation, results = parse(arguments)
    for kind, seed in itertools.product(options.kinds, options.seeds):
        pair = [train, evaluation]
        if kind == "permuted":
            pair = [(permutation.permute(inputs, seed), labels) for inputs, labels in pair]
        for method in options.methods:
            key = (method, kind, seed)
            record = results.obtain(key, run, *key, *pair, options)
            print(
                f"{kind}, seed {seed}, {method}: {100 * record['accuracy']:.2f} %, trained in "
                f"{sum(record['seconds']):.0f} s",
                flush=True,
            )
    print(f"\n{results.paths['md'].read_text()}")
    return results


if __name__ == "__main__":
    main()
