"""Does the size of the circle that a convolution is padded to decide its time?

    python benchmarks/padded_sizes.py [--cases 2d-32-3 …] [--repetitions 7] [--dry-run]

A same-padded XD-operation needs a circle of a least size and takes the one at or above it whose
K-matrices have the fewest parameters: 36 where 33 would do. Here a layer is given each of the sizes
between the least and the chosen one, by `radix`, and its training step is timed beside that of the
chosen size: forward and backward by inputs and all weights, float32, without XLA. `estimate` is the
same ratio by a cost model: multiply–adds of the layer, and 16 for each number that its transforms
and its spectrum write, as `keras_xd.kmatrix.plan` counts. All sizes of a case are measured in turn
in one process; medians. The page is written to benchmarks/padded_sizes.md, or nowhere with
`--dry-run`.
"""

import argparse
import importlib.metadata
import math
import os
import pathlib
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

from keras_xd import kmatrix, layers
from keras_xd.kmatrix import radix

RESULTS = pathlib.Path(__file__).with_suffix(".md")
MEMORY_PASS = 16
# batch, channels, sizes, kernel size
CASES = {
    "2d-32-3": (8, 32, (32, 32), 3),
    "2d-28-5": (8, 32, (28, 28), 5),
    "2d-64-3": (4, 32, (64, 64), 3),
    "2d-65-3": (4, 32, (65, 65), 3),
    "2d-128-7": (2, 16, (128, 128), 7),
    "1d-64-3": (16, 64, (64,), 3),
    "1d-128-7": (16, 64, (128,), 7),
}


def candidates(size, kernel):
    """Return the least size, and the sizes with their radices up to the chosen one, that last."""
    need = size + (kernel - 1) // 2
    chosen = kmatrix.padded_size(need)
    sizes = [n for n in range(need, chosen) if max(kmatrix.factorise(n)) <= 31]
    return need, {n: kmatrix.factorise(n) for n in [*sizes, chosen]}


def make_layer(case, radices):
    batch, channels, sizes, kernel = case
    layer = layers.XDConv(len(sizes), channels, kernel, padding="same", radix=radices)
    layer.build((batch, *sizes, channels))
    return layer


def training_step(layer, case):
    """Return a function that runs forward and backward of a layer once."""
    batch, channels, sizes, _ = case
    x = tf.random.stateless_normal((batch, *sizes, channels), (0, 1))
    weights = [variable.value for variable in layer.trainable_variables]

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_mean(tf.square(layer(x)))
        return tape.gradient(loss, [x, *weights])

    return lambda: step(x)[0].numpy()


def estimate(layer, case):
    """Return what a training step costs in multiply–adds, memory counted as such."""
    batch, channels, sizes, _ = case
    outputs = inputs = math.prod(sizes)
    before, written = 1, 0
    for plan, size in zip(layer.plans, sizes, strict=True):
        inputs, outputs = inputs // size, outputs // size
        passes = len(radix.block_products(plan, max(layer.depth)))
        written += 2 * before * plan.n * passes * (inputs + outputs) * channels
        before *= plan.n
    written += 2 * before * channels  # the product between the channels
    spectrum = 2 * before * channels**2
    return batch * layer.complexity((batch, *sizes, channels)) + MEMORY_PASS * (
        batch * written + spectrum
    )


def medians(steps, repetitions):
    times = {name: [] for name in steps}
    for step in steps.values():
        step()
        step()
    for _ in range(repetitions):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def rows(name, repetitions):
    batch, channels, sizes, kernel = case = CASES[name]
    need, sized = candidates(sizes[0], kernel)
    made = {n: make_layer(case, radices) for n, radices in sized.items()}
    times = medians({n: training_step(layer, case) for n, layer in made.items()}, repetitions)
    chosen = list(made)[-1]
    for n, layer in made.items():
        ratio = estimate(layer, case) / estimate(made[chosen], case)
        parameters = sum(math.prod(v.shape) for v in layer.architecture_variables)
        yield (
            f"| {'×'.join(map(str, sizes))}, kernel {kernel} | {batch}, {channels} | {need} "
            f"| {n}{' (chosen)' if n == chosen else ''} | {'·'.join(map(str, sized[n]))} "
            f"| {parameters:,} | {times[n]:.1f} | {times[n] / times[chosen]:.2f} | {ratio:.2f} |"
        )


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(words)
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    threads = os.environ.get("TF_NUM_INTRAOP_THREADS", "all")
    lines = [
        "# Padded sizes",
        "",
        f"Written by `python benchmarks/padded_sizes.py`; {versions}, {os.cpu_count()} cores, "
        f'threads: {threads}. A training step of `XDConv` with `padding="same"` on circles of '
        "the least size up to the chosen one; medians, the sizes of a case in turn in one process.",
        "",
        "| case | batch, channels | least size | size | radices | parameters of K, L, M | ms "
        "| time / chosen | estimate / chosen |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for name in options.cases:
        for line in rows(name, options.repetitions):
            lines.append(line)
            print(line, flush=True)
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
