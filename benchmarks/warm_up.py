"""Time of a training step while the architecture is fixed, as in warm-up.

    python benchmarks/warm_up.py [--repetitions 5] [--batch-size 32] [--size 32] [--blocks 9]
        [--dry-run]

First the layers: forward and backward by inputs, kernel and bias in float32, `from variables` as a
layer computes that is called by itself, and by its `frozen form` as in warm-up and cool-down of a
`SearchModel`: the operation of Keras that it still is, or with folded transforms where its
architecture has moved. Beside them the layer of Keras. Then ResNet-20 with all convolutions
searched: a step of `train_on_batch` in warm-up, from variables and by frozen forms, and one of the
backbone. Times are medians, all contestants of a row in turn in one process. The page is written to
benchmarks/warm_up.md, or nowhere with `--dry-run`.
"""

import argparse
import importlib.metadata
import os
import pathlib
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import keras_xd
from keras_xd import layers
from keras_xd.core import frozen_forms

RESULTS = pathlib.Path(__file__).with_suffix(".md")
BLOCKS = 9  # of ResNet-20
SAME = {"padding": "same"}
POOLING = {"warm_start": "average_pooling", **SAME}


def perturbed(operation):
    return {"warm_start": layers.warm_starts.Perturbed(operation, 0.1), "seed": 1, **SAME}


# batch, size, channels, the searched layer, its arguments, the layer of Keras or None
CASES = {
    "convolution": (8, 64, 32, layers.XDConv2D, SAME, keras.layers.Conv2D),
    "convolution, depth 3": (8, 64, 32, layers.XDConv2D, {"depth": 3, **SAME}, keras.layers.Conv2D),
    "pooling": (8, 64, 32, layers.XDConv2D, POOLING, keras.layers.AveragePooling2D),
    "depthwise": (8, 64, 32, layers.XDDepthwiseConv2D, SAME, keras.layers.DepthwiseConv2D),
    "moved": (8, 64, 32, layers.XDConv2D, perturbed("convolution"), keras.layers.Conv2D),
    "moved, depth 3": (
        *(8, 64, 32, layers.XDConv2D),
        {"depth": 3, **perturbed("convolution")},
        keras.layers.Conv2D,
    ),
    "moved, 8 × 8": (32, 8, 64, layers.XDConv2D, perturbed("convolution"), keras.layers.Conv2D),
}


def twin_arguments(kind, channels):
    if kind is keras.layers.AveragePooling2D:
        return {"pool_size": 3, "strides": 1, **SAME}
    sizes = {"kernel_size": 3, **SAME}
    return sizes if kind is keras.layers.DepthwiseConv2D else {"filters": channels, **sizes}


def layer_step(layer, form, x, jit):
    """Return a function that runs forward and backward of a layer once, by a form or without."""
    weights = [getattr(layer, name, None) for name in ("kernel", "bias")]
    weights = [weight.value for weight in weights if weight is not None]
    forms = {} if form is None else {id(layer): (layer, form)}

    @tf.function(jit_compile=jit)
    def step(x):
        with tf.GradientTape() as tape, frozen_forms.using(forms):
            tape.watch(x)
            loss = tf.reduce_mean(tf.square(layer(x)))
        return tape.gradient(loss, [x, *weights])

    return lambda: step(x)[0].numpy()


def medians(steps, repetitions):
    """Run the contestants in turn, and return the median milliseconds of each."""
    times = {name: [] for name in steps}
    for step in steps.values():
        step()
        step()
    for _ in range(3):
        for name, step in steps.items():
            for _ in range(repetitions):
                start = time.perf_counter()
                step()
                times[name].append(time.perf_counter() - start)
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def row_of_layer(name, jit, repetitions):
    batch, size, channels, kind, arguments, twin = CASES[name]
    filters = {} if kind is layers.XDDepthwiseConv2D else {"filters": channels}
    layer = kind(kernel_size=3, **filters, **arguments)
    x = tf.random.stateless_normal((batch, size, size, channels), (0, 1))
    plain = twin(**twin_arguments(twin, channels))
    layer.build(x.shape)
    plain.build(x.shape)
    form = layer.frozen_form()
    steps = {
        "variables": layer_step(layer, None, x, jit),
        "form": layer_step(layer, form, x, jit),
        "keras": layer_step(plain, None, x, jit),
    }
    found = medians(steps, repetitions)
    times = " | ".join(f"{found[key]:.1f}" for key in steps)
    return (
        f"| {name} | {batch}, {channels}, {size}×{size} | {getattr(form, 'name', 'folded')} "
        f"| {'yes' if jit else 'no'} | {times} | {found['variables'] / found['form']:.2f} "
        f"| {found['form'] / found['keras']:.2f} |"
    )


