"""Files for serving: computed as in inference, and tried out before they are written."""

import contextlib
import errno
import math
import os
import pathlib
import shutil
import tempfile
import warnings

import keras
import numpy as np

from keras_xd.core import files, transforms
from keras_xd.core.searchable import check_finite, flatten_layers, is_graph
from keras_xd.core.validation import check_export_path, check_finite_data
from keras_xd.core.warning_location import stacklevel
from keras_xd.graph.cloning import build_config, layers_inside, view
from keras_xd.graph.runtimes import FORMATS, written
from keras_xd.graph.size_counts import weight_bytes

# The batch, and every other unknown size, that a file is tried with.
_BATCH, _UNKNOWN_SIZE = 3, 32
# Largest difference to the model's outputs, relative to the largest of them: of models that
# compute in float32 or better, and of those with activations of integers.
_TOLERANCE, _QUANTIZED_TOLERANCE = 1e-5, 2e-2
# Where layers compute in a half type it is so many times the distance of 1 to the next number:
# runtimes round in other places, which gave up to 2.1 of them in a stack of six convolutions.
_HALF_EPSILONS, _ROUNDINGS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}, 4
# A file of more bytes that is so many times as large as the weights is worth a warning.
_LARGE_FILE, _LARGE_RATIO = 2**18, 1.5
_MAIN_FILE = "saved_model.pb"
# Samples that are used for calibration, and the change of outputs in int8 that is warned of.
_MOST_CALIBRATION, _CALIBRATION_BATCH, _LARGE_CHANGE = 256, 64, 0.2


class InferenceModel(keras.Model):
    """A model called with `training=False`, whatever its layers do by default."""

    def __init__(self, model, names=(), matrix_products=False):
        super().__init__(name=model.name, dtype=model.dtype_policy, autocast=False)
        self.model = model
        self.names = tuple(names)
        self.matrix_products = matrix_products
        self.built = True

    def call(self, *args):
        count = len(args) - len(self.names)
        named = dict(zip(self.names, args[count:], strict=True))
        with transforms.as_matrix_products(self.matrix_products):
            return self.model(*args[:count], **named, training=False)


def export(
    model,
    filepath,
    format="tf_saved_model",
    verbose=None,
    input_signature=None,
    *,
    overwrite=False,
    calibration_data=None,
    call=None,
    **kwargs,
):
    """Export a model as it computes in inference."""
    kind = _checked_format(format)
    check_export_path(filepath, overwrite)
    if not model.built:
        raise ValueError(
            "A model must be built before it is exported: call it once. "
            f"Received: model '{model.name}', which is not built"
        )
    check_finite(model)
    names = ()
    if input_signature is None:
        input_signature, names = _signature(model, call)
    if not isinstance(input_signature, (list, tuple)):
        input_signature = [input_signature]
    calibration = _calibration(calibration_data, input_signature, format, kind)
    inference = InferenceModel(model, names, kind.matrix_products)
    if "://" in str(filepath) and not kind.suffix:  # a store that TensorFlow alone writes to
        inference.export(filepath, format, verbose, input_signature, **kwargs)
        return
    targets = _checked_targets(filepath, format, kind, overwrite)
    with tempfile.TemporaryDirectory() as folder:
        unfinished = os.path.join(folder, f"model{kind.suffix}")
        with _statistics_as_arrays(model):
            try:
                _write_and_compare(inference, unfinished, format, input_signature, kwargs)
                if calibration:
                    quantized = _quantize(unfinished, kind, calibration, input_signature)
            except _Unusable as error:
                batch = keras.tree.flatten(input_signature)[0].shape[0]
                layer = _unusable_layer(model, unfinished, format, batch, kwargs)
                raise _refusal(format, model, layer, error, kwargs) from error
        if kind.suffix:
            _move_files(written(unfinished, kind), targets, overwrite)
            _warn_of_size(format, model, targets)
        else:
            _move_folder(unfinished, filepath)
    if verbose is not False:
        print(f"Saved artifact at '{filepath}'.")
        if calibration:
            print(quantized)


