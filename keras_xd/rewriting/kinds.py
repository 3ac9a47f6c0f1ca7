"""Which layers of Keras have a searchable twin, and how a twin is made from a layer."""

from collections.abc import Mapping

import keras
import numpy as np

from keras_xd import layers
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types, constructor_parameters
from keras_xd.core.searchable import SearchableLayer, named_layers
from keras_xd.graph.cost import CONVOLUTIONS, DEPTHWISE, SEPARABLE, TRANSPOSED

OPERATIONS = ("convolution", "pooling", "skip")
ANY_CONVOLUTION = (*CONVOLUTIONS, *TRANSPOSED, *DEPTHWISE, *SEPARABLE)
AVERAGE_POOLING = (
    keras.layers.AveragePooling1D,
    keras.layers.AveragePooling2D,
    keras.layers.AveragePooling3D,
)
MAX_POOLING = (keras.layers.MaxPooling1D, keras.layers.MaxPooling2D, keras.layers.MaxPooling3D)
POOLING = (*AVERAGE_POOLING, *MAX_POOLING)

# The class that takes the place of each class of Keras. A twin of a convolution takes all of its
# arguments and has its weights, by their names.
SEARCH_SPACES = {
    "xd": {
        keras.layers.Conv1D: layers.XDConv1D,
        keras.layers.Conv2D: layers.XDConv2D,
        keras.layers.Conv3D: layers.XDConv3D,
        keras.layers.Conv1DTranspose: layers.XDConv1DTranspose,
        keras.layers.Conv2DTranspose: layers.XDConv2DTranspose,
        keras.layers.Conv3DTranspose: layers.XDConv3DTranspose,
        keras.layers.DepthwiseConv1D: layers.XDDepthwiseConv1D,
        keras.layers.DepthwiseConv2D: layers.XDDepthwiseConv2D,
        keras.layers.SeparableConv1D: layers.XDSeparableConv1D,
        keras.layers.SeparableConv2D: layers.XDSeparableConv2D,
        keras.layers.AveragePooling1D: layers.XDConv1D,
        keras.layers.AveragePooling2D: layers.XDConv2D,
        keras.layers.AveragePooling3D: layers.XDConv3D,
    },
    "k_operation": {
        keras.layers.Conv1D: layers.KOpConv1D,
        keras.layers.Conv2D: layers.KOpConv2D,
        keras.layers.Conv3D: layers.KOpConv3D,
    },
    "darts": {
        keras.layers.Conv1D: layers.MixedOperation1D,
        keras.layers.Conv2D: layers.MixedOperation2D,
    },
    "dash": {
        keras.layers.Conv1D: layers.DashConv1D,
        keras.layers.Conv2D: layers.DashConv2D,
        keras.layers.Conv3D: layers.DashConv3D,
    },
}
# In place of a causal `Conv1D`, where the space's own twin would see all steps.
CAUSAL = {"xd": layers.XDCausalConv1D, "k_operation": layers.KOpCausalConv1D}
# How many rows the dense triangles of such a layer may have: 25 million numbers at depth 1.
LARGEST_CAUSAL = 2048
# Dense layers are masked too; they are no operations of their own.
MASKED = {
    keras.layers.Conv1D: layers.MaskedConv1D,
    keras.layers.Conv2D: layers.MaskedConv2D,
    keras.layers.DepthwiseConv1D: layers.MaskedDepthwiseConv1D,
    keras.layers.DepthwiseConv2D: layers.MaskedDepthwiseConv2D,
    keras.layers.Dense: layers.MaskedDense,
}
SEARCH_SPACES["masked"] = {
    keras_class: twin
    for keras_class, twin in MASKED.items()
    if issubclass(keras_class, ANY_CONVOLUTION)
}
# Layers that are a matrix and what surrounds it.
STRUCTURED = {
    keras.layers.Dense: layers.StructuredDense,
    keras.layers.EinsumDense: layers.StructuredEinsumDense,
    keras.layers.Embedding: layers.StructuredEmbedding,
    keras.layers.LSTM: layers.StructuredLSTM,
    keras.layers.GRU: layers.StructuredGRU,
}
SEARCH_SPACES["structured"] = STRUCTURED
# The same with mixtures of several families and sizes.
MIXED_STRUCTURES = {
    keras.layers.Dense: layers.MixedDense,
    keras.layers.EinsumDense: layers.MixedEinsumDense,
    keras.layers.Embedding: layers.MixedEmbedding,
    keras.layers.LSTM: layers.MixedLSTM,
    keras.layers.GRU: layers.MixedGRU,
}
# What there is none of for another layer of Keras.
NO_TWIN = {
    "xd": "there is no searchable {}",
    "k_operation": "no K-operation replaces {}",
    "darts": "no mixture of operations replaces {}",
    "dash": "no mixture of convolutions replaces {}",
    "masked": "there is no masked {}",
    "structured": "there is no structured {}",
}
# The class of a layer in a skip connection, by its number of spatial axes.
SKIPS = {"xd": {1: layers.XDConv1D, 2: layers.XDConv2D, 3: layers.XDConv3D}}
WEIGHTS = ("kernel", "depthwise_kernel", "pointwise_kernel", "bias")
SKIP_KERNEL_SIZE = 3
# A share of the outputs that is rounding in every float type but the half ones.
_CAUSAL_ROUNDING = 1e-4
BASE_ARGUMENTS = {*constructor_parameters(keras.layers.Layer), "window_size"}


