"""Types that hints need and that no library has a name for."""

import re
from collections.abc import Callable
from typing import Annotated, Any

# What `keras.ops` computes with: a tensor or variable of the backend, a `keras.KerasTensor` or a
# NumPy array. They have no class in common.
Tensor = Annotated[Any, "tensor"]
# Layers of a model, as `keras_xd.core.validation.matcher` takes them.
Selection = str | re.Pattern | Callable[[Any], bool] | list | tuple | set | None
# Block sizes of a layer's K-matrices, one choice for all axes or one for each.
Radix = int | tuple[int, ...] | tuple[tuple[int, ...], ...] | None
