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

Finished runs are kept in the results and not repeated; several processes may share the work.
"""

import functools
import itertools
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import numpy as np
import parsing
import reporting
from datasets import images, permutation
from datasets.batches import ImageBatches, normalize
from parsing import positive
from reporting import count, present, select, spread

import keras_xd

IMAGE_SHAPE = (32, 32, 3)
CLASSES = 10
POOLED_SIZES = (6 * 14 * 14, 16 * 5 * 5)  # what LeNet holds after its first and second pooling


def searched(depth=3):
    """Return LeNet with average pooling, convolutions and poolings with `b` and `C` searched."""
    lenet = keras_xd.models.lenet(IMAGE_SHAPE, CLASSES, pooling="average")
    options = {"depth": depth, "frequency_bias": True, "channel_gates": True}
    return keras_xd.rewrite(lenet, operations=("convolution", "pooling"), **options)


def without_convolutions(layer_class):
    """Return LeNet with a layer of the whole image in place of each convolution and its pooling."""
    inputs = keras.Input(IMAGE_SHAPE, name="image")
    x = keras.layers.Flatten(name="flatten")(inputs)
    for index, units in enumerate(POOLED_SIZES, start=1):
        x = layer_class(units, activation="relu", name=f"units{index}")(x)
    x = keras.layers.Dense(120, activation="relu", name="dense1")(x)
    x = keras.layers.Dense(84, activation="relu", name="dense2")(x)
    return keras.Model(inputs, keras.layers.Dense(CLASSES, name="classifier")(x))


METHODS = {
    "backbone": functools.partial(keras_xd.models.lenet, IMAGE_SHAPE, CLASSES),
    "xd": searched,
    "linear": functools.partial(without_convolutions, keras.layers.Dense),
    "k_layer": functools.partial(without_convolutions, keras_xd.layers.KDense),
}
KINDS = ("plain", "permuted")
NAMES = {
    "backbone": "backbone: LeNet",
    "xd": "XD: LeNet, searched",
    "linear": "linear layers",
    "k_layer": "K-layers",
}


def page(settings, runs, written):
    """Return the page of results."""
    kinds, seeds = present(runs, "kind", KINDS), sorted({run["seed"] for run in runs})
    return "\n".join(
        [
            "# LeNet on CIFAR-10, plain and permuted",
            "",
            f"Written by `{written['command']}`; {written['versions']}.",
            "",
            f"Accuracy in percent on {settings['evaluation_images']:,} test "
            f"images after {settings['epochs']} epochs on {settings['training_images']:,} training "
            f"images, the same for every method; {reporting.over(seeds)}; no model is chosen by "
            "its accuracy on these images. XD is measured after `keras_xd.finalize`. Seconds are "
            "those of the fastest epoch, because other programs ran on the machine, on "
            f"{reporting.plural(written['threads'], 'core')}; all epochs together took "
            f"{reporting.hours(runs)}.",
            "",
            *_table(runs, kinds, seeds),
            *_differences(runs, kinds),
            "## Settings",
            "",
            *(f"- {line}" for line in settings["text"]),
            "",
        ]
    )


def _accuracies(runs, **wanted):
    """Return the accuracy in percent by seed."""
    return {run["seed"]: 100 * run["accuracy"] for run in select(runs, **wanted)}


def _table(runs, kinds, seeds):
    rows = []
    for method in present(runs, "method", NAMES):
        own = select(runs, method=method)
        cells = [NAMES[method]]
        cells += [
            reporting.cell(_accuracies(own, kind=kind), seeds, 1, "not run") for kind in kinds
        ]
        cells += [f"{own[0]['parameters']:,}", f"{own[0]['architecture_parameters']:,}"]
        cells.append(f"{min(seconds for run in own for seconds in run['seconds']):.1f}")
        rows.append(cells)
    head = ["method", *kinds, "trained parameters", "of them architecture", "s / epoch"]
    return reporting.table(head, rows)


def _differences(runs, kinds):
    """Return lines on how far XD is from the backbone, seed by seed."""
    lines = []
    for kind in kinds:
        one, other = (_accuracies(runs, method=name, kind=kind) for name in ("xd", "backbone"))
        points = reporting.gains(one, other)
        if points:
            number = reporting.plural(len(points), "seed")
            lines += [f"XD minus backbone, {kind}: {spread(points, 1)} points ({number}).", ""]
    return lines


PAPER = {
    "plain": keras_xd.recipes.paper("xd", "lenet_cifar10"),
    "permuted": keras_xd.recipes.paper("xd", "lenet_permuted_cifar10"),
}
WEIGHTS_RATE, MOMENTUM, WEIGHT_DECAY, BATCH_SIZE = (
    PAPER["plain"][name] for name in ("learning_rate", "momentum", "weight_decay", "batch_size")
)
ARCHITECTURE_RATES = {kind: paper["architecture_rate"] for kind, paper in PAPER.items()}
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
        rate = ARCHITECTURE_RATES[kind]
        model = keras_xd.SearchModel(model)
        arguments["architecture_optimizer"] = keras.optimizers.Adam(schedule(rate, steps))
    model.compile(optimizer, **arguments)
    return model


def run(method, kind, seed, train, evaluation, options):
    """Train one model; return what was measured."""
    keras.utils.set_random_seed(seed)
    batches = ImageBatches(*train, options.batch_size, seed, augment=kind == "plain")
    model = compiled(method, kind, options.epochs * len(batches), options)
    clock = reporting.EpochClock()
    model.fit(batches, epochs=options.epochs, callbacks=[clock], verbose=0)
    architecture, found = [], model
    if method == "xd":
        architecture = keras_xd.architecture_variables(model)
        found = keras_xd.finalize(model)
    answers = found.predict(normalize(evaluation[0]), batch_size=250, verbose=0).argmax(axis=-1)
    return {
        "method": method,
        "kind": kind,
        "seed": seed,
        "accuracy": float(np.mean(answers == evaluation[1])),
        "parameters": count(model.trainable_variables),
        "architecture_parameters": count(architecture),
        "seconds": clock.seconds,
    }


def load_data(options, name="cifar10"):
    """Return training images and those for the evaluation, as uint8, with their labels."""
    parts = images.load(name, options.data_dir, options.subset)
    train, validation, test = [(np.round(x * 255).astype("uint8"), y) for x, y in parts]
    joined = [
        np.concatenate(pair)[: options.subset] for pair in zip(train, validation, strict=True)
    ]
    return tuple(joined), test


def describe(options, train, evaluation):
    """Return what all runs of a results file have in common."""
    rates = ", ".join(f"{rate:g} {kind}" for kind, rate in ARCHITECTURE_RATES.items())
    return {
        "epochs": options.epochs,
        "batch_size": options.batch_size,
        "training_images": len(train[0]),
        "evaluation_images": len(evaluation[0]),
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
    parser = reporting.parser(__doc__)
    parsing.add_runs(parser, [0, 1, 2], METHODS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parsing.add(parser, positive, epochs=20, batch_size=BATCH_SIZE)
    parsing.add(parser, positive, subset=(None, "images of each split"))
    parsing.add_data_folder(parser)
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    shown = ("methods", "kinds", "seeds", "epochs", "batch_size", "subset")
    command = reporting.command("xd/cifar10.py", parser, options, shown)
    try:
        train, evaluation = load_data(options)
    except ValueError as error:
        parser.error(str(error))
    settings = describe(options, train, evaluation)
    results = reporting.open_results(parser, options, "cifar10", page, settings, command)
    return options, train, evaluation, results


def main(arguments=None):
    options, *pair, results = parse(arguments)

    def measured(method, kind, seed):
        parts = pair
        if kind == "permuted":
            parts = [(permutation.permute(inputs, seed), labels) for inputs, labels in pair]
        return run(method, kind, seed, *parts, options)

    def line(record):
        found = f"{100 * record['accuracy']:.2f} %, trained in {sum(record['seconds']):.0f} s"
        return f"{record['kind']}, seed {record['seed']}, {record['method']}: {found}"

    every = itertools.product(options.kinds, options.seeds, options.methods)
    keys = [(method, kind, seed) for kind, seed, method in every]
    return reporting.run_all(results, keys, measured, line)


if __name__ == "__main__":
    main()
