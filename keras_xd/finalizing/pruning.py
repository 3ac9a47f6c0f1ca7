"""Removing from a graph what masks have set to zero."""

import functools

import keras
import numpy as np
from keras import ops

from keras_xd.core.searchable import is_graph
from keras_xd.graph import channelwise, cloning
from keras_xd.graph.skips import is_addition
from keras_xd.layers import MaskedBranch
from keras_xd.layers.masked.base import MaskedLayer


def has_masks(model: keras.layers.Layer) -> bool:
    """Return whether masked layers are in the graph of a model, or in one inside."""
    return is_graph(model) and any(
        isinstance(layer, (MaskedLayer, MaskedBranch)) or (is_graph(layer) and has_masks(layer))
        for layer in model.layers
    )


def prune(model: keras.Model) -> keras.Model:
    """Return a model with the same outputs as one of masked layers, without what they mask."""
    pruning = _Pruning(model)
    return cloning.clone(model, pruning.replaced, pruning.outputs, functional=True)[0]


class _MaskedGraph:
    """What can be known of a graph with masked layers before it is copied."""

    def __init__(self, trace, times):
        self.trace, self.times = trace, times
        self.calls = {call.key: call for call in trace.calls}

    @functools.cached_property
    def dead_branches(self):
        """The ids of branches without a value, which only an addition reads."""
        readers = {id(x): call for call in self.trace.calls for x in call.tensors}
        found = set()
        for call in self.trace.calls:
            if isinstance(call.operation, MaskedBranch) and not float(call.operation.value):
                (tensor,) = call.outputs
                reader = readers.get(id(tensor))
                if reader is None or self.trace.uses[id(tensor)] != 1 or len(reader.tensors) != 2:
                    continue
                if is_addition(reader.operation) and _other(reader, tensor).shape == tensor.shape:
                    found.add(id(tensor))
        return found

    @functools.cached_property
    def scales(self):
        """The factors of layers whose outputs a `MaskedBranch` alone reads, by their id."""
        scales = {}
        for call in self.trace.calls:
            branch = call.operation
            if not isinstance(branch, MaskedBranch) or id(call.outputs[0]) in self.dead_branches:
                continue
            (tensor,) = call.tensors
            maker = self.trace.maker(tensor)
            if maker is None or self.trace.uses[id(tensor)] != 1:
                continue
            layer = maker.operation
            if self.times[id(layer)] == 1 and _can_be_scaled(layer):
                scales[id(layer)] = float(branch.value)
        return scales

    @functools.cached_property
    def needed(self):
        """The ids of the tensors that the outputs depend on."""
        return self.trace.needed(lambda call, tensor: id(tensor) in self.dead_branches)


class _Pruning:
    """What `cloning.clone` does to prune a model."""

    def __init__(self, model):
        traces, times = cloning.traces(model)
        self.known = {id(trace.graph): _MaskedGraph(trace, times) for trace in traces}
        self.names = {layer.name for trace in traces for layer in trace.graph.layers}
        self.around = {}  # id of a masked layer -> layers that come before the plain one
        self.kept = {}  # id of a tensor -> (numbers of the channels left, their axis)

    def replaced(self, layer, *details):
        """Return the smaller layer in place of one that a mask concerns."""
        if not details:
            return None
        if isinstance(layer, MaskedBranch):
            name = cloning.unused_name(f"{layer.name}_scale", self.names)
            return keras.layers.Rescaling(*details, name=name, dtype=layer.dtype_policy)
        if not isinstance(layer, MaskedLayer):
            return _normalization(layer, *details)
        self.around[id(layer)], new = layer.trimmed(*details)
        for extra in self.around[id(layer)]:
            extra.name = cloning.unused_name(extra.name, self.names)
        return new

    def outputs(self, call, copy):
        """Return the outputs of a call in the copy, `None` for those that nothing needs."""
        known, operation = self.known[id(call.graph)], call.operation
        old = known.calls[call.key]
        if not any(id(x) in known.needed for x in old.outputs):
            return [None] * len(old.outputs)
        if any(id(x) in known.dead_branches for x in old.tensors):
            return call.tensors[0]  # that of the skip
        scale = known.scales.get(id(operation), 1.0)
        kept = [self.kept.get(id(x), (None, None)) for x in old.tensors]
        if isinstance(operation, MaskedBranch):
            maker, value = known.trace.maker(old.tensors[0]), float(operation.value)
            scaled = maker is not None and id(maker.operation) in known.scales
            return call.argument if scaled or value == 1 else copy(operation, value)(call.argument)
        if isinstance(operation, MaskedLayer):
            value, plain = call.argument, self._masked(old, copy, kept[0][0], scale)
            for extra in self.around[id(operation)]:
                value = extra(value)
            return plain(value)
        if any(numbers is not None for numbers, _ in kept):
            self._pass_on(old, kept)
        changed = kept and (kept[0][0] is not None or scale != 1)
        if type(operation) is keras.layers.BatchNormalization and changed:
            copy(operation, call.argument.shape, kept[0][0], scale)
        return cloning.called(call, copy)

    def _masked(self, call, copy, inputs, scale):
        """Return the layer of Keras in place of a masked one, of which channels are left."""
        layer, output = call.operation, call.outputs[0]
        outputs = None if layer.output_width is None else layer.output_width.supports[0]
        if outputs is not None and len(outputs) == layer.channels_of(output.shape):
            outputs = None
        if outputs is not None:
            axis = channelwise.channel_axis(layer, len(output.shape))
            self.kept[id(output)] = outputs, axis
        return copy(layer, call.argument.shape, inputs, outputs, scale)

    def _pass_on(self, call, kept):
        """Note which channels the outputs of a call have that is given some of them."""
        axis = channelwise.channel_axis_after(call, [axis for _, axis in kept])
        numbers = {None if n is None else tuple(n) for n, _ in kept}
        if axis is None or len(numbers) != 1:
            raise ValueError(
                "Masked channels must end in masked layers, and pass only through what treats each "
                f"channel by itself. Received: '{call.operation.name}' of class "
                f"{type(call.operation).__name__}, which is given some of the channels of "
                f"{[tuple(x.shape) for x in call.tensors]}"
            )
        self.kept[id(call.outputs[0])] = kept[0][0], axis


def _can_be_scaled(layer):
    """Return whether a factor of the outputs can be multiplied into the weights of a layer."""
    linear = (None, keras.activations.linear)
    if isinstance(layer, MaskedLayer):
        return layer.activation in linear
    return type(layer) is keras.layers.BatchNormalization


def _normalization(old, shape, kept, scale):
    """Return a batch normalization for some channels, whose outputs are multiplied by a number."""
    config = old.get_config()
    config["scale"] = old.scale or scale != 1
    new = keras.layers.BatchNormalization.from_config(config)
    new.build(tuple(shape))
    factors = {"gamma": scale, "beta": scale, "moving_mean": 1.0, "moving_variance": 1.0}
    for name, factor in factors.items():
        after, before = getattr(new, name), getattr(old, name)
        if after is None:
            continue
        value = np.ones(after.shape) if before is None else ops.convert_to_numpy(before)
        if kept is not None and before is not None:
            value = value[kept]
        after.assign(factor * value)
        after.trainable = after.trainable if before is None else before.trainable
    return new


def _other(call, tensor):
    """Return the other one of the two tensors of a call."""
    (other,) = [x for x in call.tensors if x is not tensor]
    return other
