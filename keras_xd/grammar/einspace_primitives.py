"""Keras layers for the fundamental operations of einspace."""

import functools
import math
from collections.abc import Callable

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types


@keras.saving.register_keras_serializable(package="keras_xd")
class PositionalEncoding(keras.layers.Layer):
    """Adds trained numbers, one for each position and channel."""

    def build(self, input_shape):
        self.encoding = self.add_weight(
            shape=input_shape[1:],
            initializer=keras.initializers.RandomNormal(stddev=1.0),
            name="encoding",
        )
        super().build(input_shape)

    def call(self, inputs):
        return inputs + self.encoding

    def compute_output_shape(self, input_shape):
        return input_shape


@keras.saving.register_keras_serializable(package="keras_xd")
class ImageColumns(keras.layers.Layer):
    """Gathers the pixels of each patch of an image in a column, with zeros around the image."""

    def __init__(self, size: int, stride: int = 1, **kwargs):
        super().__init__(**kwargs)
        self.size = validation.positive_integer(size, "size")
        self.stride = validation.positive_integer(stride, "stride")
        if self.stride > self.size:
            raise ValueError(
                f"`stride` must be at most `size`. Received: size={size}, stride={stride}"
            )

    def call(self, inputs):
        _, height, width, channels = inputs.shape
        size, stride = self.size, self.stride
        rows, columns = -(-height // stride), -(-width // stride)
        shape = (-1, rows * columns, size * size * channels)
        lacking = [
            max((count - 1) * stride + size - length, 0)
            for count, length in ((rows, height), (columns, width))
        ]
        around = [(zeros // 2, zeros - zeros // 2) for zeros in lacking]
        padded = ops.pad(inputs, [(0, 0), *around, (0, 0)]) if any(lacking) else inputs
        if size == stride:
            blocks = ops.reshape(padded, (-1, rows, size, columns, size, channels))
            return ops.reshape(ops.transpose(blocks, (0, 1, 3, 2, 4, 5)), shape)
        height, width = (rows - 1) * stride + 1, (columns - 1) * stride + 1
        shifted = [
            padded[:, row : row + height : stride, column : column + width : stride]
            for row in range(size)
            for column in range(size)
        ]
        return ops.reshape(ops.concatenate(shifted, axis=-1), shape)

    def compute_output_shape(self, input_shape):
        batch, height, width, channels = input_shape
        count = -(-height // self.stride) * -(-width // self.stride)
        return batch, count, self.size**2 * channels

    def get_config(self):
        return {**super().get_config(), "size": self.size, "stride": self.stride}


@check_types
def einspace(image_size: tuple[int, int]) -> dict[str, Callable]:
    """Return the table for `spaces.einspace`.

    Columns are tensors `(batch, positions, channels)`. `im2col3x3` gathers the 3 × 3 pixels around
    each pixel, `im2col3x3s2` every other one in both directions, `im2col4x4s4` patches that do not
    overlap; `col2im` makes an image of columns again. `linear9to1` is a linear map of the last
    axis to a ninth of its size, `linear` one to the same size. Images are normalized over the
    batch, columns over the last axis. Positional encodings begin as normal numbers of deviation 1,
    leaky ReLU has the slope 0.01, and `scaled_matmul` divides by the root of the summed channels.

    Args:
        image_size: height and width of the images at the input of the term, by which `col2im`
            knows the image of its columns.

    Example:

    ```python
    import keras
    import numpy as np
    from keras_xd import grammar
    from keras_xd.grammar import primitives

    term = grammar.spaces.einspace_baselines()["mlp_mixer"]
    model = grammar.build(
        term,
        keras.Input((16, 16, 3)),
        primitives.einspace((16, 16)),
        stem=primitives.stem(8),
        head=primitives.head(10),
    )
    print(model.output_shape)  # (None, 10)
    ```

    Reference:
        Ericsson et al., "einspace: searching for neural architectures from fundamental
        operations", NeurIPS 2024, section 3.
    """
    height, width = image_size
    sizes = {height * width: (height, width)}
    while height * width > 1:
        height, width = -(-height // 2), -(-width // 2)
        sizes.setdefault(height * width, (height, width))
    table = {
        "col2im": functools.partial(_image, sizes=sizes),
        "permute": lambda shape, name: keras.layers.Permute((2, 1), name=name),
        "matmul": lambda shape, name: lambda pair: ops.matmul(*pair),
        "scaled_matmul": _scaled_matmul,
        "norm": _normalization,
        "leaky_relu": lambda shape, name: keras.layers.LeakyReLU(0.01, name=name),
        "softmax": lambda shape, name: keras.layers.Softmax(name=name),
        "pos_enc": lambda shape, name: PositionalEncoding(name=name),
        "linear": functools.partial(_linear, of=1, to=1),
    }
    for size, stride in ((1, 1), (1, 2), (3, 1), (3, 2), (4, 4), (8, 8), (16, 16)):
        name = f"im2col{size}x{size}" + (f"s{stride}" if stride > 1 else "")
        table[name] = functools.partial(_columns, size=size, stride=stride)
    linears = ((1, 2), (1, 4), (2, 1), (4, 1), (8, 1), (9, 1), (9, 2), (9, 4), (16, 1), (64, 1))
    for of, made in linears:
        table[f"linear{of}to{made}"] = functools.partial(_linear, of=of, to=made)
    for parts in (2, 4, 8):
        for part in range(1, parts + 1):
            table[f"part{part}of{parts}"] = functools.partial(_part, part=part, parts=parts)
    return table


def _linear(shape, name, of, to):
    return keras.layers.Dense(shape[-1] * to // of, name=name)


def _normalization(shape, name):
    if len(shape) == 4:
        return keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=name)
    return keras.layers.LayerNormalization(epsilon=1e-5, name=name)


def _scaled_matmul(shapes, name):
    scale = 1 / math.sqrt(shapes[0][-1])
    return lambda pair: ops.matmul(*pair) * scale


def _part(shape, name, part, parts):
    if shape[-1] % parts:
        raise ValueError(
            f"Channels must be divisible by {parts} to be split; a stem with a multiple of 8 is "
            f"always right. Received: shape={tuple(shape)}"
        )
    size = shape[-1] // parts
    return lambda x: x[..., (part - 1) * size : part * size]


def _columns(shape, name, size, stride):
    if size > 1:
        return ImageColumns(size, stride, name=name)
    height, width = -(-shape[1] // stride), -(-shape[2] // stride)
    flat = keras.layers.Reshape((height * width, shape[-1]), name=name)
    return lambda x: flat(x[:, ::stride, ::stride])


def _image(shape, name, sizes):
    if shape[1] not in sizes:
        raise ValueError(
            "Columns become an image of the given size, or of one that was halved. "
            f"Received: {shape[1]} columns for images of {list(sizes.values())}"
        )
    return keras.layers.Reshape((*sizes[shape[1]], shape[-1]), name=name)
