"""ResNet-20 on CIFAR-10 made smaller: learned masks, narrower networks and small filters cut.

    python examples/experiments/dnarch/pruned_resnet.py
    python examples/experiments/dnarch/pruned_resnet.py --size 32 --subset 45000 --budgets 0.5 0.25

Keras 3 has no pruning of its own. Here the same network is brought to shares of its multiply–adds
(`--budgets`) in four ways, all trained for the same number of epochs on the same images:

- `whole`: ResNet-20, trained for `--epochs`, then for `--more-epochs` from a rate that is low;
- `masked`: that network after the first of these trainings, `rewrite(to="masked")` with the budget
  as `complexity_target` for `--search-epochs`, cut by `finalize`, and trained for those left;
- `taylor`, `magnitude`: that network cut by `keras_xd.compress` with this importance of channels,
  and trained with the network before as its teacher;
- `narrow`: ResNet-20 with fewer channels everywhere, trained from its start for all epochs.

The milliseconds of a call alternate with those of the whole network. No setting was tuned. Finished
runs are kept in the results and not repeated; several processes may share the work.
"""

import itertools
import os
import pathlib
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import fitting
import keras
import numpy as np
import parsing
import reporting
import timing
from datasets import images
from datasets.batches import ImageBatches, normalize

import keras_xd
from experiments.dnarch.dnarch_training import schedule

RATE, LATER_RATE, WEIGHT_DECAY, COMPLEXITY_WEIGHT = 5e-3, 2e-3, 0.01, 5.0
METHODS = {
    "whole": "as it is",
    "masked": "masks, learned",
    "taylor": "`compress`",
    "magnitude": "`compress`, smallest filters cut",
    "narrow": "fewer channels everywhere",
}


def rows(runs):
    """Return the runs of each method and budget, in the order of the table."""
    kinds = sorted({run["kind"] for run in runs}, key=float, reverse=True)
    for kind, method in itertools.product(kinds, METHODS):
        own = reporting.select(runs, method=method, kind=kind)
        if own:
            yield method, kind, own


def page(settings, runs, written):
    """Return the page of results."""
    seeds = sorted({run["seed"] for run in runs})
    whole = {run["seed"]: 100 * run["score"] for run in reporting.select(runs, method="whole")}
    head = ["network", "budget", "accuracy", "lost", "at once", "multiply–adds", "share"]
    head += ["parameters", ".keras, kB", *(f"time, batch {n}" for n in runs[0]["milliseconds"])]
    lines = []
    for method, kind, own in rows(runs):
        scores = {run["seed"]: 100 * run["score"] for run in own}
        lost = {seed: whole[seed] - score for seed, score in scores.items() if seed in whole}
        at_once = {run["seed"]: 100 * run["at once"] for run in own if "at once" in run}
        cells = [METHODS[method], f"{100 * float(kind):.0f} %"]
        cells.append(reporting.cell(scores, seeds, 1))
        cells.append("" if method == "whole" else reporting.cell(lost, seeds, 1))
        cells.append(reporting.cell(at_once, seeds, 1, missing=""))
        cells.append(f"{statistics.mean(run['multiply_adds'] for run in own):,.0f}")
        shares = [run["multiply_adds"] / run["whole_multiply_adds"] for run in own]
        cells.append(f"{statistics.mean(shares):.3f}")
        cells.append(f"{statistics.mean(run['parameters'] for run in own):,.0f}")
        cells.append(f"{statistics.mean(run['bytes'] for run in own) / 1000:,.0f}")
        for batch in runs[0]["milliseconds"]:
            times = [np.divide(*run["milliseconds"][batch]) for run in own]
            cells.append(reporting.spread([float(value) for value in times], 2))
        lines.append(cells)
    masked = [own for method, _, own in rows(runs) if method == "masked"]
    found = [
        [run["kind"], run["seed"], " ".join(run["convolutions"])] for own in masked for run in own
    ]
    total = settings["epochs"] + settings["more_epochs"]
    return reporting.markdown(
        "ResNet-20 made smaller: CIFAR-10",
        reporting.written_by(reporting.commands(runs), written),
        f"Accuracy in percent on {settings['test_subset']:,} test images of {settings['size']} "
        f"× {settings['size']} pixels after {total} epochs on {settings['subset']:,} training "
        f"images, {settings['epochs']} of them before anything is cut; "
        f"{reporting.over(seeds)}. Lost: points "
        "below the whole network of the same seed. At once: before the training that follows "
        "the cut. Time: milliseconds of a call over those of the whole network, whose calls "
        "alternate with it. The narrow network has the width whose cost is "
        "nearest to the budget.",
        reporting.table(head, lines),
        "## What the masks have left",
        "Taps and channels of each convolution, first to last; blocks that are missing are cut.",
        reporting.table(["budget", "seed", "convolutions"], found),
        "## Settings",
        f"- AdamW, weight decay {WEIGHT_DECAY}, batches of "
        f"{settings['batch_size']}, random crops and flips. First training: rate "
        f"{RATE}; each later one: {LATER_RATE}. Rates rise for "
        "a tenth of the steps, then fall to 0 along a cosine.\n"
        f"- Masks: {settings['search_epochs']} of the {settings['more_epochs']} later epochs, "
        f"Adam, rate {settings['architecture_rate']}, `complexity_weight` "
        f"{COMPLEXITY_WEIGHT}; kernels, widths and depth.",
    )