@check_types
def register_search_space(name: str, twins: Mapping[type, type]) -> None:
    """Add a search space of one's own, for `rewrite(model, to=name)` and what builds on it.

    Args:
        name: name of the search space.
        twins: dictionary from classes of Keras' convolutions, or subclasses of them, to the
            subclasses of `keras_xd.layers.SearchableLayer` that take their place. A twin takes all
            arguments of the convolution by their names, and has its weights by theirs.

    Raises:
        ValueError: if the name is empty or that of another search space, or there is a class that
            cannot be replaced, or cannot replace one. The same classes may be registered again.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> class Searched(keras_xd.layers.XDConv2D):
    ...     pass
    >>> keras_xd.register_search_space("my_space", {keras.layers.Conv2D: Searched})
    >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3)])
    >>> type(keras_xd.rewrite(model, to="my_space").layers[0]).__name__
    'Searched'
    """
    twins = dict(twins)
    if not name or SEARCH_SPACES.get(name, twins) != twins:
        raise ValueError(
            "`name` must not be empty or the name of another search space. Received: "
            f"name={name!r}, and there are {sorted(SEARCH_SPACES)}"
        )
    if not twins:
        raise ValueError(f"`twins` must have a class to replace. Received: twins={twins}")
    for keras_class, twin in twins.items():
        _check_twin(keras_class, twin)
    SEARCH_SPACES[name] = twins


def _check_twin(keras_class, twin):
    """Raise `ValueError` unless one class can take the place of another."""
    if not (isinstance(keras_class, type) and issubclass(keras_class, ANY_CONVOLUTION)):
        raise ValueError(
            f"A key of `twins` must be a class of Keras' convolutions. Received: {keras_class!r}"
        )
    if not (isinstance(twin, type) and issubclass(twin, SearchableLayer)):
        raise ValueError(
            "A value of `twins` must be a subclass of `keras_xd.layers.SearchableLayer`. "
            f"Received: {twin!r}"
        )
    parameters = constructor_parameters(twin)
    takes_others = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    missing = sorted({*arguments_of(keras_class), "dtype"} - set(parameters))
    if missing and not takes_others:
        raise ValueError(
            f"`{twin.__name__}` must take the arguments of `{keras_class.__name__}` by name. "
            f"Received: a constructor without {missing}"
        )


def operation_of(layer, to="xd"):
    """Return which of the `OPERATIONS` a layer of Keras is, or `None`.

    For the search space `"structured"` it is `"matrix"` or `None`.
    """
    if to == "structured":
        return "matrix" if isinstance(layer, tuple(STRUCTURED)) else None
    if isinstance(layer, ANY_CONVOLUTION):
        return "convolution"
    return "pooling" if isinstance(layer, POOLING) else None


def search_space_of(found_layers):
    """Return the name of the search space that some layers are of, `"xd"` where none is."""
    classes = {type(layer) for layer in found_layers}
    found = [name for name in SEARCH_SPACES if classes & {*classes_of(name)}]
    return found[0] if found else "xd"


def classes_of(to):
    """Return the classes of the new layers of a search space."""
    return (*SEARCH_SPACES[to].values(), *([CAUSAL[to]] if to in CAUSAL else []))


def arguments_of(keras_class):
    """Return the names of the constructor's arguments, each an attribute of the same name."""
    parameters = constructor_parameters(keras_class).values()
    named = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    return tuple(dict.fromkeys([*named, "name"]))


