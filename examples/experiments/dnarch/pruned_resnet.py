"""ResNet-20 on CIFAR-10 made smaller: learned masks, narrower networks and small filters cut.

    python examples/experiments/dnarch/pruned_resnet.py
    python examples/experiments/dnarch/pruned_resnet.py --size 32 --subset 45000 --budgets 0.5 0.25

Keras 3 has no pruning of its own. Here the same network is brought to shares of its multiply–adds
(`--budgets`) in three ways, all trained for the same number of epochs on the same images:

- `whole`: ResNet-20, trained for `--epochs`, then for `--more-epochs` from a rate that is low;
- `masked`: that network after the first of these trainings, `rewrite(to="masked")` with the budget
  as `complexity_target` for `--search-epochs`, cut by `finalize`, and trained for those left;
- `l1`: the same network, of which each block loses those inner channels whose filters have the
  smallest sums of absolute values, the same share in all blocks (Li et al. 2017), then trained;
- `narrow`: ResNet-20 with fewer channels everywhere, trained from its start for all epochs.

Noted are accuracy, multiply–adds, parameters, the size of the `.keras` file and the milliseconds of
a call, which alternates with one of the whole network. By default images are averaged to 16 × 16
and 5,000 of them are used, for a quarter of an hour of one core (`TF_NUM_INTRAOP_THREADS=1
TF_NUM_INTEROP_THREADS=1`): a step of 64 images of 16 × 16 takes 0.08 s of it, with masks 0.09 s; of
32 × 32 it takes 0.25 and 0.27 s. No setting was tuned: the rate of the masks is that of
`gallery/budget_met.py`.

Each finished run is kept at once and not repeated when the script is started again with the same
settings; several processes with different methods or seeds may share the work.
"""

import argparse
import bisect
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import numpy as np
import parsing
import reporting
import timing
from datasets import images
from datasets.batches import ImageBatches, normalize

import keras_xd
from experiments.dnarch.dnarch_training import schedule
from experiments.dnarch.pruned_resnet_report import METHODS, page

NUMBERS = ("size", "width", "subset", "test_subset", "batch_size")
EPOCHS = ("epochs", "more_epochs", "search_epochs")
RATES = ("learning_rate", "low_rate", "architecture_rate", "complexity_weight")
CLASSES, WARMUP, CALLS = 10, 0.1, (1, 32, 256)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--budgets", nargs="+", type=parsing.fraction, default=[0.5])
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0, 1, 2])
    parser.add_argument("--size", type=int, choices=[8, 16, 32], default=16, help="of a side")
    parser.add_argument("--width", type=parsing.positive, default=16, help="of the whole network")
    parser.add_argument("--subset", type=parsing.positive, default=5000, help="training images")
    parser.add_argument("--test-subset", type=parsing.positive, default=5000, help="test images")
    parser.add_argument("--batch-size", type=parsing.positive, default=50)
    parser.add_argument("--epochs", type=parsing.positive, default=6, help="of the first training")
    parser.add_argument("--more-epochs", type=parsing.positive, default=5, help="of the second")
    parser.add_argument("--search-epochs", type=parsing.positive, default=3, help="of the second")
    parser.add_argument("--learning-rate", type=parsing.rate, default=5e-3)
    parser.add_argument("--low-rate", type=parsing.rate, default=2e-3, help="of the second")
    parser.add_argument("--architecture-rate", type=parsing.rate, default=3e-2)
    parser.add_argument("--complexity-weight", type=parsing.rate, default=5.0)
    parser.add_argument("--weight-decay", type=parsing.number, default=0.01)
    parsing.add_data_folder(parser)
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    if options.search_epochs >= options.more_epochs:
        parser.error("--search-epochs must be below --more-epochs: what is cut is trained on")
    if not all(options.budgets):
        parser.error("--budgets must be above 0")
    names = [*NUMBERS, *EPOCHS, *RATES, "weight_decay"]
    shown = ["methods", "budgets", "seeds", *names]
    options.command = reporting.command("dnarch/pruned_resnet.py", parser, options, shown)
    settings = {name: getattr(options, name) for name in names}
    try:
        results = reporting.Results(
            "pruned_resnet",
            page,
            options.output,
            settings,
            options.command,
            options.overwrite,
        )
    except ValueError as error:
        parser.error(str(error))
    return options, results


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


# Channels with small filters


def inner(model):
    """Return the first convolutions of the blocks, whose channels one other layer reads."""
    return [layer for layer in model.layers if layer.name.endswith("_conv1")]


