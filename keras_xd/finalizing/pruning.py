"""Cutting out of a graph what masks have set to zero."""

import collections

import keras
import numpy as np
from keras import ops

from keras_xd.core.searchable import is_graph
from keras_xd.graph import channel_groups, cloning
from keras_xd.graph.skips import is_addition
from keras_xd.layers import MaskedBranch
from keras_xd.layers.masked.base import MaskedLayer


def has_masks(model: keras.layers.Layer) -> bool:
    """Return whether masked layers are in the graph of a model, or in one inside."""
    return is_graph(model) and any(
        isinstance(layer, (MaskedLayer, MaskedBranch)) or (is_graph(layer) and has_masks(layer))
        for layer in model.layers
    )


def trim(model: keras.Model) -> keras.Model:
    """Return a model with the same outputs as one of masked layers, without what they mask.

    Layers of Keras take the places of masked ones. Channels beyond a mask are cut from the layers
    that make them, from what they pass through (batch normalization, depthwise convolutions) and
    from the kernels that read them; taps from kernels; a branch beyond the mask of the depth is
    left out with its addition. What is left of the masks is multiplied into weights, or for a
    branch that ends in neither a normalization nor a convolution becomes a `Rescaling`.

    Args:
        model: a Functional or a built Sequential model; it is not touched.

    Returns:
        A Functional model, not compiled, with the names of the layers that are left.

    Raises:
        ValueError: if masked channels reach a layer that treats them together.
    """
    trimming = _Trimming(model)
    for old, new in reversed(trimming.models):  # from the outermost, as each sets those inside
        new.trainable = old.trainable
        new.dtype_policy = old.dtype_policy
    for old, new in trimming.same:
        cloning.copy_state(old, new)
    for old, new in trimming.changed:
        new.trainable = old.trainable
        for name in ("kernel", "bias", "gamma", "beta"):
            before, after = getattr(old, name, None), getattr(new, name, None)
            if before is not None and after is not None:
                after.trainable = before.trainable
    return trimming.result


