"""Search K-operations in place of convolutions: the experiments of the Chrysalis.

    python examples/experiments/k/chrysalis.py --experiment lenet
    python examples/experiments/k/chrysalis.py --experiment text --kinds trec \\
        --methods convolution sgd_warm

Experiments, each with results of its own in examples/results/chrysalis_<experiment>.*:

- `lenet`: ButterfLeNet on CIFAR-10, plain and with permuted rows and columns;
- `transfer`: the same, searched on the classes 0 to 4, and the operations found trained from
  scratch on the classes 5 to 9;
- `wide`, `wide_transfer`: Wide ButterfLeNet in the same two ways;
- `text`: ButterfLeNet-Text on MR, TREC and SST-2; `--kinds` takes SST-1, Subj, CR and MPQA too, and
  `--vectors` a file of word vectors, which then stay as they are;
- `cifar100`: as `transfer`, from all classes of CIFAR-10 to those of CIFAR-100;
- `spherical`: ButterfLeNet-Spherical on MNIST's digits on a sphere, upright and rotated, beside the
  expert, a network of spherical convolutions;
- `depth`: ButterfLeNet from scratch with K-matrices of depth 1 to 9.

Every training of every method has the same number of epochs; with `--published` each of the four
periods of SGDR has it, the operations that DARTS finds are trained offline by Adam, and K-layers
have K-matrices for each pair of channels, as the paper says. Fixed operations are trained once. A
search is evaluated with its own weights (supernet), and by `evaluate_search` with the
architecture frozen and the weights trained from scratch (offline), also on the other classes
(transfer). Finished runs are kept and not repeated.
"""

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

import fitting
import keras
import numpy as np
import parsing
import reporting
from datasets import images, permutation, spherical, text
from datasets.batches import Batches, ImageBatches, normalize
from parsing import positive

import keras_xd
from experiments.k import chrysalis_models, chrysalis_report
from experiments.k.chrysalis_models import fit

