"""Learn kernel sizes, resolutions, widths and depth of a network under a budget: DNArch.

    python examples/experiments/dnarch/dnarch.py cifar10
    python examples/experiments/dnarch/dnarch.py listops --methods plain KRWD --seeds 0 1 --epochs 5
    python examples/experiments/dnarch/dnarch.py mnist --size 28 --subset 5000

Experiments, each with results of its own in examples/results/dnarch_<experiment>.*:

- `cifar10`: images, a network of two spatial axes;
- `mnist`: sequential MNIST, the pixels in a row, of images averaged to 14 × 14;
- `listops`: nested operations on lists of digits, generated, 30 to 128 tokens;
- `darcy`: the pressure in a porous medium at 43 × 43 points, a prediction at each.

Methods, trained for the same number of epochs:

- `plain`: a continuous convolutional network with kernels of the size of the inputs;
- `K`, `KR`: its kernel sizes, and its resolutions, are learned;
- `KRWD`: those, widths and depth of a network of twice the blocks and twice the channels, with the
  multiply–adds of the plain network as the target.

After a search the network is pruned by `keras_xd.finalize`, and measured again. Settings are those
of the paper except for the sizes and the weight of the complexity, chosen for two cores and few
epochs, the kernels, which are the defaults of `models.ccnn`, the rate of the masks, and the first
size of the kernels of sequential MNIST, as two blocks see less than the paper's four. The paper's
masks have the rate of the weights: 0.02 is most of the width of 0.0325 that kernels begin with.
The training of an epoch of `plain` and of `KRWD` takes one core about 130 and 170 s (cifar10), 65
and 95 s (mnist), 70 and 100 s (listops), 26 and 40 s (darcy): that of `--subset 500 --epochs 2`, of
darcy 64 samples, scaled.

Each finished run is kept in the results at once, and not repeated when the script is started again
with the same settings; several processes with different methods or seeds may share the work.
"""

import argparse
import itertools
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import parsing
import reporting
from parsing import positive

import keras_xd
from experiments.dnarch import dnarch_report, dnarch_training
from experiments.dnarch.dnarch_training import EXPERIMENTS, METHODS

# What is given, or else as the experiment has it.
INTEGERS = ("blocks", "channels", "epochs", "batch_size", "subset", "size")
RATES = ("learning_rate", "frequency", "temperature")
SHARES = ("dropout", "weight_decay")


def describe(options, data):
    """Return what all runs of a results file have in common."""
    names = ["experiment", *INTEGERS, *RATES, *SHARES, "kernel_size"]
    names += ["architecture_rate", "complexity_weight"]
    names += ["lengths", "rendering", "rendering_epochs", "evaluate_on"]
    return {
        **{name: getattr(options, name) for name in names if name != "subset"},
        "kernels": "Gabor filters",
        "statistics": "moving statistics",
        "margin": dnarch_training.MARGIN,
        "training_samples": data.number,
        "evaluation_samples": len(data.inputs),
    }


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0])
    meanings = {
        "blocks": "of the base network",
        "channels": "of the base network",
        "subset": "use at most so many samples of each part",
        "size": "points of a side, for cifar10 (a divisor of 32), mnist (of 28) and darcy",
        "temperature": "of the masks on frequencies",
    }
    for names, kind in ((INTEGERS, positive), (RATES, parsing.rate), (SHARES, parsing.number)):
        for name in names:
            flag = "--" + name.replace("_", "-")
            defaults = ", ".join(f"{e} {getattr(x, name)}" for e, x in EXPERIMENTS.items())
            text = f"{meanings.get(name, '')} (default: {defaults})"
            parser.add_argument(flag, type=kind, help=text.strip())
    parser.add_argument(
        "--kernel-size",
        type=positive,
        help="taps that learned kernels begin with; by default a width of 0.0325, for mnist as "
        f"many as {dnarch_training.ROWS:.1f} rows of an image",
    )
    parser.add_argument("--architecture-rate", type=parsing.rate, default=5e-3, help="of the masks")
    parser.add_argument(
        "--complexity-weight",
        type=parsing.number,
        nargs="+",
        help="factor of the complexity term of KRWD; two numbers: from the first epoch to the last",
    )
    parser.add_argument(
        "--lengths", type=positive, nargs=2, help="of listops; by default 30 and 128"
    )
    parser.add_argument("--rendering", choices=["dynamic", "static"], default="dynamic")
    parser.add_argument(
        "--rendering-epochs",
        type=positive,
        default=1,
        help="epochs from one update of what is computed to the next, which takes seconds",
    )
    parser.add_argument("--evaluate-on", choices=["test", "validation"], default="test")
    parser.add_argument(
        "--data-dir",
        help="folder of tensorflow-datasets, or for darcy of its file; by default the one that "
        "TFDS_DATA_DIR (or a download) or KERAS_XD_DATA_DIR (or generated data) names",
    )
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    shown = ["methods", "seeds", *INTEGERS, *RATES, *SHARES, "kernel_size", "architecture_rate"]
    shown += ["complexity_weight", "lengths", "rendering", "rendering_epochs", "evaluate_on"]
    options.command = reporting.command(
        "dnarch/dnarch.py", parser, options, shown, [options.experiment]
    )
    options.methods = list(dict.fromkeys(options.methods))
    experiment = EXPERIMENTS[options.experiment]
    if options.size and not experiment.size:
        parser.error("--size is not for listops, whose tokens --lengths says")
    if options.lengths and options.experiment != "listops":
        parser.error("--lengths is for listops only")
    if options.data_dir and options.experiment == "listops":
        parser.error("--data-dir is not for listops, which is generated")
    if options.complexity_weight and len(options.complexity_weight) > 2:
        parser.error("--complexity-weight must be one number, or two: first and last")
    if options.dropout is not None and options.dropout >= 1:
        parser.error("--dropout must be below 1")
    for name in (*INTEGERS, *RATES, *SHARES):
        if getattr(options, name) is None:
            setattr(options, name, getattr(experiment, name))
    if options.experiment == "mnist":
        taps = min(round(dnarch_training.ROWS * options.size), options.size**2)
        options.kernel_size = options.kernel_size or taps
    options.complexity_weight = options.complexity_weight or [experiment.complexity_weight]
    options.lengths = options.lengths or [30, 128]
    if options.data_dir is None and options.experiment in ("cifar10", "mnist"):
        options.data_dir = os.environ.get("TFDS_DATA_DIR")
    try:
        keras_xd.masks.sigmoid_range(options.temperature)
        data = dnarch_training.load(options)
        results = reporting.Results(
            f"dnarch_{options.experiment}",
            dnarch_report.page,
            options.output,
            describe(options, data),
            options.command,
            options.overwrite,
        )
    except ValueError as error:
        parser.error(str(error))
    return options, data, results


def run(method, data, seed, options):
    """Return what was measured of one method with one seed, and by which command."""
    record = dnarch_training.run(method, data, seed, options)
    return {**record, "command": options.command}


def main(arguments=None):
    options, data, results = parse(arguments)
    for seed, method in itertools.product(options.seeds, options.methods):
        key = (method, options.experiment, seed)
        record = results.obtain(key, run, method, data, seed, options)
        print(
            f"{method}, seed {seed}: {dnarch_training.score_text(record['score'], data.dense)}, "
            f"{record['parameters']:,} parameters and C / C_target "
            f"{record['pruned_complexity']:.3f} after pruning, which changed the outputs by "
            f"{record['difference']:.1e}; trained in {sum(record['seconds']):.0f} s",
            flush=True,
        )
    print(f"\n{results.paths['md'].read_text()}")
    return results


if __name__ == "__main__":
    main()