IMPORTANCE = ("taylor", "magnitude")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
NUMBERS = ("size", "width", "subset", "test_subset", "batch_size")
EPOCHS = ("epochs", "more_epochs", "search_epochs")
CLASSES, WARMUP, CALLS = 10, 0.1, (1, 32, 256)


def parse(arguments):
    parser = reporting.parser(__doc__)
    parsing.add_runs(parser, [0, 1, 2], METHODS)
    parser.add_argument("--budgets", nargs="+", type=parsing.fraction, default=[0.5])
    parser.add_argument("--size", type=int, choices=[8, 16, 32], default=16, help="of a side")
    parsing.add(parser, parsing.positive, width=16, subset=5000, test_subset=5000, batch_size=50)
    parsing.add(parser, parsing.positive, epochs=6, more_epochs=5, search_epochs=3)
    parsing.add(parser, parsing.rate, architecture_rate=3e-2)
    parsing.add_data_folder(parser)
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    if options.search_epochs >= options.more_epochs:
        parser.error("--search-epochs must be below --more-epochs: what is cut is trained on")
    if not all(options.budgets):
        parser.error("--budgets must be above 0")
    names = [*NUMBERS, *EPOCHS, "architecture_rate"]
    shown = ["methods", "budgets", "seeds", *names]
    options.command = reporting.command("dnarch/pruned_resnet.py", parser, options, shown)
    settings = {name: getattr(options, name) for name in names}
    return options, reporting.open_results(
        parser, options, "pruned_resnet", page, settings, options.command
    )


def load(options):
    """Return training and test images, uint8 averages of blocks of pixels, with their labels."""
    most = max(options.subset, options.test_subset)
    train, _, test = images.load("cifar10", options.data_dir, most)
    side, parts = train[0].shape[1] // options.size, []
    for (x, y), number in ((train, options.subset), (test, options.test_subset)):
        x = images.block_means(x[:number], side)
        parts.append((np.round(255 * x).astype("uint8"), y[:number]))
    return parts


def resnet(options, width):
    return keras_xd.models.resnet20((options.size, options.size, 3), CLASSES, width=width)


def narrow(options, cost, budget):
    """Return ResNet-20 of the width whose multiply–adds are about nearest to the budget."""
    return resnet(options, max(1, round(options.width * (budget / cost) ** 0.5)))


# Training


def augmented(data, seed, options):
    return ImageBatches(*data[0], options.batch_size, seed, augment=True)


def adamw(rate, steps):
    return keras.optimizers.AdamW(schedule(rate, steps, WARMUP), weight_decay=WEIGHT_DECAY)


def train(model, data, seed, options, epochs, rate, **target):
    """Train a network, or search one that has masks; return it with its seconds."""
    batches = augmented(data, seed, options)
    steps = epochs * len(batches)
    optimizers = [adamw(rate, steps)]
    if target:
        rates = schedule(options.architecture_rate, steps, WARMUP)
        optimizers.append(keras.optimizers.Adam(rates))
    model = fitting.compiled(model, *optimizers, loss=LOSS, jit_compile=False, **target)
    start = time.perf_counter()
    model.fit(batches, epochs=epochs, shuffle=False, verbose=0)
    return getattr(model, "model", model), round(time.perf_counter() - start, 2)


