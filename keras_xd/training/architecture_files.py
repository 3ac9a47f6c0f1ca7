"""The architecture of a model in a file of its own, for models of other data sets."""

import collections
import io
import json
import os
import re
import zipfile
from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_xd.core import files
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import NEUTRAL, check_finite, listed_weights, named_layers
from keras_xd.training.random_architecture import architecture_parts

FORMAT = "keras_xd.architecture"
VERSION = 1
HEADER = "header"
# Keras names a layer after its class; a rewritten one keeps the name of the layer it replaced.
_NUMBER = re.compile(r"^(.*?)(?:_\d+)?(:\d+)?$")


@check_types
def save_architecture(
    model: keras.layers.Layer, path: str | os.PathLike, overwrite: bool = False
) -> None:
    """Save the architecture of a model, without its weights, for a model of another data set.

    The file is a NumPy archive (`.npz`) of the architecture variables with a header in JSON;
    reading it never runs code. What layers share is in it once.

    Args:
        model: a built Keras model (a `SearchModel` too) or a single layer.
        path: string or `pathlib.Path`, such as `"found.architecture.npz"`.
        overwrite: whether to replace a file that exists.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> def model(classes):
    ...     return keras.Sequential(
    ...         [
    ...             keras.Input((9, 1)),
    ...             keras_xd.layers.XDConv1D(2, 3, name="conv"),
    ...             keras.layers.GlobalAveragePooling1D(),
    ...             keras.layers.Dense(classes),
    ...         ]
    ...     )
    >>> found = keras_xd.randomize_architecture(model(classes=10), seed=0)
    >>> keras_xd.save_architecture(found, "found.npz")
    >>> other = keras_xd.load_architecture(model(classes=100), "found.npz")
    >>> other = keras_xd.freeze_architecture(other)  # and then compile and fit it
    """
    files.write(path, pack(model), overwrite)