class FromVariables(keras_xd.SearchModel):
    """A search with a train step of its own, whose layers have no frozen forms."""

    def train_step(self, *args):
        return super().train_step(*args)


def network(options):
    """Return ResNet-20, or one with the first of its blocks."""
    model = keras_xd.models.resnet20((options.size, options.size, 3), 10, width=options.width)
    if options.blocks == BLOCKS:
        return model
    ends = [layer.output for layer in model.layers if layer.name.endswith("_relu2")]
    x = keras.layers.GlobalAveragePooling2D()(ends[options.blocks - 1])
    return keras.Model(model.inputs, keras.layers.Dense(10)(x))


def network_steps(options, jit):
    """Return a training step of each contestant, and the seconds of its first one."""
    shape = (options.size, options.size, 3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    generator = np.random.default_rng(0)
    images = generator.normal(size=(options.batch_size, *shape)).astype("float32")
    labels = generator.integers(10, size=options.batch_size)
    steps, first = {}, {}
    for name, kind in (
        ("variables", FromVariables),
        ("form", keras_xd.SearchModel),
        ("keras", None),
    ):
        model = network(options)
        if kind is None:
            model.compile("adam", loss, jit_compile=jit)
        else:
            model = kind(keras_xd.rewrite(model, depth=options.depth))
            model.compile("adam", "adam", loss, jit_compile=jit, warmup_epochs=1)
        steps[name] = lambda model=model: model.train_on_batch(images, labels)
        start = time.perf_counter()
        steps[name]()
        first[name] = time.perf_counter() - start
    return steps, first


def row_of_network(options, jit):
    steps, first = network_steps(options, jit)
    found = medians(steps, options.repetitions)
    cells = [f"{first[name]:.1f}" for name in steps] + [f"{found[name]:.0f}" for name in steps]
    cells += [f"{found['variables'] / found['form']:.2f}", f"{found['form'] / found['keras']:.2f}"]
    return f"| {'yes' if jit else 'no'} | {' | '.join(cells)} |"


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--repetitions", type=int, default=5, help="in each of three rounds")
    parser.add_argument("--batch-size", type=int, default=32, help="of ResNet-20")
    parser.add_argument("--size", type=int, default=32, help="of its images")
    parser.add_argument("--width", type=int, default=16, help="its first width")
    parser.add_argument("--depth", type=int, default=1, help="of its K-matrices")
    blocks = range(1, BLOCKS + 1)
    parser.add_argument("--blocks", type=int, choices=blocks, default=BLOCKS, help="the first ones")
    parser.add_argument("--without-xla", action="store_true")
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(words)
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    threads = os.environ.get("TF_NUM_INTRAOP_THREADS", "all")
    lines = [
        "# A training step while the architecture is fixed",
        "",
        f"Written by `python benchmarks/warm_up.py`; {versions}, {os.cpu_count()} cores, "
        f"threads: {threads}. Float32; milliseconds are medians, the contestants of a row in turn "
        "in one process.",
        "",
        "Layers of kernel size 3, forward and backward by inputs, kernel and bias:",
        "",
        "| layer | batch, channels, size | form | XLA | from variables, ms | frozen form, ms "
        "| Keras' layer, ms | variables / form | form / Keras |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    compiled = (False,) if options.without_xla else (False, True)
    for name in options.cases:
        for jit in compiled:
            lines.append(row_of_layer(name, jit, options.repetitions))
            print(lines[-1], flush=True)
    first = "" if options.blocks == BLOCKS else f"first {options.blocks} of {BLOCKS} blocks, "
    lines += [
        "",
        f"ResNet-20 of width {options.width}, batch {options.batch_size}, {options.size}×"
        f"{options.size}, {first}all convolutions searched with depth {options.depth}: a step of "
        "`train_on_batch` in warm-up, with the comparison of the architecture before it:",
        "",
        "| XLA | first step from variables, s | by frozen forms, s | of the backbone, s "
        "| later steps from variables, ms | by frozen forms, ms | of the backbone, ms "
        "| variables / forms | forms / backbone |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for jit in compiled:
        lines.append(row_of_network(options, jit))
        print(lines[-1], flush=True)
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