def cut_filters(model, budget):
    """Return the network that keeps the filters of the largest sums, within a budget."""
    most = max(layer.filters for layer in inner(model))

    def small(number):
        kept = {}
        for layer in inner(model):
            sums = np.abs(layer.kernel.numpy()).sum((0, 1, 2))
            count = max(1, round(number / most * layer.filters))
            kept[layer.name] = np.sort(np.argsort(-sums)[:count])
        return _with_filters(model, kept)

    fitting = bisect.bisect(range(1, most + 1), budget, key=lambda n: keras_xd.complexity(small(n)))
    if not fitting:
        raise ValueError(
            "`budget` must be what one channel in each block costs, or more. "
            f"Received: budget={budget}"
        )
    return small(fitting)


def _with_filters(model, kept):
    """Return the network whose inner channels are those that are kept, with their weights."""

    def copy(layer):
        config = layer.get_config()
        if layer.name in kept:
            config["filters"] = len(kept[layer.name])
        return type(layer).from_config(config)

    small = keras.models.clone_model(model, clone_function=copy)
    for layer in (layer for layer in small.layers if layer.weights):
        values = model.get_layer(layer.name).get_weights()
        block, _, part = layer.name.rpartition("_conv")
        chosen = kept.get(f"{block}_conv1")
        if chosen is not None and part.startswith("1"):
            values = [value[..., chosen] for value in values]
        elif chosen is not None and part == "2":
            values = [values[0][:, :, chosen]]
        layer.set_weights(values)
    return small


# Training


def train(model, data, seed, options, epochs, rate, **target):
    """Train a network, or search one that has masks; return it with its history and seconds."""
    batches = ImageBatches(*data[0], options.batch_size, seed, augment=True)
    steps = epochs * len(batches)
    decay = {"weight_decay": options.weight_decay}
    optimizers = [keras.optimizers.AdamW(schedule(rate, steps, WARMUP), **decay)]
    if target:
        model = keras_xd.SearchModel(model)
        rates = schedule(options.architecture_rate, steps, WARMUP)
        optimizers.append(keras.optimizers.Adam(rates))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(*optimizers, loss=loss, metrics=["accuracy"], jit_compile=False, **target)
    start = time.perf_counter()
    history = model.fit(batches, epochs=epochs, shuffle=False, verbose=0).history
    return getattr(model, "model", model), history["accuracy"], time.perf_counter() - start


def accuracy(model, data):
    x, y = data[1]
    found = model.predict(normalize(x), batch_size=250, verbose=0).argmax(axis=-1)
    return float(np.mean(found == y))


class Start:
    """What the networks of a seed begin with: ResNet-20 after the first training.

    Args:
        data: training and test images with their labels.
        options: of the command.
    """

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
        arguments = (self.data, seed, options, options.epochs, options.learning_rate)
        model, self.history, self.seconds = train(model, *arguments)
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
    data, low, epochs = start.data, options.low_rate, options.more_epochs
    budget = float(kind) * start.cost
    curves, spent, record = [start.history], [start.seconds], {"before": start.accuracy}

    def further(model, epochs, rate, **target):
        order = seed + 1000 * len(curves)
        model, history, seconds = train(model, data, order, options, epochs, rate, **target)
        curves.append(history)
        spent.append(seconds)
        return model

    keras.utils.set_random_seed(seed)
    if method == "masked":
        target = {"complexity_target": budget, "complexity_weight": options.complexity_weight}
        space = keras_xd.rewrite(start.copy(), to="masked")
        space = further(space, options.search_epochs, low, **target)
        small = keras_xd.finalize(space)
        record["searched"] = float(keras_xd.complexity(space))
        epochs -= options.search_epochs
    elif method == "l1":
        small = cut_filters(start.model, budget)
    elif method == "narrow":
        curves, spent = [], []
        small = further(narrow(options, start.cost, budget), options.epochs, options.learning_rate)
    else:
        small = start.copy()
    if method in ("masked", "l1"):
        record["at once"] = accuracy(small, data)
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
        "training_accuracy": [round(value, 5) for part in curves for value in part],
        "convolutions": sizes(small),
        "seconds": [round(value, 2) for value in spent],
        "command": options.command,
    }


def uncompiled(model):
    """Return the network without its optimizer, whose state would be saved and copied with it."""
    return keras.Model(model.inputs, model.outputs, name=model.name)


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
    for seed in options.seeds:
        for method in options.methods:
            for kind in ["1"] if method == "whole" else [f"{b:g}" for b in options.budgets]:
                arguments = (method, kind, seed)
                record = results.obtain(arguments, run, *arguments, start, options)
                print(
                    f"{method}, budget {kind}, seed {seed}: accuracy {100 * record['score']:.2f} "
                    f"%, {record['multiply_adds']:,.0f} multiply–adds, "
                    f"{record['parameters']:,} parameters",
                    flush=True,
                )
    print(f"\n{results.paths['md'].read_text()}")
    return results


if __name__ == "__main__":
    main()
