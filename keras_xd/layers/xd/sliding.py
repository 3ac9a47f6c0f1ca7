"""XD-operations with the windows of a convolution."""

from collections.abc import Sequence
from typing import Any

from keras_xd.core import validation
from keras_xd.core.type_aliases import Config, Sizes
from keras_xd.layers.xd import axis_layout
from keras_xd.layers.xd.base import XDLayer, XDOptions


class SlidingXDOptions(XDOptions, total=False):
    """Keyword arguments of the layers with windows, beyond those of Keras' convolutions."""

    window_size: Sizes | None


class SlidingXDLayer(XDLayer):
    """Base class of the XD-operations with the windows of a convolution: `XDConv` and depthwise.

    Args:
        rank: number of spatial axes.
        kernel_size, strides, padding, dilation_rate, window_size: as in `XDConv`.
        paddings: what `padding` may be.
        **kwargs: the arguments of `XDLayer`.

    Example:

    >>> from keras_xd import layers
    >>> isinstance(layers.XDDepthwiseConv2D(3), layers.xd.sliding.SlidingXDLayer)
    True
    """

    def __init__(
        self,
        rank: int,
        *,
        kernel_size: Sizes,
        strides: Sizes,
        padding: str,
        dilation_rate: Sizes,
        window_size: Sizes | None,
        paddings: Sequence[str],
        **kwargs: Any,
    ):
        super().__init__(rank, **kwargs)
        self.kernel_size = validation.integer_tuple(kernel_size, rank, "kernel_size")
        window_size = self.kernel_size if window_size is None else window_size
        self.window_size = validation.integer_tuple(window_size, rank, "window_size")
        self.strides = validation.integer_tuple(strides, rank, "strides")
        padding = padding.lower() if isinstance(padding, str) else padding
        self.padding = validation.one_of(padding, paddings, "padding")
        self.dilation_rate = validation.integer_tuple(dilation_rate, rank, "dilation_rate")
        if any(w > k for w, k in zip(self.window_size, self.kernel_size, strict=True)):
            raise ValueError(
                "`window_size` must not be larger than `kernel_size`. "
                f"Received: window_size={self.window_size}, kernel_size={self.kernel_size}"
            )
        axis_layout.check_strides(self.strides, self.dilation_rate)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "window_size": self.window_size,
            "strides": self.strides,
            "padding": self.padding,
            "dilation_rate": self.dilation_rate,
        }

    def _axis_geometries(self, sizes):
        return axis_layout.axis_geometries(
            sizes,
            self.kernel_size,
            self.strides,
            self.dilation_rate,
            self.padding,
            self.axis_radices,
            self.window_size,
        )
