"""A trained ResNet-20 for CIFAR-10 made smaller by `compress`, beside narrower networks.

    python examples/experiments/dnarch/pruned_resnet.py --budgets 0.5 0.25

The network is brought to shares of its multiply–adds (`--budgets`). What is cut is trained for
`--more-epochs` over its share, so that networks of all budgets have about as many multiply–adds:

- `whole`: ResNet-20 as it is given, trained for `--epochs`. The weights of the one of all images
  are kept in `START`, and only trained where they are not there;
- `taylor`, `magnitude`: that network cut by `keras_xd.compress` with this importance of channels,
  and trained with the network before as its teacher;
- `torch_pruning`, `keras_2`: that network cut by torch-pruning and then trained, and trained while
  TensorFlow's pruner of Keras 2 sets weights to zero (`pruned_peers` says what to install);
- `narrow`: ResNet-20 with fewer channels everywhere, trained from its start for the epochs of both.

The last tenth of the training images validates. The milliseconds of a call alternate with those of
the whole network. Finished runs are kept in the results and not repeated; several processes may
share the work.
"""

import itertools
import os
import pathlib
import statistics
import sys
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
from experiments.dnarch import pruned_peers
from experiments.dnarch.dnarch_training import schedule

START = reporting.RESULTS / "resnet20_cifar10.weights.h5"
RATE, LATER_RATE, WEIGHT_DECAY = 0.1, 0.05, 2e-3
METHODS = {
    "whole": "as it is",
    "taylor": "`compress`",
    "magnitude": "`compress`, smallest filters cut",
    "narrow": "fewer channels everywhere",
    "torch_pruning": "torch-pruning",
    "keras_2": "pruner of Keras 2: weights set to zero",
}
OWN = list(METHODS)[:4]  # what needs no other package
ZEROS = (
    "The budget of the pruner of Keras 2 is the share of the weights of convolutions that are not "
    "zero: they are multiplied all the same. "
)


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
    whole = {run["kind"]: 100 * run["score"] for run in reporting.select(runs, method="whole")}
    head = ["network", "budget", "accuracy", "lost", "validation", "multiply–adds", "share"]
    head += [
        "parameters",
        *(f"time, batch {n}" for n in runs[0]["milliseconds"]),
        "epochs",
        "minutes",
    ]
    lines = []
    for method, kind, own in rows(runs):
        scores = {run["seed"]: 100 * run["score"] for run in own}
        lost = {seed: whole["1"] - score for seed, score in scores.items() if "1" in whole}
        cells = [METHODS[method], f"{100 * float(kind):.0f} %"]
        cells.append(reporting.cell(scores, seeds, 2))
        cells.append("" if method == "whole" else reporting.cell(lost, seeds, 2))
        validated = {run["seed"]: 100 * run["validation"] for run in own}
        cells.append(reporting.cell(validated, seeds, 2))
        cells.append(f"{statistics.mean(run['multiply_adds'] for run in own):,.0f}")
        shares = [run["multiply_adds"] / run["whole_multiply_adds"] for run in own]
        cells.append(f"{statistics.mean(shares):.3f}")
        cells.append(f"{statistics.mean(run['parameters'] for run in own):,.0f}")
        for batch in runs[0]["milliseconds"]:
            times = [np.divide(*run["milliseconds"][batch]) for run in own]
            cells.append(reporting.spread([float(value) for value in times], 2))
        cells.append(", ".join(sorted({str(run["epochs"]) for run in own})))
        cells.append(f"{statistics.mean(run['seconds'] for run in own) / 60:.0f}")
        lines.append(cells)
    return reporting.markdown(
        "ResNet-20 made smaller: CIFAR-10",
        reporting.written_by(reporting.commands(runs), written),
        f"Accuracy in percent on {settings['test_subset']:,} test images of {settings['size']} "
        f"× {settings['size']} pixels. Given is one network that was trained for "
        f"{settings['epochs']} epochs on {settings['subset']:,} images; what `compress` cuts is "
        f"trained for {settings['more_epochs']} more, divided by the budget, narrow networks for "
        f"all of these; {reporting.over(seeds)}. Lost: points below the given network. Time: "
        "milliseconds of a call over those of the given network, whose calls alternate with it. "
        "The narrow network has the width whose cost is nearest to the budget. "
        f"{ZEROS * bool(reporting.select(runs, method='keras_2'))}Epochs: with those of the "
        "given network; minutes: of its own training.",
        reporting.table(head, lines),
        "## Settings",
        f"- SGD with Nesterov momentum, weight decay {WEIGHT_DECAY} of kernels, batches of "
        f"{settings['batch_size']}, random crops and flips. Rate {RATE}, after a cut {LATER_RATE}; "
        "it rises for a tenth of the steps, then falls to 0 along a cosine.",
    )


LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
NUMBERS = ("size", "width", "subset", "test_subset", "batch_size", "epochs", "more_epochs")
SAMPLES = 512  # that the importance of channels is measured with, as by `compress`
CLASSES, WARMUP, CALLS = 10, 0.1, (1, 32, 256)


