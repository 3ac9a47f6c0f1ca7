"""Learned kernel sizes beside a sweep of fixed ones, of the same network.

    python examples/experiments/dnarch/kernel_sizes.py cifar10 --architecture-rates 0.005 0.02
    python examples/experiments/dnarch/kernel_sizes.py mnist --seeds 0 1 2
    python examples/experiments/dnarch/kernel_sizes.py darcy --seeds 0 1 2

Experiments are those of `dnarch.py`: images, the pixels of MNIST's images in a row, and the
pressure in a porous medium. Methods, trained for the same epochs on the same samples:

- `fixed <size>`: `models.ccnn` whose Gaussian masks on the kernels keep the size they begin with,
  the same for all blocks, one run for each of `--sizes`;
- `learned from <size>, rate <rate>`: the same network with learned masks, from the smallest and the
  largest of the sizes, one run for each of `--architecture-rates`; with `--warmup-epochs n` named
  `… after n`, because the masks are fixed in the first n epochs;
- `separable`: an ordinary network of the same blocks, with depthwise convolutions of Keras, of 5
  taps along each axis.

There is no budget: what is compared is the accuracy, or the error. Finished runs are kept in the
results and not repeated; several processes may share the work.
"""

import dataclasses
import itertools
import os
import pathlib
import statistics
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import parsing
import reporting

import keras_xd
from experiments.dnarch import dnarch_training
from experiments.dnarch.dnarch import is_error
from experiments.dnarch.dnarch_training import EXPERIMENTS, schedule, score_text
from experiments.xd import pde_experiment


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Points of a side, samples, epochs and kernel sizes of an experiment."""

    size: int
    subset: int
    epochs: int
    sizes: tuple[int, ...]


SWEEPS = {
    "cifar10": Sweep(16, 5000, 8, (3, 5, 7, 11, 15)),
    "mnist": Sweep(14, 10000, 8, (5, 15, 31, 63, 125)),
    "darcy": Sweep(29, 1000, 12, (3, 7, 15, 21, 29)),
}
NUMBERS = ("size", "subset", "epochs", "blocks", "channels", "batch_size")
SEPARABLE_TAPS = 5


def parse(arguments):
    parser = reporting.parser(__doc__)
    parser.add_argument("experiment", choices=SWEEPS)
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0])
    parsing.add(parser, parsing.positive, **dict.fromkeys(NUMBERS))
    parser.add_argument("--sizes", nargs="+", type=parsing.positive, help="taps of a side")
    parser.add_argument(
        "--architecture-rates", nargs="+", type=parsing.rate, default=[0.02], help="of the masks"
    )
    parsing.add(parser, parsing.whole, warmup_epochs=(0, "in which masks are fixed"))
    parser.add_argument("--data-dir", help="else TFDS_DATA_DIR, of darcy KERAS_XD_DATA_DIR")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    names, positional = [*NUMBERS, "sizes"], [options.experiment]
    shown = ["seeds", *names, "architecture_rates", "warmup_epochs"]
    command = reporting.command("dnarch/kernel_sizes.py", parser, options, shown, positional)
    options.command, sweep = command, SWEEPS[options.experiment]
    for name in dataclasses.asdict(sweep):
        setattr(options, name, getattr(options, name) or getattr(sweep, name))
    options.kernel_size = None
    dnarch_training.complete(options)
    options.sizes = sorted(set(options.sizes))
    with reporting.refusing(parser):
        data = dnarch_training.load(options)
    points = max(data.inputs.shape[1:-1])
    if len(options.sizes) < 2 or options.sizes[-1] > points:
        parser.error(
            f"--sizes must be two numbers or more, up to the {points} points of the inputs. "
            f"Received: {options.sizes}"
        )
    settings = {
        **{name: getattr(options, name) for name in (*names, "learning_rate", "experiment")},
        "training_samples": data.number,
        "evaluation_samples": len(data.inputs),
        "points": points,
    }
    name = f"kernel_sizes_{options.experiment}"
    return options, data, reporting.open_results(parser, options, name, page, settings, command)


def methods(sizes, schedules):
    """Return the names of all methods in order; schedules are rates and epochs of warm-up."""
    fixed = [f"fixed {n}" for n in sizes]
    starts = itertools.product((sizes[0], sizes[-1]), schedules)
    learned = [
        f"learned from {n}, rate {rate:g}{f' after {epochs}' if epochs else ''}"
        for n, (rate, epochs) in starts
    ]
    return [*fixed, *learned, "separable"]


def of_masks(method):
    """Return the masks' rate and the epochs in which they are fixed, by the name of a method."""
    rate, _, epochs = method.rpartition("rate ")[2].partition(" after ")
    return float(rate), int(epochs or 0)


def schedules(runs):
    """Return what `of_masks` does of all learned runs, sorted."""
    return sorted({of_masks(run["method"]) for run in runs if run["method"].startswith("learned")})


def network(method, data, seed, options):
    """Return the network of a method."""
    shape = data.inputs.shape[1:]
    points = max(shape[:-1])
    if method == "separable":
        model = dnarch_training.separable(
            shape,
            data.classes,
            options.channels,
            options.blocks,
            SEPARABLE_TAPS,
            options.dropout,
            seed,
            data.dense,
        )
        return pde_experiment.decoded(model, data.decoding)
    model = keras_xd.models.ccnn(
        options.blocks,
        options.channels,
        shape,
        data.classes,
        learn="K",
        dense=data.dense,
        kernel_size=points + 1 - points % 2,  # odd, so that kernels have a middle
        initial_kernel_size=int(method.partition(",")[0].split()[-1]),
        dropout=options.dropout,
        # Masks that grow must not be cut between updates; fixed ones need no taps beyond them.
        rendering="static" if "learned" in method else "dynamic",
        counting="per_channel",
        seed=seed,
    )
    return pde_experiment.decoded(model, data.decoding)


