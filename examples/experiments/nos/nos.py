"""Search heterogeneous cells on CIFAR-10, and train what is found: Neural Operator Search.

    python examples/experiments/nos/nos.py search
    python examples/experiments/nos/nos.py guidance
    python examples/experiments/nos/nos.py calibration --seeds 0 1 2
    python examples/experiments/nos/nos.py search --paper --search-batch-size 96

`search`: cells are searched in a small network, as in DARTS, with all operations (`nos`) or those
of DARTS (`features`), without or with guidance by the attention of a PyramidNet (`…_guided`), and
trained from scratch; so are `random` cells and a plain ResNet-20 (`resnet`). With `--transfer
cifar100` cells are searched on CIFAR-10 and trained on CIFAR-100. Each of `--seeds` draws a random
cell: the page says which is the best.

`guidance`: the searches alone, without guidance and with attention transfer of three weights. The
accuracy is that of the search network itself.

`calibration`: ResNet-20 without and with a self-calibration behind each of its stages, whose gate
is a number that starts at zero, the hyperbolic tangent of one (`…_tanh`) or missing (`…_paper`).
`--backbone resnet18` takes the network of the paper.

Finished runs are kept in the results and not repeated; several processes may share the work.

`--paper` takes from the paper what is not given: literal guidance (equation 6), rates, epochs,
cells, drop-path. Those are for GPUs; such runs have results of their own.
"""

import argparse
import itertools
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import parsing
import reporting
from parsing import positive

import keras_xd
from experiments.nos import nos_report, nos_training
from experiments.xd import cifar10
from keras_xd.layers.cells.genotypes import Genotype

METHODS = {
    "search": nos_training.METHODS,
    "guidance": tuple(nos_training.GUIDANCES),
    "calibration": nos_training.CALIBRATIONS,
}
# What the runs of an experiment have in common.
COMMON = ("batch_size", "pool", "border")
SEARCH = (
    *("search_epochs", "search_cells", "search_channels", "architecture_rate"),
    *("architecture_decay", "warmup_epochs", "search_rate", "search_batch_size", "search_images"),
)
TEACHER = ("teacher_epochs", "teacher_depth", "teacher_alpha")
TRAINING = (
    *("epochs", "cells", "channels", "resnet_width", "training_rate", "training_decay"),
    *("training_warmup_epochs", "nesterov", "cutout", "drop_path"),
)
OPTIONS = {
    "search": (*SEARCH, *TEACHER, "guidance_weight", *TRAINING),
    "guidance": (*SEARCH, *TEACHER),
    "calibration": ("epochs",),
}


def paper(options):
    """Return the options that the paper states; no cell has a gate, as there."""
    search = keras_xd.recipes.paper("nos", "search")
    training = keras_xd.recipes.paper("nos", options.transfer or "cifar10")
    return {
        "search_epochs": search["epochs"],
        "search_cells": search["cells"],
        "guidance_form": search["guidance_form"],
        "teacher_depth": int(search["teacher"].rpartition("-")[2]),
        **{name: training[name] for name in ("epochs", "batch_size", "cells", "channels")},
        "training_rate": training["learning_rate"],
        "training_decay": training["weight_decay"],
        "drop_path": training["drop_path"],
    }


def run(method, kind, seed, train, evaluation, options):
    """Return what was measured of one method with one seed, and by which command."""
    keras.utils.set_random_seed(seed)
    record = {"method": method, "kind": kind, "seed": seed, "command": options.command}
    if options.experiment == "calibration":
        return record | nos_training.calibrate(method, train, evaluation, seed, options)
    train, evaluation = pooled((train, evaluation), options)
    target = pooled(options.target, options) if options.target else (train, evaluation)
    if options.experiment == "guidance":
        searching, weight = nos_training.GUIDANCES[method]
        options = argparse.Namespace(**{**vars(options), "guidance_weight": weight})
        found = searched(searching, seed, train, evaluation, options)
        return record | found | {"accuracy": found["search_accuracy"]}
    if method == "resnet":
        return record | nos_training.train_plain(*target, seed, options)
    found = searched(method, seed, train, evaluation, options)
    # Networks of one seed begin alike, whatever came before.
    keras.utils.set_random_seed(seed)
    genotype = Genotype.from_dict(found["genotype"])
    return record | found | nos_training.retrain(genotype, *target, seed, options)


def pooled(parts, options):
    """Return training and evaluation images whose pixels are means, with their labels."""
    return [(nos_training.pooled(images, options.pool), labels) for images, labels in parts]


