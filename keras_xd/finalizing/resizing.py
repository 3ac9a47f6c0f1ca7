"""A model at another spatial input size."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import activations, ops

from keras_xd import layers
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import SearchableLayer, check_finite, flatten_layers
from keras_xd.core.shapes import split_shape
from keras_xd.core.validation import is_integer
from keras_xd.finalizing.finalizer import FinalizedModel
from keras_xd.graph import cloning
from keras_xd.layers.xd.base import XDLayer
from keras_xd.layers.xd.finalized import StaticXD
from keras_xd.layers.xd.finalized_low_rank import StaticLowRankXD
from keras_xd.layers.xd.separable import SeparableXDLayer
from keras_xd.rewriting.candidates import check_graph
from keras_xd.training.search_model import SearchModel

XD = (XDLayer, StaticXD, StaticLowRankXD)


@check_types
def resize(
    model: keras.Model,
    input_shape: Sequence[int] | Sequence[Sequence[int]] | dict[str, Sequence[int]],
) -> keras.Model:
    """Return a copy of a model for another spatial input size, with the same weights.

    Train at 256 points, evaluate at 1024; or search on a small grid and train on from there on a
    large one. Smaller sizes are possible too.

    - Keras' layers, spectral convolutions and all others without fixed sizes are made again at the
      new size and take over their weights.
    - An XD- or K-operation on a circle (`padding="circular"`, no strides; searched or finalized)
      keeps its matrices at its own size, stages included, and is put between two Fourier
      resamplings: inputs down to its grid, outputs up to the new one (`SearchableResampled`,
      `Resampled`). It multiplies the frequencies that both grids hold by the factors they are
      multiplied by at the old size, as a Fourier neural operator does. So a convolution keeps its
      width as a part of the domain, not as a number of points, and a Fourier operator computes
      what one built at the new size does. An activation is applied on the new grid.
    - An XD-operation with padding of zeros is not periodic and has no such meaning. Only where its
      architecture still is exactly its start, it is made again at the new size with the same
      kernel, which like a Keras convolution then has its width in points.

    Args:
        model: a built Sequential or Functional model, searched, finalized or plain, or a
            `SearchModel`.
        input_shape: the new input shape without the batch, as in `keras.Input`: `(1024, 1)`. For
            several inputs a list of shapes or a dictionary, as the model has them.

    Returns:
        A Functional `keras.Model`, not compiled, for any batch size. `model` is left untouched.

    Example:

    >>> import keras, numpy as np
    >>> import keras_xd
    >>> space = keras.Sequential(
    ...     [
    ...         keras.Input((43, 43, 1)),
    ...         keras_xd.layers.XDConv2D(4, 3, padding="circular", activation="relu"),
    ...         keras.layers.Conv2D(1, 1),
    ...     ]
    ... )
    >>> fine = keras_xd.resize(space, (85, 85, 1))
    >>> fine(np.ones((1, 85, 85, 1))).shape
    TensorShape([1, 85, 85, 1])
    """
    if isinstance(model, SearchModel):
        model = model.model
    check_graph(model)
    check_finite(model)
    shapes = _input_shapes(model, input_shape)
    # A first copy at the old size, whose layers can be put inside others: what layers share
    # stays shared, and nothing is shared with `model`.
    base, _ = cloning.clone(model, lambda layer: None)
    flags = [(variable, variable.trainable) for variable in base.variables]
    rebuilt: list[tuple[keras.layers.Layer, keras.layers.Layer]] = []
    try:
        result, _ = cloning.clone(
            base, lambda layer, at: _at_size(layer, at, rebuilt), _called_at, shapes=shapes
        )
    except ValueError as error:
        raise ValueError(
            "Every layer of the model must be able to work at the new size with the weights it "
            "has: convolutions, pooling, GlobalAveragePooling, normalizations over channels, "
            "circular XD-operations, but not, for example, a Dense layer after Flatten. Received: "
            f"model '{model.name}' with input_shape={input_shape}, which fails with: {error}"
        ) from error
    for variable, trainable in flags:
        variable.trainable = trainable
    for old, new in rebuilt:
        _copy_weights(old, new)
    if isinstance(model, FinalizedModel):
        return FinalizedModel(result.input, result.output, name=result.name)
    return result


def _input_shapes(model, input_shape):
    """Return the shapes of all inputs with the batch size, as a flat list."""
    inputs = cloning.view(model).input
    if isinstance(inputs, keras.KerasTensor):
        given = [input_shape]
    elif isinstance(inputs, dict):
        names = keras.tree.flatten({name: name for name in inputs})
        given = [input_shape[n] for n in names] if isinstance(input_shape, dict) else []
    else:
        given = list(input_shape) if isinstance(input_shape, (list, tuple)) else []
    expected = [tuple(tensor.shape[1:]) for tensor in keras.tree.flatten(inputs)]
    fits = len(given) == len(expected) and all(
        isinstance(new, (tuple, list)) and len(new) == len(old)
        for new, old in zip(given, expected, strict=True)
    )
    if not fits:
        raise ValueError(
            "`input_shape` must have a shape for each input of the model, without the batch and of "
            f"as many axes as before, {expected}. Received: input_shape={input_shape}"
        )
    sizes = [size for shape in given for size in shape if size is not None]
    if not all(is_integer(size) and size > 0 for size in sizes):
        raise ValueError(
            "`input_shape` must hold positive integers, and None for sizes left open. "
            f"Received: input_shape={input_shape}"
        )
    return [(None, *shape) for shape in given]


def _called_at(call, copy):
    """Return the outputs of a call whose layer depends on the shapes that it is called at."""
    shapes = [tuple(tensor.shape) for tensor in call.tensors]
    return copy(call.operation, shapes)(*call.args, **call.kwargs)


def _at_size(layer, shapes, rebuilt):
    """Return the layer that takes the place of one with fixed sizes, `None` for others."""
    if isinstance(layer, layers.Resampled):
        _check_channels(layer.layer, shapes[0])
        return _resampled(layer.layer, layer.sizes, layer.activation)
    if not any(isinstance(inner, XD) for inner in flatten_layers(layer)):
        return None
    if not hasattr(layer, "data_format"):
        raise ValueError(
            "XD-operations must be called in the graph of the model, not inside other layers. "
            f"Received: layer '{layer.name}' of class {type(layer).__name__}"
        )
    before, after = (
        split_shape(shape, len(shape) - 2, layer.data_format, layer.name)[1]
        for shape in (layer.get_build_config()["input_shape"], shapes[0])
    )
    _check_channels(layer, shapes[0])
    if before == after:
        return layer
    if layers.xd.resampled.is_periodic(layer):
        activation = layer.activation
        layer.activation = activations.linear  # the activation is to act on the new grid
        if isinstance(layer, SeparableXDLayer):
            layer.pointwise.activation = activations.linear
        return _resampled(layer, before, activation)
    if _is_at_start(layer):
        new = type(layer).from_config(layer.get_config())
        try:
            new.build(shapes[0])
        except ValueError as error:
            raise ValueError(
                f"Layer '{layer.name}' cannot be made again at sizes {after}: {error}"
            ) from error
        rebuilt.append((layer, new))
        return new
    raise ValueError(
        f"The matrices of layer '{layer.name}' belong to sizes {before}: with strides or padding "
        "of zeros they mean nothing at other sizes once they have been trained or finalized. "
        "Search with padding='circular', for example by `keras_xd.rewrite(model, "
        f"padding='circular')`. Received: sizes {after}"
    )


def _check_channels(layer, shape):
    """Raise `ValueError` if a layer that keeps its weights would get other channels."""
    axis = -1 if layer.data_format == "channels_last" else 1
    before = layer.get_build_config()["input_shape"][axis]
    if shape[axis] != before:
        raise ValueError(
            f"Layer '{layer.name}' has weights for {before} input channels; sizes may change, "
            f"channels may not. Received: inputs of {shape[axis]} channels"
        )


def _resampled(layer, sizes, activation):
    searched = isinstance(layer, SearchableLayer)
    kind = layers.SearchableResampled if searched else layers.Resampled
    return kind(layer, sizes, activation, name=layer.name, dtype=layer.dtype_policy)


def _is_at_start(layer):
    """Return whether the architecture of a layer is the one that its arguments begin with."""
    if not isinstance(layer, SearchableLayer) or layer.warm_start.is_random:
        return False
    if getattr(layer, "shared_parts", {}):
        return False
    config = layer.get_config()
    # Zeros, because drawing weights would change the random numbers that a training gets.
    config |= {name: "zeros" for name in config if name.endswith("initializer")}
    fresh = type(layer).from_config(config)
    fresh.build_from_config(layer.get_build_config())
    pairs = zip(layer.architecture_variables, fresh.architecture_variables, strict=True)
    return all(np.array_equal(*map(ops.convert_to_numpy, pair)) for pair in pairs)


def _copy_weights(old, new):
    """Copy the weights of a layer that are not architecture, and all flags."""
    architecture = {id(variable) for variable in old.architecture_variables}
    for before, after in zip(old.variables, new.variables, strict=True):
        if id(before) not in architecture:
            after.assign(ops.copy(before))
        after.trainable = before.trainable
