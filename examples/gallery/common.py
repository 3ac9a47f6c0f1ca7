"""What the scripts of the gallery share: arguments, files that are not lost, networks, style."""

import argparse
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # the folder examples

import fitting
import keras
from datasets.batches import Batches
from matplotlib.figure import Figure
from PIL import Image

import keras_xd
from keras_xd.visualization import style

STARTED = time.perf_counter()
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def parse(script, documentation, arguments=None, ending="svg"):
    """Return the options of a script: `small`, and `path`, where its picture goes."""
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default="gallery", help="folder")
    parser.add_argument("--overwrite", action="store_true", help="write over an existing picture")
    parser.add_argument("--small", action="store_true", help="a setting of seconds, for tests")
    options = parser.parse_args(arguments)
    options.path = options.output / f"{pathlib.Path(script).stem}.{ending}"
    if options.path.exists() and not options.overwrite:
        parser.error(f"{options.path} exists: give --overwrite or another --output")
    options.output.mkdir(parents=True, exist_ok=True)
    return options


def figure(width, height):
    """Return an empty figure of a size in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def save(drawn, options):
    """Write the picture; say where and after how many seconds."""
    style.save(drawn, options.path)
    if options.path.suffix == ".png":  # 256 colours: a third of the bytes
        with Image.open(options.path) as picture:
            few = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
        few.save(options.path, optimize=True)
    seconds = f"{time.perf_counter() - STARTED:.0f} s, {time.process_time():.0f} s of a core"
    print(f"{options.path}: {options.path.stat().st_size / 1000:.0f} kB, {seconds}")


def count(number, noun):
    """Return a number and its noun, in the plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plain_image(axes, values, **options):
    """Draw an image without ticks, with a border."""
    drawn = axes.imshow(values, **options)
    axes.spines[:].set_visible(True)
    axes.set(xticks=[], yticks=[])
    return drawn


def backbone(filters, shape=(8, 8, 1), kernel_size=3, classes=10, convolutions=2):
    """Return a CNN of a few convolutions over one or two axes."""
    rank, layers = len(shape) - 1, [keras.Input(shape)]
    convolution = getattr(keras.layers, f"Conv{rank}D")
    pooling = getattr(keras.layers, f"GlobalAveragePooling{rank}D")
    for number in range(1, convolutions + 1):
        layers += [
            convolution(filters, kernel_size, padding="same", name=f"conv{number}"),
            keras.layers.BatchNormalization(momentum=0.8),
            keras.layers.ReLU(),
        ]
    return keras.Sequential([*layers, pooling(), keras.layers.Dense(classes)])


def trained(model, train, epochs, seed=0):
    """Train a network, or search the operations of a rewritten one."""
    batches = Batches(*train, batch_size=64, seed=seed)
    steps = epochs * len(batches)
    rates = (3e-2, 3e-3) if keras_xd.architecture_variables(model) else (3e-2,)
    optimizers = [fitting.adam(rate, steps) for rate in rates]
    model = fitting.compiled(model, *optimizers, loss=LOSS)
    model.fit(batches, epochs=epochs, shuffle=False, verbose=0)
    return model


def at_start(layer):
    """Return a layer of the same kernel whose architecture is where the search began."""
    start = type(layer).from_config(layer.get_config())
    start.build(layer.get_build_config()["input_shape"])
    start.kernel.assign(layer.kernel)
    return start
