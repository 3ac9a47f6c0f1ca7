"""Search heterogeneous cells on CIFAR-10, and train what is found: Neural Operator Search.

    python examples/experiments/nos/nos.py search --keep kept
    python examples/experiments/nos/nos.py search --methods nos random --seeds 0 1 --epochs 5
    python examples/experiments/nos/nos.py calibration --seeds 0 1 2

`search`: cells are searched in a small network, with DARTS, and a network of the cells derived is
trained from scratch on all training images. Methods:

- `nos_guided`: all operations, guided by the attention of a PyramidNet trained before;
- `nos`: the same without guidance;
- `features_guided`, `features`: the seven operations of DARTS alone;
- `random`: cells drawn at random, the control;
- `resnet`: no cells but a plain ResNet-20 of `--resnet-width`, for the scale.

Every network is trained for as many epochs by the same recipe.

`guidance`: the searches alone, of all operations, without guidance (`unguided`) and with attention
transfer of three weights (`weight_100`, `weight_1000`, `weight_10000`), to choose
`--guidance-weight`. The accuracy is that of the search network itself.

`calibration`: ResNet-20 with a self-calibration behind each of its three stages, and without:

- `none`: the plain network;
- `dynamic_3`, `dynamic_5`, `spatial_attention`, `channel_attention`: the operation of that name,
  with a gate that starts at zero;
- the same with `_tanh`: the gate is the hyperbolic tangent of a number that starts at zero;
- the same with `_paper`: without a gate, as in the paper.

Each finished run is kept in examples/results/nos_<experiment>.json at once, and not repeated when
the script is started again with the same settings; several processes with different methods or
seeds may share the work. `--keep` keeps teachers and searches of unfinished runs too. A page,
curves and pictures of the cells are written beside.
"""

import argparse
import itertools
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import parsing
import reporting
from parsing import positive

from experiments.nos import nos_report, nos_training
from experiments.xd import cifar10
from keras_xd.layers.cells import relaxation
from keras_xd.layers.cells.genotypes import Genotype

METHODS = {
    "search": nos_training.METHODS,
    "guidance": tuple(nos_training.GUIDANCES),
    "calibration": nos_training.CALIBRATIONS,
}
# What the runs of an experiment have in common, with defaults: numbers and other options.
COMMON = ("pool", "border", "evaluate_on")
SEARCH_NUMBERS = {
    "search_epochs": 10,
    "search_cells": 5,
    "search_channels": 8,
    "partial_channels": 1,
}
SEARCH_OPTIONS = (
    "relaxation",
    "temperatures",
    "architecture_rate",
    "architecture_decay",
    "warmup_epochs",
    "search_rate",
    "search_batch_size",
    "search_images",
    "order",
)
GUIDANCE_NUMBERS = {"teacher_epochs": 10, "teacher_depth": 20}
GUIDANCE_OPTIONS = ("teacher_alpha", "guidance_weight", "guidance_form")
TRAINING_NUMBERS = {"epochs": 20, "cells": 8, "channels": 16, "resnet_width": 12}
TRAINING_OPTIONS = (
    "training_rate",
    "training_decay",
    "training_warmup_epochs",
    "nesterov",
    "cutout",
    "drop_path",
)
NUMBERS = {"batch_size": 64, **SEARCH_NUMBERS, **GUIDANCE_NUMBERS, **TRAINING_NUMBERS}
_SEARCHES = (*SEARCH_NUMBERS, *SEARCH_OPTIONS, *GUIDANCE_NUMBERS, *GUIDANCE_OPTIONS)
OPTIONS = {
    "search": (*_SEARCHES, *TRAINING_NUMBERS, *TRAINING_OPTIONS),
    "guidance": tuple(name for name in _SEARCHES if name != "guidance_weight"),
    "calibration": ("epochs",),
}


def run(method, seed, train, evaluation, options):
    """Return what was measured of one method with one seed, and by which command."""
    keras.utils.set_random_seed(seed)
    record = {"method": method, "kind": "cifar10", "seed": seed, "command": options.command}
    if options.experiment == "calibration":
        return record | nos_training.calibrate(method, train, evaluation, seed, options)
    train, evaluation = [(nos_training.pooled(x, options.pool), y) for x, y in (train, evaluation)]
    if options.experiment == "guidance":
        searching, weight = nos_training.GUIDANCES[method]
        options = argparse.Namespace(**{**vars(options), "guidance_weight": weight})
        found = searched(searching, seed, train, evaluation, options)
        return record | found | {"accuracy": found["search_accuracy"]}
    if method == "resnet":
        return record | nos_training.train_plain(train, evaluation, seed, options)
    found = searched(method, seed, train, evaluation, options)
    # Networks of one seed begin alike, whatever came before.
    keras.utils.set_random_seed(seed)
    genotype = Genotype.from_dict(found["genotype"])
    return record | found | nos_training.retrain(genotype, train, evaluation, seed, options)