def check_options(options, twins):
    """Raise `ValueError` for an option that new layers do not have beyond Keras' arguments.

    Args:
        options: dictionary of options.
        twins: the classes of the new layers.
    """
    for twin in dict.fromkeys(twins):
        own = [base for base in twin.__mro__ if issubclass(base, SearchableLayer)]
        parameters = [p for base in own for p in constructor_parameters(base).values()]
        by_position = {p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
        keyword_only = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        sizes = {name: 1 for name in ("filters", "kernel_size") if name in by_position}
        kept = set(twin(**sizes).get_config())  # a subclass may fix what its base lets choose
        allowed = (keyword_only & kept) - by_position - BASE_ARGUMENTS
        if not issubclass(twin, layers.MixedOperation):  # whose windows are the candidates'
            allowed |= {"kernel_size"}
        if issubclass(twin, layers.XDCausalConv1D):  # whose blocks are dense
            allowed |= {"radix"}
        wrong = {name: value for name, value in options.items() if name not in allowed}
        if wrong:
            raise ValueError(
                f"`rewrite` takes the options {sorted(allowed)} of the new layers; the rest comes "
                f"from the convolutions. Received: {wrong}"
            )


def twin_of(layer, twin, shape, padding, options):
    """Return the new layer, not yet built, in place of a convolution or pooling.

    An option `kernel_size` makes smaller kernels as large as that, except for transposed ones. The
    new layer is trainable; the flag of the old one is copied after building, since a layer that is
    built frozen would freeze what it shares with others.

    Args:
        layer: the layer.
        twin: the class of the new layer.
        shape: the shape of the layer's input.
        padding: `"exact"` or `"circular"`, as in `rewrite`, or `"causal"` for a layer that must not
            see later steps.
        options: further arguments.
    """
    arguments = {name: getattr(layer, name) for name in arguments_of(type(layer))}
    arguments["dtype"] = layer.dtype_policy
    options = dict(options)
    wanted = options.pop("kernel_size", None)
    if isinstance(layer, POOLING):
        arguments["kernel_size"] = arguments.pop("pool_size")
        arguments["filters"] = shape[_channel_axis(layer)]
        options = {**options, "use_bias": False, "warm_start": "average_pooling"}
    elif isinstance(layer.activation, keras.layers.Layer):
        activation = layer.activation
        arguments["activation"] = type(activation).from_config(activation.get_config())
    if wanted is not None:
        wanted = validation.integer_tuple(wanted, len(shape) - 2, "kernel_size")
    if wanted is not None and not isinstance(layer, TRANSPOSED):
        window = arguments["kernel_size"]
        arguments["kernel_size"] = tuple(map(max, zip(window, wanted, strict=True)))
        if padding != "causal":  # else the further weights are those of earlier steps
            arguments["window_size"] = window
    if padding == "causal":
        arguments["padding"] = "causal"
    if issubclass(twin, layers.XDCausalConv1D):
        del arguments["padding"]
        options.pop("radix", None)
        _check_triangles(shape[1 if layer.data_format == "channels_last" else 2], arguments)
    if padding == "circular" and _may_be_circular(layer, shape, arguments["kernel_size"]):
        arguments["padding"] = "circular"
    return twin(**arguments, **options)


def skip_layer(twin, name, shape, data_format, padding, options):
    """Return the new layer, not yet built, of an identity skip connection.

    Args:
        twin: the class of the new layer.
        name: its name.
        shape: the shape of the input.
        data_format: as in Keras.
        padding: `"exact"` or `"circular"`, as in `rewrite`.
        options: further arguments.
    """
    spatial = shape[1:-1] if data_format == "channels_last" else shape[2:]
    rank = len(spatial)
    size = validation.integer_tuple(
        options.get("kernel_size", SKIP_KERNEL_SIZE), rank, "kernel_size"
    )
    wraps = padding == "circular" and all(k <= n for k, n in zip(size, spatial, strict=True))
    arguments = {
        **options,
        "filters": shape[-1 if data_format == "channels_last" else 1],
        "kernel_size": size,
        "padding": "circular" if wraps else "same",
        "data_format": data_format,
        "use_bias": False,
        "warm_start": "identity",
        "name": name,
    }
    return twin(**arguments)


def copy_weights(old, new):
    """Copy the values and trainable flags of a convolution's weights to its built twin.

    Kernels are placed in the middle of larger ones, around which there are zeros; those that look
    back only at the end.
    """
    sizes = [getattr(new, name, None) for name in ("window_size", "kernel_size")]
    centred = None not in sizes and sizes[0] != sizes[1]
    for name in WEIGHTS:
        before = getattr(old, name, None)
        if before is not None:
            after = getattr(new, name)
            extra = [b - a for a, b in zip(before.shape, after.shape, strict=True)]
            widths = [
                (count // 2, count - count // 2) if centred else (count, 0) for count in extra
            ]
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
    """Raise `ValueError` if outputs of a built layer can depend on later inputs.

    All weights are moved by noise for it, and set back.

    Args:
        layer: a layer with the arguments of a convolution.
        shape: the shape of its input.
    """
    rng = np.random.default_rng(0)
    weights = [w for w in layer.weights if keras.backend.is_float_dtype(w.dtype)]
    values = [keras.ops.convert_to_numpy(weight) for weight in weights]
    axis = 1 if layer.data_format == "channels_last" else 2
    middle = shape[axis] // 2
    inputs = rng.standard_normal((1, *shape[1:]))
    later = np.arange(shape[axis]) >= middle
    changed = inputs + later.reshape((1, -1, 1) if axis == 1 else (1, 1, -1))
    for weight in weights:
        weight.assign_add(rng.standard_normal(weight.shape))
    before, after = (
        np.moveaxis(keras.ops.convert_to_numpy(layer(x)).astype("float64"), axis, 1)
        for x in (inputs, changed)
    )
    for weight, value in zip(weights, values, strict=True):
        weight.assign(value)
    earlier = -(-middle // layer.strides[0])
    moved = np.max(np.abs(after - before)[:, :earlier], initial=0.0)
    if not moved <= _CAUSAL_ROUNDING * np.max(np.abs(before)):
        raise ValueError(
            "A layer in place of a causal convolution must stay causal whatever its architecture. "
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


def _channel_axis(layer):
    return -1 if layer.data_format == "channels_last" else 1


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
