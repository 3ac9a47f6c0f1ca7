"""Cutting taps off a convolution without moving its outputs."""

import keras

_PADDINGS = (keras.layers.ZeroPadding1D, keras.layers.ZeroPadding2D)
_CROPPINGS = (keras.layers.Cropping1D, keras.layers.Cropping2D)


def cut(
    layer: keras.layers.Layer, input_shape: tuple, supports: list[tuple[int, int]]
) -> tuple[list, dict, list]:
    """Tell by what a convolution with some of its taps computes the same.

    Where no `padding` of Keras reads the same places any more, those around the inputs are written
    out: as a layer of zeros, or as a cropping where even the outermost places are not read.

    Args:
        layer: a convolution of Keras, plain or depthwise, of one or two spatial axes.
        input_shape: the shape of its inputs.
        supports: `(start, stop)` of the taps to keep, of each axis.

    Returns:
        `(around, changes, supports)`: a list of layers before the convolution, the changes of its
        configuration, and the taps that are kept, which are all where Keras has no such layer.
    """
    last = layer.data_format == "channels_last"
    sizes = input_shape[1:-1] if last else input_shape[2:]
    natural, borders = {name: [] for name in ("valid", "same", "causal")}, []
    for axis, (start, stop) in enumerate(supports):
        taps, rate = layer.kernel_size[axis], layer.dilation_rate[axis]
        stride, size = layer.strides[axis], sizes[axis]
        before, after = padded(layer.padding, size, taps, stride, rate)
        borders.append((before - start * rate, after - (taps - stop) * rate))
        for name, values in natural.items():
            values.append(padded(name, size, stop - start, stride, rate))
    kernel_size = tuple(stop - start for start, stop in supports)
    names = [layer.padding, "valid", "same"]
    fitting = [name for name in names if natural[name] == borders]
    if fitting:
        return [], {"kernel_size": kernel_size, "padding": fitting[0]}, supports
    rank = len(supports)
    zeros = [tuple(max(width, 0) for width in pair) for pair in borders]
    cropped = [tuple(max(-width, 0) for width in pair) for pair in borders]
    around = []
    for kind, classes, widths in (
        ("padding", _PADDINGS, zeros),
        ("cropping", _CROPPINGS, cropped),
    ):
        if not any(map(any, widths)):
            continue
        options = {"data_format": layer.data_format}
        if classes[rank - 1] is keras.layers.Cropping1D:
            if not last:
                return [], {}, [(0, taps) for taps in layer.kernel_size]
            options = {}
        widths = widths[0] if rank == 1 else tuple(widths)
        name = f"{layer.name}_{kind}"
        around.append(classes[rank - 1](widths, name=name, dtype=layer.dtype_policy, **options))
    return around, {"kernel_size": kernel_size, "padding": "valid"}, supports


def padded(padding: str, size: int, taps: int, stride: int, rate: int) -> tuple[int, int]:
    """Return how many places Keras' convolutions add before and after an axis.

    Args:
        padding: `"valid"`, `"same"` or `"causal"`.
        size: of the axis.
        taps, stride, rate: of the convolution along it: taps, stride and dilation rate.
    """
    if padding == "causal":
        return (taps - 1) * rate, 0
    if padding == "valid":
        return 0, 0
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + (taps - 1) * rate + 1 - size, 0)
    return total // 2, total - total // 2
