"""Size, latency and error of finalized models of every form, beside their backbones.

    python benchmarks/finalized.py [--cases lenet resnet20 tcn …] [--moved 0.02] [--threads 1]
        [--rounds 7]

Each backbone is rewritten (every convolution an XD-operation), or an FNO made of XD-operations, its
architecture moved at random, and the model finalized in every form. All SavedModels are loaded and
called in turn, in one process for each case and number of threads and without XLA, by CPU time.
"""

import json
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
import tensorflow as tf
import timing

import keras_xd
from keras_xd.core.searchable import architecture_variables, searchable_layers

BATCHES = (1, 32)
LARGEST = 10**8
FORMS = {
    "auto": {},
    "spectrum": {"form": "spectrum"},
    "kernel": {"form": "kernel"},
    "low rank, tolerance 0.1": {"form": "low_rank", "tolerance": 0.1},
    "low rank, folded": {"form": "low_rank", "fold_normalization": True},
    "kernel, float16": {"form": "kernel", "weight_dtype": "float16"},
}


def rewritten(name, *arguments, **options):
    """Return a function that makes a network and its search space."""

    def make():
        backbone = getattr(keras_xd.models, name)(*arguments, **options)
        return backbone, keras_xd.rewrite(backbone)

    return make


def resnet50():
    """Return ResNet-50 and its search space."""
    backbone = keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)
    return backbone, keras_xd.rewrite(backbone)


def fno(shape, **options):
    """Return a function that makes an FNO and the same of XD-operations."""
    kinds = ("fourier", "xd")
    return lambda: [keras_xd.models.fno(shape, operation=kind, **options) for kind in kinds]


# Name, maker, and whether the architecture moves.
CASES = {
    "lenet": ("LeNet, 28×28", rewritten("lenet", (28, 28, 1), classes=10), True),
    "resnet20": ("ResNet-20, 32×32", rewritten("resnet20", (32, 32, 3), 10), True),
    "tcn": ("TCN, 128 steps", rewritten("tcn", (128, 88), 88, channels=64), True),
    "resnet50": ("ResNet-50, 64×64", resnet50, True),
    "fno1d_start": ("FNO, 1024 points, at its start", fno((1024, 2)), False),
    "fno1d": ("FNO, 1024 points", fno((1024, 2)), True),
    "fno2d_start": ("FNO, 64×64, at its start", fno((64, 64, 3), width=32, modes=12), False),
    "fno2d": ("FNO, 64×64", fno((64, 64, 3), width=32, modes=12), True),
}


def served(model, folder):
    """Export a model; return the bytes of its folder and the model loaded from it."""
    model.export(folder, verbose=False)
    files = (path for path in pathlib.Path(folder).rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files), tf.saved_model.load(folder)


def measure(name, moved, rounds):
    """Return the rows, dictionaries by name: the backbone, the search space and each form."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    backbone, space = CASES[name][1]()
    for variable in architecture_variables(space) if CASES[name][2] else ():
        noise = moved * float(np.std(variable)) * rng.normal(size=variable.shape)
        variable.assign(variable + noise)

    def inputs_of(batch):
        return tf.constant(rng.normal(size=(batch, *backbone.input_shape[1:])), tf.float32)

    samples = inputs_of(8)
    expected = np.asarray(space(samples, training=False))
    spectrum = sum(
        layer.finalized_sizes(layer.get_build_config()["input_shape"], "spectrum").parameters
        for layer in searchable_layers(space)
    )
    rows = {"backbone": {}, "search space": {"parameters": space.count_params()}}
    with tempfile.TemporaryDirectory() as folder:
        loaded = {}
        for kind in ("backbone", *FORMS):
            if kind == "spectrum" and spectrum > LARGEST:
                rows[kind] = {"parameters": spectrum}
                continue
            model = backbone if kind == "backbone" else keras_xd.finalize(space, **FORMS[kind])
            size, loaded[kind] = served(model, os.path.join(folder, kind))
            rows[kind] = {"parameters": model.count_params(), "bytes": size}
            if kind != "backbone":
                error = np.max(np.abs(loaded[kind].serve(samples).numpy() - expected))
                rows[kind]["error"] = float(error / np.max(np.abs(expected)))
                forms = [row.form for row in model.report.rows]
                counts = (f"{forms.count(form)} {form}" for form in dict.fromkeys(forms))
                rows[kind]["forms"] = ", ".join(counts)
        for batch in BATCHES:
            inputs = inputs_of(batch)
            calls = {kind: lambda m=m, x=inputs: m.serve(x).numpy() for kind, m in loaded.items()}
            for kind, value in timing.medians(calls, rounds, clock=time.process_time).items():
                rows[kind][str(batch)] = value
    return rows


def lines_of(results, threads):
    """Return the lines of the table with a number of threads."""
    head = ["model", "forms", "parameters", "ratio", "exported, MB", "error"]
    for batch in BATCHES:
        head += [f"ms, batch {batch}", "ratio"]
    lines = timing.head(*head)
    for name, by_threads in results.items():
        rows = by_threads[threads]
        for kind, row in rows.items():
            cells = [f"{CASES[name][0]}, {kind}", row.get("forms", ""), f"{row['parameters']:,}"]
            cells.append(_ratio(row, rows["backbone"], "parameters"))
            cells.append(f"{row['bytes'] / 1e6:.2f}" if "bytes" in row else "")
            cells.append(f"{row['error']:.1e}" if "error" in row else "")
            for batch in map(str, BATCHES):
                cells.append(f"{row[batch]:.2f}" if batch in row else "")
                cells.append(_ratio(row, rows["backbone"], batch))
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
    parser.add_argument("--moved", type=float, default=0.02)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(words)
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return None
    task = (options.moved, options.rounds)
    results = {
        name: {n: timing.apart(__file__, [name, *task], n) for n in options.threads}
        for name in options.cases
    }
    command = f"python benchmarks/finalized.py --cases {' '.join(options.cases)}"
    command += f" --moved {options.moved} --threads {' '.join(map(str, options.threads))}"
    command += f" --rounds {options.rounds}"
    times = {"1 thread" if n == 1 else f"{n} threads": n for n in options.threads}
    lines = timing.page(
        "Size, latency and error of finalized models",
        f"Written by `{command}`; {timing.versions()}, CPU, computed in float32, without XLA. "
        "Every entry of the architectures was moved by a normal number of so many standard "
        "deviations, except for those at their start. Exported SavedModels called in turn, "
        "medians of CPU time; ratios are to the backbone, of an FNO that of `SpectralConv`. The "
        "error is the largest difference to the outputs of the search space, relative to the "
        "largest of these; of low ranks each operation may err by a hundredth, or by the "
        f"`tolerance`. Of spectra of more than {LARGEST:,} numbers only these are counted. The "
        f"load of the machine was {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores at the end.",
        *(
            [f"## {words[0].upper()}{words[1:]}", "", *lines_of(results, n)]
            for words, n in times.items()
        ),
    )
    timing.write(options, lines)
    return results


if __name__ == "__main__":
    main()
