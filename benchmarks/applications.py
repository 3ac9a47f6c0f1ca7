"""Networks of keras.applications, rewritten: how far outputs are off, which layer is worst, time.

    python benchmarks/applications.py [--models ResNet50 …] [--size 64] [--dry-run]

Each network has random weights, the second moments of random patchworks as batch statistics, and
layer scales of 1 in place of 1e-6, so that its outputs (logits) depend on every layer. Relative
errors are those of
`keras_xd.compare`: of the whole model, and of the worst layer on the original's inputs. Seconds are
those of `rewrite` and of `compare`. The table is written to benchmarks/applications.md, or
nowhere with `--dry-run`.
"""

import argparse
import gc
import importlib.metadata
import logging
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import keras_xd

RESULTS = pathlib.Path(__file__).with_suffix(".md")
MODELS = ("ResNet50", "MobileNetV2", "EfficientNetB0", "DenseNet121", "ConvNeXtTiny")
SPACES = {
    "convolutions": {},
    "convolutions, poolings, skips": {"operations": ("convolution", "pooling", "skip")},
    "convolutions, to K-operations": {"to": "k_operation"},
}


def patchworks(count, size):
    """Return random images of 4×4 plain patches with some noise."""
    rng = np.random.default_rng(1)
    patches = rng.uniform(0, 255, size=(count, 4, 4, 3))
    plain = patches.repeat(-(-size // 4), axis=1).repeat(-(-size // 4), axis=2)
    noise = rng.uniform(0, 255, size=(count, size, size, 3))
    return (0.8 * plain[:, :size, :size] + 0.2 * noise).astype("float32")


def network(name, images):
    """Return a network whose outputs depend on every layer."""
    keras.utils.set_random_seed(1)
    model = getattr(keras.applications, name)(
        weights=None, input_shape=images.shape[1:], classifier_activation=None
    )
    normalizations = [
        layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)
    ]
    momenta = [layer.momentum for layer in normalizations]
    for layer in normalizations:
        layer.momentum = 0.0  # one batch sets the statistics
    model(images, training=True)
    for layer, momentum in zip(normalizations, momenta, strict=True):
        layer.momentum = momentum
        # Taking the mean off nearly equal values would amplify rounding, in any two models.
        mean = keras.ops.convert_to_numpy(layer.moving_mean)
        layer.moving_variance.assign(layer.moving_variance + mean**2)
        layer.moving_mean.assign(0.1 * mean)
    for layer in model.layers:
        if type(layer).__name__ == "LayerScale":
            layer.gamma.assign(np.ones(layer.gamma.shape))
    return model


def measure(name, arguments, images):
    """Return the cells of one row of the table, after those that say what it is."""
    model = network(name, images)
    start = time.perf_counter()
    space = keras_xd.rewrite(model, **arguments)
    seconds = [time.perf_counter() - start]
    start = time.perf_counter()
    comparison = keras_xd.compare(model, space, images)
    seconds.append(time.perf_counter() - start)
    expected = keras.ops.convert_to_numpy(model(images, training=False))
    actual = keras.ops.convert_to_numpy(space(images, training=False))
    changed = [row for row in comparison.rows if row.left_because is None]
    worst = comparison.worst
    return [
        f"{len(changed)} of {len(comparison.rows)}",
        f"{np.max(np.abs(expected)):.2f}",
        f"{np.max(np.abs(actual - expected)):.1e}",
        f"{comparison.output_error:.1e}",
        f"{worst.name} ({worst.kind_after})",
        f"{worst.relative_error:.1e}",
        *(f"{value:.0f}" for value in seconds),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args()
    logging.getLogger("keras_xd.rewriting").setLevel(logging.ERROR)
    images = patchworks(options.batch_size, options.size)
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    lines = [
        "# Networks of keras.applications, rewritten",
        "",
        f"Written by `python benchmarks/applications.py`; {versions}, {os.cpu_count()} cores, "
        f"batch {options.batch_size}, {options.size}×{options.size}, depth 1, random weights.",
        "",
        "| network | rewritten | layers | largest output | largest difference | relative error | "
        "worst layer | its relative error | rewrite, s | compare, s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in options.models:
        for what, arguments in SPACES.items():
            cells = measure(name, arguments, images)
            lines.append(f"| {' | '.join([name, what, *cells])} |")
            print(lines[-1], flush=True)
            keras.backend.clear_session()
            gc.collect()
    if not options.dry_run:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