def run(method, data, seed, options):
    """Train one network; return what was measured."""
    keras.utils.set_random_seed(seed)
    model = network(method, data, seed, options)
    batches = data.batches(seed)
    steps = options.epochs * len(batches)
    rate = schedule(options.learning_rate, steps, options.warmup)
    optimizer = keras.optimizers.AdamW(rate, weight_decay=options.weight_decay)
    clock = reporting.EpochClock()
    settings = {"loss": data.loss, "jit_compile": False}
    if method == "separable":
        model.compile(optimizer, **settings)
    else:
        # Fixed masks have no use for theirs.
        found, fixed_epochs = of_masks(method) if method.startswith("learned") else (1.0, 0)
        masks = keras.optimizers.Adam(schedule(found, steps, options.warmup))
        keras_xd.layers.ccnn.rendering.update_rendering(model)
        if method.startswith("fixed"):
            keras_xd.freeze_architecture(model)
        model = keras_xd.SearchModel(model)
        model.compile(optimizer, masks, warmup_epochs=fixed_epochs, **settings)
    model.fit(batches, epochs=options.epochs, callbacks=[clock], verbose=2)
    final = keras_xd.finalize(model) if method != "separable" else model
    return {
        "method": method,
        "kind": options.experiment,
        "seed": seed,
        "score": data.score(dnarch_training.outputs(final, data.inputs)),
        "multiply_adds": float(keras_xd.complexity(final)),
        "parameters": reporting.count(final.trainable_variables),
        "sizes": sizes_of(model),
        "seconds": clock.seconds,
        "command": options.command,
    }


def sizes_of(model):
    """Return the kernel sizes of each block."""
    layers = getattr(model, "model", model).layers
    blocks = [layer for layer in layers if isinstance(layer, keras_xd.layers.CCNNBlock)]
    return [[round(float(size), 2) for size in x.convolution.kernel_sizes] for x in blocks]


def best_fixed(settings, runs):
    """Return the fixed method of the best mean score."""
    means = {}
    for run in runs:
        if run["method"].startswith("fixed"):
            means.setdefault(run["method"], []).append(run["score"])
    choose = min if is_error(settings) else max
    return choose(means, key=lambda method: statistics.mean(means[method])) if means else None


def page(settings, runs, written):
    """Return the page of results."""
    order = methods(settings["sizes"], schedules(runs))
    runs = sorted(runs, key=lambda found: (order.index(found["method"]), found["seed"]))
    seeds = sorted({found["seed"] for found in runs})
    digits, factor = (4, 1) if is_error(settings) else (2, 100)
    score = "error" if is_error(settings) else "accuracy"
    best = best_fixed(settings, runs)
    reference = {run["seed"]: factor * run["score"] for run in reporting.select(runs, method=best)}
    rows = []
    for method in reporting.present(runs, "method", order):
        own = reporting.select(runs, method=method)
        scores = {run["seed"]: factor * run["score"] for run in own}
        gains = reporting.gains(scores, reference)
        name = f"**{method}** (best of the fixed)" if method == best else method
        row = [name, reporting.cell(scores, seeds, digits)]
        row.append(reporting.spread(gains, digits) if gains and method != best else "–")
        ends = ["; ".join(_size(sizes) for sizes in run["sizes"]) for run in own]
        row += [" / ".join(ends) if any(ends) else "–"]
        for value in ("multiply_adds", "parameters"):
            row.append(f"{statistics.mean(run[value] for run in own):,.0f}")
        rows.append([*row, f"{statistics.mean(sum(run['seconds']) for run in own):.0f}"])
    title = EXPERIMENTS[settings["experiment"]].title
    unit = "Relative L2 error" if is_error(settings) else "Accuracy in percent"
    head = ["method", score, "minus best fixed", "sizes at the end, by seed"]
    return reporting.markdown(
        f"Learned kernel sizes compared with fixed ones: {title}",
        reporting.written_by(reporting.commands(runs), written),
        f"{unit} on {settings['evaluation_samples']:,} test samples after "
        f"{settings['epochs']} epochs on {settings['training_samples']:,} training samples, "
        f"the same for all; {reporting.over(seeds)}. Sizes are taps under the mask, block by "
        f"block, of {settings['points']} points; “minus best fixed” is the difference of the "
        "same seeds. Multiply–adds (each channel counted) and parameters are those of the "
        "finalized network. Which fixed size is the best was read off these test samples, "
        f"which favours it. All trainings together took {reporting.hours(runs)}.",
        reporting.table([*head, "multiply–adds", "parameters", "s"], rows),
        f"Weights: AdamW, rate {settings['learning_rate']:g}. Masks: Adam. All rates rise and "
        f"then fall to 0 along a cosine. {settings['blocks']} blocks of "
        f"{settings['channels']} channels, batches of {settings['batch_size']}.",
    )


def _size(sizes):
    return " × ".join(f"{size:.0f}" for size in sizes)


def main(arguments=None):
    options, data, results = parse(arguments)
    names = methods(options.sizes, [(r, options.warmup_epochs) for r in options.architecture_rates])

    def measured(method, kind, seed):
        return run(method, data, seed, options)

    def line(record):
        score = score_text(record["score"], options.experiment)
        return f"{record['method']}, seed {record['seed']}: {score}, sizes {record['sizes']}"

    pairs = itertools.product(options.seeds, names)
    keys = [(method, options.experiment, seed) for seed, method in pairs]
    return reporting.run_all(results, keys, measured, line)


if __name__ == "__main__":
    main()
