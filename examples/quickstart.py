"""Search the operations of a small convolutional network, on digits with and without their order.

    python examples/quickstart.py
    python examples/quickstart.py --seeds 3
    python examples/quickstart.py --seeds 3 --split validation

Images whose rows and columns are permuted, all in the same way, hold the same information as
before, but a convolution is the wrong operation for them. The script turns a backbone CNN into a
search space that computes the same function, searches, and trains the backbone for comparison,
from the same initial weights, for as many epochs, with the same optimizer of the weights. A dense
network with about as many parameters as the search is what an expert who knows of the permutation
would take. All are exported; all accuracies are those of the exported models. Settings were chosen
on the validation images, never on the test images; the dense network has those of the backbone.
"""

import argparse
import datetime
import itertools
import json
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import fitting
import keras
import numpy as np
import parsing
import reporting
import tensorflow as tf
import timing
from datasets import digits, permutation
from datasets.batches import Batches
from parsing import positive

import keras_xd
from keras_xd.visualization import plot_operators, style

CLASSES, FILTERS = 10, 8
NAMES = ("backbone", "dense", "search")
KINDS = ("plain", "permuted")
WEIGHTS_RATE, ARCHITECTURE_RATE = 3e-2, 3e-3
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def search_operations(backbone, train, weights_optimizer, architecture_optimizer, path, **fit):
    """Rewrite, search, finalize, export: the road that this package is made for."""
    space = keras_xd.rewrite(backbone, to="xd", depth=1)

    search = keras_xd.SearchModel(space)
    search.compile(
        optimizer=weights_optimizer,
        architecture_optimizer=architecture_optimizer,
        loss=LOSS,
        metrics=["accuracy"],
    )
    search.fit(train, **fit)

    keras_xd.finalize(search).export(path, verbose=False)
    return search


def train_plain(model, train, optimizer, path, **fit):
    """Train and export a network as it is, for comparison."""
    fitting.compiled(model, optimizer, loss=LOSS, metrics=[fitting.accuracy_metric()])
    model.fit(train, **fit)
    model.export(path, verbose=False)
    return model


def make_backbone(input_shape, filters):
    """Return a CNN of two 3 × 3 convolutions; its batch statistics settle in a short training."""
    layers = [keras.Input(input_shape, name="image")]
    for index in (1, 2):
        layers += [
            keras.layers.Conv2D(filters, 3, padding="same", name=f"conv{index}"),
            keras.layers.BatchNormalization(momentum=0.8, name=f"normalization{index}"),
            keras.layers.ReLU(name=f"relu{index}"),
        ]
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(CLASSES, name="logits")]
    return keras.Sequential(layers, name="backbone")


def make_dense(input_shape, filters):
    """Return a dense network with about as many parameters as the search of 8 × 8 images."""
    layers = [
        keras.Input(input_shape, name="image"),
        keras.layers.Flatten(),
        keras.layers.Dense(4 * filters, name="hidden"),
        keras.layers.BatchNormalization(momentum=0.8),
        keras.layers.ReLU(),
        keras.layers.Dense(CLASSES, name="logits"),
    ]
    return keras.Sequential(layers, name="dense")


def run(kind, seed, train, test, options):
    """Search, and train both networks; return what was measured of each."""

    def batches():
        return Batches(*train, batch_size=options.batch_size, seed=seed)

    steps = options.epochs * len(batches())
    fit = {"epochs": options.epochs, "shuffle": False, "verbose": 0}
    keras.utils.set_random_seed(seed)
    backbone = make_backbone(train[0].shape[1:], FILTERS)

    clock, path = reporting.EpochClock(), options.output / f"search_{kind}_{seed}"
    optimizers = (fitting.adam(rate, steps) for rate in (WEIGHTS_RATE, ARCHITECTURE_RATE))
    search = search_operations(backbone, batches(), *optimizers, path, callbacks=[clock], **fit)
    searched = measure(search, path, test, clock)
    if seed == 0:
        figure = plot_operators(backbone.get_layer("conv1"), search.model.get_layer("conv1"))
        style.save(figure, options.output / f"operators_{kind}.png")

    measured = {}
    dense = make_dense(train[0].shape[1:], FILTERS)
    for name, model in (("backbone", backbone), ("dense", dense)):
        clock, path = reporting.EpochClock(), options.output / f"{name}_{kind}_{seed}"
        optimizer = fitting.adam(WEIGHTS_RATE, steps)
        train_plain(model, batches(), optimizer, path, callbacks=[clock], **fit)
        measured[name] = measure(model, path, test, clock)
    return {**measured, "search": searched}


