"""Twins: searchable layers made in place of others, with their weights."""

import collections

import keras
import numpy as np

from keras_xd import layers
from keras_xd.core import validation
from keras_xd.core.argument_types import constructor_parameters
from keras_xd.core.searchable import SearchableLayer, named_layers
from keras_xd.graph.cloning import argument_names
from keras_xd.graph.cost import CONVOLUTIONS, DEPTHWISE, SEPARABLE, TRANSPOSED
from keras_xd.layers.mixed.mixed_operation import MixedConvolution

OPERATIONS = ("convolution", "pooling", "skip")
ANY_CONVOLUTION = (*CONVOLUTIONS, *TRANSPOSED, *DEPTHWISE, *SEPARABLE)
AVERAGE_POOLING = (
    keras.layers.AveragePooling1D,
    keras.layers.AveragePooling2D,
    keras.layers.AveragePooling3D,
)
MAX_POOLING = (keras.layers.MaxPooling1D, keras.layers.MaxPooling2D, keras.layers.MaxPooling3D)
POOLING = (*AVERAGE_POOLING, *MAX_POOLING)

# How many rows the dense triangles of a causal layer may have: 25 million numbers at depth 1.
LARGEST_CAUSAL = 2048
SKIP_KERNEL_SIZE = 3
# A share of the outputs that is rounding in every float type but the half ones.
_CAUSAL_ROUNDING = 1e-4
UNKNOWN_STEPS = 8  # of a layer that takes any number, where it is tried
# Arguments for a state in which a layer is not replaced.
STATE = {"weights", "lora_rank", "lora_alpha", "quantization_config"}
BASE_ARGUMENTS = {*constructor_parameters(keras.layers.Layer), "window_size", "partial_channels"}


def named_twins(prefix, names):
    """Return `{keras.layers.<name>: keras_xd.layers.<prefix><name>}`."""
    return {getattr(keras.layers, name): getattr(layers, f"{prefix}{name}") for name in names}


def arguments_of(keras_class):
    """Return the names of the constructor's arguments that tell how a layer is made again."""
    parameters = constructor_parameters(keras_class).values()
    named = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in STATE]
    return tuple(dict.fromkeys([*named, "name", "dtype"]))


def check_twin(keras_class, twin):
    """Raise `ValueError` unless one class can take the place of another."""
    others = (keras.Model, SearchableLayer)
    layer_class = isinstance(keras_class, type) and issubclass(keras_class, keras.layers.Layer)
    if not layer_class or issubclass(keras_class, others):
        raise ValueError(
            f"A key of `twins` must be a class of Keras' layers. Received: {keras_class!r}"
        )
    if not (isinstance(twin, type) and issubclass(twin, SearchableLayer)):
        raise ValueError(
            "A value of `twins` must be a subclass of `keras_xd.layers.SearchableLayer`. "
            f"Received: {twin!r}"
        )
    missing = set(arguments_of(keras_class)) - argument_names(twin)
    if missing:
        raise ValueError(
            f"`{twin.__name__}` must take the arguments of `{keras_class.__name__}` by name. "
            f"Received: a constructor without {sorted(missing)}"
        )