def _calibration(data, signature, format, kind):
    """Return samples for calibration, each a flat list of arrays, or `None` without data."""
    if data is None:
        return None
    if kind.quantize is None:
        known = [name for name, each in FORMATS.items() if each.quantize is not None]
        raise ValueError(
            f"`calibration_data` makes a file of int8, which is one of the formats {known}. "
            f"Received: format={format!r}"
        )
    specs, arrays = keras.tree.flatten(signature), keras.tree.flatten(data)
    batch = specs[0].shape[0] or 1
    shapes = [np.shape(array) for array in arrays]
    if not (len(shapes) == len(specs) and all(map(_fits, shapes, specs))) or shapes[0][0] < batch:
        raise ValueError(
            f"`calibration_data` must be arrays of the inputs, of at least {batch} samples, of "
            f"shapes {[tuple(spec.shape) for spec in specs]}. Received: arrays of shapes {shapes}"
        )
    check_finite_data(data, "calibration_data")
    arrays = [
        np.asarray(array, keras.backend.standardize_dtype(spec.dtype))
        for array, spec in zip(arrays, specs, strict=True)
    ]
    count = min(shapes[0][0], _MOST_CALIBRATION)
    if specs[0].shape[0] is None:
        batch = min(count, _CALIBRATION_BATCH)  # LiteRT's ranges are means over batches
    starts = range(0, count - batch + 1, batch)
    return [[array[start : start + batch] for array in arrays] for start in starts]


def _fits(shape, spec):
    """Return whether samples of a shape are those of an input."""
    sizes = zip(shape[1:], spec.shape[1:], strict=False)
    return len(shape) == len(spec.shape) and all(known in (None, size) for size, known in sizes)


def _quantize(path, kind, calibration, signature):
    """Write a file again in int8; return in words what was done, and what it changes."""

    def outputs():
        found = [kind.run(path, sample, signature, None) for sample in calibration[:32]]
        return np.concatenate([np.ravel(each) for sample in found for each in sample])

    before = outputs()
    original = [pathlib.Path(name) for name in written(path, kind)]
    kept, change = [name.read_bytes() for name in original], math.inf
    for samples in (calibration, None):
        for name, content in zip(original, kept, strict=True):
            name.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what the quantizers use themselves
                kind.quantize(path, samples, signature)
            change = float(np.linalg.norm(outputs() - before) / max(np.linalg.norm(before), 1e-12))
        except ImportError:
            raise
        except Exception as error:  # such as an operator that the runtime has not in int8
            if samples is None:
                raise _Unusable(error) from error
        if change <= _LARGE_CHANGE:
            break
    else:
        warnings.warn(
            f"In int8 the outputs for the calibration data differ by {change:.0%} (root mean "
            "square): measure the accuracy of the file before it is served.",
            stacklevel=stacklevel(),
        )
    what = "weights alone" if samples is None else "weights and activations"
    return f"In int8, {what}, its outputs for the calibration data differ by {change:.1%} (RMS)."


@contextlib.contextmanager
def _statistics_as_arrays(model):
    """Make arrays of the statistics of Keras' normalizations."""
    found = [x for x in flatten_layers(model) if isinstance(x, keras.layers.Normalization)]
    before = [(layer.mean, layer.variance) for layer in found]
    for layer, statistics in zip(found, before, strict=True):
        layer.mean, layer.variance = map(keras.ops.convert_to_numpy, statistics)
    try:
        yield
    finally:
        for layer, statistics in zip(found, before, strict=True):
            layer.mean, layer.variance = statistics


class _Unusable(ValueError):
    """No file came of a model, or one that does not run, or has other outputs."""


def _write_and_compare(inference, path, format, signature, kwargs):
    """Write a file of a format, run it and compare its outputs, or raise `_Unusable`."""
    expected, samples = _sample(inference, signature)
    try:
        _write(inference, path, format, signature, kwargs)
        actual = FORMATS[format].run(path, samples, signature, expected)
    except ImportError:  # a package is missing
        raise
    except Exception as error:
        if files.is_full(error):
            raise _without_room(os.path.dirname(path), error) from error
        raise _Unusable(error) from error
    if not kwargs:  # such as quantization, which changes the outputs
        _check_outputs(inference, expected, actual)


