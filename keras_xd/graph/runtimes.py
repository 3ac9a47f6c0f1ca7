"""The formats that models are exported to: how each is written, and run where it is served."""

import contextlib
import dataclasses
import io
import os
import re
import warnings
from collections.abc import Callable

import keras
import numpy as np

# Operators of ONNX that move data or change its shape.
_MOVING_DATA = "Concat", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of files for serving.

    Attributes:
        suffix: how the name of the file ends; `""` for a folder.
        backends: the backends of Keras that write it.
        run: a function of the path, the samples (a list of structures of arrays, one for each
            positional argument), the signature and the expected outputs, which returns the outputs
            of the runtime as a flat list.
        matrix_products: whether Fourier transforms are written as matrix products.
        runtime: name of the runtime.
        beside: endings of files that are written beside the file.
        write: a function of the model, the path and the signature, which writes the file; `None`
            for `keras.Model.export`.
        quantize: a function of the path, a list of samples (each a flat list of arrays) and the
            signature, which writes the file again in int8, without samples the weights alone;
            `None` where no quantizer is known.
    """

    suffix: str
    backends: tuple[str, ...]
    run: Callable
    matrix_products: bool
    runtime: str
    beside: tuple[str, ...] = ()
    write: Callable | None = None
    quantize: Callable | None = None


def run_saved_model(path, samples, signature, expected):
    """Return the outputs of a SavedModel in TensorFlow."""
    import tensorflow as tf

    loaded = tf.saved_model.load(path)  # whose variables live as long as this name
    return keras.tree.flatten(loaded.serve(*samples))


def litert_runner(path):
    """Return what runs a LiteRT file, and the names of its inputs in their order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's own interpreter is deprecated
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError:
            import tensorflow as tf

            Interpreter = tf.lite.Interpreter
        runner = Interpreter(path).get_signature_runner()
    return runner, sorted(runner.get_input_details(), key=_numbered)


def run_litert(path, samples, signature, expected):
    """Return the outputs of a LiteRT file, in the order of those expected."""
    runner, taken = litert_runner(path)
    outputs = runner(**_named(taken, signature, keras.tree.flatten(samples)))
    if isinstance(expected, dict) and set(expected) == set(outputs):
        return keras.tree.flatten({name: outputs[name] for name in expected})
    return [outputs[name] for name in sorted(outputs, key=_numbered)]


def quantize_litert(path, samples, signature):
    """Write a LiteRT file in int8, with inputs and outputs as before."""
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import algorithm_manager, qtyping, quantizer, recipe

    (name,) = Interpreter(path).get_signature_list()
    _, taken = litert_runner(path)
    ranges, static = None, samples is not None
    plan = quantizer.Quantizer(
        path, recipe.static_wi8_ai8() if static else recipe.weight_only_wi8_afp32()
    )
    if static:
        for operation in (qtyping.TFLOperationName.INPUT, qtyping.TFLOperationName.OUTPUT):
            kept = algorithm_manager.AlgorithmName.NO_QUANTIZE
            plan.update_quantization_recipe(".*", operation, algorithm_key=kept)
        samples = [_named(taken, signature, sample) for sample in samples]
        ranges = plan.calibrate({name: samples})
    with contextlib.redirect_stdout(io.StringIO()):  # it prints sizes
        plan.quantize(ranges).export_model(path, overwrite=True)


def _named(taken, signature, values):
    """Return the arrays by the names of the inputs of a LiteRT file."""
    names = [getattr(spec, "name", None) for spec in keras.tree.flatten(signature)]
    names = names if set(names) == set(taken) else taken
    return dict(zip(names, values, strict=True))


def onnx_session(path):
    """Return what runs an ONNX file, and the names of its inputs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    return session, [value.name for value in session.get_inputs()]


def run_onnx(path, samples, signature, expected):
    """Check the operators of an ONNX file, and return its outputs."""
    import onnx

    onnx.checker.check_model(path)
    session, taken = onnx_session(path)
    return session.run(None, dict(zip(taken, keras.tree.flatten(samples), strict=True)))


def quantize_onnx(path, samples, signature):
    """Write an ONNX file in int8, with operators that quantize and dequantize (QDQ)."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.calibrate import CalibrationDataReader
    from onnxruntime.quantization.shape_inference import quant_pre_process

    _, taken = onnx_session(path)
    feeds = iter([dict(zip(taken, sample, strict=True)) for sample in samples or ()])

    class Samples(CalibrationDataReader):
        def get_next(self):
            return next(feeds, None)

    prepared = f"{path}.prepared"
    quant_pre_process(path, prepared, skip_symbolic_shape=True)
    if samples is None:
        quantize_dynamic(prepared, path, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True)
    else:
        nodes = onnx.load(prepared, load_external_data=False).graph.node
        quantize_static(
            prepared,
            path,
            Samples(),
            per_channel=True,
            # Of signed activations OpenVINO computes something else, and ONNX Runtime is slow.
            activation_type=QuantType.QUInt8,
            # Scales beside them OpenVINO moves to wrong axes.
            nodes_to_exclude=[node.name for node in nodes if node.op_type in _MOVING_DATA],
        )
    os.remove(prepared)
    _shorten_names(path)