def parse(arguments):
    parser = reporting.parser(__doc__)
    parsing.add_runs(parser, [0, 1, 2], OWN, METHODS)
    parser.add_argument("--budgets", nargs="+", type=parsing.fraction, default=[0.5])
    parser.add_argument("--size", type=int, choices=[8, 16, 32], default=32, help="of a side")
    parsing.add(parser, parsing.positive, width=16, subset=45000, test_subset=10000, batch_size=128)
    parsing.add(parser, parsing.positive, epochs=30, more_epochs=5)
    parsing.add_data_folder(parser)
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    if not all(options.budgets):
        parser.error("--budgets must be above 0")
    shown = ["methods", "budgets", "seeds", *NUMBERS]
    options.command = reporting.command("dnarch/pruned_resnet.py", parser, options, shown)
    settings = {name: getattr(options, name) for name in NUMBERS}
    options.published = all(settings[name] == parser.get_default(name) for name in NUMBERS)
    return options, reporting.open_results(
        parser, options, "pruned_resnet", page, settings, options.command
    )


def load(options):
    """Return images for training, validation and testing, uint8, with their labels."""
    most = max(options.subset, options.test_subset)
    found = images.load("cifar10", options.data_dir, most)
    side, parts = found[0][0].shape[1] // options.size, []
    for (x, y), number in zip(found, (options.subset, None, options.test_subset), strict=True):
        x = images.block_means(x[:number], side)
        parts.append((np.round(255 * x).astype("uint8"), y[:number]))
    return parts


def resnet(options, width):
    return keras_xd.models.resnet20((options.size, options.size, 3), CLASSES, width=width)


def narrow(options, cost, budget):
    """Return ResNet-20 of the width whose multiply–adds are about nearest to the budget."""
    return resnet(options, max(1, round(options.width * (budget / cost) ** 0.5)))


def given(data, options):
    """Return the trained ResNet-20 and the seconds of its training, 0 if it was kept."""
    keras.utils.set_random_seed(0)
    model = resnet(options, options.width)
    if options.published and START.exists():
        model.load_weights(START)
        return model, 0.0
    seconds = train(model, augmented(data, 0, options), options.epochs)
    if options.published:
        copied(model).save_weights(START)
    return model, seconds


# Training


def compiled(model, rate, steps):
    """Return a network with the optimizer of so many steps."""
    optimizer = keras.optimizers.SGD(
        schedule(rate, steps, WARMUP), momentum=0.9, nesterov=True, weight_decay=WEIGHT_DECAY
    )
    optimizer.exclude_from_weight_decay(var_names=["gamma", "beta", "bias"])
    return fitting.compiled(model, optimizer, loss=LOSS, jit_compile=False)


def augmented(data, seed, options):
    return ImageBatches(*data[0], options.batch_size, seed, augment=True)


def train(model, batches, epochs, rate=RATE):
    """Train a network; return the seconds."""
    compiled(model, rate, epochs * len(batches))
    begun = time.perf_counter()
    model.fit(batches, epochs=epochs, shuffle=False, verbose=2)
    return time.perf_counter() - begun


def accuracy(model, part):
    return fitting.accuracy(model, normalize(part[0]), part[1])


def run(method, kind, seed, whole, data, options):
    """Make one network; return what was measured."""
    model, seconds = whole
    cost, epochs = float(keras_xd.complexity(model)), round(options.more_epochs / float(kind))
    keras.utils.set_random_seed(seed)
    batches, begun = augmented(data, seed, options), time.perf_counter()
    if method == "whole":
        small = model
    elif method == "narrow":
        small = narrow(options, cost, float(kind) * cost)
        train(small, batches, options.epochs + epochs)
    elif method == "torch_pruning":
        samples = [part[:SAMPLES] for part in data[0]]
        small = pruned_peers.torch_pruning(model, float(kind), normalize(samples[0]), samples[1])
        train(small, batches, epochs, LATER_RATE)
    elif method == "keras_2":
        rates = LATER_RATE, WARMUP, WEIGHT_DECAY
        small = pruned_peers.keras_2_pruner(model, float(kind), batches, epochs, *rates)
    else:
        small = keras_xd.compress(
            compiled(copied(model), LATER_RATE, epochs * len(batches)),
            batches,
            target={"multiply_adds": float(kind)},
            importance=method,
            epochs=epochs,
            verbose=2,
        ).model
    if method != "whole":
        seconds = time.perf_counter() - begun
    return {
        "method": method,
        "kind": kind,
        "seed": seed,
        "score": accuracy(small, data[2]),
        "validation": accuracy(small, data[1]),
        "multiply_adds": float(keras_xd.complexity(small)),
        "parameters": small.count_params(),
        "epochs": options.epochs + (0 if method == "whole" else epochs),
        "whole_multiply_adds": cost,
        "milliseconds": timing.milliseconds([small, model], model.input_shape[1:], CALLS),
        "seconds": round(seconds, 2),
        "command": options.command,
    }


def copied(model):
    """Return a copy of a network."""
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy


def main(arguments=None):
    options, results = parse(arguments)
    data = load(options)
    whole = given(data, options)
    budgets = [f"{budget:g}" for budget in options.budgets]

    def measured(*key):
        return run(*key, whole, data, options)

    def line(record):
        return (
            f"{record['method']}, budget {record['kind']}, seed {record['seed']}: accuracy "
            f"{100 * record['score']:.2f} %, {record['multiply_adds']:,.0f} multiply–adds"
        )

    keys = [
        (method, kind, seed)
        for method in options.methods
        for kind in (["1"] if method == "whole" else budgets)
        for seed in (options.seeds[:1] if method == "whole" else options.seeds)
    ]
    return reporting.run_all(results, keys, measured, line)


if __name__ == "__main__":
    main()
