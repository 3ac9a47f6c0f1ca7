"""Do searched operations become convolutions again? CIFAR-10 as it is, and permuted.

    python examples/experiments/xd/snapping.py
    python examples/experiments/xd/snapping.py --subset 45000 --free-epochs 6 --epochs 4

LeNet's convolutions and poolings are searched on CIFAR-10, where they are right, and on the same
images with rows and columns permuted, where they are not. The settings are the same for both: the
search begins as LeNet, is free for `--free-epochs`, and then has to give a reason not to go back,
by `penalties.NearStart` of each of `--weights`. Then `keras_xd.finalize(space, snap=0.05)` puts a
plain layer in the place of each operation that is within this distance of one. Noted are the
distances, what is snapped, and the accuracy of LeNet trained alike, of the search without and with
the penalty, right after snapping, and after `--more-epochs` of training the snapped network; and
whether snapping is free: whether that last accuracy is at most one point below the search's before
the penalty. A penalty that is strong enough makes any search a convolution again; what it costs
tells whether it should.

Each finished run is kept at once and not repeated when the script is started again with the same
settings; several processes with different weights or seeds may share the work.
"""

import argparse
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
from datasets import images, permutation
from datasets.batches import Batches, normalize

import keras_xd

KINDS = ("plain", "permuted")
NUMBERS = ("size", "subset", "test_subset", "depth", "batch_size")
EPOCHS = ("free_epochs", "epochs", "more_epochs")
RATES = ("learning_rate", "architecture_rate", "low_rate", "tolerance")
CLASSES, OPERATIONS = 10, ("convolution", "pooling")
FREE = 0.01  # of accuracy, which snapping may cost


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", nargs="+", type=parsing.number, default=[0.0, 0.5])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0, 1, 2])
    parser.add_argument("--size", type=int, choices=[16, 32], default=32, help="of a side")
    parser.add_argument("--subset", type=parsing.positive, default=12000, help="training images")
    parser.add_argument("--test-subset", type=parsing.positive, default=4000, help="test images")
    parser.add_argument("--depth", type=parsing.positive, default=3, help="of the K-matrices")
    parser.add_argument("--free-epochs", type=parsing.whole, default=3, help="without the penalty")
    parser.add_argument("--epochs", type=parsing.positive, default=2, help="with the penalty")
    parser.add_argument("--more-epochs", type=parsing.positive, default=1)
    parser.add_argument("--batch-size", type=parsing.positive, default=128)
    parser.add_argument("--learning-rate", type=parsing.rate, default=2e-3)
    parser.add_argument("--architecture-rate", type=parsing.rate, default=1e-3)
    parser.add_argument("--low-rate", type=parsing.rate, default=1e-3, help="of further training")
    parser.add_argument("--tolerance", type=parsing.rate, default=0.05)
    parsing.add_data_folder(parser)
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    names = [*NUMBERS, *EPOCHS, *RATES]
    shown = ["weights", "kinds", "seeds", *names]
    options.command = reporting.command("xd/snapping.py", parser, options, shown)
    settings = {name: getattr(options, name) for name in names}
    try:
        results = reporting.Results(
            "snapping_cifar10",
            page,
            draw,
            options.output,
            settings,
            options.command,
            options.overwrite,
        )
    except ValueError as error:
        parser.error(str(error))
    return options, results


def load(options):
    """Return training and test images by kind, averages of blocks of pixels, and their labels."""
    most = max(options.subset, options.test_subset)
    train, _, test = images.load("cifar10", options.data_dir, most)
    side, parts = train[0].shape[1] // options.size, []
    for (x, y), number in ((train, options.subset), (test, options.test_subset)):
        x = images.block_means(x[:number], side)
        parts.append((normalize(np.round(255 * x).astype("uint8")), y[:number]))
    return {"plain": parts, "permuted": [(permutation.permute(x, 0), y) for x, y in parts]}


def backbone(options):
    shape = (options.size, options.size, 3)
    return keras_xd.models.lenet(shape, CLASSES, pooling="average")


