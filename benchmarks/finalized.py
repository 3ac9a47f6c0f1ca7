"""Size and latency of finalized models beside their backbones.

    python benchmarks/finalized.py [--cases lenet cnn1d resnet20] [--depth 1] [--rounds 15]

Each backbone is rewritten (every convolution an XD-operation), finalized and exported; both
SavedModels are loaded and called in turn, in one process and without XLA. Parameters, bytes of the
exported folders and the median milliseconds of a call at batch 1 and 32 are written to
benchmarks/finalized.md, or nowhere with `--dry-run`.
"""

import argparse
import importlib.metadata
import os
import pathlib
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

RESULTS = pathlib.Path(__file__).with_suffix(".md")
BATCHES = (1, 32)


def lenet():
    import keras_xd

    return keras_xd.models.lenet((28, 28, 1), classes=10)


def cnn1d():
    import keras

    stack = [keras.Input((256, 8), name="signal")]
    for filters in (32, 64, 64):
        stack += [
            keras.layers.Conv1D(filters, 5, padding="same", activation="relu"),
            keras.layers.AveragePooling1D(2),
        ]
    stack += [keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(10)]
    return keras.Sequential(stack)


def resnet20():
    import keras_xd

    return keras_xd.models.resnet20((32, 32, 3), 10)


CASES = {
    "lenet": ("LeNet, 28×28", lenet),
    "cnn1d": ("3 convolutions, 256 steps", cnn1d),
    "resnet20": ("ResNet-20, 32×32", resnet20),
}


def folder_bytes(folder):
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def served(model, folder):
    """Export a model; return the bytes of its folder and the model loaded from it."""
    import tensorflow as tf

    model.export(folder, verbose=False)
    return folder_bytes(folder), tf.saved_model.load(folder)


def medians(loaded, inputs, rounds):
    """Return the median milliseconds of a call of each model; rounds alternate between them."""
    times = [[] for _ in loaded]
    for index in range(rounds + 2):  # the first two trace and warm up
        for model, values in zip(loaded, times, strict=True):
            start = time.perf_counter()
            model.serve(inputs).numpy()
            if index > 1:
                values.append(1000 * (time.perf_counter() - start))
    return [statistics.median(values) for values in times]


def measure(name, depth, rounds):
    """Return the two rows, dictionaries, of a backbone and of its finalized search space."""
    import numpy as np
    import tensorflow as tf

    import keras_xd

    backbone = CASES[name][1]()
    finalized = keras_xd.finalize(keras_xd.rewrite(backbone, depth=depth))
    rows = [{"parameters": model.count_params()} for model in (backbone, finalized)]
    with tempfile.TemporaryDirectory() as folder:
        loaded = []
        for row, model, kind in zip(rows, (backbone, finalized), "bf", strict=True):
            row["bytes"], exported = served(model, os.path.join(folder, kind))
            loaded.append(exported)
        rng = np.random.default_rng(0)
        for batch in BATCHES:
            inputs = tf.constant(rng.normal(size=(batch, *backbone.input_shape[1:])), tf.float32)
            for row, value in zip(rows, medians(loaded, inputs, rounds), strict=True):
                row[batch] = value
    return rows


def table(results):
    """Return the lines of the table."""
    lines = [
        "| model | parameters | ratio | exported MB | ratio | ms, batch 1 | ratio | ms, batch 32 "
        "| ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (before, after) in results.items():
        for kind, row in (("backbone", before), ("finalized", after)):
            cells = [f"{CASES[name][0]}, {kind}"]
            values = {
                "parameters": f"{row['parameters']:,}",
                "bytes": f"{row['bytes'] / 1e6:.2f}",
                **{batch: f"{row[batch]:.2f}" for batch in BATCHES},
            }
            for key, text in values.items():
                cells += [text, "" if row is before else f"{row[key] / before[key]:.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(words)
    results = {name: measure(name, options.depth, options.rounds) for name in options.cases}
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    command = f"python benchmarks/finalized.py --cases {' '.join(options.cases)}"
    command += f" --depth {options.depth} --rounds {options.rounds}"
    lines = [
        "# Size and latency of finalized models",
        "",
        f"Written by `{command}`; {versions}, {os.cpu_count()} cores, CPU, float32, without XLA. "
        "Exported SavedModels, medians; ratios are to the backbone.",
        "",
        *table(results),
    ]
    print("\n".join(lines))
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    main()
