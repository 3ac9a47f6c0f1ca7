"""Time of a dynamic depthwise convolution, done in several ways, and of a heterogeneous cell.

    python benchmarks/dynamic_conv.py [--batch 32] [--rounds 20] [--dry-run]

The first table has a forward and backward pass (gradients of inputs and kernels) of a depthwise
convolution whose kernels belong to the samples of the batch, beside that of Keras' depthwise
convolution with one kernel for all: `fold` and `slices` are those ways of
`keras_xd.layers.cells.dynamic_conv.dynamic_depthwise_conv`; `patches` gathers all windows and sums
by `keras.ops.einsum` (only for 3 × 3 without XLA, as it is slow). The second table has a forward
and backward pass of a HeterogeneousCell and the sum of those of its operations, each alone, dynamic
convolutions and attention applied. In one process, every contestant in turn, round after round;
medians without the first round, which traces. The tables are written to
benchmarks/dynamic_conv.md, or nowhere with `--dry-run`.
"""

import argparse
import functools
import importlib.metadata
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from keras import ops

import keras_xd
from keras_xd.layers.cells.dynamic_conv import WAYS, dynamic_depthwise_conv
from keras_xd.layers.cells.genotypes import is_feature
from keras_xd.layers.cells.operator_cell import Outcomes, outcome_kind

RESULTS = pathlib.Path(__file__).with_suffix(".md")


def patches(x, kernels):
    """Gather the windows of all places."""
    size = kernels.shape[1]
    windows = ops.image.extract_patches(x, size, 1, padding="same", data_format="channels_last")
    windows = ops.reshape(windows, (*x.shape[:-1], size**2, x.shape[-1]))
    taps = ops.reshape(kernels, (-1, size**2, x.shape[-1]))
    return ops.einsum("bhwtc,btc->bhwc", windows, taps)


def keras_convolution(x, kernels):
    """Convolve all samples with the kernel of the first one."""
    kernel = ops.expand_dims(kernels[0], -1)
    return ops.depthwise_conv(x, kernel, 1, "same", "channels_last")


def gradients(function, variables, jit):
    """Return a compiled function of the gradients of the sum of squares of what one returns."""

    @tf.function(jit_compile=jit)
    def step(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(function(*inputs)))
        found = tape.gradient(loss, [*inputs, *variables])
        return [tf.reduce_sum(gradient) for gradient in found if gradient is not None]

    return step


def medians(contestants, rounds):
    """Return the median milliseconds of each contestant, a function without arguments."""
    times = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            [value.numpy() for value in run()]
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: 1e3 * statistics.median(found) for name, found in times.items()}


def ways(options, size, jit):
    """Return contestants for one kernel size."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(options.batch, 32, 32, 64)).astype("float32"))
    kernels = tf.constant(rng.random((options.batch, size, size, 64)).astype("float32"))
    functions = {"Keras": keras_convolution}
    functions |= {way: functools.partial(dynamic_depthwise_conv, way=way) for way in WAYS}
    if size == 3 and not jit:
        functions["patches"] = patches
    steps = {name: gradients(function, [], jit) for name, function in functions.items()}
    return {name: lambda step=step: step(x, kernels) for name, step in steps.items()}


def applied(operation, name):
    """Return what an operation does to features: it makes them, or calibrates them."""

    def call(x):
        outcomes = Outcomes(kernel_size=5)
        outcomes.add(outcome_kind(name), operation(x, training=True))
        return outcomes.sums["features"] if is_feature(name) else outcomes.calibrated(x)

    return call


def cell_contestants(options):
    """Return the step of a cell, and of each of its operations."""
    architecture = keras_xd.layers.ArchitectureLogits()
    cell = keras_xd.layers.HeterogeneousCell(16, architecture)
    rng = np.random.default_rng(0)
    inputs = [
        tf.constant(rng.normal(size=(options.batch, 32, 32, 64)).astype("float32"))
        for _ in range(2)
    ]
    x = tf.constant(rng.normal(size=(options.batch, 32, 32, 16)).astype("float32"))
    cell(inputs)
    step = gradients(lambda *inputs: cell(inputs, training=True), cell.trainable_variables, False)
    found = {"cell": lambda: step(*inputs)}
    for number, layer in enumerate(cell.preprocessing):
        inner = gradients(
            lambda x, layer=layer: layer(x, training=True), layer.trainable_variables, False
        )
        found[f"input {number}"] = lambda inner=inner: inner(inputs[0])
    # Operations of one name are equally large, so that one of each is measured.
    counts = {name: 18 for name in cell.operation_names}
    for name in counts:
        layer = cell.edge_operation(0, name)
        inner = gradients(applied(layer, name), layer.trainable_variables, False)
        found[name] = lambda inner=inner: inner(x)
    return found, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--skip-cell", action="store_true", help="only the first table")
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args()
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    shown = [word for word in sys.argv[1:] if word != "--dry-run"]
    command = " ".join(["python benchmarks/dynamic_conv.py", *shown])
    lines = [
        "# Dynamic depthwise convolutions and heterogeneous cells",
        "",
        f"Written by `{command}`; {versions}, {os.cpu_count()} cores, "
        f"float32, batch {options.batch}, 32×32, forward and backward, medians of "
        f"{options.rounds} rounds.",
        "",
        "64 channels, kernels of each sample; Keras: one kernel for all samples.",
        "",
        "| kernel | XLA | way | ms | times Keras | target |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for size in (3, 5):
        for jit in (False, True):
            times = medians(ways(options, size, jit), options.rounds)
            for name, milliseconds in times.items():
                target = "≤ 3" if size == 3 and name in WAYS else ""
                lines.append(
                    f"| {size} | {'yes' if jit else 'no'} | {name} | {milliseconds:.1f} | "
                    f"{milliseconds / times['Keras']:.2f} | {target} |"
                )
                print(lines[-1], flush=True)
    if not options.skip_cell:
        contestants, counts = cell_contestants(options)
        times = medians(contestants, options.rounds)
        total = (
            sum(milliseconds * counts.get(n, 1) for n, milliseconds in times.items())
            - times["cell"]
        )
        lines += [
            "",
            "A normal HeterogeneousCell of 16 channels and the sum of its 18 × 11 operations and "
            "two inputs, each alone, without XLA.",
            "",
            "| | ms | times the sum | target |",
            "|---|---|---|---|",
            f"| sum of operations | {total:.1f} | 1.00 | |",
            f"| cell | {times['cell']:.1f} | {times['cell'] / total:.2f} | ≤ 1.15 |",
        ]
        print("\n".join(lines[-6:]), flush=True)
    if not options.dry_run:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
