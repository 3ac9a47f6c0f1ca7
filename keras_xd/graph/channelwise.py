"""Operations that treat each channel by itself."""

import functools
from collections.abc import Callable

import keras
import numpy as np
from keras import layers, ops

from keras_xd.core.searchable import SearchableLayer
from keras_xd.graph import cloning
from keras_xd.graph.cost import DEPTHWISE

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


def pools_channels_alone(layer: layers.Layer) -> bool:
    """Return whether a layer is a global pooling whose channels are last."""
    return type(layer) in GLOBAL_POOLING and layer.data_format == "channels_last"


def keeps_channels_apart(call: cloning.OperationCall) -> bool:
    """Return whether a call of an operation without a kernel may treat each channel by itself."""
    operation = call.operation
    if len(call.tensors) > 1:
        return is_product(operation)
    return type(operation) in _KEEPS_CHANNELS_APART or isinstance(
        operation, _elementwise_operations()
    )


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


def tried(call: cloning.OperationCall, axis: int, size: str | None = None) -> list | None:
    """Return each weight that has the channels, with the axis, of a layer without a rule.

    `None` unless a trial shows that they can be cut: a copy of the layer for half of the channels
    must have the same outputs for these.

    Args:
        call: the call of the layer.
        axis: that of the channels of the output and, without `size`, of the input, each of which
            the layer treats by itself, such as one that adds learned positions.
        size: name of the argument that tells how many channels a layer makes.
    """
    layer, (tensor,), found = call.operation, call.tensors, []
    count = call.outputs[0].shape[axis]
    if isinstance(layer, SearchableLayer) or (count or 1) < 2:
        return None
    shape = tuple(length or 2 for length in tensor.shape)
    kept, rng = np.arange(0, count, 2), np.random.default_rng(0)
    x = some = rng.uniform(-1, 1, shape).astype("int32" if "int" in tensor.dtype else "float32")
    changes = {}
    if size is None:
        some = np.take(x, kept, axis)
    else:
        changes[size] = len(kept)

    def output(copy, value):
        flat = [value if argument is tensor else argument for argument in call.flat_arguments]
        given = call.with_arguments(flat)
        return ops.convert_to_numpy(copy(*given.args, **given.kwargs))

    try:
        whole, part = (cloning.made_again(layer, new)[0] for new in ({}, changes))
        whole.build(shape)
        part.build(some.shape)
        for weight, *copies in zip(layer.variables, whole.variables, part.variables, strict=True):
            value = rng.uniform(0.5, 1.5, weight.shape)
            copies[0].assign(value)
            if copies[1].shape != weight.shape:
                (place,) = np.flatnonzero(np.not_equal(copies[1].shape, value.shape))
                found.append((weight, int(place)))
                value = np.take(value, kept, place)
            copies[1].assign(value)
        outputs = np.take(output(whole, x), kept, axis), output(part, some)
        alike = outputs[0].shape == outputs[1].shape and np.allclose(*outputs, 1e-3, 1e-5)
    except Exception:  # code of others, not written for this
        return None
    return found if alike else None


def channel_axis(layer: layers.Layer, rank: int) -> int:
    """Return the axis of the channels in inputs or outputs of a layer, counted from the start."""
    return 1 if getattr(layer, "data_format", None) == "channels_first" else rank - 1


def is_elementwise(activation: Callable | None) -> bool:
    """Return whether an activation is elementwise: a layer that is, or a function by a trial."""
    if activation is None or type(activation) in (layers.ReLU, layers.LeakyReLU, layers.ELU):
        return True
    if isinstance(activation, layers.Layer):
        return False
    x = np.random.default_rng(0).normal(size=(4, 4, 4)).astype("float32")
    try:
        some, whole = (ops.convert_to_numpy(activation(v)) for v in (x[1:, 1:, 1:], x))
        return bool(np.allclose(some, whole[1:, 1:, 1:], 1e-3, 1e-5))
    except Exception:  # code of others, not written for this
        return False


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
