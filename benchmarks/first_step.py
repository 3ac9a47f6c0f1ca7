"""Seconds to the first compiled train step of ResNet-20 with all 19 convolutions searched.

    python benchmarks/first_step.py [--depth 3] [--batch-size 32]

The first of four steps, in a process of its own, traces and compiles; the median of the others is
the time of a step. Keras' convolutions stand beside it.
"""

import json
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
import timing

import keras_xd


def measure(kind, depth, batch_size, jit):
    """Return the seconds of the first step and of a later one."""
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
    return times[0], statistics.median(times[1:])


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return None
    rows = timing.head("convolutions", "XLA", "first step, s", "later steps, s")
    for kind in ("XD", "Keras"):
        for jit in (False, True):
            task = [kind, options.depth, options.batch_size, jit]
            first, later = timing.apart(__file__, task)
            rows.append(timing.row(kind, "yes" if jit else "no", f"{first:.1f}", f"{later:.2f}"))
    lines = timing.page(
        "First train step of ResNet-20",
        f"Written by `python benchmarks/first_step.py`; {timing.versions()}, {os.cpu_count()} "
        f"cores, batch {options.batch_size}, 32×32, all 19 convolutions XD with depth "
        f"{options.depth}.",
        rows,
    )
    return timing.write(options, lines)


if __name__ == "__main__":
    main()
