"""Shapes of batches with spatial axes, whose channels come first or last."""

import keras

from keras_xd.core.validation import UnknownSizeError


def split_shape(input_shape, rank, data_format, layer_name):
    """Return the number of channels and the spatial sizes of an input shape."""
    if len(input_shape) != rank + 2:
        raise ValueError(
            f"Layer '{layer_name}' needs inputs of {rank + 2} axes (batch, {rank} spatial, "
            f"channels). Received: input_shape={tuple(input_shape)}"
        )
    if any(size is None for size in input_shape[1:]):
        raise UnknownSizeError(
            f"Layer '{layer_name}' needs every spatial size to be known when it is built. Give the "
            f"model's Input a complete shape. Received: input_shape={tuple(input_shape)}"
        )
    if data_format == "channels_last":
        return input_shape[-1], tuple(input_shape[1:-1])
    return input_shape[1], tuple(input_shape[2:])


def joined_shape(batch, sizes, channels, data_format):
    """Return the shape of a batch of these sizes and channels."""
    last = data_format == "channels_last"
    return (batch, *sizes, channels) if last else (batch, channels, *sizes)


def input_spec(sizes, channels, data_format):
    """Return the `InputSpec` of a layer that was built for fixed spatial sizes."""
    first, channel_axis = (1, -1) if data_format == "channels_last" else (2, 1)
    axes = {first + index: size for index, size in enumerate(sizes)} | {channel_axis: channels}
    return keras.layers.InputSpec(ndim=len(sizes) + 2, axes=axes)


def known_size(shape, layer_name):
    """Return the last size of a shape, or raise `ValueError` where it is unknown."""
    if shape[-1] is None:
        raise ValueError(
            f"The last axis of the inputs of layer '{layer_name}' must have a known size. "
            f"Received: input_shape={tuple(shape)}"
        )
    return shape[-1]
