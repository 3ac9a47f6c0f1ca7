"""Every kind of finalized layer in every format: the outputs of the runtime beside the model's.

    python benchmarks/formats.py [--kinds StaticXD …] [--formats onnx …] [--dry-run]
    python benchmarks/formats.py --operators

Each kind is exported with an unknown batch, read and run at batch 1 and 5, and with a fixed one, at
batch 4. SavedModel, ONNX, OpenVINO and LiteRT files are written by the backend TensorFlow, the
others by torch and JAX, each in a process of its own; what is not installed is left out. The
largest difference to the outputs of the model, relative to the largest of them, or what the
`ValueError` of `export` says, are written to benchmarks/formats.md, or nowhere with `--dry-run`.

With `--operators` Fourier and searched operators are served instead: size, error and latency in the
runtimes of the backend TensorFlow, which take turns in one process, to benchmarks/operators.md.
"""

import functools
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
import timing

import keras_xd
from keras_xd.graph.exporting import export
from keras_xd.graph.runtimes import FORMATS
from keras_xd.layers.xd.resampled import SearchableResampled

BACKENDS = {
    "tensorflow": ("tf_saved_model", "onnx", "openvino", "litert"),
    "torch": ("torch",),
    "jax": ("stablehlo",),
}
TITLES = {
    "tf_saved_model": "SavedModel",
    "onnx": "ONNX",
    "openvino": "OpenVINO",
    "litert": "LiteRT",
    "torch": "torch export",
    "stablehlo": "StableHLO",
}
PACKAGES = {
    "tf_saved_model": ("keras", "tensorflow"),
    "onnx": ("keras", "tensorflow", "onnxruntime", "tf2onnx"),
    "openvino": ("keras", "tensorflow", "openvino"),
    "litert": ("keras", "tensorflow", "ai-edge-litert"),
    "torch": ("keras", "torch"),
    "stablehlo": ("keras", "jax"),
}
DYNAMIC, STATIC = (1, 5), 4
MARK = "MEASURED "


def single(shape, name, *arguments, finalize=None, **options):
    """Return a function that makes a finalized model of one searchable layer."""

    def make():
        layer = keras.saving.get_registered_object(f"keras_xd>{name}")(*arguments, **options)
        inputs = keras.Input(shape, name="inputs")
        model = keras.Model(inputs, layer(inputs))
        spread(model)
        if finalize is None:
            return model
        return keras_xd.finalize(model, **finalize)

    return make


def rewritten(shape, name, *arguments, to="xd", finalize=None, **options):
    """Return a function that makes a finalized model of a rewritten layer of Keras."""

    def make():
        layer = getattr(keras.layers, name)(*arguments, padding="same")
        model = keras.Sequential([keras.Input(shape, name="inputs"), layer])
        space = keras_xd.rewrite(model, to=to, **options)
        spread(space)
        return keras_xd.finalize(space, **(finalize or {}))

    return make


def spread(model):
    """Give the weights numbers that let no operation be a plain one, the same on every backend."""
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        value = np.array(weight.numpy() if hasattr(weight, "numpy") else weight.value)
        weight.assign(value + 0.1 * rng.normal(size=value.shape) * (np.abs(value).max() or 1.0))


def resampled():
    layer = keras_xd.layers.XDConv1D(3, 3, padding="circular")
    model = keras.Sequential([keras.Input((24, 2), name="inputs"), SearchableResampled(layer, 16)])
    spread(model)
    return keras_xd.finalize(model)


def ccnn_block():
    model = keras_xd.models.ccnn(2, 4, (16, 2), 3)
    spread(model)
    return keras_xd.finalize(keras.Model(model.inputs, model.outputs))


def trimmed():
    space = keras_xd.rewrite(keras_xd.models.lenet((16, 16, 1), 3), to="masked")
    keras_xd.randomize_architecture(space, seed=1)
    return keras_xd.finalize(space)


def cell():
    space = keras_xd.models.nos_search_network(3, 2, (8, 8, 3), 3)
    keras_xd.randomize_architecture(space, seed=1)
    return keras_xd.finalize(space)


