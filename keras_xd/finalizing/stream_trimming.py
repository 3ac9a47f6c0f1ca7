"""Residual streams without the channels that are zero from the encoder to the decoder."""

import keras

from keras_xd.core.searchable import flatten_layers, is_graph
from keras_xd.finalizing.bypass import narrowed
from keras_xd.graph import cloning
from keras_xd.graph.channel_groups import pools_channels_alone
from keras_xd.layers import StaticCCNNBlock, StaticCCNNEncoder


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
    traced, times = cloning.traced_graphs(filter(is_graph, flatten_layers(model)))
    found: dict[int, int] = {}
    for copy, calls in traced:
        ends = {id(tensor) for tensor in copy.outputs}
        for start in calls:
            if isinstance(start.operation, StaticCCNNEncoder):
                found |= _stream(start, calls, ends, times)
    return found


def _stream(start, calls, ends, times):
    """Return the channels of one stream by the id of each layer to rebuild, none if it stays."""
    encoder, stream, layers = start.operation, {id(start.outputs[0])}, [start.operation]
    for call in calls:
        if not any(id(tensor) in stream for tensor in call.tensors):
            continue
        layer = call.operation
        if isinstance(layer, StaticCCNNBlock) or type(layer) is keras.layers.Dense:
            layers.append(layer)
        elif not (type(layer) is keras.layers.Identity or pools_channels_alone(layer)):
            return {}
        if type(layer) is not keras.layers.Dense:
            stream.add(id(call.outputs[0]))
    if stream & ends or any(times[id(layer)] > 1 for layer in layers):
        return {}
    used = [max(x.widths[0], x.widths[-1]) for x in layers if isinstance(x, StaticCCNNBlock)]
    width = max([encoder.width, *used])
    return {id(layer): width for layer in layers} if width < encoder.units else {}
