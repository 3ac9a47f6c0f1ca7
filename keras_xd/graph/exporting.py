"""Files for serving: computed as in inference, and tried out before they are written."""

import os
import pathlib
import tempfile
import warnings

import keras
import numpy as np

from keras_xd.core import files
from keras_xd.core.validation import check_export_path

# The batch, and every other unknown size, that a file is tried with.
_BATCH, _UNKNOWN_SIZE = 2, 32
# Largest difference to the model's outputs, relative to the largest of them.
_TOLERANCE = 1e-3


class InferenceModel(keras.Model):
    """A model called with `training=False`, whatever its layers do by default.

    `keras.Model.export` calls a model without `training`, and layers such as
    `keras.layers.RandomFlip` then take `True`.

    Args:
        model: the model.
        names: names of its keyword arguments, which here are the last positional ones.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd.graph.exporting import InferenceModel
    >>> flip = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.RandomFlip(seed=1)])
    >>> image = np.arange(16.0, dtype="float32").reshape(1, 4, 4, 1)
    >>> bool(np.all(InferenceModel(flip)(image) == image))
    True
    """

    def __init__(self, model, names=()):
        super().__init__(name=model.name, dtype=model.dtype_policy, autocast=False)
        self.model = model
        self.names = tuple(names)
        self.built = True

    def call(self, *args):
        count = len(args) - len(self.names)
        named = dict(zip(self.names, args[count:], strict=True))
        return self.model(*args[:count], **named, training=False)


def export(
    model,
    filepath,
    format="tf_saved_model",
    verbose=None,
    input_signature=None,
    *,
    overwrite=False,
    call=None,
    **kwargs,
):
    """Export a model as it computes in inference.

    A LiteRT or ONNX file is first written elsewhere and tried: its interpreter must load it and
    give the outputs of the model.

    Args:
        model: the model.
        filepath, format, verbose, input_signature, **kwargs: as in `keras.Model.export`.
        overwrite: whether to write where there is something already.
        call: for a subclassed model the arguments of a symbolic call, `(args, kwargs)` with
            `keras.KerasTensor` in them, which give the default of `input_signature`; `None` for a
            Functional or Sequential one.

    Raises:
        ValueError: if there is something at `filepath` and `overwrite` is not set, or if the file
            could not be used.
    """
    check_export_path(filepath, overwrite)
    names = ()
    if input_signature is None:
        input_signature, names = _signature(model, call)
    inference = InferenceModel(model, names)
    check = _CHECKS.get(format)
    if check is None:
        inference.export(filepath, format, verbose, input_signature, **kwargs)
        return
    suffix, run = check
    if not str(filepath).endswith(suffix) or os.path.isdir(filepath):
        raise ValueError(
            f"Export to {format!r} writes one file, whose name ends with {suffix!r}. "
            f"Received: filepath={str(filepath)!r}"
        )
    if not isinstance(input_signature, (list, tuple)):
        input_signature = [input_signature]
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, f"model{suffix}")
        expected, samples = _sample(inference, input_signature)
        try:
            inference.export(written, format, False, input_signature, **kwargs)
        except (ImportError, TypeError, ValueError):  # of arguments or missing packages
            raise
        except Exception as error:
            raise _unusable(format, model, error) from error
        try:
            actual = run(written, samples, input_signature, expected)
        except Exception as error:
            raise _unusable(format, model, error) from error
        if not kwargs:  # such as quantization, which changes the outputs
            _check_outputs(format, model, expected, actual)
        files.write(filepath, pathlib.Path(written).read_bytes(), overwrite)
    if verbose is not False:
        print(f"Saved artifact at '{filepath}'.")


def _signature(model, call):
    """Return the specifications of the inputs of `InferenceModel`, and its `names`.

    As with Keras, the inputs of a subclassed model have no names.
    """
    if call is None:
        inputs = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
        return [keras.tree.map_structure(lambda x: _specification(x, x.name), inputs)], ()
    args, kwargs = call
    kwargs = {name: value for name, value in kwargs.items() if _has_tensors(value)}
    return keras.tree.map_structure(_specification, [*args, *kwargs.values()]), tuple(kwargs)


def _specification(tensor, name=None):
    return keras.InputSpec(shape=(None, *tensor.shape[1:]), dtype=tensor.dtype, name=name)


def _has_tensors(value):
    return any(isinstance(leaf, keras.KerasTensor) for leaf in keras.tree.flatten(value))


def _sample(model, signature):
    """Return the outputs of a model for some inputs, as a flat list, and these inputs."""
    rng = np.random.default_rng(0)

    def draw(spec):
        shape = [_UNKNOWN_SIZE if size is None else size for size in spec.shape]
        shape[:1] = [_BATCH] if spec.shape[0] is None else shape[:1]
        values = rng.normal(size=shape)
        dtype = keras.backend.standardize_dtype(spec.dtype)
        return (values if "float" in dtype else 0 * values).astype(dtype)

    samples = [keras.tree.map_structure(draw, value) for value in signature]
    try:
        outputs = model(*samples)
    except Exception as error:
        raise ValueError(
            f"Before a file is written it is tried on inputs of the sizes in `input_signature`, "
            f"{_UNKNOWN_SIZE} where that says None: give one with sizes that the model takes. "
            f"Received: input_signature={signature}, with which the model fails: {error}"
        ) from error
    return outputs, keras.tree.flatten(samples)


def _run_litert(path, samples, signature, expected):
    """Return the outputs of a LiteRT file, in the order of those expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's own interpreter is deprecated
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError:
            import tensorflow as tf

            Interpreter = tf.lite.Interpreter
        runner = Interpreter(path).get_signature_runner()
    taken = sorted(runner.get_input_details(), key=_numbered)
    names = [getattr(spec, "name", None) for spec in keras.tree.flatten(signature)]
    names = names if set(names) == set(taken) else taken
    outputs = runner(**dict(zip(names, samples, strict=True)))
    if isinstance(expected, dict) and set(expected) == set(outputs):
        return keras.tree.flatten({name: outputs[name] for name in expected})
    return [outputs[name] for name in sorted(outputs, key=_numbered)]


def _run_onnx(path, samples, signature, expected):
    """Check the operators of an ONNX file; return its outputs if onnxruntime is installed."""
    import onnx

    onnx.checker.check_model(path)
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(path)
    taken = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(taken, samples, strict=True)))


def _numbered(name):
    """Return a key that sorts `output_2` before `output_10`."""
    return len(name), name


def _check_outputs(format, model, expected, actual):
    if actual is None:
        return
    for before, after in zip(keras.tree.flatten(expected), actual, strict=True):
        before = keras.ops.convert_to_numpy(keras.ops.cast(before, "float32"))
        scale = np.max(np.abs(before), initial=1e-6)
        error = np.max(np.abs(np.asarray(after, "float32") - before), initial=0.0) / scale
        if not error <= _TOLERANCE:
            what = f"its outputs differ from the model's by {error:.2g} of the largest of them"
            raise _unusable(format, model, what)


def _unusable(format, model, reason):
    return ValueError(
        f"This model cannot be exported to {format!r}: its interpreter has no working form of some "
        "operation in it, such as Fourier transforms, half precision, or searchable layers, which "
        "`keras_xd.finalize` replaces. Export it as a SavedModel, format='tf_saved_model'. "
        f"Nothing has been written. Received: model '{model.name}', with which: {reason}"
    )


_CHECKS = {"litert": (".tflite", _run_litert), "onnx": (".onnx", _run_onnx)}
