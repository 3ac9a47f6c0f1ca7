"""Residual streams, of which blocks use the first channels only, in two parts."""

import keras
from keras import ops

from keras_xd.core.searchable import flatten_layers, is_graph
from keras_xd.graph import cloning
from keras_xd.graph.channel_groups import pools_channels_alone
from keras_xd.layers import StaticCCNNBlock


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

    def call(operation, number, new, args, kwargs):
        if id(operation) in used:
            if id(args[0]) not in streams:
                parts = ops.split(args[0], [used[id(operation)]], axis=-1)
                streams[id(args[0])] = (args[0], *parts)
            _, first, others = streams[id(args[0])]
            first = new(first, **kwargs)
            whole = ops.concatenate([first, others], axis=-1)  # computed only where it is read
            streams[id(whole)] = (whole, first, others)
            return whole
        if pools_channels_alone(operation) and not number and id(args[0]) in streams:
            _, first, others = streams[id(args[0])]
            config = {**operation.get_config(), "name": f"{operation.name}_others"}
            beside = type(operation).from_config(config)
            return ops.concatenate([new(first, **kwargs), beside(others, **kwargs)], axis=-1)
        return new(*args, **kwargs)

    return cloning.clone(model, narrow, call=call)[0]


def narrowed(block: StaticCCNNBlock, channels: int) -> StaticCCNNBlock:
    """Return a block of the same weights for a stream of so many channels."""
    new = StaticCCNNBlock.from_config(block.get_config())
    new.build((*block.get_build_config()["input_shape"][:-1], channels))
    cloning.copy_state(block, new)
    return new


def _channels_used(model):
    """Return how many channels to lead through each layer of a chain, by the id of the layer."""
    graphs = [
        graph
        for graph in flatten_layers(model)
        if is_graph(graph)
        and not isinstance(graph, keras.Sequential)
        and any(isinstance(layer, StaticCCNNBlock) for layer in graph.layers)
    ]
    traced, times = cloning.traced_graphs(graphs)
    used: dict[int, int] = {}
    for _, part in traced:
        starts: dict[int, keras.KerasTensor] = {}
        chains: dict[int, tuple[keras.KerasTensor, list]] = {}
        for call in part:
            layer = call.operation
            if not _keeps_channels(layer) or times[id(layer)] > 1 or not call.args:
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


def _keeps_channels(layer):
    """Return whether a layer leaves all but the first channels as they are."""
    return isinstance(layer, StaticCCNNBlock) or type(layer) is keras.layers.Identity
