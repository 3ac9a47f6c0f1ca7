"""Batch normalizations multiplied into the operation before them."""

import keras
import numpy as np
from keras import ops

from keras_xd.core.configured import config_with_functions
from keras_xd.graph import cloning
from keras_xd.layers import StaticKernelXD, StaticLowRankXD, StaticXD
from keras_xd.layers.xd.finalized import LARGEST_HALF, StaticOperation

OF_KERAS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D, keras.layers.Dense)


def fold_normalizations(model: keras.Model) -> keras.Model:
    """Return a model with the same outputs in inference, and fewer batch normalizations."""
    folded = _pairs(model)
    if not folded:
        return model
    left_out = {id(normalization) for _, normalization in folded.values()}

    def replace(layer):
        if id(layer) in left_out:  # in a Sequential model it stays as that
            return keras.layers.Identity(name=layer.name, dtype=layer.dtype_policy)
        found = folded.get(id(layer))
        return None if found is None else found[0]

    def call(call, copy):
        return call.argument if id(call.operation) in left_out else cloning.called(call, copy)

    return cloning.clone(model, replace, call=call)[0]


def _pairs(model):
    """Return the new layer and the normalization in it by the id of each layer that is folded."""
    traces, times = cloning.traces(model)
    found = {}
    for trace in traces:
        for call in trace.calls:
            if type(call.operation) is not keras.layers.BatchNormalization:
                continue
            (tensor, *others), maker = call.tensors, trace.maker(call.tensors[0])
            if maker is None:
                continue
            layer, readers = maker.operation, trace.uses[id(tensor)]
            once = readers == times[id(call.operation)] == times[id(layer)] == 1
            if once and not others and _is_foldable(layer, call.operation, len(tensor.shape)):
                new = _folded(layer, call.operation)
                if new is not None:
                    found[id(layer)] = new, call.operation
    return found


def _is_foldable(layer, normalization, rank):
    """Return whether a normalization of a layer's outputs can be part of the layer."""
    if not isinstance(layer, StaticOperation) and type(layer) not in OF_KERAS:
        return False
    last = getattr(layer, "data_format", "channels_last") == "channels_last"
    return (
        layer.activation in (None, keras.activations.linear)
        and layer.activity_regularizer is None
        and layer.quantization_mode is None
        and normalization.axis % rank == (rank - 1 if last else 1)
        and (isinstance(layer, StaticOperation) or not layer.lora_enabled)
    )


def _folded(layer, normalization):
    """Return the layer with the normalization in it, `None` where its weights cannot hold it."""
    scale, shift = _affine(normalization)
    new = type(layer).from_config({**config_with_functions(layer), "use_bias": True})
    new.build(layer.get_build_config()["input_shape"])
    new.trainable = layer.trainable
    scaled = _filters_last(layer)
    if scaled is None:
        return None
    values = {id(weight): _number(weight) for weight in layer.weights}
    for weight in scaled:
        values[id(weight)] = values[id(weight)] * scale
        if str(weight.dtype) == "float16" and np.abs(values[id(weight)]).max() > LARGEST_HALF:
            return None
    bias = 0.0 if layer.bias is None else values.pop(id(layer.bias))
    kept = [weight for weight in layer.weights if weight is not layer.bias]
    for weight, old in zip([w for w in new.weights if w is not new.bias], kept, strict=True):
        weight.assign(values[id(old)])
    new.bias.assign(shift + scale * bias)
    return new


def _filters_last(layer):
    """Return the weights, the filters last, whose product with a number is that of the outputs."""
    if isinstance(layer, StaticLowRankXD):
        return [layer.core]
    if isinstance(layer, StaticKernelXD):
        # A bias of the spectrum is added to the kernel's, and gates multiply both.
        if layer.channel_gates:
            return [layer.spectrum[-1]]
        return None if layer.frequency_bias else [layer.kernel]
    if isinstance(layer, StaticXD):
        return list(layer.spectrum)
    return [layer.kernel]


def _affine(normalization):
    """Return `s` and `t` of `y ↦ s y + t`, which a normalization is in inference."""
    deviation = np.sqrt(_number(normalization.moving_variance) + normalization.epsilon)
    scale = (_number(normalization.gamma) if normalization.scale else 1.0) / deviation
    shift = _number(normalization.beta) if normalization.center else 0.0
    return scale, shift - scale * _number(normalization.moving_mean)


def _number(weight):
    return ops.convert_to_numpy(ops.cast(weight, "float64"))
