"""Do searched operations become convolutions again? CIFAR-10 as it is, and permuted.

    python examples/experiments/xd/snapping.py
    python examples/experiments/xd/snapping.py --subset 41000 --free-epochs 6 --epochs 4

LeNet's convolutions and poolings are searched on CIFAR-10, where they are right, and on the same
images with rows and columns permuted, where they are not. The settings are the same for both:

1. The search begins as LeNet and is free for `--free-epochs`.
2. It then has to give a reason not to go back: `penalties.NearStart`, for `--epochs`.
3. If the network is then worse on validation images, by more than twice the standard error of the
   difference (of the same images, so only those count that one of the two has right), the penalty
   is taken back: the search continues from where step 1 ended, without it.
4. `keras_xd.finalize(space, snap=0.05)` puts a plain layer in the place of each operation that is
   within this distance of one; a network with such layers is trained for `--more-epochs`.

A penalty that is strong enough makes any search a convolution again; what it costs tells whether
it should. Noted are what it costs, the distances, what is snapped, and accuracy on test images,
parameters and the milliseconds of a call, which alternates with one of LeNet trained alike.

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
import timing
from datasets import images, permutation
from datasets.batches import Batches, normalize

import keras_xd

KINDS = ("plain", "permuted")
NUMBERS = ("size", "subset", "validation_subset", "test_subset", "depth", "batch_size")
EPOCHS = ("free_epochs", "epochs", "more_epochs")
RATES = ("learning_rate", "architecture_rate", "low_rate", "tolerance")
CLASSES, OPERATIONS = 10, ("convolution", "pooling")
MOST_ERRORS = 2  # standard errors, which the penalty may cost
CALLS = (32,)  # sizes of a batch


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", nargs="+", type=parsing.number, default=[5.0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0, 1, 2])
    parser.add_argument("--size", type=int, choices=[16, 32], default=32, help="of a side")
    parser.add_argument("--subset", type=parsing.positive, default=12000, help="training images")
    parser.add_argument("--validation-subset", type=parsing.positive, default=4000)
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
    """Return images by kind, averages of blocks of pixels, with their labels.

    Each kind has images for training, for validation and for tests.
    """
    numbers = options.subset, options.validation_subset, options.test_subset
    splits = images.load("cifar10", options.data_dir, max(numbers))
    side, parts = splits[0][0].shape[1] // options.size, []
    for (x, y), number in zip(splits, numbers, strict=True):
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


def right(model, part):
    """Return which images of a part are classified rightly."""
    x, y = part
    return model.predict(x, batch_size=250, verbose=0).argmax(axis=-1) == y


def accuracy(model, part):
    return float(np.mean(right(model, part)))


def difference(before, after):
    """Return by how much a second network is worse on the same images, and the standard error."""
    lost = before.astype(float) - after
    return float(lost.mean()), float(lost.std() / len(lost) ** 0.5)


def search(space, weight, data, seed, options):
    """Search freely and with the penalty, which is taken back if it costs too much."""
    rates = options.learning_rate, options.architecture_rate
    size = {"batch_size": options.batch_size}
    _, validation, test = data
    starts = values(space)
    if options.free_epochs:
        train(keras_xd.SearchModel(space), data, seed, options.free_epochs, *rates, **size)
    free, before = space.get_weights(), right(space, validation)
    record = {"free": accuracy(space, test)}
    penalize(space, starts, weight)
    train(keras_xd.SearchModel(space), data, seed + 1000, options.epochs, *rates, **size)
    lost, error = difference(before, right(space, validation))
    record |= {"penalized": accuracy(space, test), "lost": lost, "error": error}
    record["kept"] = lost <= MOST_ERRORS * error
    if not record["kept"]:
        space.set_weights(free)
        keras_xd.penalties.attach(space, None)
        train(keras_xd.SearchModel(space), data, seed + 1000, options.epochs, *rates, **size)
    return record


def run(method, kind, seed, data, options):
    """Search or train one network; return what was measured."""
    keras.utils.set_random_seed(seed)
    start, data = time.perf_counter(), data[kind]
    size = {"batch_size": options.batch_size}
    plain, record = backbone(options), {}
    if method == "backbone":
        epochs = options.free_epochs + options.epochs
        train(plain, data, seed, epochs, options.learning_rate, **size)
        found = plain
    else:
        space = keras_xd.rewrite(plain, operations=OPERATIONS, depth=options.depth)
        record = search(space, float(method), data, seed, options)
        found = keras_xd.finalize(space, snap=options.tolerance)
        rows = found.report.rows
        record |= {
            "searched": accuracy(space, data[2]),
            "distances": [round(row.distance, 4) for row in rows],
            "operations": [row.operation for row in rows],
            "snapped": len(found.report.snapped),
            "at once": accuracy(found, data[2]),
        }
        if found.report.snapped:
            train(found, data, seed + 2000, options.more_epochs, options.low_rate, **size)
    seconds = [round(time.perf_counter() - start, 2)]
    shape = (options.size, options.size, 3)
    return {
        "method": method,
        "kind": kind,
        "seed": seed,
        "score": accuracy(found, data[2]),
        **record,
        "parameters": found.count_params(),
        "milliseconds": timing.milliseconds([found, backbone(options)], shape, CALLS),
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
    lines = []
    for kind, method, own in groups(runs):
        searched = method != "backbone"

        def percent(key, own=own):
            found = {run["seed"]: 100 * run[key] for run in own if key in run}
            return reporting.cell(found, seeds, 1, missing="")

        cells = [kind, f"searched, weight {method}" if searched else "LeNet"]
        cells += [percent(key) for key in ("free", "penalized")]
        if searched:
            pairs = (f"{100 * run['lost']:.1f} ± {100 * run['error']:.1f}" for run in own)
            cells.append(", ".join(pairs))
            snapped = sum(run["snapped"] for run in own)
            cells.append(f"{sum(run['kept'] for run in own)} of {len(own)}")
            cells.append(f"{snapped} of {sum(len(run['distances']) for run in own)}")
        else:
            cells += ["", "", ""]
        cells += [percent("at once"), percent("score")]
        cells.append(f"{statistics.mean(run['parameters'] for run in own):,.0f}")
        times = [np.divide(*run["milliseconds"]["32"]) for run in own]
        cells.append(reporting.spread([float(value) for value in times], 2))
        cells.append(f"{statistics.median(sum(run['seconds']) for run in own):.0f}")
        lines.append(cells)
    head = ["images", "network", "free", "with penalty", "points lost by it", "penalty kept"]
    head += ["layers snapped", "finalized", "accuracy", "parameters", "time", "seconds"]
    return "\n".join(
        [
            "# Snapping back to convolutions: CIFAR-10, plain and permuted",
            "",
            f"Written by {reporting.commands(runs)}; {written['versions']}; "
            f"threads: {written['threads']}.",
            "",
            f"Accuracy in percent on {settings['test_subset']:,} test images of "
            f"{settings['size']} × {settings['size']} pixels; {reporting.over(seeds)}. LeNet with "
            "average pooling; its convolutions and poolings are searched for "
            f"{reporting.plural(settings['free_epochs'], 'epoch')} on {settings['subset']:,} "
            f"images (free), and for {settings['epochs']} more with a penalty "
            "(`penalties.NearStart`) of the given weight. "
            "Points lost by it: on "
            f"{settings['validation_subset']:,} validation images, with the standard error, for "
            f"each seed; if they are more than {MOST_ERRORS} standard errors, the penalty is taken "
            "back and these epochs are repeated without it. Finalized: after operations "
            f"within {settings['tolerance']} of a plain layer have become that layer. Accuracy: in "
            f"the end, after {reporting.plural(settings['more_epochs'], 'epoch')} more where a "
            "layer was snapped. Time: of a call at batch 32 over that of LeNet, whose calls "
            "alternate with it. Seconds: of search and training, the median. All runs together "
            f"took {reporting.hours(runs)}.",
            "",
            *reporting.table(head, lines),
            "## Distances from the nearest plain layer",
            "",
            *reporting.table(["images", "weight", "seed", "nearest layer, distance"], near(runs)),
            "## Settings",
            "",
            f"- K-matrices of depth {settings['depth']}. Adam; rates: weights "
            f"{settings['learning_rate']}, architecture {settings['architecture_rate']}, after "
            f"snapping {settings['low_rate']}; each falls to 0 along a cosine, in each of the "
            f"parts. Batches of {settings['batch_size']}, no augmentation. Permuted: one "
            "permutation of the rows and one of the columns, the same for all images.",
            "",
            "![Distances and accuracy](snapping_cifar10.svg)",
            "",
        ]
    )


def near(runs):
    """Return a row for each search: what its operations are nearest to."""
    rows = []
    for kind, method, own in groups(runs):
        for run in own if method != "backbone" else ():
            pairs = zip(run["operations"], run["distances"], strict=True)
            text = ", ".join(f"{name} {distance:.3f}" for name, distance in pairs)
            rows.append([kind, method, run["seed"], text])
    return rows


def draw(settings, runs, path):
    """Draw the distance of each operation, and what the penalty costs."""
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
        scores = [run["lost"] / run["error"] if run["error"] else 0.0 for run in own]
        right.plot(at, scores, label=kind, **look)
    left.axhline(settings["tolerance"], linestyle=":", color="black", linewidth=0.8)
    right.axhline(MOST_ERRORS, linestyle=":", color="black", linewidth=0.8)
    left.set(yscale="log", ylabel="relative distance from a plain layer")
    right.set(ylabel="accuracy lost, standard errors")
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