XD = {"finalize": {}}
KERNEL = {"finalize": {"form": "kernel"}}
LOW_RANK = {"finalize": {"form": "low_rank", "tolerance": 0.1}}
KINDS = {
    "StaticXD, 1-D": single((16, 3), "XDConv1D", 4, 3, padding="same", **XD),
    "StaticXD, 2-D, strides": single((9, 8, 3), "XDConv2D", 4, 3, strides=2, depth=2, **XD),
    "StaticXD, 3-D": single((4, 3, 5, 2), "XDConv3D", 2, 2, padding="same", **XD),
    "StaticXD, groups": single((16, 4), "XDConv1D", 4, 3, groups=2, depth=2, **XD),
    "StaticXD, 300 points": single((300, 2), "XDConv1D", 2, 3, depth=3, padding="same", **XD),
    "StaticXD, float16 storage": single(
        (16, 3), "XDConv1D", 4, 3, finalize={"weight_dtype": "float16"}
    ),
    "StaticKernelXD, 1-D": single((16, 3), "XDConv1D", 4, 3, padding="same", **KERNEL),
    "StaticKernelXD, 2-D": single((9, 8, 3), "XDConv2D", 4, 3, depth=2, **KERNEL),
    "StaticKernelXD, bias and gates": single(
        (16, 4), "XDConv1D", 4, 3, frequency_bias=True, channel_gates=True, **KERNEL
    ),
    "StaticKernelXD, bfloat16 storage": single(
        (16, 3), "XDConv1D", 4, 3, finalize={"form": "kernel", "weight_dtype": "bfloat16"}
    ),
    "StaticLowRankXD, 1-D": single((16, 8), "XDConv1D", 8, 3, padding="same", **LOW_RANK),
    "StaticLowRankXD, 2-D": single((16, 12, 8), "XDConv2D", 8, 3, padding="same", **LOW_RANK),
    "StaticLowRankXD, 3-D": single((8, 6, 5, 4), "XDConv3D", 4, 2, padding="same", **LOW_RANK),
    "StaticLowRankXD, groups": single(
        (16, 12, 8), "XDConv2D", 8, 3, padding="same", groups=2, **LOW_RANK
    ),
    "StaticLowRankXD, depthwise": single(
        (16, 12, 8), "XDDepthwiseConv2D", 3, padding="same", **LOW_RANK
    ),
    "transposed": single((8, 7, 3), "XDConv2DTranspose", 4, 3, strides=2, **XD),
    "transposed, kernel": single((8, 7, 3), "XDConv2DTranspose", 4, 3, strides=2, **KERNEL),
    "depthwise": single((8, 7, 3), "XDDepthwiseConv2D", 3, padding="same", **XD),
    "depthwise, kernel": single((8, 7, 3), "XDDepthwiseConv2D", 3, padding="same", **KERNEL),
    "separable": single((8, 7, 3), "XDSeparableConv2D", 4, 3, padding="same", **XD),
    "separable, kernel": single((8, 7, 3), "XDSeparableConv2D", 4, 3, padding="same", **KERNEL),
    "causal": single((16, 3), "XDCausalConv1D", 4, 3, **XD),
    "K-operation": rewritten((16, 3), "Conv1D", 4, 3, to="k_operation"),
    "K-operation, kernel": rewritten((16, 3), "Conv1D", 4, 3, to="k_operation", **KERNEL),
    "Resampled": resampled,
    "KDense": single((12,), "KDense", 8),
    "StructuredDense, monarch": single((64,), "StructuredDense", 48, "monarch"),
    "StructuredEinsumDense": single((6, 64), "StructuredEinsumDense", "abc,cd->abd", (6, 48)),
    "StructuredLSTM": single((6, 32), "StructuredLSTM", 32),
    "StructuredGRU": single((6, 32), "StructuredGRU", 32),
    "SpectralConv1D": single((16, 3), "SpectralConv1D", 4, 5),
    "SpectralConv2D": single((9, 8, 3), "SpectralConv2D", 4, (3, 4)),
    "SpectralConv3D": single((4, 6, 5, 2), "SpectralConv3D", 3, (2, 3, 2)),
    "FourierUpsampling, 600 points": single((600, 2), "FourierUpsampling", 700),
    "StaticCKConv": single((16, 2), "CKConv1D", kernel_size=9, convolution="direct", **XD),
    "StaticCKConv, FFT": single((16, 2), "CKConv1D", kernel_size=9, convolution="fourier", **XD),
    "StaticCKConv, resolution": single(
        (16, 12, 2), "CKConv2D", kernel_size=9, learn_resolution=True, **XD
    ),
    "StaticCCNNBlock": ccnn_block,
    "StaticMask": single((16, 4), "DifferentiableMask", axis=1, **XD),
    "trimmed masked LeNet": trimmed,
    "DARTS mixture": rewritten((8, 8, 3), "Conv2D", 3, 3, to="darts"),
    "DASH mixture": rewritten((16, 3), "Conv1D", 4, 3, to="dash", kernel_sizes=(3, 9)),
    "self-calibration": single((8, 8, 4), "SelfCalibration", "channel_attention"),
    "derived cell": cell,
}