def train(model, data, seed, epochs, *rates, batch_size):
    """Train a model, or search it; each rate falls to 0 along a cosine."""
    batches = Batches(*data[0], batch_size=batch_size, seed=seed)
    steps = epochs * len(batches)
    optimizers = [
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(rate, steps)) for rate in rates
    ]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(*optimizers, loss=loss, jit_compile=False)
    model.fit(batches, epochs=epochs, shuffle=False, verbose=0)


def values(space):
    return [keras.ops.convert_to_numpy(v) for v in keras_xd.architecture_variables(space)]


def penalize(space, starts, weight):
    """Attach a penalty on the distance from where the search began, not from where it is."""
    found, variables = values(space), keras_xd.architecture_variables(space)
    for variable, start in zip(variables, starts, strict=True):
        variable.assign(start)
    keras_xd.penalties.attach(space, keras_xd.penalties.NearStart(weight))
    for variable, value in zip(variables, found, strict=True):
        variable.assign(value)


def accuracy(model, data):
    x, y = data[1]
    return float(np.mean(model.predict(x, batch_size=250, verbose=0).argmax(axis=-1) == y))


def run(method, kind, seed, data, options):
    """Search or train one network; return what was measured."""
    keras.utils.set_random_seed(seed)
    start, data = time.perf_counter(), data[kind]
    size = {"batch_size": options.batch_size}
    model, record = backbone(options), {}
    rates = options.learning_rate, options.architecture_rate
    if method == "backbone":
        train(model, data, seed, options.free_epochs + options.epochs, rates[0], **size)
        record["score"] = accuracy(model, data)
    else:
        space = keras_xd.rewrite(model, operations=OPERATIONS, depth=options.depth)
        starts = values(space)
        if options.free_epochs:
            train(keras_xd.SearchModel(space), data, seed, options.free_epochs, *rates, **size)
        record["free"] = accuracy(space, data)
        penalize(space, starts, float(method))
        train(keras_xd.SearchModel(space), data, seed + 1000, options.epochs, *rates, **size)
        snapped = keras_xd.finalize(space, snap=options.tolerance)
        record |= {
            "score": accuracy(space, data),
            "distances": [round(row.distance, 4) for row in snapped.report.rows],
            "operations": [row.operation for row in snapped.report.rows],
            "snapped": len(snapped.report.snapped),
            "at once": accuracy(snapped, data),
        }
        if snapped.report.snapped:
            train(snapped, data, seed + 2000, options.more_epochs, options.low_rate, **size)
            record["trained on"] = accuracy(snapped, data)
    seconds = [round(time.perf_counter() - start, 2)]
    return {
        "method": method,
        "kind": kind,
        "seed": seed,
        **record,
        "seconds": seconds,
        "command": options.command,
    }


# Page and picture


def groups(runs):
    """Return the runs of each kind and method, in the order of the table."""
    methods = sorted({run["method"] for run in runs} - {"backbone"}, key=float)
    for kind, method in itertools.product(KINDS, ["backbone", *methods]):
        own = reporting.select(runs, kind=kind, method=method)
        if own:
            yield kind, method, own


