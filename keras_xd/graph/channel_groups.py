"""Internal channels of a graph: made by some layers, read by others alone."""

import dataclasses
import functools
from collections.abc import Callable

import keras
from keras import layers, ops

from keras_xd.graph import cloning
from keras_xd.graph.cost import CONVOLUTIONS, DEPTHWISE

PRODUCERS = (*CONVOLUTIONS[:2], layers.Dense)
_ELEMENTWISE = (
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
# Layers without `data_format`.
_CHANNELS_LAST = (layers.SpatialDropout1D, layers.Cropping1D, layers.UpSampling1D)
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
_NAMES = (
    ("celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_tanh")
    + ("leaky_relu", "linear", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu")
    + ("soft_shrink", "softplus", "softsign", "squareplus", "tanh", "tanh_shrink", "threshold")
)
_ACTIVATIONS = tuple(getattr(keras.activations, name) for name in _NAMES)

# For each class of layers, whether a layer treats each channel by itself: a function of the layer,
# the axis of the channels and the number of axes. A subclass may differ, so it is not looked up.
_KEEPS_CHANNELS_APART = {
    **dict.fromkeys(
        _ELEMENTWISE,
        lambda layer, axis, rank: (
            getattr(layer, "noise_shape", None) is None or layer.noise_shape[axis] in (None, 1)
        ),
    ),
    **dict.fromkeys(_CHANNELS_LAST, lambda layer, axis, rank: axis == rank - 1),
    **dict.fromkeys(
        (*_BY_CHANNEL, *GLOBAL_POOLING),
        lambda layer, axis, rank: axis == channel_axis(layer, rank),
    ),
    **dict.fromkeys(
        DEPTHWISE,
        lambda layer, axis, rank: (
            axis == channel_axis(layer, rank)
            and layer.depth_multiplier == 1
            and is_elementwise(layer.activation)
        ),
    ),
    layers.BatchNormalization: lambda layer, axis, rank: axis == layer.axis % rank,
    layers.Activation: lambda layer, axis, rank: is_elementwise(layer.activation),
    layers.Rescaling: lambda layer, axis, rank: (
        not (_has_axes(layer.scale) or _has_axes(layer.offset))
    ),
}


@dataclasses.dataclass
class Channels:
    """The channels of one or several tensors, which are masked together or not at all."""

    size: int
    free: bool
    producers: list = dataclasses.field(default_factory=list)
    consumers: list = dataclasses.field(default_factory=list)
    members: list = dataclasses.field(default_factory=list)


def pools_channels_alone(layer: layers.Layer) -> bool:
    """Return whether a layer is a global pooling whose channels are last."""
    return type(layer) in GLOBAL_POOLING and layer.data_format == "channels_last"


def find_channels(
    model: keras.Model,
    able: Callable[[layers.Layer], bool],
    shared: Callable[[layers.Layer], bool],
) -> list[Channels]:
    """Return the internal channels of a graph, a list of `Channels` in the order of their
    makers.
    """
    trace, groups = cloning.Trace(model), _Groups()
    for call in trace.calls:
        operation, tensors = call.operation, call.tensors
        once = not shared(operation)
        cuttable = isinstance(operation, layers.Layer) and able(operation)
        maker = isinstance(operation, PRODUCERS) and getattr(operation, "groups", 1) == 1
        if cuttable and once and maker and len(tensors) == 1:
            groups.end_and_start(call)
            continue
        axis = channel_axis_after(call, [groups.axis_of(tensor) for tensor in tensors])
        if isinstance(operation, DEPTHWISE):
            axis = axis if once and cuttable else None
        elif isinstance(operation, layers.BatchNormalization):
            axis = axis if once else None
        if axis is None:
            groups.hold(call)
        else:
            groups.pass_on(call, axis)
    return groups.internal(trace.view.outputs)


class _Groups:
    """The channels of the tensors of a graph, filled call by call."""

    def __init__(self):
        self.groups = []
        self._known = {}  # id of a tensor -> its `Channels` and their axis

    def axis_of(self, tensor):
        """Return the axis of the channels of a tensor."""
        return self._of(tensor)[1]

    def end_and_start(self, call):
        """Add a layer that reads all channels of its input and makes new ones."""
        layer, (tensor,), (output,) = call.operation, call.tensors, call.outputs
        group, axis = self._of(tensor)
        if axis == channel_axis(layer, len(tensor.shape)):
            group.consumers.append(layer)
        else:
            group.free = False
        axis = channel_axis(layer, len(output.shape))
        self._start(output, axis, is_elementwise(layer.activation), [layer])

    def hold(self, call):
        """Add a call that mixes, changes or fixes the channels of its inputs."""
        for tensor in call.tensors:
            self._of(tensor)[0].free = False
        for output in call.outputs:
            self._start(output, len(output.shape) - 1, free=False)

    def pass_on(self, call, axis):
        """Add a call whose output has the channels of its inputs, on an axis."""
        found = {id(group): group for group, _ in map(self._of, call.tensors)}
        first, *others = found.values()
        if any(other.size != first.size for other in others):
            self.hold(call)
            return
        for other in others:
            self._join(first, other)
        if isinstance(call.operation, DEPTHWISE):
            first.members.append(call.operation)
        self._known[id(call.outputs[0])] = first, axis

    def internal(self, outputs):
        """Return the groups with consumers that neither an output nor another call fixes."""
        for tensor in outputs:
            self._of(tensor)[0].free = False
        return [g for g in self.groups if g.free and g.consumers and g.size > 1]

    def _of(self, tensor):
        if id(tensor) not in self._known:  # an input of the model
            self._start(tensor, len(tensor.shape) - 1, free=False)
        return self._known[id(tensor)]

    def _start(self, tensor, axis, free, producers=()):
        group = Channels(tensor.shape[axis], free, list(producers))
        self.groups.append(group)
        self._known[id(tensor)] = group, axis

    def _join(self, group, other):
        """Make the channels `other` a part of `group`."""
        group.free = group.free and other.free
        group.producers += other.producers
        group.consumers += other.consumers
        group.members += other.members
        self.groups = [known for known in self.groups if known is not other]
        for key, (known, axis) in self._known.items():
            if known is other:
                self._known[key] = group, axis


def channel_axis_after(call: cloning.OperationCall, axes: list[int | None]) -> int | None:
    """Return the axis of the channels of the output if a call treats each of them by itself."""
    operation, tensors = call.operation, call.tensors
    if len(call.outputs) != 1 or not tensors or None in axes:
        return None
    axis, rank = axes[0], len(tensors[0].shape)
    if len(tensors) > 1:
        alike = len({len(tensor.shape) for tensor in tensors}) == len(set(axes)) == 1
        apart = alike and is_product(operation)
    elif isinstance(operation, layers.Layer):
        keeps_apart = _KEEPS_CHANNELS_APART.get(type(operation))
        apart = keeps_apart is not None and keeps_apart(operation, axis, rank)
        if type(operation) in GLOBAL_POOLING and not operation.keepdims:
            axis = 1
    else:
        same_rank = len(call.outputs[0].shape) == rank
        numbers = all(value is tensors[0] or _is_plain(value) for value in call.flat_arguments)
        apart = isinstance(operation, _elementwise_operations()) and same_rank and numbers
    return axis if apart else None


def channel_axis(layer: layers.Layer, rank: int) -> int:
    """Return the axis of the channels in inputs or outputs of a layer, counted from the start."""
    return 1 if getattr(layer, "data_format", None) == "channels_first" else rank - 1


def is_elementwise(activation: Callable | None) -> bool:
    """Return whether an activation, a function or a layer, is known to be elementwise."""
    if activation is None or type(activation) in (layers.ReLU, layers.LeakyReLU, layers.ELU):
        return True
    return any(activation is known for known in _ACTIVATIONS)


def is_product(operation: keras.Operation) -> bool:
    """Return whether an operation multiplies: `keras.layers.Multiply` or `x * y`."""
    product = cloning.operation_class(ops.multiply)
    return type(operation) is layers.Multiply or isinstance(operation, product)


def _is_plain(value):
    return value is None or isinstance(value, (bool, int, float, str))


def _has_axes(value):
    return bool(getattr(value, "shape", isinstance(value, (list, tuple))))


@functools.cache
def _elementwise_operations():
    """Return the classes of elementwise operations, which have no public names."""
    functions = (
        [ops.relu, ops.relu6, ops.gelu, ops.silu, ops.hard_silu, ops.sigmoid, ops.hard_sigmoid]
        + [ops.tanh, ops.elu, ops.leaky_relu, ops.softplus, ops.exp, ops.abs, ops.square]
        + [lambda x: x + 1.0, lambda x: x - 1.0, lambda x: x * 2.0, lambda x: x / 2.0]
    )
    return tuple(cloning.operation_class(lambda x, y, f=f: f(x)) for f in functions)