def _unusable_layer(model, path, format, batch, kwargs):
    """Return the first layer of a model that has no form in a format by itself, or `None`."""
    tried = set()
    for layer in model.layers if is_graph(model) else [x for _, x in layers_inside(model)]:
        if is_graph(layer):
            found = _unusable_layer(layer, path, format, batch, kwargs)
            if found is not None:
                return found
            continue
        shapes = (build_config(layer) or {}).get("input_shape")
        key = repr((type(layer), {**_config(layer), "name": None}, shapes))
        if shapes is None or key in tried:
            continue
        tried.add(key)
        try:
            alone = _alone(layer, shapes, batch)
            signature, _ = _signature(alone, None)
            inference = InferenceModel(alone, (), FORMATS[format].matrix_products)
            _write_and_compare(inference, path, format, signature, kwargs)
        except _Unusable:
            return layer
        except Exception:  # a layer that is called in another way
            continue
    return None


def _alone(layer, shapes, batch):
    """Return a model of one layer, with inputs of the shapes that it was built with."""

    def make_input(shape):
        return keras.Input(batch_shape=(batch, *shape[1:]), dtype=layer.compute_dtype)

    inputs = keras.tree.map_shape_structure(make_input, shapes)
    return keras.Model(inputs, layer(inputs))


def _config(layer):
    """Return the configuration of a layer; of one without, its identity."""
    try:
        return layer.get_config()
    except Exception:  # of a class that anybody may have written
        return {"layer": id(layer)}


def _checked_targets(filepath, format, kind, overwrite):
    """Return the paths of what is written, if they can be."""
    if kind.suffix and (not str(filepath).endswith(kind.suffix) or os.path.isdir(filepath)):
        raise ValueError(
            f"Export to {format!r} writes one file, whose name ends with {kind.suffix!r}. "
            f"Received: filepath={str(filepath)!r}"
        )
    targets = written(filepath, kind)
    if kind.suffix:
        files.check_folder(filepath)
    for target in targets[:-1]:
        check_export_path(target, overwrite)
    return targets


def _checked_format(format):
    """Return a format by its name, checked for the backend."""
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {list(FORMATS)}. Received: format={format!r}")
    kind, backend = FORMATS[format], keras.backend.backend()
    if backend not in kind.backends:
        names = " or ".join(repr(name) for name in kind.backends)
        raise ValueError(
            f"Format {format!r} is written by the backend {names} of Keras: save the model, and "
            f"load and export it where KERAS_BACKEND is set so. Received: backend={backend!r}"
        )
    return kind


def _write(model, path, format, signature, kwargs):
    """Write a file of a format, silently."""
    write = FORMATS[format].write
    if write is None:
        model.export(path, format, False, signature, **kwargs)
    else:
        write(model, path, signature, **kwargs)


def _move_files(sources, targets, overwrite):
    """Move files to their names; while others change, the last, which is opened, is not there."""
    *beside, opened = map(pathlib.Path, targets)
    try:
        if beside and overwrite:
            opened.unlink(missing_ok=True)
        for source, target in zip(sources, targets, strict=True):
            files.write(target, pathlib.Path(source).read_bytes(), overwrite)
    except BaseException:
        for target in beside:
            target.unlink(missing_ok=True)
        raise


