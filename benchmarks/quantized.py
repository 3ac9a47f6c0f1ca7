"""Accuracy, size and latency of models in int8 in the runtimes that serve them, beside float32.

    TFDS_DATA_DIR=… python benchmarks/quantized.py [--cases digits resnet20] [--epochs 12]

- `digits`: a convolutional network and its XD search, finalized in two forms, on the digits of
  scikit-learn whose rows and columns are in an unknown order.
- `resnet20`: ResNet-20 on CIFAR-10, as `examples/experiments/dnarch/pruned_resnet.py` trains it.

`keras_xd.export` writes each with and without `calibration_data`, images of the training part.
Accuracy is of all test images, of digits with those for validation; milliseconds are medians of
calls on one core that alternate.
"""

import itertools
import os
import pathlib
import sys
import tempfile
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import formats
import keras
import numpy as np
import quickstart
import reporting
import timing
from datasets import digits, images
from datasets.batches import normalize

import keras_xd
from keras_xd.graph.runtimes import FORMATS, written

BATCHES, PART, CALIBRATION = (1, 32), 100, 256
START = reporting.RESULTS / "resnet20_cifar10.weights.h5"
FORMS = ("spectrum", "kernel")
LOADERS = {
    "onnx": formats.load_onnx,
    "openvino": formats.load_openvino,
    "litert": formats.load_litert,
}
# The runtimes that read a file of a format.
RUNTIMES = {"onnx": ("onnx", "openvino"), "openvino": ("openvino",), "litert": ("litert",)}


def of_digits(options):
    """Return a network, its search in two forms, and training and test images."""
    train, *others = digits.load()
    test = [np.concatenate(parts) for parts in zip(*others, strict=True)]  # nothing is chosen here
    rows, columns = (np.random.default_rng(seed).permutation(8) for seed in range(2))
    train, test = ((x[:, rows][:, :, columns], y) for x, y in (train, test))
    keras.utils.set_random_seed(0)
    backbone = quickstart.make_backbone((8, 8, 1), 32)
    space = keras_xd.rewrite(backbone, depth=1)
    for model in (backbone, space):
        model.compile(keras.optimizers.Adam(2e-3), quickstart.LOSS)
        model.fit(*train, epochs=options.epochs, batch_size=64, verbose=0)
    forms = {f"search, {form}": keras_xd.finalize(space, form=form) for form in FORMS}
    return {"backbone": backbone, **forms}, train, test


def of_resnet20(options):
    """Return the network, and training and test images."""
    parts = images.load("cifar10", subset=options.images)
    train, _, test = ((np.round(255 * x).astype("uint8"), y) for x, y in parts)
    keras.utils.set_random_seed(0)
    model = keras_xd.models.resnet20((32, 32, 3), 10)
    model.load_weights(START)
    train = train[0][:CALIBRATION], train[1][:CALIBRATION]
    return {"backbone": model}, *((normalize(x), y) for x, y in (train, test))


CASES = {"digits": of_digits, "resnet20": of_resnet20}


def accuracy(run, test):
    """Return the percentage of test images that are classified rightly."""
    x, y = test
    parts = [run(x[start : start + PART]) for start in range(0, len(x), PART)]
    return 100 * float(np.mean(np.concatenate(parts).argmax(-1) == y))


def measure(case, options, refused):
    """Return a row for each model and runtime, with what float32 and int8 have.

    What a runtime refuses to run is added to `refused`, with what it says.
    """
    models, train, test = CASES[case](options)
    samples = train[0][:CALIBRATION]
    rows = []
    for (name, model), format in itertools.product(models.items(), RUNTIMES):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where the weights alone are in int8
            paths, sizes = {}, {}
            for kind, data in (("float32", None), ("int8", samples)):
                path = paths[kind] = os.path.join(folder, kind + FORMATS[format].suffix)
                keras_xd.export(model, path, format, calibration_data=data)
                sizes[kind] = sum(map(os.path.getsize, written(path, FORMATS[format])))
            for runtime in RUNTIMES[format]:
                runs, right = {}, {}
                try:
                    for kind, path in paths.items():
                        runs[kind] = LOADERS[runtime](path)
                        right[kind] = accuracy(runs[kind], test)
                except RuntimeError as error:  # of OpenVINO
                    said = str(error).strip().splitlines()[-1]
                    refused.append(f"{name}, {kind}, from the {format} file: {said}")
                    continue
                times = [
                    timing.medians({k: lambda r=r, x=test[0][:n]: r(x) for k, r in runs.items()})
                    for n in BATCHES
                ]
                row = {"case": case, "model": name, "format": format, "right": right}
                row |= {"runtime": FORMATS[runtime].runtime, "sizes": sizes, "times": times}
                rows.append(row)
                print(row, flush=True)
    return rows


def report(rows, refused):
    """Return the lines of the page."""
    head = ["data", "model", "file", "runtime", "accuracy, %", "int8", "kB", "int8", "ratio"]
    head += [text for n in BATCHES for text in (f"ms, batch {n}", "int8")]
    lines = timing.head(*head)
    for row in rows:
        right, sizes = row["right"], row["sizes"]
        cells = [row["case"], row["model"], row["format"], row["runtime"]]
        cells += [f"{right['float32']:.2f}", f"{right['int8']:.2f}"]
        cells += [f"{sizes[kind] / 1000:.0f}" for kind in ("float32", "int8")]
        cells.append(f"{sizes['int8'] / sizes['float32']:.2f}")
        cells += [f"{times[kind]:.2f}" for times in row["times"] for kind in ("float32", "int8")]
        lines.append(timing.row(*cells))
    lost = max(row["right"]["float32"] - row["right"]["int8"] for row in rows)
    packages = ("keras", "onnxruntime", "openvino", "nncf", "ai-edge-litert", "ai-edge-quantizer")
    return timing.page(
        "Models in int8 in the runtimes that serve them",
        f"Written by `python benchmarks/quantized.py`; one core, one seed; {CALIBRATION} images to "
        f"calibrate; {timing.versions(packages)}.",
        lines,
        f"int8 loses at most {lost:.2f} points (wanted: at most 0.5).",
        [f"- OpenVINO does not run {text}" for text in refused],
    )


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--epochs", type=int, default=12, help="of the networks of digits")
    parser.add_argument("--images", type=int, help="of CIFAR-10, for a trial")
    options = parser.parse_args(arguments)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    refused = []
    rows = [row for case in options.cases for row in measure(case, options, refused)]
    timing.write(options, report(rows, refused))
    return rows


if __name__ == "__main__":
    main()