def searched(method, seed, train, evaluation, options):
    """Search; return the genotype and what was noted."""
    guide, noted = None, {}
    if method.endswith("guided"):
        guide, seconds = nos_training.teacher(train, seed, options)
        noted = {
            "teacher_accuracy": nos_training.accuracy(guide, evaluation),
            "teacher_parameters": reporting.count(guide.trainable_variables),
            "teacher_seconds": seconds,
        }
        keras.utils.set_random_seed(seed)
    genotype, more = nos_training.search(method, train, evaluation, seed, options, guide)
    return {"genotype": genotype.to_dict(), **noted, **more}


def described(names, options, train, evaluation):
    """Return what all runs of a file have in common."""
    return {
        **{name: getattr(options, name) for name in (*COMMON, *names)},
        "training_images": len(train[0]),
        "evaluation_images": len(evaluation[0]),
    }


def parse(arguments):
    parser = reporting.parser(__doc__)
    parser.add_argument("experiment", choices=METHODS)
    parsing.add_runs(parser, [0], (), sorted(set(itertools.chain(*METHODS.values()))))
    parsing.add(parser, positive, batch_size=64, pool=(1, "average images over so many pixels"))
    parsing.add(parser, positive, search_epochs=10, search_cells=5, search_channels=8)
    parsing.add(parser, positive, search_batch_size=None, search_images=None, subset=None)
    parsing.add(parser, positive, teacher_epochs=10, teacher_depth=20)
    parsing.add(parser, positive, epochs=20, cells=8, channels=16, resnet_width=12)
    parsing.add(parser, parsing.whole, border=(4, "pixels that crops move by"), warmup_epochs=0)
    parsing.add(parser, parsing.whole, training_warmup_epochs=0)
    search, training = (keras_xd.recipes.paper("nos", name) for name in ("search", "cifar10"))
    rates = {name: search[name] for name in ("architecture_rate", "guidance_weight")}
    rates |= {"search_rate": search["learning_rate"], "training_rate": 0.025}
    parsing.add(parser, parsing.rate, **rates, teacher_alpha=float(search["teacher_alpha"]))
    decays = {"architecture_decay": search["architecture_weight_decay"]}
    decays |= {"training_decay": training["weight_decay"]}
    parsing.add(parser, parsing.fraction, **decays, drop_path=0.2)
    parsing.add(parser, parsing.whole, cutout=(training["cutout"], "0: without"))
    parser.add_argument("--transfer", choices=["cifar100"], help="train what is found on these")
    parser.add_argument("--backbone", choices=nos_training.ENDS, default="resnet20")
    parser.add_argument("--guidance-form", choices=("stable", "literal"), default="stable")
    parser.add_argument("--nesterov", action="store_true", help="in the training of what is found")
    parsing.add_data_folder(parser)
    reporting.add_arguments(parser)
    options = parsing.with_paper(parser, arguments, paper)
    shown = ["paper", "methods", "seeds", "subset", "transfer", "backbone", "guidance_form"]
    shown += COMMON
    shown += OPTIONS[options.experiment]
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
    if options.transfer and options.experiment != "search":
        parser.error("--transfer is of the experiment search")
    if options.paper and options.experiment == "calibration":
        parser.error("--paper is of the searches")
    if options.backbone != "resnet20" and options.experiment != "calibration":
        parser.error("--backbone is of the experiment calibration")
    with reporting.refusing(parser):
        train, evaluation = cifar10.load_data(options)
        options.target = options.transfer and cifar10.load_data(options, options.transfer)
    if any(size % options.pool for size in train[0].shape[1:3]):
        parser.error(f"--pool must divide the sizes of the images, {train[0].shape[1:3]}")
    settings = described(OPTIONS[options.experiment], options, train, evaluation)
    settings["experiment"] = options.experiment
    options.classes = 100 if options.transfer else 10
    # What is not the default has results of its own.
    name = f"nos_{options.experiment}" + "_paper" * options.paper
    if options.guidance_form == "literal" and options.experiment != "calibration":
        settings["guidance_form"], name = options.guidance_form, f"{name}_literal"
    if options.transfer:
        settings["transfer"], name = options.transfer, f"{name}_{options.transfer}"
    if options.backbone != "resnet20":
        settings["backbone"], name = options.backbone, f"{name}_{options.backbone}"
    results = reporting.open_results(
        parser, options, name, nos_report.page, settings, options.command
    )
    return options, train, evaluation, results


def main(arguments=None):
    options, train, evaluation, results = parse(arguments)

    def measured(method, kind, seed):
        return run(method, kind, seed, train, evaluation, options)

    def line(record):
        seconds = record.get("seconds", record.get("search_seconds"))
        found = f"{100 * record['accuracy']:.2f} %, trained in {seconds:.0f} s"
        return f"seed {record['seed']}, {record['method']}: {found}"

    pairs = itertools.product(options.seeds, options.methods)
    keys = [(method, "cifar10", seed) for seed, method in pairs]
    return reporting.run_all(results, keys, measured, line)


if __name__ == "__main__":
    main()