def page(settings, runs, written):
    """Return the page of results."""
    seeds = sorted({run["seed"] for run in runs})
    rows = []
    for kind, method, own in groups(runs):
        name = "convolutions" if method == "backbone" else f"searched, weight {method}"
        cells = [kind, name]
        for key in ("free", "score", "at once", "trained on"):
            found = {run["seed"]: 100 * run[key] for run in own if key in run}
            cells.append(reporting.cell(found, seeds, 1, missing=""))
        if method == "backbone":
            rows.append([*cells, "", "", ""])
            continue
        count = sum(run["snapped"] for run in own)
        cells.append(f"{count} of {sum(len(run['distances']) for run in own)}")
        ends = [run for run in own if run["snapped"]]
        free = sum(run["trained on"] >= run["free"] - FREE for run in ends)
        cells.append(f"{free} of {reporting.plural(len(ends), 'seed')}" if ends else "")
        means = (statistics.mean(x) for x in zip(*(r["distances"] for r in own), strict=True))
        rows.append([*cells, ", ".join(f"{value:.3f}" for value in means)])
    head = ["images", "network", "free", "accuracy", "snapped", "trained on", "layers snapped"]
    head += ["at no cost", "distances"]
    nearest = sorted({name for run in runs for name in run.get("operations", ())})
    return "\n".join(
        [
            "# Snapping back to convolutions: CIFAR-10, plain and permuted",
            "",
            f"Written by {reporting.commands(runs)}; {written['versions']}; "
            f"threads: {written['threads']}.",
            "",
            f"Accuracy in percent on {settings['test_subset']:,} test images of "
            f"{settings['size']} × {settings['size']} pixels after "
            f"{settings['free_epochs'] + settings['epochs']} epochs on {settings['subset']:,} "
            f"training images; {reporting.over(seeds)}. LeNet with average pooling; its "
            "convolutions and poolings searched, in the last "
            f"{settings['epochs']} epochs with a penalty (`penalties.NearStart`) of the given "
            "weight. Free: accuracy before the penalty. Snapped: accuracy right after operations "
            f"within {settings['tolerance']} of a plain layer have become that layer; trained on: "
            f"after {reporting.plural(settings['more_epochs'], 'more epoch')}, where there are "
            f"such. At no cost: that accuracy is at most {100 * FREE:g} point below the one before "
            "the penalty, which says whether snapping is right. Distances: of the first to the "
            "last operation from the nearest plain layer, "
            f"means over the seeds. Nearest layers: {', '.join(nearest)}. All runs together took "
            f"{reporting.hours(runs)}.",
            "",
            *reporting.table(head, rows),
            "## Settings",
            "",
            f"- K-matrices of depth {settings['depth']}. Adam; rates: weights "
            f"{settings['learning_rate']}, architecture {settings['architecture_rate']}, after "
            f"snapping {settings['low_rate']}; each falls to 0 along a cosine, in each of the two "
            f"parts. Batches of {settings['batch_size']}, no augmentation. Permuted: one "
            "permutation of the rows and one of the columns, the same for all images.",
            "",
            "![Distances and accuracy](snapping_cifar10.svg)",
            "",
        ]
    )


def draw(settings, runs, path):
    """Draw the distance of each operation, and the accuracy before and after snapping."""
    figure, axes = reporting.panels(7, 2.6, columns=2)
    left, right = axes[0]
    searched = [run for run in runs if run["method"] != "backbone"]
    names = sorted({run["method"] for run in searched}, key=float)
    for number, kind in enumerate(KINDS):
        own = reporting.select(searched, kind=kind)
        look = {**reporting.style.curve(number), "linestyle": "", "marker": "o", "markersize": 3}
        at = [names.index(run["method"]) + 0.2 * (number - 0.5) for run in own]
        left.plot(
            [x for x, run in zip(at, own, strict=True) for _ in run["distances"]],
            [max(value, 1e-4) for run in own for value in run["distances"]],
            label=kind,
            **look,
        )
        right.plot(at, [100 * run["score"] for run in own], label=f"{kind}: searched", **look)
        look |= {"marker": "x"}
        right.plot(at, [100 * run["at once"] for run in own], label=f"{kind}: snapped", **look)
    left.axhline(settings["tolerance"], linestyle=":", color="black", linewidth=0.8)
    left.set(yscale="log", ylabel="relative distance from a plain layer")
    right.set(ylabel="test accuracy, percent")
    for panel in (left, right):
        panel.set_xticks(range(len(names)), names)
        panel.set(xlabel="weight of the penalty")
        panel.legend()
    figure.savefig(path)


def main(arguments=None):
    options, results = parse(arguments)
    data = load(options)
    methods = ["backbone", *(f"{weight:g}" for weight in options.weights)]
    for seed, method, kind in itertools.product(options.seeds, methods, options.kinds):
        record = results.obtain((method, kind, seed), run, method, kind, seed, data, options)
        print(
            f"{kind}, {method}, seed {seed}: accuracy {100 * record['score']:.1f} %, "
            f"distances {record.get('distances', '–')}",
            flush=True,
        )
    print(f"\n{results.paths['md'].read_text()}")
    return results


if __name__ == "__main__":
    main()
