"""Removing from a graph what masks have set to zero."""

import collections
import dataclasses
import functools

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


def prune(model: keras.Model) -> keras.Model:
    """Return a model with the same outputs as one of masked layers, without what they mask."""
    copies = _Copies()
    result = _GraphCopy(model, copies).build()
    copies.set_state()
    return result


@dataclasses.dataclass
class _Copies:
    """The copies that the graph of a model and those inside it share.

    Attributes:
        models: pairs of models and their copies, inner ones first.
        same: pairs of layers and copies that get the same state.
        changed: pairs of layers and those in their places, whose weights have their values.
        graphs: the copy of each model inside, by the id of the model.
        parts: what `cloning.copy_layer` has copied for several layers.
    """

    models: list = dataclasses.field(default_factory=list)
    same: list = dataclasses.field(default_factory=list)
    changed: list = dataclasses.field(default_factory=list)
    graphs: dict = dataclasses.field(default_factory=dict)
    parts: dict = dataclasses.field(default_factory=dict)

    def set_state(self):
        """Give all copies the state and the flags of what they were made from."""
        for old, new in reversed(self.models):  # from the outermost, as each sets those inside
            new.trainable = old.trainable
            new.dtype_policy = old.dtype_policy
        for old, new in self.same:
            cloning.copy_state(old, new)
        for old, new in self.changed:
            new.trainable = old.trainable
            for name in ("kernel", "bias", "gamma", "beta"):
                before, after = getattr(old, name, None), getattr(new, name, None)
                if before is not None and after is not None:
                    after.trainable = before.trainable


class _MaskedGraph:
    """What can be known of a graph with masked layers before it is copied.

    Attributes:
        view: the graph as `cloning.traced_graph` returns it.
        calls: its calls in their order.
        maker: the call that a tensor comes from, by the tensor's id.
        call_counts: how often each operation is called, by its id.
        uses: how often each tensor is an argument or an output of the graph, by its id.
    """

    def __init__(self, graph):
        self.view, self.calls = cloning.traced_graph(graph)
        self.maker = {id(x): call for call in self.calls for x in call.outputs}
        self.call_counts = collections.Counter(id(call.operation) for call in self.calls)
        self.uses = collections.Counter(id(x) for call in self.calls for x in call.tensors)
        self.uses.update(id(x) for x in self.view.outputs)

    @functools.cached_property
    def dead_branches(self):
        """The ids of branches without a value, which only an addition reads."""
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

    @functools.cached_property
    def scales(self):
        """The factors of layers whose outputs a `MaskedBranch` alone reads, by their id."""
        scales = {}
        for call in self.calls:
            branch = call.operation
            if not isinstance(branch, MaskedBranch) or id(call.outputs[0]) in self.dead_branches:
                continue
            (tensor,) = call.tensors
            maker = self.maker.get(id(tensor))
            if maker is None or self.uses[id(tensor)] != 1:
                continue
            layer = maker.operation
            if self.call_counts[id(layer)] == 1 and _can_be_scaled(layer):
                scales[id(layer)] = float(branch.value)
        return scales

    @functools.cached_property
    def needed(self):
        """The ids of the tensors that the outputs depend on."""
        needed = {id(x) for x in self.view.outputs}
        for call in reversed(self.calls):
            if any(id(x) in needed and id(x) not in self.dead_branches for x in call.outputs):
                needed |= {id(x) for x in call.tensors}
        return needed - self.dead_branches


class _GraphCopy:
    """The pruned copy of one graph."""

    def __init__(self, graph, copies):
        self.graph, self.known, self.shared = graph, _MaskedGraph(graph), copies
        self.copies = {}  # id of an operation -> its copy, or the layers in its place
        self.names = {layer.name for layer in graph.layers}
        self.values = {}  # id of a tensor -> the tensor in its place
        self.kept = {}  # id of a tensor -> (numbers of the channels left, their axis)

    def build(self):
        """Return the copy, a Functional model whose layers have not got their state yet."""
        view = self.known.view
        inputs = [keras.Input(batch_shape=x.shape, dtype=x.dtype, name=x.name) for x in view.inputs]
        self._set_values(view.inputs, inputs)
        for call in self.known.calls:
            if any(id(x) in self.known.needed for x in call.outputs):
                self._set_values(call.outputs, keras.tree.flatten(self._computed(call)))
        outputs = keras.tree.map_structure(lambda x: self.values[id(x)], view.output)
        inputs = keras.tree.pack_sequence_as(view.input, inputs)
        result = keras.Model(inputs, outputs, name=self.graph.name)
        self.shared.models.append((self.graph, result))
        return result

    def _set_values(self, tensors, values):
        self.values |= dict(zip(map(id, tensors), values, strict=True))

    def _computed(self, call):
        """Return the new outputs of a call."""
        operation, tensors = call.operation, call.tensors
        if is_addition(operation) and any(id(x) in self.known.dead_branches for x in tensors):
            (left,) = [x for x in tensors if id(x) not in self.known.dead_branches]
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
            scale = self.known.scales.get(id(layer), 1.0)
            around, plain = layer.trimmed(tensor.shape, inputs, outputs, scale)
            for extra in around:
                extra.name = self._new_name(extra.name)
            self.copies[id(layer)] = [*around, plain]
            self.shared.changed.append((layer, plain))
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
        maker = self.known.maker.get(id(tensor))
        scaled = maker is not None and id(maker.operation) in self.known.scales
        if scaled or value == 1:
            return self.values[id(tensor)]
        if id(layer) not in self.copies:
            name = self._new_name(f"{layer.name}_scale")
            self.copies[id(layer)] = keras.layers.Rescaling(
                value, name=name, dtype=layer.dtype_policy
            )
        return self.copies[id(layer)](self.values[id(tensor)])

    def _pass_on(self, call, kept):
        """Note which channels the outputs of a call have that is given some of them."""
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
            if id(old) not in self.shared.graphs:
                self.shared.graphs[id(old)] = _GraphCopy(old, self.shared).build()
            return self.shared.graphs[id(old)]
        scale = self.known.scales.get(id(old), 1.0)
        if type(old) is keras.layers.BatchNormalization and (kept is not None or scale != 1):
            new = _normalization(old, self.values[id(call.tensors[0])].shape, kept, scale)
            self.shared.changed.append((old, new))
            return new
        new = cloning.copy_layer(old, self.shared.parts)
        if isinstance(old, keras.layers.Layer):
            self.shared.same.append((old, new))
        return new

    def _new_name(self, name):
        while name in self.names:
            name += "_1"
        self.names.add(name)
        return name


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
    return new


def _other(call, tensor):
    """Return the other one of the two tensors of a call."""
    (other,) = [x for x in call.tensors if x is not tensor]
    return other
