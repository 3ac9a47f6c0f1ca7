"""Residual streams of channels that no block changes: led around the blocks, or cut off."""

import keras
from keras import ops

from keras_xd.core.searchable import flatten_layers
from keras_xd.graph import cloning
from keras_xd.graph.channelwise import pools_channels_alone
from keras_xd.layers import StaticCCNNBlock, StaticCCNNEncoder


def split_streams(model: keras.Model) -> keras.Model:
    """Return a model with the same outputs, in which channels that no block changes go
    around them.
    """
    used = _channels_used(model)
    if not used:
        return model
    streams = {}  # id of a tensor -> the tensor, its first channels and the others

    def narrow(layer):
        if id(layer) not in used or not isinstance(layer, StaticCCNNBlock):
            return None
        return narrowed(layer, used[id(layer)])

    def call(call, copy):
        operation, tensor = call.operation, call.argument
        if id(operation) in used:
            if id(tensor) not in streams:
                parts = ops.split(tensor, [used[id(operation)]], axis=-1)
                streams[id(tensor)] = (tensor, *parts)
            _, first, others = streams[id(tensor)]
            first = copy(operation)(first, **call.kwargs)
            whole = ops.concatenate([first, others], axis=-1)  # computed only where it is read
            streams[id(whole)] = (whole, first, others)
            return whole
        if pools_channels_alone(operation) and not call.number and id(tensor) in streams:
            _, first, others = streams[id(tensor)]
            config = {**operation.get_config(), "name": f"{operation.name}_others"}
            beside = type(operation).from_config(config)
            parts = copy(operation)(first, **call.kwargs), beside(others, **call.kwargs)
            return ops.concatenate(parts, axis=-1)
        return cloning.called(call, copy)

    return cloning.clone(model, narrow, call)[0]


def narrowed(block: StaticCCNNBlock, channels: int) -> StaticCCNNBlock:
    """Return a block of the same weights for a stream of so many channels."""
    new = StaticCCNNBlock.from_config(block.get_config())
    new.build((*block.get_build_config()["input_shape"][:-1], channels))
    cloning.copy_state(block, new)
    return new


def _channels_used(model):
    """Return how many channels to lead through each layer of a chain, by the id of the layer."""
    if not any(isinstance(layer, StaticCCNNBlock) for layer in flatten_layers(model)):
        return {}
    traces, times = cloning.traces(model)
    used: dict[int, int] = {}
    for trace in traces:
        if isinstance(trace.graph, keras.Sequential):  # which stays one
            continue
        starts: dict[int, keras.KerasTensor] = {}
        chains: dict[int, tuple[keras.KerasTensor, list]] = {}
        for call in trace.calls:
            layer = call.operation
            keeps = isinstance(layer, StaticCCNNBlock) or type(layer) is keras.layers.Identity
            if not keeps or times[id(layer)] > 1 or not call.args:
                continue
            start = starts.get(id(call.tensors[0]), call.tensors[0])
            if layer.compute_dtype == start.dtype:
                starts[id(call.outputs[0])] = start
                chains.setdefault(id(start), (start, []))[1].append(layer)
        for start, chain in chains.values():
            blocks = [layer for layer in chain if isinstance(layer, StaticCCNNBlock)]
            channels = max((max(x.widths[0], x.widths[-1]) for x in blocks), default=0)
            if 0 < channels < start.shape[-1]:
                used |= {id(layer): channels for layer in chain}
    return used


def trim_streams(model: keras.Model) -> keras.Model:
    """Return a model with the same outputs, in which channels of zeros are cut off."""
    widths = _widths(model)
    if not widths:
        return model

    def narrow(layer):
        width = widths.get(id(layer))
        if width is None:
            return None
        if isinstance(layer, StaticCCNNBlock):
            return narrowed(layer, width)
        config, shape = layer.get_config(), layer.get_build_config()["input_shape"]
        if isinstance(layer, StaticCCNNEncoder):
            new = StaticCCNNEncoder.from_config({**config, "units": width})
            new.build(shape)
            cloning.copy_state(layer, new)
            return new
        new = keras.layers.Dense.from_config(config)
        new.build((*shape[:-1], width))
        new.trainable = layer.trainable
        for weight, whole in zip(new.weights, layer.weights, strict=True):
            weight.assign(whole[:width] if weight is new.kernel else whole)
        return new

    return cloning.clone(model, narrow)[0]


def _widths(model):
    """Return the channels of the streams that get fewer, by the id of each layer to rebuild."""
    if not any(isinstance(layer, StaticCCNNEncoder) for layer in flatten_layers(model)):
        return {}
    traces, times = cloning.traces(model)
    found: dict[int, int] = {}
    for trace in traces:
        for start in trace.calls:
            if isinstance(start.operation, StaticCCNNEncoder):
                found |= _stream(start, trace, times)
    return found


def _stream(start, trace, times):
    """Return the channels of one stream by the id of each layer to rebuild, none if it stays."""
    encoder, stream, layers = start.operation, {id(start.outputs[0])}, [start.operation]
    for call in trace.calls:
        if not any(id(tensor) in stream for tensor in call.tensors):
            continue
        layer = call.operation
        if isinstance(layer, StaticCCNNBlock) or type(layer) is keras.layers.Dense:
            layers.append(layer)
        elif not (type(layer) is keras.layers.Identity or pools_channels_alone(layer)):
            return {}
        if type(layer) is not keras.layers.Dense:
            stream.add(id(call.outputs[0]))
    ends = {id(tensor) for tensor in trace.view.outputs}
    if stream & ends or any(times[id(layer)] > 1 for layer in layers):
        return {}
    used = [max(x.widths[0], x.widths[-1]) for x in layers if isinstance(x, StaticCCNNBlock)]
    width = max([encoder.width, *used])
    return {id(layer): width for layer in layers} if width < encoder.units else {}
