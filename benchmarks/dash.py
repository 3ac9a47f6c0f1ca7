"""Time of a DASH mixture beside one convolution of its span, and beside its candidates alone.

    python benchmarks/dash.py [--dry-run]

Every case is forward and backward of one layer with sixteen candidates, sizes 3, 5, 7, 9 and
dilations 1, 3, 7, 15, padding "same" and equal shares, in one process on one thread, without XLA:
the mixture as one convolution in both forms, `"direct"` and `"fourier"`; a Keras convolution whose
kernel reaches as far as the largest candidate does within the input; and a `MixedOperation` of the
same candidates, each computed by itself. Milliseconds of the processor, the median of several runs
in turn. The table is written to benchmarks/dash.md, or nowhere with `--dry-run`.
"""

import argparse
import importlib.metadata
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(name, "1")

RESULTS = pathlib.Path(__file__).with_suffix(".md")
# Batch, spatial sizes, channels and filters.
CASES = ((32, (256,), 32), (16, (1024,), 32), (32, (16, 16), 32), (8, (32, 32), 16))
SIZES, DILATIONS = (3, 5, 7, 9), (1, 3, 7, 15)
RUNS = 5


def contestants(sizes, channels):
    """Return layers by name."""
    import keras

    from keras_xd import layers

    rank = len(sizes)
    dash = getattr(layers, f"DashConv{rank}D")
    span = max(DILATIONS) * (max(SIZES) - 1) + 1
    found = {
        form: dash(channels, 3, padding="same", perturb=None, convolution=form)
        for form in ("direct", "fourier")
    }
    taps = tuple(min(span, 2 * size - 1) for size in sizes)
    plain = (keras.layers.Conv1D, keras.layers.Conv2D)[rank - 1]
    found["one convolution"] = plain(channels, taps, padding="same")
    names = found["direct"].operation_names
    mixed = (layers.MixedOperation1D, layers.MixedOperation2D)[rank - 1]
    found["by themselves"] = mixed(channels, 3, padding="same", candidates=names, perturb=None)
    return found


def measure(batch_size, sizes, channels, runs):
    """Return milliseconds by name, and the form that is chosen."""
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    x = tf.constant(np.random.normal(size=(batch_size, *sizes, channels)).astype("float32"))
    layers, steps = contestants(sizes, channels), {}
    for name, layer in layers.items():
        layer.build(x.shape)
        weights = [variable.value for variable in layer.trainable_variables]

        def step(x, layer=layer, weights=weights):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(layer(x) ** 2)
            return tape.gradient(loss, [x, *weights])

        steps[name] = tf.function(step, autograph=False)
        steps[name](x)
    times = {name: [] for name in steps}
    for _ in range(runs):
        for name, step in steps.items():
            start = time.process_time()
            step(x)
            times[name].append(1000 * (time.process_time() - start))
    form = layers["direct"].__class__(channels, 3, padding="same").form((None, *x.shape[1:]))
    return {name: statistics.median(values) for name, values in times.items()}, form


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="one small case, for tests")
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(arguments)
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    shown = sys.argv[1:] if arguments is None else arguments
    command = " ".join(["python benchmarks/dash.py", *(w for w in shown if w != "--dry-run")])
    lines = [
        "# Sixteen convolutions as one",
        "",
        f"Written by `{command}`; {versions}, one core, float32, without XLA. Milliseconds of the "
        "processor, forward and backward, median of runs in turn. The mixture is computed in the "
        "form chosen.",
        "",
        "| batch | sizes | channels | direct | fourier | chosen | one convolution of the span | "
        "by themselves | mixture / one | by themselves / mixture |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    cases = ((2, (16,), 2),) if options.small else CASES
    for batch_size, sizes, channels in cases:
        found, form = measure(batch_size, sizes, channels, 1 if options.small else RUNS)
        mixture = found[form]
        one, themselves = found["one convolution"], found["by themselves"]
        lines.append(
            f"| {batch_size} | {' × '.join(map(str, sizes))} | {channels} | "
            f"{found['direct']:.1f} | {found['fourier']:.1f} | {form} | {one:.1f} | "
            f"{themselves:.1f} | {mixture / one:.2f} | {themselves / mixture:.1f} |"
        )
        print(lines[-1], flush=True)
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
