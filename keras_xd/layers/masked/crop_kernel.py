"""Convolutions with a cropped kernel whose outputs stay where they are."""

import keras

from keras_xd.core.type_aliases import Config

_PADDINGS = (keras.layers.ZeroPadding1D, keras.layers.ZeroPadding2D)
_CROPPINGS = (keras.layers.Cropping1D, keras.layers.Cropping2D)


def crop(
    layer: keras.layers.Layer, input_shape: tuple, supports: list[tuple[int, int]]
) -> tuple[list[keras.layers.Layer], Config, list[tuple[int, int]]]:
    """Return layers before, configuration and taps of a convolution with a cropped kernel."""
    channels_last = layer.data_format == "channels_last"
    sizes = input_shape[1:-1] if channels_last else input_shape[2:]
    kernel_size = tuple(stop - start for start, stop in supports)
    borders = _borders(layer, sizes, supports)
    for padding in (layer.padding, "valid", "same"):
        if _paddings(layer, sizes, kernel_size, padding) == borders:
            config = {"kernel_size": kernel_size, "padding": padding}
            return [], config, supports
    added = [tuple(max(width, 0) for width in pair) for pair in borders]
    removed = [tuple(max(-width, 0) for width in pair) for pair in borders]
    around, rank = [], len(supports)
    if any(map(any, added)):
        around.append(_layer_before(layer, "padding", _PADDINGS[rank - 1], added))
    if any(map(any, removed)):
        if rank == 1 and not channels_last:  # `Cropping1D` has no `data_format`
            return [], {}, [(0, taps) for taps in layer.kernel_size]
        around.append(_layer_before(layer, "cropping", _CROPPINGS[rank - 1], removed))
    config = {"kernel_size": kernel_size, "padding": "valid"}
    return around, config, supports


def _borders(layer, sizes, supports):
    """Return how many places to add before and after each axis so that the outputs stay."""
    borders = []
    whole = _paddings(layer, sizes, layer.kernel_size, layer.padding)
    for axis, (start, stop) in enumerate(supports):
        (before, after), rate = whole[axis], layer.dilation_rate[axis]
        removed_at_the_end = layer.kernel_size[axis] - stop
        borders.append((before - start * rate, after - removed_at_the_end * rate))
    return borders


def _paddings(layer, sizes, kernel_size, padding):
    """Return `padded` of each axis of a convolution like a layer, with another kernel size."""
    axes = zip(sizes, kernel_size, layer.strides, layer.dilation_rate, strict=True)
    return [padded(padding, *axis) for axis in axes]


def _layer_before(layer, kind, keras_class, widths):
    """Return a padding or cropping layer that takes the inputs of a convolution."""
    one_axis = len(widths) == 1
    options = {} if keras_class is keras.layers.Cropping1D else {"data_format": layer.data_format}
    return keras_class(
        widths[0] if one_axis else tuple(widths),
        name=f"{layer.name}_{kind}",
        dtype=layer.dtype_policy,
        **options,
    )


def padded(padding: str, size: int, taps: int, stride: int, rate: int) -> tuple[int, int]:
    """Return how many places Keras' convolutions add before and after an axis."""
    if padding == "causal":
        return (taps - 1) * rate, 0
    if padding == "valid":
        return 0, 0
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + (taps - 1) * rate + 1 - size, 0)
    return total // 2, total - total // 2
