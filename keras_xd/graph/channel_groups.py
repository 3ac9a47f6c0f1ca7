"""Which channels of a graph are internal: made by some layers, and read by others alone."""

import collections
import dataclasses
import functools
from collections.abc import Callable

import keras
from keras import layers, ops

from keras_xd.core.searchable import is_graph
from keras_xd.graph import cloning
from keras_xd.graph.cost import CONVOLUTIONS, DEPTHWISE

PRODUCERS = (*CONVOLUTIONS[:2], layers.Dense)
_BY_POINT = (
    layers.Dropout,
    layers.GaussianDropout,
    layers.GaussianNoise,
    layers.AlphaDropout,
    layers.Identity,
    layers.ReLU,
    layers.LeakyReLU,
    layers.ELU,
    layers.ActivityRegularization,
)
# These have their channels last.
_ALONG_THE_FIRST_AXIS = (layers.Cropping1D, layers.UpSampling1D)
_BY_CHANNEL = (
    layers.SpatialDropout2D,
    layers.MaxPooling1D,
    layers.MaxPooling2D,
    layers.AveragePooling1D,
    layers.AveragePooling2D,
    layers.ZeroPadding1D,
    layers.ZeroPadding2D,
    layers.Cropping2D,
    layers.UpSampling2D,
)
GLOBAL_POOLING = (
    layers.GlobalAveragePooling1D,
    layers.GlobalAveragePooling2D,
    layers.GlobalMaxPooling1D,
    layers.GlobalMaxPooling2D,
)
_ACTIVATIONS = (
    ("celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_tanh")
    + ("leaky_relu", "linear", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu")
    + ("soft_shrink", "softplus", "softsign", "squareplus", "tanh", "tanh_shrink", "threshold")
)


@dataclasses.dataclass
class Channels:
    """The channels of one or several tensors, which are masked together or not at all.

    Attributes:
        size: how many.
        free: whether nothing but the layers below reads or makes them.
        producers: the layers that make them: plain convolutions and dense layers.
        consumers: the layers that read them, likewise.
        members: the depthwise convolutions between.
    """

    size: int
    free: bool
    producers: list = dataclasses.field(default_factory=list)
    consumers: list = dataclasses.field(default_factory=list)
    members: list = dataclasses.field(default_factory=list)


def find_channels(
    model: keras.Model,
    able: Callable[[layers.Layer], bool],
    shared: Callable[[layers.Layer], bool],
) -> list[Channels]:
    """Return the internal channels of a graph, a list of `Channels` in the order of their makers.

    From a convolution or dense layer on they pass through what treats each channel by itself
    (normalization by batches, elementwise activations, dropout, pooling, padding, depthwise
    convolutions of one output a channel, products of two tensors with such channels) and end in
    convolutions or dense layers. Whatever else they reach, an addition for example, holds them.

    Args:
        model: a Functional or a built Sequential model; models inside it hold what they are given.
        able: predicate of a layer: whether its channels may be cut.
        shared: predicate of a layer: whether it is called more than once.
    """
    copy, calls = cloning.traced_graph(model)
    found, parents = {}, {}  # tensor -> (key, axis); key -> key of those it has been joined with

    def root(key):
        while parents[key] != key:
            key = parents[key]
        return key

    groups = {}

    def new(tensor, axis, free, producers=()):
        key = len(groups)
        groups[key] = Channels(tensor.shape[axis], free, list(producers))
        parents[key] = key
        found[id(tensor)] = (key, axis)

    def group_of(tensor):
        if id(tensor) not in found:  # an input of the model
            new(tensor, len(tensor.shape) - 1, False)
        key, axis = found[id(tensor)]
        return root(key), axis

    for call in calls:
        operation, tensors = call.operation, call.tensors
        cuttable = isinstance(operation, layers.Layer) and able(operation)
        if cuttable and not shared(operation) and is_maker(operation) and len(tensors) == 1:
            (tensor,), (output,) = tensors, call.outputs
            key, axis = group_of(tensor)
            if axis == channel_axis(operation, len(tensor.shape)):
                groups[key].consumers.append(operation)
            else:
                groups[key].free = False
            axis = channel_axis(operation, len(output.shape))
            new(output, axis, is_by_point(operation.activation), [operation])
            continue
        places = [group_of(tensor) for tensor in tensors]
        passed = passes(call, [axis for _, axis in places])
        if any(isinstance(operation, kind) for kind in (*DEPTHWISE, layers.BatchNormalization)):
            passed = None if shared(operation) else passed
        if isinstance(operation, DEPTHWISE) and not able(operation):
            passed = None
        sizes = {groups[key].size for key, _ in places}
        if passed is None or len(sizes) != 1:
            for key, _ in places:
                groups[key].free = False
            for output in call.outputs:
                new(output, len(output.shape) - 1, False)
            continue
        key = functools.reduce(functools.partial(_join, groups, parents), [k for k, _ in places])
        if isinstance(operation, DEPTHWISE):
            groups[key].members.append(operation)
        found[id(call.outputs[0])] = (key, passed)
    for tensor in copy.outputs:
        groups[group_of(tensor)[0]].free = False
    return [
        group
        for key, group in groups.items()
        if parents[key] == key and group.free and group.consumers and group.size > 1
    ]


def passes(call: cloning.OperationCall, axes: list[int]) -> int | None:
    """Return the axis of the channels of the output if a call treats each of them by itself.

    Args:
        call: a `cloning.OperationCall`.
        axes: the axis of the channels of each tensor that it is given.

    Returns:
        An integer, or `None` where channels are mixed, changed or held.
    """
    operation, tensors = call.operation, call.tensors
    if len(call.outputs) != 1 or not tensors or None in axes:
        return None
    shape, (output,), axis = tensors[0].shape, call.outputs, axes[0]
    if len(tensors) > 1:
        alike = len({len(t.shape) for t in tensors}) == len(set(axes)) == 1
        return axis if alike and is_product(operation) else None
    last = len(shape) - 1
    if not isinstance(operation, layers.Layer):
        by_point = isinstance(operation, _operations_by_point()) and len(output.shape) == last + 1
        flat = keras.tree.flatten((call.args, call.kwargs))
        numbers = all(value is tensors[0] or _is_plain(value) for value in flat)
        return axis if by_point and numbers else None
    kind = type(operation)
    if kind in DEPTHWISE:
        passed = operation.depth_multiplier == 1 and is_by_point(operation.activation)
        passed = passed and axis == channel_axis(operation, len(shape))
    elif kind is layers.BatchNormalization:
        passed = operation.axis % len(shape) == axis
    elif kind is layers.Activation:
        passed = is_by_point(operation.activation)
    elif kind is layers.Rescaling:
        passed = not (_has_axes(operation.scale) or _has_axes(operation.offset))
    elif kind in GLOBAL_POOLING:
        passed = axis == channel_axis(operation, len(shape))
        axis = axis if operation.keepdims else 1
    elif kind in (*_ALONG_THE_FIRST_AXIS, layers.SpatialDropout1D):
        passed = axis == last
    elif kind in _BY_CHANNEL:
        passed = axis == channel_axis(operation, len(shape))
    else:
        passed = kind in _BY_POINT and getattr(operation, "noise_shape", None) is None
    return axis if passed else None


def is_maker(operation: keras.Operation) -> bool:
    """Return whether a layer reads all channels of its input and makes new ones."""
    return isinstance(operation, PRODUCERS) and getattr(operation, "groups", 1) == 1


def channel_axis(layer: layers.Layer, rank: int) -> int:
    """Return the axis of the channels in inputs or outputs of a layer, counted from the start."""
    return 1 if getattr(layer, "data_format", None) == "channels_first" else rank - 1


def is_by_point(activation: Callable | None) -> bool:
    """Return whether an activation, a function or a layer, is known to be elementwise."""
    if activation is None or type(activation) in (layers.ReLU, layers.LeakyReLU, layers.ELU):
        return True
    return any(activation is known for known in _known_activations())


def is_product(operation: keras.Operation) -> bool:
    """Return whether an operation multiplies: `keras.layers.Multiply` or `x * y`."""
    return type(operation) is layers.Multiply or isinstance(operation, _multiplication())


def calls_of(model: keras.Model) -> collections.Counter:
    """Return how often each operation is called in a model's graph and those inside, by its id.

    A graph inside counts once, since what is in it is the same whenever it is called.
    """
    counts, seen = collections.Counter(), set()

    def visit(graph):
        if id(graph) in seen:
            return
        seen.add(id(graph))
        for call in cloning.traced_graph(graph)[1]:
            counts[id(call.operation)] += 1
            if is_graph(call.operation):
                visit(call.operation)

    visit(model)
    return counts


def _join(groups, parents, first, second):
    """Make the channels `second` a part of `first`, and return this."""
    if first != second:
        one, other = groups[first], groups[second]
        one.free = one.free and other.free
        one.producers += other.producers
        one.consumers += other.consumers
        one.members += other.members
        parents[second] = first
    return first


def _is_plain(value):
    return value is None or isinstance(value, (bool, int, float, str))


def _has_axes(value):
    return bool(getattr(value, "shape", isinstance(value, (list, tuple))))


@functools.cache
def _known_activations():
    return tuple(getattr(keras.activations, name) for name in _ACTIVATIONS)


@functools.cache
def _operations_by_point():
    """Return the classes of elementwise operations, which have no public names."""
    functions = (
        [ops.relu, ops.relu6, ops.gelu, ops.silu, ops.hard_silu, ops.sigmoid, ops.hard_sigmoid]
        + [ops.tanh, ops.elu, ops.leaky_relu, ops.softplus, ops.exp, ops.abs, ops.square]
        + [lambda x: x + 1.0, lambda x: x - 1.0, lambda x: x * 2.0, lambda x: x / 2.0]
    )
    return tuple(_class_of(function) for function in functions)


@functools.cache
def _multiplication():
    return _class_of(lambda x: x * 2.0)


def _class_of(function):
    tensor = keras.Input((1,))
    return type(keras.Function(tensor, function(tensor)).operations[-1])
