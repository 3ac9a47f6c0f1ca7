"""Types that hints need and that no library has a name for."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

# What `keras.ops` computes with: a tensor or variable of the backend, a `keras.KerasTensor` or a
# NumPy array. They have no class in common.
Tensor = Annotated[Any, "tensor"]
# Layers of a model, as `keras_xd.core.validation.matcher` takes them.
Selection = str | re.Pattern | Callable[[Any], bool] | list | tuple | set | None
# Block sizes of a layer's K-matrices, one choice for all axes or one for each.
Radix = int | str | tuple[int, ...] | tuple[tuple[int, ...], ...] | None
# Numbers of butterflies in a layer's K-matrices: one, or those of K, L and M.
Depth = int | tuple[int, int, int]
# Sizes of a batch of inputs or outputs; `None` where one is unknown.
Shape = tuple[int | None, ...]
# One whole number for all spatial axes, or one for each.
Sizes = int | Sequence[int]
# The size a mask begins with: a number of points, "half" or "full" of its axis, or the default.
InitialSize = float | str | None
# A configuration that JSON knows, as `get_config` returns it.
Config = dict[str, Any]
# What Keras' `get` functions take. Its initializers, regularizers and constraints can be called.
Activation = str | Callable[..., Any] | None
Initializer = str | Config | Callable[..., Any] | None
Regularizer = str | Config | Callable[..., Any] | None
Constraint = str | Config | Callable[..., Any] | None
# What a searchable layer tells of itself, by name.
Description = dict[str, Any]
# What Keras gives to callbacks.
Logs = dict[str, Any] | None


class BaseOptions(TypedDict, total=False):
    """Keyword arguments that every layer passes on to `keras.layers.Layer`."""

    name: str | None
    trainable: bool
    dtype: Any
    autocast: bool


class LayerOptions(BaseOptions, total=False):
    """Those of a layer that does not name the regularizer of its outputs itself."""

    activity_regularizer: Regularizer


class LinearOptions(LayerOptions, total=False):
    """Keyword arguments of a layer with an activation and a bias, except for whether it has one."""

    activation: Activation
    bias_initializer: Initializer
    bias_regularizer: Regularizer
    bias_constraint: Constraint


class BiasOptions(LinearOptions, total=False):
    """Keyword arguments of a layer with an activation and a bias."""

    use_bias: bool


class WeightOptions(BiasOptions, total=False):
    """The same of a layer with a kernel."""

    kernel_initializer: Initializer
    kernel_regularizer: Regularizer
    kernel_constraint: Constraint


class KernelOptions(WeightOptions, total=False):
    """The same of a layer whose channels may come first."""

    data_format: str | None


class ConvOptions(KernelOptions, total=False):
    """Keyword arguments of a convolution of Keras after `filters` and `kernel_size`."""

    strides: Sizes
    padding: str
    dilation_rate: Sizes
    groups: int