def measure(model, path, test, clock):
    """Return the exported model's accuracy and size; check that it is the model."""
    logits = predict_exported(path, test[0])
    error = np.abs(logits - model.predict(test[0], verbose=0)).max()
    if error > 1e-3 * np.abs(logits).max():
        raise RuntimeError(f"The export in {path} differs from the trained model by {error:.2g}.")
    return {
        "accuracy": float(np.mean(logits.argmax(axis=-1) == test[1])),
        "seconds": statistics.median(clock.seconds),  # the first epoch includes the tracing
        "parameters": reporting.count(model.trainable_variables),
        "bytes": sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
    }


def predict_exported(path, inputs, batch_size=500):
    """Return what a SavedModel answers; keras_xd is not needed to load it."""
    model = tf.saved_model.load(path)
    starts = range(0, len(inputs), batch_size)
    return np.concatenate([model.serve(inputs[i : i + batch_size]).numpy() for i in starts])


def table(runs):
    """Return a Markdown table: means and standard deviations over the seeds, median seconds."""
    rows = []
    for name in NAMES:
        every = [run[name] for of_kind in runs.values() for run in of_kind]
        cells = [name]
        for of_kind in runs.values():
            cells.append(reporting.spread([run[name]["accuracy"] for run in of_kind], 3))
        cells.append(f"{statistics.median(run['seconds'] for run in every):.2f}")
        rows.append([*cells, f"{every[0]['parameters']:,}", f"{every[0]['bytes'] / 1000:.0f}"])
    head = ["model", *(f"{kind} accuracy" for kind in runs), "s / epoch"]
    return "\n".join(timing.table([*head, "trained parameters", "exported kB"], rows))


def page(settings, runs, written):
    """Return the page of the records."""
    return reporting.markdown(
        "Digits, plain and permuted",
        reporting.written_by(f"`{written['command']}`", written),
        f"Accuracy on {settings['images']} {settings['split']} images after "
        f"{settings['epochs']} epochs, mean ± standard deviation over {len(runs['plain'])} seeds; "
        "seconds are the median over epochs. Search and backbone start from the same weights; "
        "permuted: rows and columns, in one order a seed.",
        table(runs),
    )


def save(options, runs, images):
    """Write the records beside the models."""
    usual = vars(parse([]))
    more = "".join(
        f" --{name.replace('_', '-')} {getattr(options, name)}"
        for name in ("epochs", "batch_size", "subset", "split")
        if getattr(options, name) != usual[name]
    )
    written = {
        "command": f"python examples/quickstart.py --seeds {options.seeds}{more}",
        "versions": reporting.backend_versions(),
        "threads": reporting.threads(),
        "date": datetime.date.today().isoformat(),
    }
    settings = {"images": images, "split": options.split, "epochs": options.epochs}
    records = {"format": reporting.FORMAT, "settings": settings, "written": written, "runs": runs}
    text = json.dumps(records, indent=1) + "\n"
    (options.output / "quickstart.json").write_text(text, encoding="utf-8")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parsing.add(parser, positive, epochs=40, seeds=1, batch_size=64)
    parsing.add(parser, positive, subset=(None, "use at most so many images of each split"))
    parser.add_argument("--split", default="test", choices=("validation", "test"))
    parser.add_argument("--output", help="folder to make; by default a fresh temporary one")
    options = parser.parse_args(arguments)
    if options.output and os.path.exists(options.output):
        parser.error(f"--output {options.output} exists, and nothing is overwritten: name another")
    return options


def main(arguments=None):
    started, options = time.perf_counter(), parse(arguments)
    train, validation, test = [(x[: options.subset], y[: options.subset]) for x, y in digits.load()]
    test = validation if options.split == "validation" else test
    options.output = pathlib.Path(options.output or tempfile.mkdtemp(prefix="quickstart_"))
    options.output.mkdir(parents=True, exist_ok=True)
    print(
        f"Digits: {len(train[0])} training images, {len(test[0])} {options.split} images; backbone "
        f"and search start from the same weights and train for {options.epochs} epochs each."
    )
    runs = {kind: [] for kind in KINDS}
    for seed, kind in itertools.product(range(options.seeds), KINDS):
        pair = (train, test)
        if kind == "permuted":
            pair = [(permutation.permute(inputs, seed), labels) for inputs, labels in pair]
        result = run(kind, seed, *pair, options)
        runs[kind].append(result)
        accuracies = ", ".join(f"{name} {r['accuracy']:.3f}" for name, r in result.items())
        seconds = time.perf_counter() - started
        print(f"{kind}, seed {seed}: {accuracies} ({seconds:.0f} s)", flush=True)
    save(options, runs, len(test[0]))
    of_seeds = ", mean ± standard deviation over seeds" if options.seeds > 1 else ""
    print(f"\nAccuracy on the {options.split} images{of_seeds}:\n\n{table(runs)}\n")
    print(f"Exported models and pictures of the learned operators: {options.output}")
    print(f"Total: {time.perf_counter() - started:.0f} s")
    return runs


if __name__ == "__main__":
    main()