class _Trimming:
    """The trimmed copy of one graph.

    Args:
        graph: the model.
        outer: the copy of the graph around it, or `None`.

    Attributes:
        result: the copy.
        models: pairs of models and their copies, inner ones first.
        same: pairs of layers and copies that get the same state.
        changed: pairs of layers and those in their places, whose weights have their values.
    """

    def __init__(self, graph, outer=None):
        self.models = [] if outer is None else outer.models
        self.same = [] if outer is None else outer.same
        self.changed = [] if outer is None else outer.changed
        self.graphs = {} if outer is None else outer.graphs
        self.parts = {} if outer is None else outer.parts
        self.copies, self.names = {}, {layer.name for layer in graph.layers}
        view, self.calls = cloning.traced_graph(graph)
        self.maker = {id(x): call for call in self.calls for x in call.outputs}
        self.times = collections.Counter(id(call.operation) for call in self.calls)
        self.uses = collections.Counter(id(x) for call in self.calls for x in call.tensors)
        self.uses.update(id(x) for x in view.outputs)
        self.dead = self._dead_branches()
        self.kept = {}  # tensor -> (numbers of the channels left, their axis)
        inputs = [keras.Input(batch_shape=x.shape, dtype=x.dtype, name=x.name) for x in view.inputs]
        self.values = dict(zip(map(id, view.inputs), inputs, strict=True))
        self.scales = self._scales()
        needed = self._needed(view.outputs)
        for call in self.calls:
            if any(id(x) in needed for x in call.outputs):
                outputs = keras.tree.flatten(self._computed(call))
                self.values |= dict(zip(map(id, call.outputs), outputs, strict=True))
        outputs = keras.tree.map_structure(lambda x: self.values[id(x)], view.output)
        inputs = keras.tree.pack_sequence_as(view.input, inputs)
        self.result = keras.Model(inputs, outputs, name=graph.name)
        self.models.append((graph, self.result))

    def _dead_branches(self):
        """Return the ids of branches without a value, which only an addition reads."""
        readers = {id(x): call for call in self.calls for x in call.tensors}
        found = set()
        for call in self.calls:
            if isinstance(call.operation, MaskedBranch) and not float(call.operation.value):
                (tensor,) = call.outputs
                reader = readers.get(id(tensor))
                if reader is None or self.uses[id(tensor)] != 1 or len(reader.tensors) != 2:
                    continue
                if is_addition(reader.operation) and _other(reader, tensor).shape == tensor.shape:
                    found.add(id(tensor))
        return found

    def _scales(self):
        """Return the factors of layers whose outputs a `MaskedBranch` alone reads, by their id."""
        scales = {}
        for call in self.calls:
            if not isinstance(call.operation, MaskedBranch) or id(call.outputs[0]) in self.dead:
                continue
            (tensor,) = call.tensors
            maker = self.maker.get(id(tensor))
            if maker is None or self.uses[id(tensor)] != 1 or self.times[id(maker.operation)] != 1:
                continue
            layer = maker.operation
            linear = isinstance(layer, MaskedLayer) and layer.activation in (
                None,
                keras.activations.linear,
            )
            if linear or type(layer) is keras.layers.BatchNormalization:
                scales[id(layer)] = float(call.operation.value)
        return scales

    def _needed(self, outputs):
        """Return the ids of the tensors that the outputs depend on."""
        needed = {id(x) for x in outputs}
        for call in reversed(self.calls):
            if any(id(x) in needed and id(x) not in self.dead for x in call.outputs):
                needed |= {id(x) for x in call.tensors}
        return needed - self.dead

    def _computed(self, call):
        """Return the new outputs of a call."""
        operation, tensors = call.operation, call.tensors
        if is_addition(operation) and any(id(x) in self.dead for x in tensors):
            (left,) = [x for x in tensors if id(x) not in self.dead]
            return self.values[id(left)]
        if isinstance(operation, MaskedLayer):
            return self._masked(call)
        if isinstance(operation, MaskedBranch):
            return self._branch(call)
        kept = [self.kept.get(id(x), (None, None)) for x in tensors]
        if any(numbers is not None for numbers, _ in kept):
            self._pass_on(call, kept)
        if id(operation) not in self.copies:
            self.copies[id(operation)] = self._copy(call, kept[0][0] if kept else None)
        args, kwargs = keras.tree.map_structure(
            lambda x: self.values[id(x)] if isinstance(x, keras.KerasTensor) else x,
            (call.args, call.kwargs),
        )
        return self.copies[id(operation)](*args, **kwargs)

    def _masked(self, call):
        """Return the outputs of the layers of Keras in place of a masked one."""
        layer, tensor, output = call.operation, call.tensors[0], call.outputs[0]
        inputs, _ = self.kept.get(id(tensor), (None, None))
        outputs = None if layer.output_width is None else layer.output_width.supports[0]
        if outputs is not None and len(outputs) == layer.channels_of(output.shape):
            outputs = None
        if id(layer) not in self.copies:
            scale = self.scales.get(id(layer), 1.0)
            around, plain = layer.trimmed(tensor.shape, inputs, outputs, scale)
            for extra in around:
                extra.name = self._new_name(extra.name)
            self.copies[id(layer)] = [*around, plain]
            self.changed.append((layer, plain))
        if outputs is not None:
            axis = channel_groups.channel_axis(layer, len(output.shape))
            self.kept[id(output)] = outputs, axis
        value = self.values[id(tensor)]
        for new in self.copies[id(layer)]:
            value = new(value)
        return value

    def _branch(self, call):
        """Return the end of a branch: multiplied already, or by a layer of its own."""
        layer, (tensor,), value = call.operation, call.tensors, float(call.operation.value)
        maker = self.maker.get(id(tensor))
        scaled = maker is not None and id(maker.operation) in self.scales
        if scaled or value == 1:
            return self.values[id(tensor)]
        if id(layer) not in self.copies:
            name = self._new_name(f"{layer.name}_scale")
            self.copies[id(layer)] = keras.layers.Rescaling(
                value, name=name, dtype=layer.dtype_policy
            )
        return self.copies[id(layer)](self.values[id(tensor)])

    def _pass_on(self, call, kept):
        """Note which channels the outputs of a call have that is given some of them.

        Raises:
            ValueError: if it does not treat each channel by itself.
        """
        axis = channel_groups.channel_axis_after(call, [axis for _, axis in kept])
        numbers = {None if n is None else tuple(n) for n, _ in kept}
        if axis is None or len(numbers) != 1:
            raise ValueError(
                "Masked channels must end in masked layers, and pass only through what treats each "
                f"channel by itself. Received: '{call.operation.name}' of class "
                f"{type(call.operation).__name__}, which is given some of the channels of "
                f"{[tuple(x.shape) for x in call.tensors]}"
            )
        self.kept[id(call.outputs[0])] = kept[0][0], axis

    def _copy(self, call, kept):
        """Return what computes the same as an operation for the channels that are kept."""
        old = call.operation
        if is_graph(old):
            if id(old) not in self.graphs:
                self.graphs[id(old)] = _Trimming(old, self).result
            return self.graphs[id(old)]
        scale = self.scales.get(id(old), 1.0)
        if type(old) is keras.layers.BatchNormalization and (kept is not None or scale != 1):
            new = _normalization(old, self.values[id(call.tensors[0])].shape, kept, scale)
            self.changed.append((old, new))
            return new
        new = cloning.copy_layer(old, self.parts)
        if isinstance(old, keras.layers.Layer):
            self.same.append((old, new))
        return new

    def _new_name(self, name):
        while name in self.names:
            name += "_1"
        self.names.add(name)
        return name


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
    return new


def _other(call, tensor):
    """Return the other one of the two tensors of a call."""
    (other,) = [x for x in call.tensors if x is not tensor]
    return other