def searched(method, seed, train, evaluation, options):
    """Search, or read the search that is kept; return the genotype and what was noted."""
    guided = method.endswith("guided")
    weight = f"_{options.guidance_weight:g}" if guided else ""
    path = options.keep and options.keep / f"{method}{weight}_{seed}.json"
    names = ["batch_size", *COMMON, *SEARCH_NUMBERS, *SEARCH_OPTIONS]
    names += [*GUIDANCE_NUMBERS, *GUIDANCE_OPTIONS] if guided else []
    settings = _described(names, options, train, evaluation)
    if path and path.exists():
        kept = json.loads(path.read_text())
        if kept["settings"] != settings:
            raise ValueError(f"There is a search of other settings: {path}")
        return kept["found"]
    guide, noted = None, {}
    if guided:
        guide, seconds = nos_training.teacher(train, seed, options)
        noted = {
            "teacher_accuracy": nos_training.accuracy(guide, evaluation),
            "teacher_parameters": nos_training.count(guide),
            "teacher_seconds": seconds,
        }
        keras.utils.set_random_seed(seed)
    genotype, more = nos_training.search(method, train, evaluation, seed, options, guide)
    found = {"genotype": genotype.to_dict(), **noted, **more}
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"settings": settings, "found": found}
        path.write_text(json.dumps(record, indent=1))
    return found


def describe(options, train, evaluation):
    """Return what all runs of a results file have in common."""
    names = ["experiment", "batch_size", *COMMON, *OPTIONS[options.experiment]]
    return _described(names, options, train, evaluation)


def _described(names, options, train, evaluation):
    return {
        **{name: getattr(options, name) for name in names},
        "training_images": len(train[0]),
        "evaluation_images": len(evaluation[0]),
    }


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=METHODS)
    parser.add_argument("--methods", nargs="+", help="by default all of the experiment")
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0])
    for name, number in NUMBERS.items():
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=positive, default=number)
    parser.add_argument(
        "--pool", type=positive, default=1, help="average images over so many pixels, squared"
    )
    parser.add_argument(
        "--border", type=parsing.whole, default=4, help="of the pixels that crops move by"
    )
    parser.add_argument("--relaxation", choices=relaxation.RELAXATIONS, default="softmax")
    parser.add_argument(
        "--temperatures",
        nargs=2,
        type=parsing.rate,
        default=[10.0, 0.1],
        metavar=("START", "END"),
        help="of the relaxations gumbel and single_path",
    )
    parser.add_argument("--architecture-rate", type=parsing.rate, default=6e-4)
    parser.add_argument("--architecture-decay", type=parsing.fraction, default=1e-3)
    parser.add_argument("--warmup-epochs", type=parsing.whole, default=0)
    parser.add_argument("--search-rate", type=parsing.rate, default=0.025)
    parser.add_argument("--search-batch-size", type=positive, help="by default --batch-size")
    parser.add_argument("--search-images", type=positive, help="search with so many images only")
    parser.add_argument("--training-rate", type=parsing.rate, default=0.025)
    parser.add_argument("--training-decay", type=parsing.fraction, default=3e-4)
    parser.add_argument("--training-warmup-epochs", type=parsing.whole, default=0)
    parser.add_argument("--nesterov", action="store_true", help="in the training of what is found")
    parser.add_argument("--cutout", type=parsing.whole, default=16, help="pixels, 0: without")
    parser.add_argument("--drop-path", type=parsing.fraction, default=0.2)
    parser.add_argument("--teacher-alpha", type=parsing.rate, default=84.0)
    parser.add_argument("--order", choices=["first_order", "second_order"], default="first_order")
    parser.add_argument("--guidance-weight", type=parsing.rate, default=1000.0)
    parser.add_argument("--guidance-form", choices=["stable", "literal"], default="stable")
    parser.add_argument("--subset", type=positive, help="use at most so many images of each split")
    parser.add_argument("--evaluate-on", choices=["test", "validation"], default="test")
    parsing.add_data_folder(parser)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for teachers and searches")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    shown = ["methods", "seeds", "subset", "batch_size", *COMMON, *OPTIONS[options.experiment]]
    positional = [options.experiment]
    options.command = reporting.command("nos/nos.py", parser, options, shown, positional)
    allowed = METHODS[options.experiment]
    options.methods = list(dict.fromkeys(options.methods or allowed))
    if not set(options.methods) <= set(allowed):
        parser.error(f"--methods of {options.experiment} are {', '.join(allowed)}")
    if options.training_warmup_epochs >= options.epochs:
        parser.error("--training-warmup-epochs must be less than --epochs")
    if min(options.cells, options.search_cells) < 3:
        parser.error("--cells and --search-cells must be at least 3")
    try:
        train, evaluation = cifar10.load_data(options)
        sizes = train[0].shape[1:3]
        if any(size % options.pool for size in sizes):
            raise ValueError(f"--pool must divide the sizes of the images, {sizes}")
        results = reporting.Results(
            f"nos_{options.experiment}",
            nos_report.page,
            options.output,
            describe(options, train, evaluation),
            options.command,
            options.overwrite,
        )
    except ValueError as error:
        parser.error(str(error))
    return options, train, evaluation, results


def main(arguments=None):
    options, train, evaluation, results = parse(arguments)
    for seed, method in itertools.product(options.seeds, options.methods):
        key = (method, "cifar10", seed)
        record = results.obtain(key, run, method, seed, train, evaluation, options)
        seconds = record.get("seconds", record.get("search_seconds"))
        print(
            f"seed {seed}, {method}: {100 * record['accuracy']:.2f} %, trained in {seconds:.0f} s",
            flush=True,
        )
    print(f"\n{results.paths['md'].read_text()}")
    return results


if __name__ == "__main__":
    main()