def check_options(options, new_layers):
    """Raise `ValueError` for an option that new layers do not have beyond Keras' arguments."""
    for layer in new_layers:
        own = [base for base in type(layer).__mro__ if issubclass(base, SearchableLayer)]
        parameters = [p for base in own for p in constructor_parameters(base).values()]
        by_position = {p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
        keyword_only = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        kept = set(layer.get_config())  # a subclass may fix what its base lets choose
        allowed = (keyword_only & kept) - by_position - BASE_ARGUMENTS
        if "kernel_size" in kept and not isinstance(layer, MixedConvolution):
            allowed |= {"kernel_size"}
        if isinstance(layer, layers.XDCausalConv1D):  # whose blocks are dense
            allowed |= {"radix"}
        wrong = {name: value for name, value in options.items() if name not in allowed}
        if wrong:
            raise ValueError(
                f"`rewrite` takes the options {sorted(allowed)} of the new layers; the rest comes "
                f"from the layers they replace. Received: {wrong}"
            )


def twin_of(candidate, twin, padding, options):
    """Return the new layer, not yet built, in place of a layer."""
    layer, shape, options = candidate.layer, candidate.shape, dict(options)
    arguments = _arguments(layer)
    if candidate.operation == "layer":
        if set(options) & set(arguments):
            raise ValueError(f"These are the layer's own. Received: {options}")
        return twin(**arguments, **options)
    if candidate.operation == "pooling":
        arguments["kernel_size"] = arguments.pop("pool_size")
        arguments["filters"] = shape[-1 if layer.data_format == "channels_last" else 1]
        options = {**options, "use_bias": False, "warm_start": "average_pooling"}
    wanted = options.pop("kernel_size", None)
    if wanted is not None:
        wanted = validation.integer_tuple(wanted, len(shape) - 2, "kernel_size")
    if wanted is not None and not isinstance(layer, TRANSPOSED):
        window = arguments["kernel_size"]
        arguments["kernel_size"] = tuple(map(max, zip(window, wanted, strict=True)))
        if not candidate.causal:  # else the further weights are those of earlier steps
            arguments["window_size"] = window
    if issubclass(twin, layers.XDCausalConv1D):
        del arguments["padding"]
        options.pop("radix", None)
        _check_triangles(shape[1 if layer.data_format == "channels_last" else 2], arguments)
    elif candidate.causal:
        arguments["padding"] = "causal"
    elif padding == "circular" and _may_be_circular(layer, shape, arguments["kernel_size"]):
        arguments["padding"] = "circular"
    return twin(**arguments, **options)


def _arguments(layer):
    """Return the arguments by which to make a layer again, as another."""
    arguments, names = {}, arguments_of(type(layer))
    # A configuration cannot hold every function, but not every argument is an attribute.
    config = {} if all(hasattr(layer, name) for name in names) else layer.get_config()
    for name in names:
        if hasattr(layer, name) or name in config:
            value = getattr(layer, name) if hasattr(layer, name) else config[name]
            if isinstance(value, keras.layers.Layer):  # such as an activation
                value = type(value).from_config(value.get_config())
            arguments[name] = value
    return {**arguments, "dtype": layer.dtype_policy}


def skip_layer(candidate, twin, data_format, padding, options):
    """Return the new layer, not yet built, of an identity skip connection."""
    shape, last = candidate.shape, data_format == "channels_last"
    spatial = shape[1:-1] if last else shape[2:]
    size = options.get("kernel_size", SKIP_KERNEL_SIZE)
    size = validation.integer_tuple(size, len(spatial), "kernel_size")
    wraps = padding == "circular" and all(k <= n for k, n in zip(size, spatial, strict=True))
    arguments = {
        **options,
        "filters": shape[-1 if last else 1],
        "kernel_size": size,
        "padding": "circular" if wraps else "same",
        "data_format": data_format,
        "use_bias": False,
        "warm_start": "identity",
        "name": candidate.skip.name,
        "dtype": candidate.skip.dtype,
    }
    return twin(**arguments)


def copy_weights(old, new):
    """Copy the values and trainable flags of a layer's weights to its built twin, by their
    names.
    """
    sizes = [getattr(new, name, None) for name in ("window_size", "kernel_size")]
    centred = None not in sizes and sizes[0] != sizes[1]
    named = collections.defaultdict(list)
    for weight in new.weights:
        named[weight.name].append(weight)
    for before in old.weights:
        after = getattr(new, before.name, None)
        if after is None:  # it is that of a layer inside
            after = named[before.name].pop(0) if named[before.name] else None
        if after is None:
            raise ValueError(
                "A layer must have the weights of the layer it replaces, by their names. Received: "
                f"layer '{new.name}' of class {type(new).__name__} without '{before.name}'"
            )
        extra = [b - a for a, b in zip(before.shape, after.shape, strict=True)]
        widths = [(count // 2, count - count // 2) if centred else (count, 0) for count in extra]
        after.assign(np.pad(keras.ops.convert_to_numpy(before), widths))
        after.trainable = before.trainable


def data_format_of(model):
    """Return the data format of the convolutions and poolings in a model where all agree."""
    formats = {
        layer.data_format
        for _, layer in named_layers(model)
        if isinstance(layer, (*ANY_CONVOLUTION, *POOLING))
    }
    return formats.pop() if len(formats) == 1 else keras.config.image_data_format()


def check_stays_causal(layer, shape):
    """Raise `ValueError` if outputs of a built layer can depend on later inputs."""
    rng = np.random.default_rng(0)
    weights = [w for w in layer.weights if keras.backend.is_float_dtype(w.dtype)]
    values = [keras.ops.convert_to_numpy(weight) for weight in weights]
    axis = 1 if getattr(layer, "data_format", "channels_last") == "channels_last" else 2
    shape = [size or UNKNOWN_STEPS for size in shape]
    middle = shape[axis] // 2
    inputs = rng.standard_normal((1, *shape[1:]))
    later = np.arange(shape[axis]) >= middle
    changed = inputs + later.reshape((1, -1, 1) if axis == 1 else (1, 1, -1))
    for weight in weights:
        weight.assign_add(rng.standard_normal(weight.shape))
    before, after = (
        keras.ops.convert_to_numpy(layer(x)).astype("float64") for x in (inputs, changed)
    )
    for weight, value in zip(weights, values, strict=True):
        weight.assign(value)
    if before.ndim < 3:  # it has no steps
        return
    before, after = (np.moveaxis(value, axis, 1) for value in (before, after))
    earlier = -(-middle // getattr(layer, "strides", (1,))[0])
    moved = np.max(np.abs(after - before)[:, :earlier], initial=0.0)
    if not moved <= _CAUSAL_ROUNDING * np.max(np.abs(before)):
        raise ValueError(
            "A layer in place of a causal one must stay causal whatever its architecture. "
            f"Received: layer '{layer.name}' of class {type(layer).__name__}, whose outputs before "
            f"step {middle} move by {moved:.2g} with inputs from that step on"
        )


def _check_triangles(steps, arguments):
    """Raise `ValueError` for a causal layer whose dense triangles would be too large."""
    rows = arguments["kernel_size"][0] * (steps - 1) + 1
    if rows > LARGEST_CAUSAL:
        raise ValueError(
            "A causal operation is made of dense triangles of kernel_size * (steps - 1) + 1 rows, "
            f"of which `rewrite` makes at most {LARGEST_CAUSAL}. Leave the layer out by `skip`, "
            'take to="dash" or "masked", or causal="windowed" where only the last step of the '
            f"outputs counts. Received: {steps} steps, kernel_size={arguments['kernel_size']}"
        )


def _may_be_circular(layer, shape, kernel_size):
    """Return whether the input may be continued periodically at the same sizes of the output."""
    if layer.padding != "same":
        return False
    spatial = shape[1:-1] if layer.data_format == "channels_last" else shape[2:]
    dilation_rate = (1,) * len(spatial) if isinstance(layer, POOLING) else layer.dilation_rate
    taps = zip(dilation_rate, kernel_size, strict=True)
    spans = [dilation * (size - 1) + 1 for dilation, size in taps]
    if isinstance(layer, TRANSPOSED):
        if layer.output_padding is not None:
            return False
        spatial = [stride * size for stride, size in zip(layer.strides, spatial, strict=True)]
    elif max(layer.strides) > 1:
        return False
    return all(span <= size for span, size in zip(spans, spatial, strict=True))