def accuracy(model, data):
    return fitting.accuracy(model, normalize(data[1][0]), data[1][1])


class Start:
    """What the networks of a seed begin with: ResNet-20 after the first training."""

    def __init__(self, data, options):
        self.data, self.options, self.seed = data, options, None
        self.shape = (options.size, options.size, 3)

    def prepare(self, seed):
        """Train the network of a seed, unless it is the last one."""
        if seed == self.seed:
            return
        options = self.options
        keras.utils.set_random_seed(seed)
        model = resnet(options, options.width)
        arguments = (self.data, seed, options, options.epochs, RATE)
        model, self.seconds = train(model, *arguments)
        self.model, self.accuracy = uncompiled(model), accuracy(model, self.data)
        self.cost, self.seed = float(keras_xd.complexity(model)), seed

    def copy(self):
        """Return a copy of the network."""
        copy = keras.models.clone_model(self.model)
        copy.set_weights(self.model.get_weights())
        return copy


def run(method, kind, seed, start, options):
    """Train one network; return what was measured."""
    start.prepare(seed)
    data, low, epochs = start.data, LATER_RATE, options.more_epochs
    budget = float(kind) * start.cost
    spent, record = [start.seconds], {"before": start.accuracy}

    def further(model, epochs, rate, **target):
        order = seed + 1000 * len(spent)
        model, seconds = train(model, data, order, options, epochs, rate, **target)
        spent.append(seconds)
        return model

    keras.utils.set_random_seed(seed)
    if method == "masked":
        target = {"complexity_target": budget, "complexity_weight": COMPLEXITY_WEIGHT}
        space = keras_xd.rewrite(start.copy(), to="masked")
        space = further(space, options.search_epochs, low, **target)
        small = keras_xd.finalize(space)
        record["searched"] = float(keras_xd.complexity(space))
        epochs -= options.search_epochs
    elif method in IMPORTANCE:
        batches = augmented(data, seed + 1000, options)
        given = fitting.compiled(
            start.copy(), adamw(low, epochs * len(batches)), loss=LOSS, jit_compile=False
        )
        begun = time.perf_counter()
        result = keras_xd.compress(
            *(given, batches),
            target={"multiply_adds": float(kind)},
            importance=method,
            epochs=epochs,
            verbose=0,
        )
        spent.append(round(time.perf_counter() - begun, 2))
        small, epochs = result.model, 0
    elif method == "narrow":
        spent.clear()
        small = further(narrow(options, start.cost, budget), options.epochs, RATE)
    else:
        small = start.copy()
    if method == "masked":
        record["at once"] = accuracy(small, data)
    if epochs:
        small = further(small, epochs, low)
    if method == "narrow":
        del record["before"]
    return {
        "method": method,
        "kind": kind,
        "seed": seed,
        "score": accuracy(small, data),
        **record,
        **size(small),
        "whole_multiply_adds": start.cost,
        "milliseconds": timing.milliseconds([small, start.model], start.shape, CALLS),
        "convolutions": sizes(small),
        "seconds": spent,
        "command": options.command,
    }


def uncompiled(model):
    """Return the network without its optimizer, whose state would be saved and copied with it."""
    return keras.Model(model.input, model.output, name=model.name)


def size(model):
    """Return multiply–adds, parameters and the bytes of the file of a network."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.keras"
        uncompiled(model).save(path)
        found = path.stat().st_size
    return {
        "multiply_adds": float(keras_xd.complexity(model)),
        "parameters": model.count_params(),
        "bytes": found,
    }


def sizes(model):
    """Return taps and channels of the convolutions, as texts."""
    found = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    return [f"{'×'.join(map(str, x.kernel_size))}×{x.filters}" for x in found]


def main(arguments=None):
    options, results = parse(arguments)
    start = Start(load(options), options)
    budgets = [f"{budget:g}" for budget in options.budgets]

    def measured(*key):
        return run(*key, start, options)

    def line(record):
        return (
            f"{record['method']}, budget {record['kind']}, seed {record['seed']}: accuracy "
            f"{100 * record['score']:.2f} %, {record['multiply_adds']:,.0f} multiply–adds"
        )

    keys = [
        (method, kind, seed)
        for seed, method in itertools.product(options.seeds, options.methods)
        for kind in (["1"] if method == "whole" else budgets)
    ]
    return reporting.run_all(results, keys, measured, line)


if __name__ == "__main__":
    main()
