"""Convolutions that TensorFlow computes wrongly on some processors."""

from keras import ops


def convolution(inputs, kernel, strides, padding, data_format, dilation_rate):
    """Return `keras.ops.conv` of the arguments, of which strides and dilation are tuples.

    TensorFlow with oneDNN leaves outputs unset for one input channel, a stride along the last axis
    but not along the one before, and one output along the last. There both axes are exchanged.
    """
    if not (kernel.shape[-2] == 1 and len(strides) > 1 and strides[-2] == 1 < strides[-1]):
        return ops.conv(inputs, kernel, strides, padding, data_format, dilation_rate)
    last = len(strides) + (data_format == "channels_first")
    outputs = ops.conv(
        ops.swapaxes(inputs, last, last - 1),
        ops.swapaxes(kernel, len(strides) - 1, len(strides) - 2),
        (*strides[:-2], strides[-1], strides[-2]),
        padding,
        data_format,
        (*dilation_rate[:-2], dilation_rate[-1], dilation_rate[-2]),
    )
    return ops.swapaxes(outputs, last, last - 1)
