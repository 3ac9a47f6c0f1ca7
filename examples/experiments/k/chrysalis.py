"""Search K-operations in place of convolutions: the experiments of the Chrysalis.

    python examples/experiments/k/chrysalis.py --experiment lenet
    python examples/experiments/k/chrysalis.py --experiment text --kinds trec \\
        --methods convolution sgd_warm

Experiments, each with results of its own in examples/results/chrysalis_<experiment>.*:

- `lenet`: ButterfLeNet on CIFAR-10, plain and with permuted rows and columns;
- `transfer`: the same, searched on the classes 0 to 4, and the operations found trained from
  scratch on the classes 5 to 9;
- `wide`, `wide_transfer`: Wide ButterfLeNet in the same two ways;
- `text`: ButterfLeNet-Text on MR, TREC and SST-2;
- `spherical`: ButterfLeNet-Spherical on MNIST's digits on a sphere, upright and rotated;
- `depth`: ButterfLeNet from scratch with K-matrices of depth 1 to 9.

Every training of every method has the same number of epochs. Fixed operations are trained once. A
search is evaluated with its own weights (supernet), and by `evaluate_search` with the
architecture frozen and the weights trained from scratch (offline), also on the other classes
(transfer). Finished runs are kept and not repeated, by several processes with different
kinds, methods or seeds neither; with `--keep` so are finished parts of a run.
"""

import argparse
import dataclasses
import functools
import itertools
import os
import pathlib
import sys
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import numpy as np
import parsing
import reporting
from datasets import images, permutation, spherical, text
from datasets.batches import Batches, ImageBatches, normalize
from parsing import positive

import keras_xd
from experiments.k import chrysalis_models, chrysalis_report
from experiments.k.chrysalis_training import fit
from experiments.xd import cifar10

