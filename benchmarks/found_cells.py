"""Time of the networks of found cells beside a plain ResNet, with the errors they were trained to.

    python benchmarks/found_cells.py [--results examples/results/nos_search.json] [--rounds 8]
        [--dry-run]

Networks of all genotypes in a file of results of `examples/experiments/nos/nos.py search` are
built, of the cells and channels that they were trained with, and the ResNet of the same file. All
of them, in one process, take turns: one training step (forward, backward, SGD with momentum) and
one pass at inference, the latter also of a single image. Seconds are of the processor, all networks
bound to the same cores; of each network the median over the rounds, of a method the mean and the
standard deviation over its networks. The first round is not counted. Errors are those of the file:
nothing is trained here. The table is written to benchmarks/found_cells.md, or nowhere with
`--dry-run`.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
import tensorflow as tf
from experiments.nos.nos_report import NAMES
from experiments.nos.nos_training import METHODS

import keras_xd

RESULTS = pathlib.Path(__file__).with_suffix(".md")
ROOT = pathlib.Path(__file__).resolve().parents[1]
SEARCHED = ROOT / "examples/results/nos_search.json"
PLAIN, SIDE, CLASSES = "resnet", 32, 10
KINDS = ("training step", "inference", "one image")


def network(run, settings):
    """Return the network of one run, not trained."""
    side = SIDE // settings["pool"]
    shape = (side, side, 3)
    if run["method"] == PLAIN:
        return keras_xd.models.resnet20(shape, CLASSES, width=settings["resnet_width"])
    genotype = keras_xd.genotypes.Genotype.from_dict(run["genotype"])
    return keras_xd.models.nos_network(
        genotype, settings["cells"], settings["channels"], shape, CLASSES, auxiliary=False
    )


def functions(model, batch_size):
    """Return compiled functions of a network by their names, each without arguments."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(batch_size, *model.input_shape[1:])).astype("float32"))
    y = tf.constant(rng.integers(CLASSES, size=batch_size))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True)
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)
    def train(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        optimizer.apply(tape.gradient(value, model.trainable_weights), model.trainable_weights)
        return value

    answer = tf.function(lambda x: model(x, training=False), autograph=False)
    # Traced here, because TensorFlow warns where many functions of one name are traced by a call.
    train = train.get_concrete_function(x, y)
    whole, one = (answer.get_concrete_function(part) for part in (x, x[:1]))
    return dict(
        zip(KINDS, (lambda: train(x, y), lambda: whole(x), lambda: one(x[:1])), strict=True)
    )


def medians(calls, rounds):
    """Return the median seconds of the processor of each call; the first round is not counted."""
    found = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            start = time.process_time()
            keras.ops.convert_to_numpy(call())
            if turn:
                found[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in found.items()}


def spread(values, digits):
    """Return the mean and the deviation of numbers, as text."""
    mean = f"{statistics.mean(values):,.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def rows_of(runs, settings, options):
    """Return the rows of the table."""
    calls, counts = {}, {}
    for run in runs:
        key = run["method"], run["seed"]
        if run["method"] == PLAIN and any(method == PLAIN for method, _ in counts):
            continue  # the same network again
        model = network(run, settings)
        counts[key] = keras_xd.complexity(model)
        for kind, call in functions(model, options.batch_size).items():
            calls[(*key, kind)] = call
    times = medians(calls, options.rounds)
    (plain,) = (key for key in counts if key[0] == PLAIN)
    rows = []
    for method in METHODS:
        keys = [key for key in counts if key[0] == method]
        own = [run for run in runs if run["method"] == method]
        if not keys:
            continue
        row = [
            NAMES[method],
            str(len(own)),
            spread([100 - 100 * run["accuracy"] for run in own], 2),
        ]
        row.append(f"{statistics.mean(run['parameters'] for run in own):,.0f}")
        row.append(spread([counts[key] / counts[plain] for key in keys], 2))
        for kind in KINDS:
            ratios = [times[(*key, kind)] / times[(*plain, kind)] for key in keys]
            row.append(spread(ratios, 2))
        rows.append("| " + " | ".join(row) + " |")
    milliseconds = ", ".join(f"{kind} {1e3 * times[(*plain, kind)]:.1f}" for kind in KINDS)
    return rows, f"Milliseconds of the plain network: {milliseconds}."


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=SEARCHED, help="JSON of a search")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seeds", type=int, nargs="+", help="all by default")
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(arguments)
    found = json.loads(options.results.read_text(encoding="utf-8"))
    runs = [x for x in found["runs"] if options.seeds is None or x["seed"] in options.seeds]
    if not any(run["method"] == PLAIN for run in runs):
        parser.error(f"there must be a run of the method '{PLAIN}' in {options.results}")
    rows, note = rows_of(runs, found["settings"], options)
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    cores = len(os.sched_getaffinity(0))
    lines = [
        "# Time of found cells",
        "",
        f"Written by `python benchmarks/found_cells.py`; {versions}, "
        f"{cores} {'core' if cores == 1 else 'cores'}, float32, without XLA, batches of "
        f"{options.batch_size}, medians of {options.rounds} rounds in one process. Multiply–adds "
        "and times are ratios to the plain network, mean ± standard deviation over the networks of "
        "a method; errors, in percent, are those of the runs "
        "([page](../examples/results/nos_search.md)).",
        "",
        f"| method | networks | error | parameters | multiply–adds | {' | '.join(KINDS)} |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        note,
    ]
    print("\n".join(lines))
    if not options.dry_run:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


if __name__ == "__main__":
    main()