def _move_folder(source, target):
    """Move a SavedModel to its name, where other files stay."""
    target = os.path.abspath(target)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    files.remove_leftovers(target)
    # On the same disk, so that every step after the copy is a renaming.
    copy = files.unfinished_name(target)
    try:
        shutil.copytree(source, copy)
        if os.path.isfile(target):
            os.remove(target)  # as `overwrite` says
        if os.path.isdir(target) and not os.listdir(target):
            os.rmdir(target)
        if not os.path.exists(target):
            os.replace(copy, target)
            return
        # Without it a folder is no SavedModel, so that it is none while it changes.
        main = os.path.join(target, _MAIN_FILE)
        if os.path.exists(main):
            os.remove(main)
        for folder, _, names in os.walk(copy, topdown=False):
            place = os.path.join(target, os.path.relpath(folder, copy))
            os.makedirs(place, exist_ok=True)
            for name in sorted(names, key=lambda name: name == _MAIN_FILE):
                os.replace(os.path.join(folder, name), os.path.join(place, name))
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _signature(model, call):
    """Return the specifications of the inputs of `InferenceModel`, and its `names`."""
    if call is None:
        inputs = view(model).input
        return [keras.tree.map_structure(lambda x: _specification(x, x.name), inputs)], ()
    args, kwargs = call
    kwargs = {name: value for name, value in kwargs.items() if _has_tensors(value)}
    return keras.tree.map_structure(_specification, [*args, *kwargs.values()]), tuple(kwargs)


def _specification(tensor, name=None):
    return keras.InputSpec(shape=(None, *tensor.shape[1:]), dtype=tensor.dtype, name=name)


def _has_tensors(value):
    return any(isinstance(leaf, keras.KerasTensor) for leaf in keras.tree.flatten(value))


def _sample(model, signature):
    """Return the outputs of a model for some inputs, and these inputs."""
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
    return outputs, samples


def _check_outputs(model, expected, actual):
    tolerance = _tolerance(model)
    for before, after in zip(keras.tree.flatten(expected), actual, strict=True):
        before = keras.ops.convert_to_numpy(keras.ops.cast(before, "float32"))
        scale = np.max(np.abs(before), initial=1e-6)
        error = np.max(np.abs(np.asarray(after, "float32") - before), initial=0.0) / scale
        if not error <= tolerance:
            what = f"its outputs differ from the model's by {error:.2g} of the largest of them"
            raise _Unusable(what)


def _tolerance(model):
    """Return the largest difference that is rounding."""
    layers = flatten_layers(model)
    if any(layer.quantization_mode is not None for layer in layers):
        return _QUANTIZED_TOLERANCE
    epsilon = max((_HALF_EPSILONS.get(layer.compute_dtype, 0.0) for layer in layers), default=0.0)
    return max(_TOLERANCE, _ROUNDINGS * epsilon)


def _warn_of_size(format, model, paths):
    """Warn of a file that is much larger than the weights of the model in it."""
    size = sum(os.path.getsize(path) for path in paths[:-1] or paths)
    weights = weight_bytes(model)
    if size > max(_LARGE_FILE, _LARGE_RATIO * weights):
        warnings.warn(
            f"The file has {size:,} bytes, the weights of the model have {weights:,}: {format!r} "
            "stores as float32 what the model keeps in eight or sixteen bits, and stores the "
            "result of what is computed from weights alone. A SavedModel and a .keras file keep "
            "the weights as they are.",
            stacklevel=stacklevel(),
        )


def _without_room(folder, error):
    """Return the error of a full disk, whatever the format's library calls it."""
    return OSError(
        errno.ENOSPC,
        f"{os.strerror(errno.ENOSPC)}: a model is exported to a temporary folder first, which can "
        "be moved by the environment variable TMPDIR. Nothing has been written. Received: "
        f"{type(error).__name__}: {error}",
        folder,
    )


def _refusal(format, model, layer, reason, kwargs):
    asked = f" with {dict(kwargs)}" if kwargs else ""
    place = "None of its layers has no form there by itself"
    if layer is not None:
        place = f"Its layer '{layer.name}' of class {type(layer).__name__} has no form there"
    return ValueError(
        f"This model cannot be exported to {format!r}{asked}: no file came of it that "
        f"{FORMATS[format].runtime} runs with the same outputs. {place}. Half precision, weights "
        "in eight bits, an unknown batch or size, and searchable layers are what formats lack: "
        "`keras_xd.finalize` the model first, give an `input_signature` of known sizes, or export "
        "it as a SavedModel, format='tf_saved_model'. "
        f"Nothing has been written. Received: model '{model.name}', with which: {reason}"
    )