VISION = [f"{s}_{b}" for s in chrysalis_models.SEARCHES for b in ("warm", "scratch")]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What differs between the experiments.

    Attributes:
        backbone: network, as of `chrysalis_models.network`.
        recipe: how it is trained, as of `chrysalis_training.fit`.
        kinds: kinds of data.
        methods: as of `chrysalis_models.parts`.
        epochs, batch_size: by default.
        transfer: whether operations are searched on five classes and trained from scratch on the
            others.
    """

    backbone: str
    recipe: str
    kinds: tuple
    methods: tuple
    epochs: int
    batch_size: int
    transfer: bool = False


IMAGES = ("plain", "permuted")
WIDE = ("convolution", "random", *VISION)
EXPERIMENTS = {
    "lenet": Experiment("lenet", "sgd", IMAGES, (*chrysalis_models.FIXED, *VISION), 8, 128),
    "transfer": Experiment(
        "lenet", "sgd", IMAGES, (*chrysalis_models.FIXED, *VISION), 8, 128, True
    ),
    "wide": Experiment("wide", "sgd", IMAGES, WIDE, 4, 128),
    "wide_transfer": Experiment("wide", "sgd", IMAGES, WIDE, 4, 128, True),
    "text": Experiment(
        "text",
        "adadelta",
        tuple(text.FILES),
        ("convolution", "linear", "random", "sgd_warm", "sgd_scratch"),
        10,
        50,
    ),
    "spherical": Experiment(
        "spherical",
        "adam",
        ("spherical", "rotated"),
        ("convolution", "random", "sgd_warm", "sgd_first_warm", "sgd_scratch"),
        4,
        32,
    ),
    "depth": Experiment(
        "lenet",
        "sgd",
        IMAGES[:1],
        ("convolution", *(f"depth_{depth}" for depth in range(1, 10))),
        4,
        128,
    ),
}


@dataclasses.dataclass(frozen=True)
class Data:
    """Samples of one kind.

    Attributes:
        train, evaluation: pairs of inputs and classes.
        classes: number of classes.
        batches: function of inputs, classes and a seed that returns batches to train on.
        scaled: function of inputs that returns them as the network reads them.
        validation: a pair for early stopping, or `None`.
        vocabulary: number of words.
    """

    train: tuple
    evaluation: tuple
    classes: int
    batches: Callable
    scaled: Callable
    validation: tuple | None = None
    vocabulary: int = 0


class GrayBatches(Batches):
    """Batches of uint8 images, from 0 to 1."""

    def take(self, chosen, index):
        inputs, labels = super().take(chosen, index)
        return gray(inputs), labels


def gray(inputs):
    """Return uint8 images from 0 to 1."""
    return inputs.astype("float32") / 255


def load(experiment, kind, seed, options):
    """Return `Data` of a kind, and those of the classes to transfer to, or `None`.

    Raises:
        ValueError: if the data are not where they should be, or lack the classes to transfer to.
    """
    if experiment == "text":
        found = text.load(kind, options.data_dir, seed, options.subset)
        return Data(
            found.train,
            getattr(found, options.evaluate_on),
            found.classes,
            functools.partial(_batches, options.batch_size),
            np.asarray,
            found.validation,
            len(found.words),
        ), None
    if experiment == "spherical":
        train, evaluation = _digits(kind == "rotated", *_place(options))
        batches = functools.partial(_gray_batches, options.batch_size)
        return Data(train, evaluation, 10, batches, gray), None
    pair = _images(*_place(options))
    if kind == "permuted":
        pair = [(permutation.permute(inputs, seed), labels) for inputs, labels in pair]
    batches = functools.partial(_image_batches, options.batch_size, kind == "plain")
    if not EXPERIMENTS[experiment].transfer:
        return Data(*pair, 10, batches, normalize), None
    halves = [[_of_classes(*part, first) for part in pair] for first in (0, 5)]
    if not all(len(labels) for half in halves for _, labels in half):
        raise ValueError(
            f"Among {options.subset} images are none of the classes 0 to 4 or 5 to 9, which "
            f"{experiment} needs: give a larger --subset"
        )
    return tuple(Data(*half, 5, batches, normalize) for half in halves)


def _batches(size, inputs, labels, seed):
    return Batches(inputs, labels, batch_size=size, seed=seed)


def _gray_batches(size, inputs, labels, seed):
    return GrayBatches(inputs, labels, batch_size=size, seed=seed)


def _image_batches(size, augment, inputs, labels, seed):
    return ImageBatches(inputs, labels, size, seed, augment)


def _of_classes(inputs, labels, first):
    """Return the samples of five classes, numbered from 0."""
    chosen = (labels >= first) & (labels < first + 5)
    return inputs[chosen], labels[chosen] - first


def _place(options):
    folder = options.data_dir or os.environ.get("TFDS_DATA_DIR")
    return folder, options.subset, options.evaluate_on


@functools.lru_cache(1)
def _images(folder, subset, evaluate_on):
    parts = images.load("cifar10", folder, subset)
    parts = [(np.round(inputs * 255).astype("uint8"), labels) for inputs, labels in parts]
    return _pair(parts, subset, evaluate_on)


@functools.lru_cache(1)
def _digits(rotated, folder, subset, evaluate_on):
    return _pair(spherical.load(rotated, folder, subset), subset, evaluate_on)


def _pair(parts, subset, evaluate_on):
    """Return the samples to train and to evaluate on."""
    train, validation, test = parts
    if evaluate_on == "validation":
        return train, validation
    joined = (np.concatenate(pair)[:subset] for pair in zip(train, validation, strict=True))
    return tuple(joined), test


def accuracy(model, data):
    """Return the share of the evaluation samples whose class is found."""
    inputs, labels = data.evaluation
    answers = model.predict(data.scaled(inputs), batch_size=250, verbose=0).argmax(axis=-1)
    return float(np.mean(answers == labels))


def run(method, kind, seed, options):
    """Train one method on one kind of data; return what was measured."""
    experiment = EXPERIMENTS[options.experiment]
    search = chrysalis_models.parts(method)[0]
    data, other = load(options.experiment, kind, seed, options)
    settings = {"recipe": experiment.recipe, "epochs": options.epochs, "seed": seed}
    moved = {}

    def task(own):
        return keras_xd.evaluation.Task(
            build=lambda: chrysalis_models.network(experiment.backbone, method, own),
            fit=lambda model: fit(model, own, xla=method == "k_layer", **settings),
            evaluate=lambda model: {"accuracy": accuracy(model, own)},
        )

    def searched(model):
        moved.update(cifar10.distances(fit(model, data, search=search, **settings)))

    tasks = {"offline": task(data)} | ({} if other is None else {"transfer": task(other)})
    if search is None:
        results = {protocol: trained(own, method, seed) for protocol, own in tasks.items()}
    else:
        evaluation = keras_xd.evaluation.evaluate_search(
            tasks["offline"],
            searched,
            transfer=None if other is None else {"other": tasks["transfer"]},
            seeds=[seed],
            controls=(),
            finalize=False,
            settings=describe(options),
            path=options.keep and options.keep / options.experiment / kind / method,
        )
        if evaluation.failures:
            raise RuntimeError(f"{method}, {kind}, seed {seed}: {evaluation.failures[0].error}")
        results = {
            found.protocol.removesuffix(" to other"): (found.values["accuracy"], found.seconds)
            for found in evaluation.runs
        }
    model = tasks["offline"].build()
    if method == "random":
        keras_xd.freeze_architecture(model)
    architecture = [] if search is None else keras_xd.architecture_variables(model)
    return {
        "method": method,
        "kind": kind,
        "seed": seed,
        "accuracy": {protocol: value for protocol, (value, _) in results.items()},
        "seconds": {protocol: round(seconds, 1) for protocol, (_, seconds) in results.items()},
        "parameters": reporting.count(model.trainable_variables),
        "architecture_parameters": reporting.count(architecture),
        "samples": [len(data.train[0]), len(data.evaluation[0])],
        "distances": moved,
    }


def trained(task, method, seed):
    """Return the accuracy of fixed operations and the seconds that it took."""
    begin = time.perf_counter()
    keras.utils.set_random_seed(seed)
    model = task.build()
    if method == "random":
        keras_xd.freeze_architecture(model)
    task.fit(model)
    return task.evaluate(model)["accuracy"], time.perf_counter() - begin


def describe(options):
    """Return what all runs of a results file have in common."""
    names = ("experiment", "epochs", "batch_size", "subset", "evaluate_on")
    return {name: getattr(options, name) for name in names}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiment", choices=EXPERIMENTS, required=True)
    parser.add_argument("--methods", nargs="+", help="by default all of the experiment")
    parser.add_argument("--kinds", nargs="+", help="of data; by default all of the experiment")
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0])
    parser.add_argument("--epochs", type=positive, help="of every training")
    parser.add_argument("--batch-size", type=positive)
    parser.add_argument("--subset", type=positive, help="use at most so many samples of each part")
    parser.add_argument("--evaluate-on", choices=["test", "validation"], default="test")
    parser.add_argument(
        "--data-dir",
        help="folder of tensorflow-datasets or of the sentences; by default the one that "
        "TFDS_DATA_DIR (or a download) or KERAS_XD_DATA_DIR names",
    )
    parser.add_argument("--keep", type=pathlib.Path, help="folder for finished parts of runs")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    experiment = EXPERIMENTS[options.experiment]
    shown = ("experiment", "methods", "kinds", "seeds", "epochs", "batch_size", "subset")
    command = reporting.command("k/chrysalis.py", parser, options, (*shown, "evaluate_on"))
    for name in ("methods", "kinds"):
        allowed, given = getattr(experiment, name), getattr(options, name)
        setattr(options, name, list(dict.fromkeys(given or allowed)))
        if not set(getattr(options, name)) <= set(allowed):
            parser.error(f"--{name} of {options.experiment} are {', '.join(allowed)}, not {given}")
    options.epochs = options.epochs or experiment.epochs
    options.batch_size = options.batch_size or experiment.batch_size
    if options.epochs % 4 and any(method.startswith("sgdr") for method in options.methods):
        parser.error("--epochs must be a multiple of 4 for the 4 periods of SGDR")
    try:
        load(options.experiment, options.kinds[0], options.seeds[0], options)
        results = reporting.Results(
            f"chrysalis_{options.experiment}",
            chrysalis_report.page,
            options.output,
            describe(options),
            command,
            options.overwrite,
        )
    except ValueError as error:
        parser.error(str(error))
    return options, results


def main(arguments=None):
    options, results = parse(arguments)
    for seed, kind, method in itertools.product(options.seeds, options.kinds, options.methods):
        key = (method, kind, seed)
        record = results.obtain(key, run, *key, options)
        found = ", ".join(f"{name} {100 * v:.2f} %" for name, v in record["accuracy"].items())
        seconds = sum(record["seconds"].values())
        print(f"{kind}, seed {seed}, {method}: {found}, in {seconds:.0f} s", flush=True)
    print(f"\n{results.paths['md'].read_text()}")
    return results


if __name__ == "__main__":
    main()
