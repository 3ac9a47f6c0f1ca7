"""Size, latency and error of finalized models of every form, beside their backbones.

    python benchmarks/finalized.py [--cases lenet cnn1d resnet20 fno tcn] [--depth 1] [--steps 60]
        [--threads 1 2] [--rounds 15]

Each backbone is rewritten (every convolution an XD-operation), searched for some steps of 32 random
samples with random targets, and finalized in every form. All SavedModels are loaded and called in
turn, in one process for each number of threads and without XLA.
"""

import json
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
import tensorflow as tf
import timing

import keras_xd

BATCHES = (1, 32, 256)
FORMS = {
    "spectrum": {"form": "spectrum"},
    "kernel": {"form": "kernel"},
    "auto": {"form": "auto"},
    "low rank": {"form": "low_rank"},
    "low rank, folded": {"form": "low_rank", "fold_normalization": True},
    "spectrum, float16": {"form": "spectrum", "weight_dtype": "float16"},
    "kernel, float16": {"form": "kernel", "weight_dtype": "float16"},
}


def cnn1d():
    """Return a network of three one-dimensional convolutions."""
    stack = [keras.Input((256, 8), name="signal")]
    for filters in (32, 64, 64):
        stack += [
            keras.layers.Conv1D(filters, 5, padding="same", activation="relu"),
            keras.layers.AveragePooling1D(2),
        ]
    stack += [keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(10)]
    return keras.Sequential(stack)


def model(name, *arguments, **options):
    """Return a function that makes a network of `keras_xd.models`."""

    def make():
        return getattr(keras_xd.models, name)(*arguments, **options)

    return make


FNO = {"width": 32, "operation": "convolution", "padding": "same"}
CASES = {
    "lenet": ("LeNet, 28×28", model("lenet", (28, 28, 1), classes=10), {}),
    "cnn1d": ("3 convolutions, 256 steps", cnn1d, {}),
    "resnet20": ("ResNet-20, 32×32", model("resnet20", (32, 32, 3), 10), {}),
    "fno": (
        "FNO with convolutions, 256 points",
        model("fno", (256, 2), **FNO),
        {"padding": "circular"},
    ),
    "tcn": ("TCN, 128 steps", model("tcn", (128, 88), 88, channels=64), {}),
}


def served(model, folder):
    """Export a model; return the bytes of its folder and the model loaded from it."""
    model.export(folder, verbose=False)
    files = (path for path in pathlib.Path(folder).rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files), tf.saved_model.load(folder)


