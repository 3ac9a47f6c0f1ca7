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

There is no budget: what is compared is the accuracy, or the error. Results are in
examples/results/kernel_sizes_<experiment>.*. Each finished run is kept at once and not repeated
when the script is started again with the same settings; several processes may share the work.
"""

import argparse
import dataclasses
import itertools
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import parsing
import reporting

import keras_xd
from experiments.dnarch import dnarch_training
from experiments.dnarch.dnarch_report import is_error
from experiments.dnarch.dnarch_training import EXPERIMENTS, schedule, score_text


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=SWEEPS)
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0])
    for name in NUMBERS:
        parser.add_argument("--" + name.replace("_", "-"), type=parsing.positive)
    parser.add_argument("--sizes", nargs="+", type=parsing.positive, help="taps of a side")
    parser.add_argument("--learning-rate", type=parsing.rate)
    parser.add_argument(
        "--architecture-rates", nargs="+", type=parsing.rate, default=[0.02], help="of the masks"
    )
    parser.add_argument(
        "--warmup-epochs", type=parsing.whole, default=0, help="in which masks are fixed"
    )
    parser.add_argument("--data-dir")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    names = [*NUMBERS, "sizes", "learning_rate"]
    shown = ["seeds", *names, "architecture_rates", "warmup_epochs"]
    options.command = reporting.command(
        "dnarch/kernel_sizes.py", parser, options, shown, [options.experiment]
    )
    sweep, experiment = SWEEPS[options.experiment], EXPERIMENTS[options.experiment]
    for name in names:
        if getattr(options, name) is None:
            value = getattr(sweep, name, None) or getattr(experiment, name)
            setattr(options, name, value)
    options.sizes = sorted(set(options.sizes))
    options.evaluate_on = "test"
    if options.data_dir is None and options.experiment != "darcy":
        options.data_dir = os.environ.get("TFDS_DATA_DIR")
    try:
        data = dnarch_training.load(options)
        points = max(data.inputs.shape[1:-1])
        if len(options.sizes) < 2 or options.sizes[-1] > points:
            raise ValueError(
                f"--sizes must be two numbers or more, up to the {points} points of the inputs. "
                f"Received: {options.sizes}"
            )
        results = reporting.Results(
            f"kernel_sizes_{options.experiment}",
            page,
            options.output,
            {
                **{name: getattr(options, name) for name in names},
                "experiment": options.experiment,
                "training_samples": data.number,
                "evaluation_samples": len(data.inputs),
                "points": points,
            },
            options.command,
            options.overwrite,
        )
    except ValueError as error:
        parser.error(str(error))
    return options, data, results


def methods(sizes, schedules):
    """Return the names of all methods, in the order of the tables.

    Args:
        sizes: fixed sizes.
        schedules: pairs of the masks' rate and of the epochs in which they are fixed.
    """
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
    experiment = EXPERIMENTS[options.experiment]
    shape = data.inputs.shape[1:]
    points = max(shape[:-1])
    if method == "separable":
        model = dnarch_training.separable(
            shape,
            data.classes,
            options.channels,
            options.blocks,
            SEPARABLE_TAPS,
            experiment.dropout,
            seed,
            data.dense,
        )
        return dnarch_training.decoded(model, data)
    model = keras_xd.models.ccnn(
        options.blocks,
        options.channels,
        shape,
        data.classes,
        learn="K",
        dense=data.dense,
        kernel_size=points + 1 - points % 2,  # odd, so that kernels have a middle
        initial_kernel_size=int(method.partition(",")[0].split()[-1]),
        dropout=experiment.dropout,
        # Masks that grow must not be cut between updates; fixed ones need no taps beyond them.
        rendering="static" if "learned" in method else "dynamic",
        per_channel=True,
        seed=seed,
    )
    return dnarch_training.decoded(model, data)


def run(method, data, seed, options):
    """Train one network; return what was measured."""
    keras.utils.set_random_seed(seed)
    experiment = EXPERIMENTS[options.experiment]
    model = network(method, data, seed, options)
    batches = data.batches(seed)
    steps = options.epochs * len(batches)
    rate = schedule(options.learning_rate, steps, experiment.warmup)
    optimizer = keras.optimizers.AdamW(rate, weight_decay=experiment.weight_decay)
    sizes = Sizes(data, f"{method}, seed {seed}")
    settings = {"loss": data.loss, "jit_compile": False}
    if method == "separable":
        model.compile(optimizer, **settings)
    else:
        # Fixed masks have no use for theirs.
        found, fixed_epochs = of_masks(method) if method.startswith("learned") else (1.0, 0)
        masks = keras.optimizers.Adam(schedule(found, steps, experiment.warmup))
        keras_xd.layers.update_rendering(model)
        if method.startswith("fixed"):
            keras_xd.freeze_architecture(model)
        model = keras_xd.SearchModel(model)
        model.compile(optimizer, masks, warmup_epochs=fixed_epochs, **settings)
    model.fit(batches, epochs=options.epochs, callbacks=[sizes], verbose=0)
    final = keras_xd.finalize(model) if method != "separable" else model
    return {
        "method": method,
        "kind": options.experiment,
        "seed": seed,
        "score": data.score(dnarch_training.outputs(final, data.inputs)),
        "multiply_adds": float(keras_xd.complexity(final)),
        "parameters": reporting.count(final.trainable_variables),
        "curves": sizes.curves,
        "sizes": sizes.sizes,
        "seconds": sizes.seconds,
        "command": options.command,
    }


class Sizes(keras.callbacks.Callback):
    """Notes score, loss, seconds and, block by block, kernel sizes of each epoch."""

    def __init__(self, data, title):
        super().__init__()
        self.data, self.title = data, title
        self.curves, self.sizes, self.seconds = {"score": [], "loss": []}, [], []

    def on_train_begin(self, logs=None):
        self.sizes.append(self._found())

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(round(time.perf_counter() - self.start, 2))
        score = self.data.score(dnarch_training.outputs(self.model, self.data.inputs))
        self.curves["score"].append(round(score, 5))
        self.curves["loss"].append(round(float(logs["loss"]), 5))
        self.sizes.append(self._found())
        found = f"{score_text(score, self.data.dense)}, sizes {self.sizes[-1]}"
        print(f"{self.title}, epoch {epoch + 1}: {found}, {self.seconds[-1]:.1f} s", flush=True)

    def _found(self):
        model = getattr(self.model, "model", self.model)
        blocks = [x for x in model.layers if isinstance(x, keras_xd.layers.CCNNBlock)]
        return [
            [round(float(size), 2) for size in block.convolution.kernel_sizes] for block in blocks
        ]


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
        ends = ["; ".join(_size(sizes) for sizes in run["sizes"][-1]) for run in own]
        row += [" / ".join(ends) if any(ends) else "–"]
        for value in ("multiply_adds", "parameters"):
            row.append(f"{statistics.mean(run[value] for run in own):,.0f}")
        rows.append([*row, f"{statistics.mean(sum(run['seconds']) for run in own):.0f}"])
    title = EXPERIMENTS[settings["experiment"]].title
    unit = "Relative L2 error" if is_error(settings) else "Accuracy in percent"
    head = ["method", score, "minus best fixed", "sizes at the end, by seed"]
    return "\n".join(
        [
            f"# Learned kernel sizes beside fixed ones: {title}",
            "",
            f"Written by {reporting.commands(runs)}; {written['versions']}; "
            f"threads: {written['threads']}.",
            "",
            f"{unit} on {settings['evaluation_samples']:,} test samples after "
            f"{settings['epochs']} epochs on {settings['training_samples']:,} training samples, "
            f"the same for all; {reporting.over(seeds)}. Sizes are taps under the mask, block by "
            f"block, of {settings['points']} points; “minus best fixed” is the difference of the "
            "same seeds. Multiply–adds (each channel counted) and parameters are those of the "
            "finalized network. Which fixed size is the best was read off these test samples, "
            f"which favours it. All trainings together took {reporting.hours(runs)}.",
            "",
            *reporting.table([*head, "multiply–adds", "parameters", "s"], rows),
            "## Sizes by epoch",
            "",
            *_by_epoch(settings, runs),
            f"Weights: AdamW, rate {settings['learning_rate']:g}. Masks: Adam. All rates rise and "
            f"then fall to 0 along a cosine. {settings['blocks']} blocks of "
            f"{settings['channels']} channels, batches of {settings['batch_size']}.",
            "",
        ]
    )


def _size(sizes):
    return " × ".join(f"{size:.0f}" for size in sizes)


def _by_epoch(settings, runs):
    """Return the table of the learned sizes by epoch, means over the axes."""
    learned = [run for run in runs if run["method"].startswith("learned")]
    if not learned:
        return []
    head = ["method", "seed", "block", "start", *range(1, settings["epochs"] + 1)]
    rows = []
    for run in learned:
        for block in range(len(run["sizes"][0])):
            values = [statistics.mean(sizes[block]) for sizes in run["sizes"]]
            rows.append([run["method"], run["seed"], block + 1, *(f"{v:.1f}" for v in values)])
    return reporting.table(head, rows)


def main(arguments=None):
    options, data, results = parse(arguments)
    names = methods(options.sizes, [(r, options.warmup_epochs) for r in options.architecture_rates])
    for seed, method in itertools.product(options.seeds, names):
        key = (method, options.experiment, seed)
        record = results.obtain(key, run, method, data, seed, options)
        print(
            f"{method}, seed {seed}: {score_text(record['score'], data.dense)}, sizes "
            f"{record['sizes'][-1]}, {sum(record['seconds']):.0f} s",
            flush=True,
        )
    print(f"\n{results.paths['md'].read_text()}")
    return results


if __name__ == "__main__":
    main()