def _shorten_names(path):
    """Number the tensors of an ONNX file but inputs and outputs: names are a sixth of a file."""
    import onnx

    model = onnx.load(path)
    graph = model.graph
    if any(attribute.HasField("g") for node in graph.node for attribute in node.attribute):
        return  # whose names hold in graphs within the graph too
    names = {"": "", **{value.name: value.name for value in (*graph.input, *graph.output)}}

    def short(name):
        return names.setdefault(name, f"_{len(names)}")

    for value in (*graph.initializer, *graph.value_info):
        value.name = short(value.name)
    for node in graph.node:
        node.name = ""
        node.input[:], node.output[:] = map(short, node.input), map(short, node.output)
    onnx.save(model, path)


def caller(model: keras.Model, x: object, runtime: str, folder: str) -> Callable:
    """Return a function without arguments that runs a model on a batch in a runtime.

    Args:
        model: a built model.
        x: the batch, NumPy arrays.
        runtime: `"tensorflow"`, `"onnx"` or `"litert"`.
        folder: where a file may be written.
    """
    signature = [
        keras.tree.map_structure(lambda v: keras.InputSpec(shape=v.shape, dtype=str(v.dtype)), x)
    ]
    if runtime == "tensorflow":
        import tensorflow as tf

        function = tf.function(lambda inputs: model(inputs, training=False))
        inputs = keras.tree.map_structure(tf.constant, x)
        return lambda: keras.tree.map_structure(lambda value: value.numpy(), function(inputs))
    kind = FORMATS[runtime]
    path = os.path.join(folder, f"model{kind.suffix}")
    if kind.write is None:
        model.export(path, runtime, False, signature)
    else:
        kind.write(model, path, signature)
    run = opened(path, runtime)
    return lambda: run(x)


def opened(path: str, runtime: str) -> Callable:
    """Return a function of a batch that runs a file in `"onnx"`, `"litert"` or `"openvino"`."""
    if runtime == "openvino":
        import openvino

        compiled = openvino.compile_model(path, "CPU")
        return lambda x: list(compiled(keras.tree.flatten(x)).values())
    runner, names = {"onnx": onnx_session, "litert": litert_runner}[runtime](path)

    def run(x):
        named = dict(zip(names, keras.tree.flatten(x), strict=True))
        return runner.run(None, named) if runtime == "onnx" else list(runner(**named).values())

    return run


def write_onnx(model, path, signature, **kwargs):
    """Write a model as ONNX, with the `Erfc` of an exact GELU, which tf2onnx does not know."""
    if keras.backend.backend() == "tensorflow":
        from tf2onnx.handler import tf_op

        tf_op("Erfc").register_compat_handler(_write_erfc, 9)
    model.export(path, "onnx", False, signature, **kwargs)


def _write_erfc(graph, node, **kwargs):
    """Write the operator `Erfc` of TensorFlow as `1 - Erf`."""
    from tf2onnx.utils import map_onnx_to_numpy_type

    dtype = map_onnx_to_numpy_type(graph.get_dtype(node.output[0]))
    one = graph.make_const(f"{node.name}_one", np.ones((), dtype)).output[0]
    erf = graph.make_node("Erf", node.input).output[0]
    graph.remove_node(node.name)
    graph.make_node("Sub", [one, erf], outputs=node.output, name=node.name)


def run_openvino(path, samples, signature, expected):
    """Return the outputs of an OpenVINO file."""
    import openvino

    # On a CPU that computes in bfloat16 the runtime would do so with a float32 model.
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.compile_model(path, "CPU", exact)
    outputs = compiled(keras.tree.flatten(samples))
    return [outputs[output] for output in compiled.outputs]