@check_types
def load_architecture(
    model: keras.layers.Layer, path: str | os.PathLike, *, names: Mapping[str, str] | None = None
) -> keras.layers.Layer:
    """Give a model the architecture in a file of `save_architecture`; its weights stay.

    The model may have another number of classes, other channels and another batch than the one
    that was saved, wherever its architecture does not depend on them. Layers are matched by their
    paths, the keys of `keras_xd.describe`. If these differ and Keras numbered the layers by itself
    (`conv2d`, `conv2d_1`, …), which it does on and on in one process, the numbers count as an
    order only.

    Everything is checked first: if anything is missing, unexpected or does not fit, nothing is
    changed.

    Args:
        model: a built Keras model (a `SearchModel` too) or a single layer.
        path: string or `pathlib.Path` of the file.
        names: a dictionary from paths of layers in the file to those in the model, for layers that
            are called otherwise.

    Returns:
        `model`. Its architecture is trainable or frozen as before: see
        `keras_xd.freeze_architecture`.

    Example: see `save_architecture`.

    >>> import keras
    >>> import keras_xd
    >>> def model(name):
    ...     layer = keras_xd.layers.XDConv1D(2, 3, name=name)
    ...     return keras.Sequential([keras.Input((9, 1)), layer])
    >>> keras_xd.save_architecture(model("conv"), "conv.npz")
    >>> loaded = keras_xd.load_architecture(
    ...     model("first"), "conv.npz", names={"conv": "first"}
    ... )
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (OSError, TypeError) as error:
        raise ValueError(
            "An architecture is read from a file of `keras_xd.save_architecture`. "
            f"Received: path={path!r}, which fails with {type(error).__name__}: {error}"
        ) from error
    return unpack(model, content, str(path), names)


def layout(model):
    """Return what is known of the architecture of a model besides its values."""
    layers = dict(named_layers(model))
    described = []
    for path, layer, variables in architecture_parts(model):
        shapes = layer.get_build_config() or {}
        described.append(
            {
                "path": path,
                "numberless": _numberless(path, layers),
                "layer": path or layer.name,
                "input_shape": shapes.get("input_shape"),
                "signature": layer.architecture_signature(),
                "variables": [
                    {"name": _NUMBER.match(v.name).group(1), "shape": list(v.shape)}
                    for v in variables
                ],
            }
        )
    return json.loads(json.dumps(described))


def pack(model):
    """Return the content of a file with the architecture of a model, bytes."""
    described, arrays, keys = layout(model), {}, {}
    parts = architecture_parts(model)
    check_finite(model, only=[variable for *_, own in parts for variable in own])
    for layer, (_, _, variables) in zip(described, parts, strict=True):
        for entry, variable in zip(layer["variables"], variables, strict=True):
            key = keys.setdefault(id(variable), f"array_{len(keys)}")
            entry["array"] = key
            value = ops.convert_to_numpy(variable)
            # NumPy's files know no bfloat16.
            arrays[key] = value if value.dtype.kind in "fiub" else value.astype("float32")
    header = {"format": FORMAT, "version": VERSION, "layers": described}
    text = json.dumps(header, ensure_ascii=False).encode()
    content = io.BytesIO()
    np.savez(content, **{HEADER: np.frombuffer(text, "uint8"), **arrays})
    return content.getvalue()


def unpack(model, content, source, names=None):
    """Give a model the architecture that `pack` returned for another one, or change nothing."""
    saved, arrays = _read(content, source)
    parts = {path: variables for path, _, variables in architecture_parts(model)}
    present = {layer["path"]: layer for layer in layout(model)}
    problems, values, origin = [], {}, {}
    for old, new in _matched(saved, present, names or {}, problems):
        old = _with_neutral_extras(old, new, arrays)
        found = _differences(old, new)
        problems += found
        if found:
            continue
        for entry, variable in zip(old["variables"], parts[new["path"]], strict=True):
            value, known = arrays[entry["array"]], values.get(id(variable))
            alike = known is None or known[1] is value or np.array_equal(known[1], value)
            if not alike:
                problems.append(
                    f"layers '{origin[id(variable)]}' and '{new['layer']}' share "
                    f"{entry['name']} in the model and have different ones in the file"
                )
            values[id(variable)] = (variable, value)
            origin[id(variable)] = new["layer"]
    if problems:
        raise ValueError(
            "The architecture in a file must fit the model layer by layer. An architecture that "
            "depends on sizes of its inputs, as K-matrices do, belongs to these: load it into a "
            "model of the sizes of the search, which `keras_xd.resize` can take to others. "
            f"Received: {source} for model '{model.name}': " + "; ".join(problems)
        )
    for variable, value in values.values():
        variable.assign(ops.convert_to_tensor(value, dtype=variable.dtype))
    return model


def _read(content, source):
    """Return the layers and the arrays of a file's content, or raise `ValueError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > len(content):  # it is never compressed, so that no small file fills the memory
            raise ValueError(f"{len(content)} bytes say that they are {size}")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        header = json.loads(arrays.pop(HEADER).tobytes().decode())
        layers, form = header["layers"], (header["format"], header["version"])
        if form != (FORMAT, VERSION):
            raise ValueError(f"it is of format {form[0]!r}, version {form[1]!r}")
        for layer in layers:
            _check_layer(layer, arrays)
        paths = [layer["path"] for layer in layers]
        if len(set(paths)) < len(paths):
            raise ValueError(f"paths that occur twice in {paths}")
    except Exception as error:  # a damaged archive raises almost anything
        raise ValueError(
            "An architecture is read from a whole file of `keras_xd.save_architecture`. "
            f"Received: {source}, which cannot be read as one: {type(error).__name__}: {error}"
        ) from error
    wrong: dict[str, list[str]] = {}
    for layer in layers:
        for variable in layer["variables"]:
            if not np.isfinite(arrays[variable["array"]]).all():
                wrong.setdefault(layer["layer"], []).append(variable["name"])
    if wrong:
        raise ValueError(
            "The architecture in a file must be finite; that of a search that has diverged is "
            f"none. Received: {source} with NaN or infinity in layers {listed_weights(wrong)}"
        )
    return layers, arrays


def _check_layer(layer, arrays):
    """Raise an error if the entry of a layer in a header is not as it is written."""
    for name, kind in (("path", str), ("numberless", str), ("layer", str), ("signature", dict)):
        if not isinstance(layer[name], kind):
            raise TypeError(f"{name} is {layer[name]!r}")
    for entry in layer["variables"]:
        array = arrays[entry["array"]]
        if not isinstance(entry["name"], str) or list(array.shape) != entry["shape"]:
            raise ValueError(f"array of shape {array.shape} for {entry}")
        if array.dtype.kind not in "fiub":
            raise TypeError(f"array of type {array.dtype} for {entry}")


