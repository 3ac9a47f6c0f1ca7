"""Dynamic rendering: computing the unmasked part of layers only."""

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import flatten_layers
from keras_xd.layers.ccnn.batch_statistics import force_retrace
from keras_xd.layers.ccnn.block import CCNNBlock
from keras_xd.layers.ccnn.ck_conv import CKConv


@check_types
def update_rendering(model: keras.layers.Layer, margin: float = 0.0) -> bool:
    """Fit the sizes of all layers of dynamic rendering to their present masks; say if any changed.

    Kernels and channels get a `margin`, a share of their size, to grow in; a mask is cut beyond it
    until the next update. Keras retraces the functions of a changed model at their next call.
    """
    validation.nonnegative_number(margin, "margin")
    inside = flatten_layers(model)
    kinds = (CKConv, CCNNBlock)
    dynamic = [x for x in inside if isinstance(x, kinds) and x.rendering == "dynamic"]
    fixed = [x for x in inside if isinstance(x, keras.Model) and x.compiled and x.jit_compile]
    if dynamic and fixed:
        raise ValueError(
            "Dynamic rendering changes the sizes of tensors, which XLA compiles as fixed numbers: "
            "use rendering='static', or compile the model with `jit_compile=False`. Received: "
            f"model '{fixed[0].name}' with jit_compile={fixed[0].jit_compile}, layers of at most "
            f"{ {layer.name: layer.largest_size for layer in dynamic} } taps"
        )
    # A list, not a generator: each layer is updated.
    changed = any([layer.update_rendering(margin) for layer in dynamic])
    if changed:
        force_retrace(inside)
    return changed