def write_openvino(model, path, signature, **kwargs):
    """Write a model as OpenVINO IR, without the results that the conversion adds."""
    import openvino

    raw = path.removesuffix(".xml") + "-raw.xml"
    model.export(raw, "openvino", False, signature, **kwargs)
    converted = openvino.Core().read_model(raw)
    outputs = {}
    for result in converted.get_results():
        for name in result.input_value(0).get_names():
            found = re.fullmatch(r"Identity(?:_(\d+))?:0", name)  # of a function in TensorFlow
            if found:
                outputs[int(found[1] or 0)] = result
    if outputs:
        results = [outputs[index] for index in sorted(outputs)]
        converted = openvino.Model(results, converted.get_parameters(), model.name)
    openvino.serialize(converted, path)


def quantize_openvino(path, samples, signature):
    """Write an OpenVINO file in int8."""
    import nncf
    import openvino

    model = openvino.Core().read_model(path)
    if samples is None:
        found = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
    else:
        found = nncf.quantize(model, nncf.Dataset(samples), subset_size=len(samples))
    # Beside the file, whose numbers are still read.
    beside = path.replace(".xml", "-int8.xml")
    openvino.save_model(found, beside, compress_to_fp16=False)
    for ending in (".xml", ".bin"):
        os.replace(beside.replace(".xml", ending), path.replace(".xml", ending))


def run_torch(path, samples, signature, expected):
    """Return the outputs of a file of PyTorch."""
    import torch

    samples = keras.tree.map_structure(torch.from_numpy, list(samples))
    with torch.no_grad():
        outputs = torch.export.load(path).module()(*samples)
    return [output.numpy() for output in keras.tree.flatten(outputs)]


def run_stablehlo(path, samples, signature, expected):
    """Return the outputs of a StableHLO file in JAX."""
    from jax import export

    with open(path, "rb") as file:
        exported = export.deserialize(bytearray(file.read()))
    return keras.tree.flatten(exported.call(*samples))


def write_stablehlo(model, path, signature, **kwargs):
    """Write a model as StableHLO, with `jax.export`."""
    import jax
    from jax import export

    scope, count = export.SymbolicScope(), iter(range(1000))

    def symbolic(spec):
        names = (
            str(size) if size is not None else "batch" if axis == 0 else f"size{next(count)}"
            for axis, size in enumerate(spec.shape)
        )
        shape = export.symbolic_shape(", ".join(names), scope=scope)
        return jax.ShapeDtypeStruct(shape, keras.backend.standardize_dtype(spec.dtype))

    shapes = keras.tree.map_structure(symbolic, list(signature))
    exported = export.export(jax.jit(lambda *args: model(*args)), **kwargs)(*shapes)
    with open(path, "wb") as file:
        file.write(exported.serialize())


def write_torch(model, path, signature, **kwargs):
    """Write a model with `torch.export`, which would fix an unknown batch size."""
    import torch

    def dynamic(spec):
        return {
            axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(spec.shape) if size is None
        }

    if any(None in tuple(spec.shape) for spec in keras.tree.flatten(signature)):
        # The arguments of a Keras model are one tuple, `*args`.
        shapes = [tuple(keras.tree.map_structure(dynamic, list(signature)))]
        kwargs = {"dynamic_shapes": shapes, **kwargs}
    model.export(path, "torch", False, signature, **kwargs)


def written(path: str | os.PathLike, kind: Format) -> list[str]:
    """Return the files of a format, the one that is opened last."""
    stem = str(path).removesuffix(kind.suffix)
    return [*(f"{stem}{ending}" for ending in kind.beside), str(path)]


def _numbered(name):
    """Return a key that sorts `output_2` before `output_10`."""
    return len(name), name


_EVERY = ("tensorflow", "jax", "torch")
_LITERT = ("tensorflow", "torch")
FORMATS = {
    "tf_saved_model": Format("", ("tensorflow", "jax"), run_saved_model, False, "TensorFlow"),
    "onnx": Format(
        *(".onnx", _EVERY, run_onnx, True, "onnxruntime"), (), write_onnx, quantize_onnx
    ),
    "openvino": Format(
        *(".xml", _EVERY, run_openvino, True, "openvino"),
        *((".bin",), write_openvino, quantize_openvino),
    ),
    "litert": Format(
        *(".tflite", _LITERT, run_litert, True, "ai-edge-litert"), quantize=quantize_litert
    ),
    "torch": Format(".pt2", ("torch",), run_torch, False, "torch.export", write=write_torch),
    "stablehlo": Format(
        ".stablehlo", ("jax",), run_stablehlo, False, "jax.export", write=write_stablehlo
    ),
}
