"""Size, latency and error of finalized models of every form, beside their backbones.

    python benchmarks/finalized.py [--cases lenet cnn1d resnet20 fno tcn] [--depth 1] [--rounds 15]

Each backbone is rewritten (every convolution an XD-operation) and finalized in every form: with
the spectrum, with the kernel, by the rule of "auto", and the first two stored in float16. All
SavedModels are loaded and called in turn, in one process and without XLA. Parameters, bytes of the
weights and of the exported folders, the median milliseconds of a call at batch 1, 32 and 256, and
the largest difference to the outputs of the search space are written to benchmarks/finalized.md, or
nowhere with `--dry-run`.
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
BATCHES = (1, 32, 256)
FORMS = {
    "spectrum": {"keep": "spectrum"},
    "kernel": {"keep": "kernel"},
    "auto": {"keep": "auto"},
    "spectrum, float16": {"keep": "spectrum", "storage": "float16"},
    "kernel, float16": {"keep": "kernel", "storage": "float16"},
}


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


def fno():
    import keras_xd

    return keras_xd.models.fno((256, 2), width=32, operation="convolution", padding="same")


def tcn():
    import keras_xd

    return keras_xd.models.tcn((128, 88), 88, channels=64)


CASES = {
    "lenet": ("LeNet, 28×28", lenet, {}),
    "cnn1d": ("3 convolutions, 256 steps", cnn1d, {}),
    "resnet20": ("ResNet-20, 32×32", resnet20, {}),
    "fno": ("FNO with convolutions, 256 points", fno, {"padding": "circular"}),
    "tcn": ("TCN, 128 steps", tcn, {}),
}


def folder_bytes(folder):
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def weight_bytes(model):
    return sum(weight.nbytes for weight in model.get_weights())


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
    """Return the rows, dictionaries by name: the backbone, the search space and each form."""
    import numpy as np
    import tensorflow as tf

    import keras_xd

    _, make, options = CASES[name]
    backbone = make()
    space = keras_xd.rewrite(backbone, depth=depth, **options)
    models = {"backbone": backbone}
    models |= {form: keras_xd.finalize(space, **FORMS[form]) for form in FORMS}
    rows = {
        kind: {"parameters": model.count_params(), "weights": weight_bytes(model)}
        for kind, model in (*models.items(), ("search space", space))
    }
    kept = [row.form for row in models["auto"].report.rows]
    rows["auto"]["kernels"] = f"{kept.count('kernel')} of {len(kept)}"
    rng = np.random.default_rng(0)

    def inputs_of(batch):
        return tf.constant(rng.normal(size=(batch, *backbone.input_shape[1:])), tf.float32)

    samples = inputs_of(8)
    expected = np.asarray(space(samples, training=False))
    with tempfile.TemporaryDirectory() as folder:
        loaded = []
        for number, (kind, model) in enumerate(models.items()):
            rows[kind]["bytes"], exported = served(model, os.path.join(folder, str(number)))
            loaded.append(exported)
            if kind != "backbone":
                error = np.max(np.abs(exported.serve(samples).numpy() - expected))
                rows[kind]["error"] = float(error / np.max(np.abs(expected)))
        for batch in BATCHES:
            count = rounds if batch < BATCHES[-1] else -(-rounds // 3)
            found = medians(loaded, inputs_of(batch), count)
            for kind, value in zip(models, found, strict=True):
                rows[kind][batch] = value
    return rows


def table(results):
    """Return the lines of the table."""
    head = ["model", "parameters", "ratio", "weights, MB", "exported, MB"]
    for batch in BATCHES:
        head += [f"ms, batch {batch}", "ratio"]
    lines = [f"| {' | '.join([*head, 'error'])} |", "|" + "---|" * (len(head) + 1)]
    for name, rows in results.items():
        before = rows["backbone"]
        for kind in ("backbone", "search space", *FORMS):
            row = rows[kind]
            text = f"{CASES[name][0]}, {kind}"
            if "kernels" in row:
                text += f" ({row['kernels']} keep the kernel)"
            cells = [text, f"{row['parameters']:,}", _ratio(row, before, "parameters")]
            cells.append(f"{row['weights'] / 1e6:.2f}")
            cells.append(f"{row['bytes'] / 1e6:.2f}" if "bytes" in row else "")
            for batch in BATCHES:
                cells.append(f"{row[batch]:.2f}" if batch in row else "")
                cells.append(_ratio(row, before, batch))
            cells.append(f"{row['error']:.1e}" if "error" in row else "")
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _ratio(row, before, key):
    return f"{row[key] / before[key]:.1f}" if row is not before and key in row else ""


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
    load = os.getloadavg()[0]
    threads = os.environ.get("TF_NUM_INTRAOP_THREADS", os.cpu_count())
    lines = [
        "# Size, latency and error of finalized models",
        "",
        f"Written by `{command}`; {versions}, {threads} threads, CPU, computed in float32, without "
        "XLA. Exported SavedModels called in turn, medians; ratios are to the backbone. The load "
        f"of the machine was {load:.1f} of {os.cpu_count()} cores at the end: the times "
        "of one case are comparable with each other only. The error is the largest difference to "
        "the outputs of the search space, relative to the largest of these.",
        "",
        *table(results),
    ]
    print("\n".join(lines))
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    main()