VISION = [f"{s}_{b}" for s in chrysalis_models.SEARCHES for b in ("warm", "scratch")]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What differs between the experiments."""

    backbone: str
    recipe: str
    kinds: tuple
    methods: tuple
    epochs: int
    batch_size: int
    transfer: bool | str = False  # to other classes, or to another set
    more_kinds: tuple = ()


IMAGES = ("plain", "permuted")
WIDE = ("convolution", "random", *VISION)
CLASSIC = (*chrysalis_models.FIXED, *VISION)
TEXT = ("convolution", "linear", "random", "sgd_warm", "sgd_scratch")
TEXTS = ("mr", "trec", "sst2")
MORE_TEXTS = tuple(name for name in text.FILES if name not in TEXTS)
SPHERE = ("convolution", "random", "spherical", "sgd_warm", "sgd_first_warm", "sgd_scratch")
DEPTH = ("convolution", *(f"depth_{depth}" for depth in range(1, 10)))
EXPERIMENTS = {
    "lenet": Experiment("lenet", "sgd", IMAGES, CLASSIC, 8, 128),
    "transfer": Experiment("lenet", "sgd", IMAGES, CLASSIC, 8, 128, True),
    "wide": Experiment("wide", "sgd", IMAGES, WIDE, 4, 128),
    "wide_transfer": Experiment("wide", "sgd", IMAGES, WIDE, 4, 128, True),
    "cifar100": Experiment("lenet", "sgd", IMAGES, CLASSIC, 8, 128, "cifar100"),
    "text": Experiment("text", "adadelta", TEXTS, TEXT, 10, 50, more_kinds=MORE_TEXTS),
    "spherical": Experiment("spherical", "adam", ("spherical", "rotated"), SPHERE, 4, 32),
    "depth": Experiment("lenet", "sgd", IMAGES[:1], DEPTH, 4, 128),
}


@dataclasses.dataclass(frozen=True)
class Data:
    """Samples of one kind."""

    train: tuple
    evaluation: tuple
    classes: int
    batches: Callable
    scaled: Callable
    validation: tuple | None = None
    vocabulary: int = 0
    vectors: np.ndarray | None = None


class GrayBatches(Batches):
    """Batches of uint8 images, from 0 to 1."""

    def take(self, chosen, index):
        inputs, labels = super().take(chosen, index)
        return gray(inputs), labels


def gray(inputs):
    """Return uint8 images from 0 to 1."""
    return inputs.astype("float32") / 255


def load(experiment, kind, seed, options):
    """Return `Data` of a kind, and those of the classes to transfer to, or `None`."""
    if experiment == "text":
        found, vectors = text.load(kind, options.data_dir, seed, options.subset), None
        if options.vectors:
            size = chrysalis_models.EMBEDDING
            vectors = text.vectors(options.vectors, found.words, size, seed)
        return Data(
            found.train,
            found.test,
            found.classes,
            functools.partial(Batches, batch_size=options.batch_size),
            np.asarray,
            found.validation,
            len(found.words),
            vectors,
        ), None
    folder = options.data_dir or os.environ.get("TFDS_DATA_DIR")
    if experiment == "spherical":
        train, evaluation = _digits(kind == "rotated", folder, options.subset)
        batches = functools.partial(GrayBatches, batch_size=options.batch_size)
        return Data(train, evaluation, 10, batches, gray), None
    batches = functools.partial(
        ImageBatches, batch_size=options.batch_size, augment=kind == "plain"
    )
    transfer, other = EXPERIMENTS[experiment].transfer, None
    pair = _of_kind("cifar10", kind, seed, folder, options.subset)
    if isinstance(transfer, str):
        other = Data(
            *_of_kind(transfer, kind, seed, folder, options.subset), 100, batches, normalize
        )
    if transfer is not True:
        return Data(*pair, 10, batches, normalize), other
    halves = [[_of_classes(*part, first) for part in pair] for first in (0, 5)]
    if not all(len(labels) for half in halves for _, labels in half):
        raise ValueError(
            f"Among {options.subset} images are none of the classes 0 to 4 or 5 to 9, which "
            f"{experiment} needs: give a larger --subset"
        )
    return tuple(Data(*half, 5, batches, normalize) for half in halves)


def _of_classes(inputs, labels, first):
    """Return the samples of five classes, numbered from 0."""
    chosen = (labels >= first) & (labels < first + 5)
    return inputs[chosen], labels[chosen] - first


def _of_kind(name, kind, seed, folder, subset):
    pair = _images(name, folder, subset)
    if kind == "plain":
        return pair
    return [(permutation.permute(inputs, seed), labels) for inputs, labels in pair]


_images = functools.lru_cache(2)(images.load_bytes)


@functools.lru_cache(1)
def _digits(rotated, folder, subset):
    return images.joined(spherical.load(rotated, folder, subset), subset)


def accuracy(model, data):
    """Return the share of the evaluation samples whose class is found."""
    inputs, labels = data.evaluation
    return fitting.accuracy(model, data.scaled(inputs), labels)


def run(method, kind, seed, options):
    """Train one method on one kind of data; return what was measured."""
    experiment = EXPERIMENTS[options.experiment]
    search = chrysalis_models.parts(method)[0]
    data, other = load(options.experiment, kind, seed, options)
    settings = {"recipe": experiment.recipe, "epochs": options.epochs, "seed": seed}
    darts = (search or "").startswith("darts")
    offline = settings | ({"recipe": "adam"} if options.published and darts else {})

    def task(own):
        return keras_xd.evaluation.Task(
            build=lambda: chrysalis_models.network(
                experiment.backbone, method, own, options.published
            ),
            fit=lambda model: fit(
                model, own, xla=method == "k_layer" and not options.published, **offline
            ),
            evaluate=lambda model: {"accuracy": accuracy(model, own)},
        )

    def searched(model):
        fit(model, data, search=search, published=options.published, **settings)

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
    names = ("experiment", "epochs", "batch_size", "subset")
    vectors = {"vectors": options.vectors.name} if options.vectors else {}
    published = {"published": True} if options.published else {}
    return {name: getattr(options, name) for name in names} | vectors | published


def parse(arguments):
    parser = reporting.parser(__doc__)
    parser.add_argument("--experiment", choices=EXPERIMENTS, required=True)
    parser.add_argument("--methods", nargs="+", help="by default all of the experiment")
    parser.add_argument("--kinds", nargs="+", help="of data; by default all of the experiment")
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0])
    parsing.add(parser, positive, epochs=None, batch_size=None, subset=None)
    parser.add_argument("--data-dir", help="else TFDS_DATA_DIR, of text KERAS_XD_DATA_DIR")
    parser.add_argument("--vectors", type=pathlib.Path, help="file of word vectors, for text")
    parser.add_argument(
        "--published",
        action="store_true",
        help="epochs of SGDR, offline training of DARTS and K-layers as in the paper",
    )
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    experiment = EXPERIMENTS[options.experiment]
    shown = ("experiment", "methods", "kinds", "seeds", "epochs", "batch_size", "subset")
    shown += ("vectors", "published")
    command = reporting.command("k/chrysalis.py", parser, options, shown)
    for name in ("methods", "kinds"):
        allowed, given = getattr(experiment, name), getattr(options, name)
        setattr(options, name, list(dict.fromkeys(given or allowed)))
        allowed += experiment.more_kinds if name == "kinds" else ()
        if not set(getattr(options, name)) <= set(allowed):
            parser.error(f"--{name} of {options.experiment} are {', '.join(allowed)}, not {given}")
    options.epochs = options.epochs or experiment.epochs
    options.batch_size = options.batch_size or experiment.batch_size
    if (
        options.epochs % 4
        and not options.published
        and any(method.startswith("sgdr") for method in options.methods)
    ):
        parser.error("--epochs must be a multiple of 4 for the 4 periods of SGDR")
    with reporting.refusing(parser):
        load(options.experiment, options.kinds[0], options.seeds[0], options)
    name, settings = f"chrysalis_{options.experiment}", describe(options)
    return options, reporting.open_results(
        parser, options, name, chrysalis_report.page, settings, command
    )


def main(arguments=None):
    options, results = parse(arguments)

    def measured(*key):
        return run(*key, options)

    def line(record):
        found = [f"{name} {100 * v:.2f} %" for name, v in record["accuracy"].items()]
        return f"{record['kind']}, seed {record['seed']}, {record['method']}: {', '.join(found)}"

    every = itertools.product(options.seeds, options.kinds, options.methods)
    keys = [(method, kind, seed) for seed, kind, method in every]
    return reporting.run_all(results, keys, measured, line)


if __name__ == "__main__":
    main()
