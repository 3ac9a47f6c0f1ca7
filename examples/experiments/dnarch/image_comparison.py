"""Networks with learned kernel sizes beside ordinary CNNs of as many multiply–adds, on CIFAR-10.

    python examples/experiments/dnarch/image_comparison.py
    python examples/experiments/dnarch/image_comparison.py --size 32 --subset 20000 --epochs 20

Methods, trained for the same epochs on the same images:

- `learned`: `models.ccnn` with its default kernels and learned kernel sizes, which begin at 5 × 5.
  Its multiply–adds, convolutions counted for each channel, are held at those it begins with;
- `separable`: the same network with depthwise convolutions of 5 × 5 taps of Keras;
- `plain`: convolutions of 3 × 3 taps at three resolutions, of as many channels as the multiply–adds
  of the other two allow.

Each finished run is kept at once and not repeated when the script is started again with the same
settings; several processes with different methods or seeds may share the work.
"""

import argparse
import itertools
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import numpy as np
import parsing
import reporting
from datasets import images
from datasets.batches import ImageBatches, normalize

import keras_xd
from experiments.dnarch import dnarch_training
from experiments.dnarch.dnarch_training import schedule

METHODS = ("learned", "separable", "plain")
NUMBERS = ("size", "subset", "test_subset", "epochs", "batch_size", "channels", "blocks")
FIRST_SIZE, WARMUP, WEIGHT, CLASSES = 5, 0.05, 5.0, 10


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0])
    parser.add_argument("--size", type=int, choices=[8, 16, 32], default=16, help="of a side")
    parser.add_argument("--subset", type=parsing.positive, default=5000, help="training images")
    parser.add_argument("--test-subset", type=parsing.positive, default=10000, help="test images")
    parser.add_argument("--epochs", type=parsing.positive, default=8)
    parser.add_argument("--batch-size", type=parsing.positive, default=50)
    parser.add_argument("--channels", type=parsing.positive, default=24)
    parser.add_argument("--blocks", type=parsing.positive, default=2)
    parser.add_argument("--learning-rate", type=parsing.rate, default=0.01)
    parser.add_argument(
        "--architecture-rate", type=parsing.rate, default=0.005, help="of the masks"
    )
    parser.add_argument("--weight-decay", type=parsing.number, default=0.01)
    parser.add_argument("--dropout", type=parsing.fraction, default=0.1)
    parser.add_argument("--augment", action="store_true", help="random crops and flips")
    parser.add_argument("--data-dir", default=os.environ.get("TFDS_DATA_DIR"))
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    names = [*NUMBERS, "learning_rate", "architecture_rate", "weight_decay", "dropout", "augment"]
    command = reporting.command(
        "dnarch/image_comparison.py", parser, options, ["methods", "seeds", *names[:-1]]
    )
    options.command = command + (" --augment" if options.augment else "")
    settings = {name: getattr(options, name) for name in names}
    folder, overwrite = options.output, options.overwrite
    try:
        results = reporting.Results(
            f"image_comparison_{options.size}",
            page,
            draw,
            folder,
            settings,
            options.command,
            overwrite,
        )
    except ValueError as error:
        parser.error(str(error))
    return options, results


def load(options):
    """Return training and test images, uint8 averages of blocks of pixels, with their labels."""
    train, _, test = images.load("cifar10", options.data_dir)
    side = train[0].shape[1] // options.size
    parts = []
    for (x, y), number in ((train, options.subset), (test, options.test_subset)):
        x = images.block_means(x[:number], side)
        parts.append((np.round(255 * x).astype("uint8"), y[:number]))
    return parts


def learned(options, seed):
    return keras_xd.models.ccnn(
        options.blocks,
        options.channels,
        (options.size, options.size, 3),
        CLASSES,
        learn="K",
        kernel_size=options.size + 1,  # odd, so that kernels have a middle
        initial_kernel_size=FIRST_SIZE,
        dropout=options.dropout,
        rendering="dynamic",
        per_channel=True,
        seed=seed,
    )


def separable(options, seed):
    """Return the network of `learned` with the depthwise convolutions of Keras."""
    shape = (options.size, options.size, 3)
    sizes = options.channels, options.blocks, FIRST_SIZE
    return dnarch_training.separable(shape, CLASSES, *sizes, options.dropout, seed)


