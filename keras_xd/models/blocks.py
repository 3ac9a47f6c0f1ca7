"""Parts that several networks have: strided convolutions, normalizations, checks of shapes."""

import keras

from keras_xd.core import validation


def channel_axis(data_format=None):
    """Return the axis of the channels of images, by default in Keras' data format."""
    data_format = data_format or keras.config.image_data_format()
    return 3 if data_format == "channels_last" else 1


def convolution(
    x,
    filters,
    kernel_size,
    strides,
    name,
    padding="same",
    kernel_initializer="he_normal",
    data_format=None,
):
    """A convolution of images without bias."""
    if strides > 1:
        # Keras' "same" would centre the kernel on every odd pixel of an even size.
        x = keras.layers.ZeroPadding2D(1, data_format=data_format, name=f"{name}_padding")(x)
        padding = "valid"
    return keras.layers.Conv2D(
        filters,
        kernel_size,
        strides,
        padding,
        data_format=data_format,
        use_bias=False,
        kernel_initializer=kernel_initializer,
        name=name,
    )(x)


def normalization(x, name, data_format=None):
    """Batch normalization of images."""
    axis = channel_axis(data_format)
    return keras.layers.BatchNormalization(axis=axis, momentum=0.9, epsilon=1e-5, name=name)(x)


def checked_shape(input_shape, lengths, form):
    """Return an input shape of so many sizes, of which all but the channels may be `None`."""
    shape = tuple(input_shape) if isinstance(input_shape, (tuple, list)) else ()
    known = [size for size in shape[:-1] if size is not None] + [*shape[-1:]]
    sound = all(validation.is_integer(size) and size > 0 for size in known)
    if len(shape) not in lengths or not sound:
        raise ValueError(
            f"`input_shape` must be {form}, positive integers; all but the channels may be None. "
            f"Received: input_shape={input_shape!r}"
        )
    return shape


def check_dropout(dropout):
    """Raise `ValueError` unless a share can be dropped."""
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be from 0 to below 1. Received: dropout={dropout!r}")