def operator(shape, operation, width, modes):
    """Return a function that makes a finalized operator; the searched one has moved."""

    def make():
        options = {"operation": operation, "width": width, "modes": modes}
        model = keras_xd.models.fno(shape, **options)
        spread(model)
        return keras_xd.finalize(model)

    return make


OPERATORS = {
    "FNO, 256 points": operator((256, 2), "fourier", 64, 16),
    "XD, 256 points": operator((256, 2), "xd", 64, 16),
    "FNO, 32 × 32 points": operator((32, 32, 3), "fourier", 32, 8),
    "XD, 32 × 32 points": operator((32, 32, 3), "xd", 32, 8),
    "FNO, 64 × 64 points": operator((64, 64, 3), "fourier", 32, 12),
}
LATENCY_BATCHES = (1, 32)


def load_saved_model(path):
    import tensorflow as tf

    loaded = tf.saved_model.load(path)
    return lambda x: loaded.serve(x).numpy()


def load_onnx(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    return lambda x: session.run(None, {session.get_inputs()[0].name: x})[0]


def load_openvino(path, **options):
    import openvino

    compiled = openvino.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": 1, **options})
    return lambda x: compiled(x)[compiled.outputs[0]]


def load_litert(path):
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(path, num_threads=1).get_signature_runner()
    (name,) = runner.get_input_details()
    return lambda x: next(iter(runner(**{name: x}).values()))


SERVED = {
    "SavedModel": ("tf_saved_model", load_saved_model),
    "ONNX Runtime": ("onnx", load_onnx),
    "OpenVINO, f32": (
        "openvino",
        functools.partial(load_openvino, INFERENCE_PRECISION_HINT="f32"),
    ),
    "OpenVINO, default": ("openvino", load_openvino),
    "LiteRT": ("litert", load_litert),
}


def served(name):
    """Return bytes, relative error and milliseconds by batch of an operator in each runtime."""
    keras.utils.set_random_seed(0)
    model, runners, found = OPERATORS[name](), {}, {}
    rng = np.random.default_rng(1)
    samples = {
        batch: rng.normal(size=(batch, *model.input_shape[1:])).astype("float32")
        for batch in LATENCY_BATCHES
    }
    largest = samples[LATENCY_BATCHES[-1]]
    expected = keras.ops.convert_to_numpy(model(largest, training=False))
    with tempfile.TemporaryDirectory() as folder:
        for runtime, (format, load) in SERVED.items():
            path = os.path.join(folder, f"{format}{FORMATS[format].suffix}")
            if not os.path.exists(path):
                export(model, path, format, False)
            runners[runtime] = load(path)
            places = [*pathlib.Path(folder).glob(f"{format}*"), *pathlib.Path(path).rglob("*")]
            found[runtime] = {
                "bytes": sum(place.stat().st_size for place in places if place.is_file()),
                "error": float(
                    np.abs(runners[runtime](largest) - expected).max() / np.abs(expected).max()
                ),
            }
        for batch, x in samples.items():
            calls = {key: lambda run=run, x=x: run(x) for key, run in runners.items()}
            for runtime, milliseconds in timing.medians(calls).items():
                found[runtime][str(batch)] = milliseconds
    return found


def report_operators(found):
    """Return the lines of the page of the operators, `{operator: {runtime: values}}`."""
    rows = []
    for name, by_runtime in found.items():
        for runtime, values in by_runtime.items():
            times = []
            for batch in map(str, LATENCY_BATCHES):
                ratio = values[batch] / by_runtime["SavedModel"][batch]
                times += [f"{values[batch]:.2f}", f"{ratio:.2f}"]
            size = f"{values['bytes'] / 1e6:.2f}"
            rows.append([name, runtime, size, f"{values['error']:.0e}", *times])
    names = dict.fromkeys(name for runtime in SERVED.values() for name in PACKAGES[runtime[0]])
    titles = (f"batch {batch}: {what}" for batch in LATENCY_BATCHES for what in ("ms", "ratio"))
    return timing.page(
        "Fourier and searched operators, served",
        "Written by `python benchmarks/formats.py --operators`. `models.fno` of four blocks, with "
        "batch normalization, finalized: Fourier operators, and XD-operations that have moved from "
        "them at random. The error is the largest difference to the outputs of the model, "
        "relative to the largest output, at the larger batch. Times are medians of "
        f"{timing.ROUNDS} calls on one thread; the runtimes take turns in one process, and "
        "ratios are to the SavedModel. OpenVINO computes in bfloat16 by default on a "
        f"CPU that has it, as this one {'has' if has_bfloat16() else 'has not'}. "
        f"Load average of the machine, which has {os.cpu_count()} processors: "
        f"{os.getloadavg()[2]:.0f}. {timing.versions(names)}.",
        timing.table(["Operator", "Runtime", "MB", "Error", *titles], rows),
    )


def has_bfloat16():
    """Return whether OpenVINO finds bfloat16 in the CPU."""
    import openvino

    return "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def measured(model, format, batch, folder):
    """Return the largest relative error of a file of a model, or why there is none."""
    kind = FORMATS[format]
    path = os.path.join(folder, f"model{kind.suffix}")
    inputs = model.inputs[0]
    signature = [keras.InputSpec(shape=(batch, *inputs.shape[1:]), dtype="float32", name="inputs")]
    try:
        export(model, path, format, False, signature, overwrite=True)
    except ValueError as error:
        reason = re.sub(r"\s+", " ", str(error).split("with which: ")[-1])[:300]
        return reason.replace(tempfile.gettempdir(), "…")
    errors = []
    for size in DYNAMIC if batch is None else (batch,):
        values = np.random.default_rng(1).normal(size=(size, *inputs.shape[1:])).astype("float32")
        expected = keras.ops.convert_to_numpy(model(values, training=False))
        (actual,) = kind.run(path, [values], signature, expected)
        errors.append(np.max(np.abs(np.asarray(actual) - expected)) / np.max(np.abs(expected)))
    return float(max(errors))


def run(cells):
    """Measure some `(kind, format)` of one backend; print each as a line of JSON."""
    models = {}
    for kind, format in cells:
        if kind not in models:
            keras.utils.set_random_seed(0)
            models = {kind: KINDS[kind]()}
        with tempfile.TemporaryDirectory() as folder:
            values = [measured(models[kind], format, batch, folder) for batch in (None, STATIC)]
        print(f"\n{MARK}{json.dumps([kind, format, values])}", flush=True)


def run_backend(backend, cells):
    """Do that in a process with a backend; yield what was measured."""
    command = [sys.executable, "-W", "ignore", __file__, "--measure", json.dumps(cells)]
    environment = {**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith(MARK):
                yield json.loads(line.removeprefix(MARK))
    if process.returncode:
        raise SystemExit(f"the process of {backend} ended with {process.returncode}")


def report(found, formats):
    """Return the lines of the page of the results, `{kind: {format: values}}`."""
    notes, rows = [], []
    for kind, by_format in found.items():
        row = [kind]
        for format in formats:
            values = by_format.get(format, ("not run",))
            row.append(" / ".join(_cell(value, notes) for value in values))
        rows.append(row)
    names = dict.fromkeys(name for format in formats for name in PACKAGES[format])
    return timing.page(
        "Formats of finalized layers",
        "Written by `python benchmarks/formats.py`. Largest difference of the outputs of the "
        "runtime from those of the model, relative to the largest output, in float32: with an "
        f"unknown batch (run at {DYNAMIC[0]} and {DYNAMIC[1]}) / with a batch of {STATIC}. Numbers "
        f"in brackets are refusals, below. {timing.versions(names)}.",
        timing.table(["Layer", *(TITLES[format] for format in formats)], rows),
        # Without what Markdown takes for links.
        [f"- [{index}] {note.replace('[', chr(92) + '[')}" for index, note in enumerate(notes, 1)],
    )


def _cell(value, notes):
    if not isinstance(value, str):
        return f"{value:.0e}"
    if value == "not run":
        return value
    if value not in notes:
        notes.append(value)
    return f"[{notes.index(value) + 1}]"


def is_installed(name):
    return importlib.util.find_spec(name) is not None


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--formats", nargs="+", choices=TITLES, default=list(TITLES))
    parser.add_argument("--operators", nargs="*", choices=OPERATORS)
    options = parser.parse_args(arguments)
    if isinstance(options.measure, str):
        return print(json.dumps(served(options.measure)))
    if options.measure is not None:
        return run(options.measure)
    if options.operators is not None:
        found = {
            name: timing.apart(__file__, name, threads=1, CUDA_VISIBLE_DEVICES="")
            for name in options.operators or OPERATORS
        }
        if options.output.name == "formats.md":
            options.output = options.output.with_name("operators.md")
        print("\n".join(timing.write(options, report_operators(found))))
        return found
    found, measured_formats = {kind: {} for kind in options.kinds}, set()
    for backend, written in BACKENDS.items():
        formats = [format for format in options.formats if format in written]
        if formats and is_installed(backend):
            cells = [(kind, format) for kind in options.kinds for format in formats]
            for kind, format, values in run_backend(backend, cells):
                print(kind, format, *values, file=sys.stderr, flush=True)
                found[kind][format] = values
                measured_formats.add(format)
    shown = [format for format in TITLES if format in measured_formats]
    print("\n".join(timing.write(options, report(found, shown))))
    return found


if __name__ == "__main__":
    main()
