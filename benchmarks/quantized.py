"""Accuracy, size and time of finalized models in eight bits, beside float32.

    TFDS_DATA_DIR=… python benchmarks/quantized.py [--cases digits cifar10] [--epochs 12]

A small convolutional network is searched, finalized with the spectrum and with the kernel, and
quantized by `keras.Model.quantize`; so is a network of CCNN blocks and KDense. Beside them stands
the convolutional network itself, trained alike. Milliseconds are medians of calls of a compiled
function at batch 32, in which all models take turns. CIFAR-10 is 5000 training and 2000 test
images. Required: int8 loses at most 0.5 points.
"""

import os
import pathlib
import sys
import tempfile
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
import timing
from keras import layers

import keras_xd
from keras_xd.layers.k.k_dense import KDense

MODES = (None, "int8", "float8")
MOST_LOST = 0.5
SEARCHED = ("spectrum", "kernel", "blocks, KDense")
TRAIN, TEST = 5000, 2000
SIZES = ("weights, bytes", "file", "ms")


def digits():
    from datasets import digits

    train, _, test = digits.load()
    return train, test


def cifar10():
    from datasets import images

    train, _, test = images.load("cifar10", subset=TRAIN)
    return train, (test[0][:TEST], test[1][:TEST])


CASES = {"digits": digits, "cifar10": cifar10}


def network(shape, count):
    """Return a network of one or two convolutions."""
    first = 2 if shape[0] > 8 else 1
    pairs = [(16, first), (32, 2)][:count]
    options = {"padding": "same", "activation": "relu"}
    convolutions = [layers.Conv2D(filters, 3, strides, **options) for filters, strides in pairs]
    return keras.Sequential([keras.Input(shape), *convolutions, layers.Flatten(), layers.Dense(10)])


def blocks(shape, count):
    """Return a network of one or two CCNN blocks and KDense."""
    found = [layers.Conv2D(32, 3, strides=2 if shape[0] > 8 else 1, padding="same")]
    for seed in range(count):
        block = keras_xd.layers.CCNNBlock(learn="KW", kernel_size=7, seed=seed)
        block.normalization.momentum = 0.9  # there are 18 steps an epoch
        found += [block, layers.AveragePooling2D(2)]
    dense = KDense(128, activation="relu", seed=2)
    return keras.Sequential([keras.Input(shape), *found, layers.Flatten(), dense, layers.Dense(10)])


def trained(train, build, options, searched):
    """Return a network or its search space, trained."""
    keras.utils.set_random_seed(0)
    model = build(train[0].shape[1:], options.layers)
    if searched:
        model = keras_xd.rewrite(model, depth=options.depth)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(2e-3), loss)
    model.fit(*train, epochs=options.epochs, batch_size=64, verbose=0)
    return model


def accuracy(model, test):
    """Return the percentage of test images that are classified rightly."""
    images, labels = test
    return 100 * float(np.mean(model.predict(images, verbose=0).argmax(axis=-1) == labels))


def quantized(model, mode):
    """Return a model after its file was written and read, quantized, and the bytes of the file."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras names the layers that have no such form
        path = os.path.join(folder, "model.keras")
        model.save(path)
        if mode is not None:
            model = keras.saving.load_model(path)
            model.quantize(mode)
            model.save(path)
        return keras.saving.load_model(path), os.path.getsize(path)


def measure(case, options):
    """Return a row `(form, mode, accuracy, bytes of weights, of the file, ms)` by form and mode."""
    train, test = CASES[case]()
    space = trained(train, network, options, searched=True)
    found = {form: keras_xd.finalize(space, form=form) for form in ("spectrum", "kernel")}
    found["blocks, KDense"] = keras_xd.finalize(trained(train, blocks, options, searched=False))
    found["not searched"] = trained(train, network, options, searched=False)
    rows, models = [], []
    for form, finalized in found.items():
        for mode in MODES:
            model, size = quantized(finalized, mode)
            weights = sum(weight.numpy().nbytes for weight in model.weights)
            rows.append([form, mode or "float32", accuracy(model, test), weights, size])
            models.append(model)
    timing.ROUNDS = options.rounds
    (times,) = timing.milliseconds(models, test[0].shape[1:], (32,)).values()
    return [(*row, taken) for row, taken in zip(rows, times, strict=True)]


def report(found, options):
    rows = timing.head("Data", "model", "weights in", "accuracy %", "points lost", *SIZES)
    for case, measured in found.items():
        before = {form: right for form, mode, right, *_ in measured if mode == "float32"}
        for form, mode, right, weights, size, taken in measured:
            cells = [case, form, mode, f"{right:.2f}", f"{before[form] - right:.2f}"]
            rows.append(timing.row(*cells, weights, size, f"{taken:.2f}"))
    losses = most_lost(found)
    verdict = "is met" if losses <= MOST_LOST else "is NOT met"
    return timing.page(
        "Finalized models in eight bits",
        f"Written by `python benchmarks/quantized.py --epochs {options.epochs}`: accuracy on "
        "test images, bytes of weights and of the `.keras` file, ms at batch 32; one seed. "
        f"{timing.versions(('keras', 'tensorflow'))}, {os.cpu_count()} CPU cores, which other work "
        "shared.",
        rows,
        f"int8 loses at most {losses:.2f} points in a searched network: the limit of "
        f"{MOST_LOST} {verdict}.",
    )


def most_lost(found):
    """Return the most points that int8 loses."""
    losses = []
    for rows in found.values():
        right = {(form, mode): value for form, mode, value, *_ in rows}
        losses += [right[form, "float32"] - right[form, "int8"] for form in SEARCHED]
    return max(losses)


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--layers", type=int, choices=(1, 2), default=2, help="or CCNN blocks")
    parser.add_argument("--depth", type=int, default=3, help="of the K-matrices")
    options = parser.parse_args(arguments)
    found = {case: measure(case, options) for case in options.cases}
    timing.write(options, report(found, options))
    return found


if __name__ == "__main__":
    main()
