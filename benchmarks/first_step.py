"""Seconds to the first compiled train step of ResNet-20 with all 19 convolutions searched.

    python benchmarks/first_step.py [--depth 3] [--batch-size 32]

ResNet-20 at 32×32 is rewritten and trained for four steps in a process of its own, without and with
XLA, and with Keras' convolutions beside it. The first step traces and compiles; the median of
the others is the time of a step. The table is written to benchmarks/first_step.md, or nowhere with
`--dry-run`.
"""

import argparse
import importlib.metadata
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

RESULTS = pathlib.Path(__file__).with_suffix(".md")


def measure(kind, depth, batch_size, jit):
    """Print the seconds of the first step and of a later one."""
    import keras
    import numpy as np

    import keras_xd

    model = keras_xd.models.resnet20((32, 32, 3), 10)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if kind == "XD":
        model = keras_xd.SearchModel(keras_xd.rewrite(model, depth=depth))
        model.compile("adam", "adam", loss, jit_compile=jit)
    else:
        model.compile("adam", loss, jit_compile=jit)
    rng = np.random.default_rng(0)
    images = rng.normal(size=(batch_size, 32, 32, 3)).astype("float32")
    labels = rng.integers(10, size=batch_size)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        model.train_on_batch(images, labels)
        times.append(time.perf_counter() - start)
    print(times[0], statistics.median(times[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        kind, jit = options.measure
        measure(kind, options.depth, options.batch_size, jit == "jit")
        return
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    lines = [
        "# First train step of ResNet-20",
        "",
        f"Written by `python benchmarks/first_step.py`; {versions}, {os.cpu_count()} cores, batch "
        f"{options.batch_size}, 32×32, all 19 convolutions XD with depth {options.depth}.",
        "",
        "| convolutions | XLA | first step, s | later steps, s |",
        "|---|---|---|---|",
    ]
    for kind in ("XD", "Keras"):
        for jit in ("plain", "jit"):
            command = [sys.executable, __file__, "--measure", kind, jit]
            command += ["--depth", str(options.depth), "--batch-size", str(options.batch_size)]
            result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            first, later = map(float, result.stdout.split())
            lines.append(
                f"| {kind} | {'yes' if jit == 'jit' else 'no'} | {first:.1f} | {later:.2f} |"
            )
            print(lines[-1], flush=True)
    if not options.dry_run:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
