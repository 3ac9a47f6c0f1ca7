"""Forms of an XD-operation whose architecture does not move for a while, as in warm-up.

While it still is the operation it started as it computes that one as Keras does; otherwise what
depends on the architecture alone has been folded once. Both have the gradients of the operation by
its inputs, its kernel and its bias, and none by its architecture.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd import kmatrix
from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.xd import functional
from keras_xd.layers.xd.placed_kernel import PlacedTransform

# With so many columns what folding costs each of them is nothing.
_FOLDED_ONCE = 2**62


@dataclasses.dataclass(frozen=True)
class FoldedForm:
    """The transforms, the bias `b` and the gates `C` of an operation, multiplied out once.

    Attributes:
        transforms: `(analyses, matrices, syntheses)` as from `FoldedOperation._transforms`.
        extras: `b` and `C`, `None` where there is none.
    """

    transforms: tuple[list, list, list]
    extras: tuple[Tensor | None, Tensor | None]

    def __call__(self, layer: keras.layers.Layer, x: Tensor) -> Tensor:
        """Return the outputs of the layer without its activation."""
        return layer.linear(x, layer.multiplied_out(self.transforms, *self.extras))


@dataclasses.dataclass(frozen=True)
class StartForm:
    """The operation that a layer started as, computed as Keras computes it.

    Attributes:
        name: `"convolution"`, `"zero"`, `"average_pooling"` or `"identity"`.
        operation: a function of the layer, inputs with their channels last and the kernel.
    """

    name: str
    operation: Callable[[keras.layers.Layer, Tensor, Tensor], Tensor]

    def __call__(self, layer: keras.layers.Layer, x: Tensor) -> Tensor:
        """Return the outputs of the layer without its activation."""
        first, rank = layer.data_format == "channels_first", layer.rank
        if first:
            x = ops.transpose(x, (0, *range(2, rank + 2), 1))
        outputs = functional.exact(self.operation(layer, x, ops.convert_to_tensor(layer.kernel)))
        if layer.bias is not None:
            outputs = outputs + ops.cast(ops.convert_to_tensor(layer.bias), outputs.dtype)
        return ops.transpose(outputs, (0, rank + 1, *range(1, rank + 1))) if first else outputs


def form_of(layer: keras.layers.Layer) -> FoldedForm | StartForm:
    """Return the form of a built XD-operation with the architecture that it has now.

    Args:
        layer: an `XDLayer`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> from keras_xd.layers.xd import frozen
    >>> layer = layers.XDConv2D(2, 3)
    >>> layer.build((None, 8, 8, 1))
    >>> frozen.form_of(layer).name
    'convolution'
    >>> _ = layer.architecture_variables[0].assign_add(np.full((1, 2, 48), 0.1, "float32"))
    >>> type(frozen.form_of(layer)).__name__
    'FoldedForm'
    """
    return _start_form(layer) or _folded_form(layer)


def padded(x: Tensor, widths: list[tuple[int, int]], circular: bool) -> Tensor:
    """Return inputs with their channels last, continued by zeros or periodically.

    Args:
        x: tensor `(batch, *sizes, channels)`.
        widths: by how much before and after the inputs, for each spatial axis.
        circular: whether inputs are continued by those of the other end.
    """
    if not any(map(any, widths)):
        return x
    if not circular:
        return ops.pad(x, [(0, 0), *widths, (0, 0)])
    for axis, (before, after) in enumerate(widths, start=1):
        size = x.shape[axis]
        parts = [_slice(x, axis, size - before, size), x, _slice(x, axis, 0, after)]
        kept = [part for part, width in zip(parts, (before, 1, after), strict=True) if width]
        x = ops.concatenate(kept, axis=axis) if len(kept) > 1 else x
    return x


def window_widths(geometry: Any, first: int = 0, number: int | None = None) -> tuple[int, int]:
    """Return how far the weights of an axis reach before and beyond the inputs.

    Args:
        geometry: the `AxisGeometry` of the axis.
        first, number: which weights count; by default all.
    """
    number = geometry.kernel_size if number is None else number
    before = geometry.left - geometry.dilation * first
    last = geometry.stride * (geometry.output_size - 1) + geometry.dilation * (number - 1) - before
    return before, max(last - (geometry.size - 1), 0)


def _slice(x, axis, start, stop, step=1):
    return x[tuple(slice(start, stop, step) if i == axis else slice(None) for i in range(axis + 1))]


def _folded_form(layer):
    plans = tuple(
        # One dense block is cheapest for more sizes where it need not be folded in every call.
        kmatrix.plan(plan.n, plan.radices, depth=max(layer.depth), columns=_FOLDED_ONCE)
        for plan in layer.plans
    )
    analyses, matrices, syntheses = layer.architecture_transforms(plans)
    dtype = functional.exact_dtype(layer.variable_dtype)
    extras = [e if e is None else _constant(e) for e in layer.architecture_extras(dtype)]
    transforms = [[_constant(part) for part in parts] for parts in (analyses, matrices, syntheses)]
    return FoldedForm(tuple(transforms), tuple(extras))


def _constant(part):
    """Return a transform, or a tensor, without the way back to the variables it comes from.

    Copied, because a train step of JAX takes the memory of variables.
    """
    if isinstance(part, PlacedTransform):
        return dataclasses.replace(part, analysis=_constant(part.analysis))
    if hasattr(part, "matrices"):
        return dataclasses.replace(part, matrices=[_constant(matrix) for matrix in part.matrices])
    return ops.copy(ops.stop_gradient(part))


def _start_form(layer):
    """Return the form of a layer that is at its start, if Keras has that operation, or `None`."""
    # Of the class itself: a start derived from another one is another operation.
    name = vars(type(layer.warm_start)).get("keras_operation")
    if name is None:
        return None
    operation = layer.convolution_of_keras() if name in ("convolution", "zero") else _FIXED[name]
    if operation is None or (name == "average_pooling" and max(layer.dilation_rate) > 1):
        return None
    start = layer.start_architecture()
    now = [ops.convert_to_numpy(variable) for variable in layer.architecture_variables]
    if not all(np.array_equal(*both) for both in zip(start, now, strict=True)):
        return None
    if name == "zero":
        return StartForm(name, lambda layer, x, kernel: operation(layer, x, 0.0 * kernel))
    return StartForm(name, operation)


def _average_pooling(layer, x, kernel):
    windows = [g.window for g in layer.geometry]
    widths = [window_widths(g, *window) for g, window in zip(layer.geometry, windows, strict=True)]
    x = padded(x, widths, layer.padding == "circular")
    sizes = tuple(number for _, number in windows)
    outputs = ops.average_pool(x, sizes, layer.strides, "valid", "channels_last")
    # Windows over the border are averaged over the inputs in them.
    for axis, g in enumerate(layer.geometry):
        scale = g.window[1] / g.inputs_in_window()
        if np.any(scale != 1):
            shape = (-1, *(1,) * (layer.rank - axis))
            outputs = outputs * ops.convert_to_tensor(scale.reshape(shape), outputs.dtype)
    return _without_kernel(outputs, kernel)


def _identity(layer, x, kernel):
    for axis, g in enumerate(layer.geometry, start=1):
        x = _slice(x, axis, 0, g.stride * (g.output_size - 1) + 1, g.stride)
    return _without_kernel(x, kernel)


def _without_kernel(outputs, kernel):
    """Return outputs on which the kernel has no influence: its gradient is zero, not missing."""
    return outputs + ops.cast(0.0 * ops.sum(kernel), outputs.dtype)


_FIXED = {"average_pooling": _average_pooling, "identity": _identity}


def convolution(layer: keras.layers.Layer, x: Tensor, kernel: Tensor, operation: Any) -> Tensor:
    """Return the convolution of a layer with windows, as Keras computes it.

    Args:
        layer: a `SlidingXDLayer`.
        x: inputs `(batch, *sizes, channels)`.
        kernel: the layer's kernel.
        operation: `keras.ops.conv` or `keras.ops.depthwise_conv`.
    """
    widths, padding = [window_widths(g) for g in layer.geometry], "valid"
    if layer.padding == "same" and layer.window_size == layer.kernel_size:
        padding = "same"
    else:
        x = padded(x, widths, layer.padding == "circular")
    x, kernel = (ops.cast(value, layer.compute_dtype) for value in (x, kernel))
    return operation(x, kernel, layer.strides, padding, "channels_last", layer.dilation_rate)


def transposed_convolution(layer: keras.layers.Layer, x: Tensor, kernel: Tensor) -> Tensor:
    """Return the transposed convolution of a layer, as Keras computes it.

    Args:
        layer: an `XDConvTranspose` without dilation, not circular.
        x: inputs `(batch, *sizes, channels)`.
        kernel: the layer's kernel.
    """
    x, kernel = (ops.cast(value, layer.compute_dtype) for value in (x, kernel))
    # All that the kernel reaches; what is kept of it does not depend on the backend then.
    outputs = ops.conv_transpose(x, kernel, layer.strides, "valid", None, "channels_last")
    missing = []
    for axis, g in enumerate(layer.geometry, start=1):
        missing.append((0, max(g.left + g.output_size - outputs.shape[axis], 0)))
        outputs = _slice(outputs, axis, g.left, g.left + g.output_size)
    return padded(outputs, missing, circular=False)