def plain(options, seed, channels):
    """Return a CNN of three pairs of convolutions, each pair at half the size of the last."""
    inputs = x = keras.Input((options.size, options.size, 3))
    for index in range(6):
        draw = keras.initializers.HeNormal(seed + index)
        filters = channels * 2 ** (index // 2)
        x = keras.layers.Conv2D(filters, 3, 1, "same", use_bias=False, kernel_initializer=draw)(x)
        x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
        if index in (1, 3):
            x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Dropout(options.dropout, seed=seed)(keras.layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, keras.layers.Dense(CLASSES)(x))


def network(method, options, seed, budget):
    """Return the network of a method, `plain` with the most channels that the budget allows."""
    if method != "plain":
        return {"learned": learned, "separable": separable}[method](options, seed)
    channels = 1
    while keras_xd.complexity(plain(options, seed, channels + 1)) <= budget:
        channels += 1
    return plain(options, seed, channels)


def run(method, data, seed, options):
    """Train one network; return what was measured."""
    keras.utils.set_random_seed(seed)
    budget = float(keras_xd.complexity(learned(options, seed)))
    model = network(method, options, seed, budget)
    (x, y), (test_x, test_y) = data
    batches = ImageBatches(x, y, options.batch_size, seed, options.augment)
    steps = options.epochs * len(batches)
    rate, architecture = (
        schedule(r, steps, WARMUP) for r in (options.learning_rate, options.architecture_rate)
    )
    optimizer = keras.optimizers.AdamW(rate, weight_decay=options.weight_decay)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    watch = Progress()
    callbacks, settings = [watch], {"metrics": ["accuracy"], "jit_compile": False}
    if method == "learned":
        model = keras_xd.SearchModel(model)
        settings |= {"complexity_target": budget, "complexity_weight": WEIGHT}
        callbacks.append(keras_xd.callbacks.DynamicRendering(2, margin=0.0))
        model.compile(optimizer, keras.optimizers.Adam(architecture), loss, **settings)
    else:
        model.compile(optimizer, loss, **settings)
    history = model.fit(batches, epochs=options.epochs, callbacks=callbacks, verbose=0).history
    record = {"kernels": [], "kernels_by_epoch": watch.kernels}
    if method == "learned":
        keras_xd.layers.update_rendering(model)
        record["kernels"] = kernel_sizes(model.model)
        model = keras_xd.finalize(model)
    outputs = model.predict(normalize(test_x), batch_size=100, verbose=0)
    return {
        "method": method,
        "kind": f"{options.size}x{options.size}",
        "seed": seed,
        "score": float(np.mean(outputs.argmax(axis=-1) == test_y)),
        "training_accuracy": history["accuracy"],
        "multiply_adds": float(keras_xd.complexity(model)),
        "budget": budget,
        "parameters": reporting.count(model.trainable_variables),
        "seconds": watch.seconds,
        "seconds_a_step": round(min(watch.seconds) / len(batches), 4),
        "command": options.command,
        **record,
    }


def kernel_sizes(model):
    """Return the taps under the masks of each block, along both axes."""
    blocks = [layer for layer in model.layers if isinstance(layer, keras_xd.layers.CCNNBlock)]
    found = [block.describe() for block in blocks]
    return [[round(sizes[f"taps/{axis}"]) for axis in range(2)] for sizes in found]


class Progress(keras.callbacks.Callback):
    """Notes and prints the seconds and the kernel sizes of each epoch."""

    def __init__(self):
        super().__init__()
        self.seconds, self.kernels = [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(round(time.perf_counter() - self.start, 2))
        if isinstance(self.model, keras_xd.SearchModel):
            self.kernels.append(kernel_sizes(self.model.model))
        found = f"training accuracy {100 * logs['accuracy']:.1f} %, {self.seconds[-1]:.1f} s"
        print(f"epoch {epoch + 1}: {found}", flush=True)


def page(settings, runs, written):
    """Return the page of results."""
    runs = sorted(runs, key=lambda found: (METHODS.index(found["method"]), found["seed"]))
    seeds = sorted({found["seed"] for found in runs})
    rows = []
    for method in reporting.present(runs, "method", METHODS):
        own = reporting.select(runs, method=method)
        scores = {found["seed"]: 100 * found["score"] for found in own}
        row = [method, reporting.cell(scores, seeds, 2)]
        row += [f"{statistics.mean(found[n] for found in own):,.0f}" for n in ("multiply_adds",)]
        row += [f"{statistics.mean(found['parameters'] for found in own):,.0f}"]
        row += [f"{1000 * min(found['seconds_a_step'] for found in own):.0f}"]
        kernels = ["; ".join(f"{a} × {b}" for a, b in found["kernels"]) for found in own]
        rows.append([*row, " / ".join(text for text in kernels if text) or "–"])
    head = ["method", "accuracy", "multiply–adds", "parameters", "ms a step", "kernels"]
    return "\n".join(
        [
            "# Learned kernel sizes beside ordinary CNNs: CIFAR-10",
            "",
            f"Written by {reporting.commands(runs)}; {written['versions']}; "
            f"threads: {written['threads']}.",
            "",
            f"Accuracy in percent on {settings['test_subset']:,} test images of {settings['size']} "
            f"× {settings['size']} pixels after {settings['epochs']} epochs on "
            f"{settings['subset']:,} training images; {reporting.over(seeds)}. Multiply–adds and "
            "parameters are those of the finalized network, kernels its taps, block by block, for "
            f"each seed. The budget is {runs[0]['budget']:,.0f} multiply–adds.",
            "",
            *reporting.table(head, rows),
            f"![Training accuracy](image_comparison_{settings['size']}.svg)",
            "",
        ]
    )


def draw(settings, runs, path):
    """Draw the training accuracy by epoch."""
    figure, axes = reporting.panels(5, 3)
    for number, method in enumerate(reporting.present(runs, "method", METHODS)):
        own = reporting.select(runs, method=method)
        curves = [[100 * value for value in found["training_accuracy"]] for found in own]
        reporting.mean_and_range(axes[0, 0], curves, number, method)
    axes[0, 0].set(xlabel="epoch", ylabel="training accuracy, percent")
    axes[0, 0].legend()
    reporting.by_whole_numbers(axes[0, 0])
    figure.savefig(path)


def main(arguments=None):
    options, results = parse(arguments)
    data = load(options)
    for seed, method in itertools.product(options.seeds, options.methods):
        key = (method, f"{options.size}x{options.size}", seed)
        record = results.obtain(key, run, method, data, seed, options)
        print(
            f"{method}, seed {seed}: accuracy {100 * record['score']:.2f} %, "
            f"{record['multiply_adds']:,.0f} multiply–adds, {record['parameters']:,} parameters, "
            f"{record['seconds_a_step']:.3f} s a step",
            flush=True,
        )
    print(f"\n{results.paths['md'].read_text()}")
    return results


if __name__ == "__main__":
    main()