def _matched(saved, present, names, problems):
    """Return pairs of layers in the file and in the model; tell of others in `problems`."""
    saved, present = {layer["path"]: layer for layer in saved}, dict(present)
    names = dict(names)
    unknown = {old: new for old, new in names.items() if old not in saved or new not in present}
    if unknown or len(set(names.values())) < len(names):
        raise ValueError(
            "`names` must map paths of the file's layers to different paths of the model's. "
            f"Received: names={names!r}, file {sorted(saved)}, model {sorted(present)}"
        )
    pairs = [(saved.pop(old), present.pop(new)) for old, new in names.items()]
    if set(saved) == set(present):
        return pairs + [(layer, present[path]) for path, layer in saved.items()]
    old, new = (_by_numberless(layers) for layers in (saved.values(), present.values()))
    if {key: len(group) for key, group in old.items()} == {k: len(g) for k, g in new.items()}:
        for key, group in old.items():
            pairs += zip(group, new[key], strict=True)
        return pairs
    if set(present) - set(saved):
        problems.append(f"missing in the file {sorted(set(present) - set(saved))}")
    if set(saved) - set(present):
        problems.append(f"unexpected in the file {sorted(set(saved) - set(present))}")
    return pairs + [(layer, present[path]) for path, layer in saved.items() if path in present]


def _by_numberless(layers):
    groups = collections.defaultdict(list)
    for layer in layers:
        groups[layer["numberless"]].append(layer)
    return groups


def _with_neutral_extras(old, new, arrays):
    """Return the entry of a layer with `b = 0` and `C = 1` where the file has none."""
    entries = list(old["variables"])
    for index, entry in enumerate(new["variables"]):
        name, missing = entry["name"], len(entries) < len(new["variables"])
        if (
            name in NEUTRAL
            and missing
            and [e["name"] for e in entries[index : index + 1]] != [name]
        ):
            key = f"{name} of {new['path']} {index}"
            arrays[key] = np.full(entry["shape"], NEUTRAL[name])
            entries.insert(index, {**entry, "array": key})
    return {**old, "variables": entries}


def _differences(old, new):
    """Return what of one layer in the file does not fit that of the model, a list of texts."""
    found = []
    if old["signature"] != new["signature"]:
        keys = dict.fromkeys([*old["signature"], *new["signature"]])
        for key in keys:
            before, after = old["signature"].get(key), new["signature"].get(key)
            if before != after:
                found.append(f"{key} {before!r} in the file and {after!r} in the model")
    before, after = (
        [f"{v['name']} {tuple(v['shape'])}" for v in layer["variables"]] for layer in (old, new)
    )
    if before != after:
        found.append(
            f"variables {_without(before, after)} in the file and "
            f"{_without(after, before)} in the model"
        )
    if not found:
        return []
    shapes = f"(inputs {_inputs_of(old)} in the file, {_inputs_of(new)} in the model)"
    return [f"layer '{new['layer']}' has {', '.join(found)} {shapes}"]


def _without(texts, others):
    """Return the texts that are not among others, all of them if there are none."""
    return ", ".join([text for text in texts if text not in others] or texts)


def _inputs_of(layer):
    shape = layer.get("input_shape")
    return tuple(shape) if isinstance(shape, list) else "of unknown shape"


def _numberless(path, layers):
    """Return a path without the numbers of names that Keras gave."""
    names, result = path.split("/") if path else [], []
    for count, name in enumerate(names, start=1):
        stem, ending = _NUMBER.match(name).groups()
        layer = layers.get("/".join(names[:count]))
        classes = {_snake_case(type(layer).__name__)} | _keras_names()
        result.append(f"{stem}{ending or ''}" if stem in classes else name)
    return "/".join(result)


def _keras_names():
    """Return the names that Keras gives to layers, without numbers."""
    kinds = [kind for kind in vars(keras.layers) if kind[:1].isupper()]
    return {_snake_case(kind) for kind in (*kinds, "Functional", "Sequential", "Model")}


def _snake_case(name):
    """Return the name that Keras makes of a class's name."""
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