def searched(space, steps):
    """Train a search space for some steps of random samples and targets."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(32 * steps, *space.input_shape[1:])).astype("float32")
    targets = rng.normal(size=(32 * steps, *space.output_shape[1:])).astype("float32")
    keras.utils.set_random_seed(0)
    search = keras_xd.SearchModel(space)
    search.compile(loss="mse")
    if steps:
        search.fit(samples, targets, batch_size=32, epochs=1, verbose=0)


def measure(name, depth, steps, rounds):
    """Return the rows, dictionaries by name: the backbone, the search space and each form."""
    _, make, options = CASES[name]
    backbone = make()
    space = keras_xd.rewrite(backbone, depth=depth, **options)
    searched(space, steps)
    models = {"backbone": backbone}
    models |= {form: keras_xd.finalize(space, **FORMS[form]) for form in FORMS}
    rows = {
        kind: {
            "parameters": model.count_params(),
            "weights": sum(weight.nbytes for weight in model.get_weights()),
        }
        for kind, model in (*models.items(), ("search space", space))
    }
    for form, kept in (("auto", "kernel"), ("low rank", "low_rank")):
        if form in models:
            forms = [row.form for row in models[form].report.rows]
            rows[form]["kept"] = f"{forms.count(kept)} of {len(forms)}"
    rng = np.random.default_rng(0)

    def inputs_of(batch):
        return tf.constant(rng.normal(size=(batch, *backbone.input_shape[1:])), tf.float32)

    samples = inputs_of(8)
    expected = np.asarray(space(samples, training=False))
    with tempfile.TemporaryDirectory() as folder:
        loaded = {}
        for number, (kind, model) in enumerate(models.items()):
            rows[kind]["bytes"], exported = served(model, os.path.join(folder, str(number)))
            loaded[kind] = exported
            if kind != "backbone":
                error = np.max(np.abs(exported.serve(samples).numpy() - expected))
                rows[kind]["error"] = float(error / np.max(np.abs(expected)))
        for batch in BATCHES:
            count = rounds if batch < BATCHES[-1] else -(-rounds // 3)
            inputs = inputs_of(batch)
            calls = {kind: lambda m=m, x=inputs: m.serve(x).numpy() for kind, m in loaded.items()}
            for kind, value in timing.medians(calls, count).items():
                rows[kind][str(batch)] = value
    return rows


def size_table(results):
    """Return the lines of the table of sizes and errors."""
    lines = timing.head("model", "parameters", "ratio", "weights, MB", "exported, MB", "error")
    for name, by_threads in results.items():
        rows = next(iter(by_threads.values()))
        before = rows["backbone"]
        for kind in ("backbone", "search space", *FORMS):
            row = rows[kind]
            text = f"{CASES[name][0]}, {kind}"
            if "kept" in row:
                kept = "keep the kernel" if kind == "auto" else "of low rank"
                text += f" ({row['kept']} {kept})"
            cells = [text, f"{row['parameters']:,}", _ratio(row, before, "parameters")]
            cells.append(f"{row['weights'] / 1e6:.2f}")
            cells.append(f"{row['bytes'] / 1e6:.2f}" if "bytes" in row else "")
            cells.append(f"{row['error']:.1e}" if "error" in row else "")
            lines.append(timing.row(*cells))
    return lines


def latency_table(results, threads):
    """Return the lines of the table of times with a number of threads."""
    head = ["model"]
    for batch in BATCHES:
        head += [f"ms, batch {batch}", "ratio"]
    lines = timing.head(*head)
    for name, by_threads in results.items():
        rows = by_threads[threads]
        for kind in ("backbone", *FORMS):
            cells = [f"{CASES[name][0]}, {kind}"]
            for batch in map(str, BATCHES):
                cells += [f"{rows[kind][batch]:.2f}", _ratio(rows[kind], rows["backbone"], batch)]
            lines.append(timing.row(*cells))
    return lines


def _ratio(row, before, key):
    if row is before or key not in row:
        return ""
    ratio = row[key] / before[key]
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def main(words=None):
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(words)
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return None
    numbers = (options.depth, options.steps, options.rounds)
    results = {
        name: {n: timing.apart(__file__, [name, *numbers], n) for n in options.threads}
        for name in options.cases
    }
    command = f"python benchmarks/finalized.py --cases {' '.join(options.cases)}"
    command += f" --depth {options.depth} --steps {options.steps}"
    command += f" --threads {' '.join(map(str, options.threads))} --rounds {options.rounds}"
    load = os.getloadavg()[0]
    times = {"1 thread" if n == 1 else f"{n} threads": n for n in options.threads}
    lines = timing.page(
        "Size, latency and error of finalized models",
        f"Written by `{command}`; {timing.versions()}, CPU, computed in float32, without "
        f"XLA. Every search had {options.steps} steps of 32 random samples. Exported SavedModels "
        "called in turn, medians; ratios are to the backbone. The load of the machine was "
        f"{load:.1f} of {os.cpu_count()} cores at the end: the times of one case are comparable "
        "with each other only. The error is the largest difference to the outputs of the search "
        "space, relative to the largest of these; of low ranks each operation may err by a "
        "hundredth, the default `tolerance`.",
        size_table(results),
        *([f"## Times, {n}", "", *latency_table(results, times[n])] for n in times),
    )
    timing.write(options, lines)
    return results


if __name__ == "__main__":
    main()
