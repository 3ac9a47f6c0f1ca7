"""Channels of a graph that can only be cut together, and a copy of the graph without some."""

import collections
import dataclasses
import functools
from collections.abc import Callable

import keras
import numpy as np
from keras import layers, ops

from keras_xd.core.searchable import flatten_layers, is_graph, sublayers
from keras_xd.graph import channelwise, cloning, residual_blocks
from keras_xd.graph.cost import CONVOLUTIONS, DEPTHWISE, SEPARABLE, TRANSPOSED
from keras_xd.graph.sequence_counts import attention_shapes, attention_tensors

# Arguments that tell the number of output channels, by the class.
SIZES = {
    **dict.fromkeys((*CONVOLUTIONS, *TRANSPOSED, *SEPARABLE), "filters"),
    layers.Dense: "units",
    layers.Embedding: "output_dim",
}
PRODUCERS = (*CONVOLUTIONS[:2], layers.Dense)
# Arguments that tell the number of heads, by the class.
HEADS = {
    layers.MultiHeadAttention: ("num_heads",),
    layers.GroupQueryAttention: ("num_query_heads", "num_key_value_heads"),
}
_NORMALIZATIONS = (
    layers.BatchNormalization,
    layers.LayerNormalization,
    layers.RMSNormalization,
)
_MERGING = (
    *(layers.Add, layers.Subtract, layers.Multiply),
    *(layers.Average, layers.Maximum, layers.Minimum),
)
_LAST_WEIGHTS = ("kernel", "pointwise_kernel", "gamma", "embeddings", "bias", "beta")
AT_THE_END = "its channels are outputs of the model"


@dataclasses.dataclass
class Slot:
    """An axis of a weight that has the channels of a tensor, by their numbers.

    Attributes:
        layer, weight, axis: the axis.
        units: number of the unit of each channel.
        reads: whether the layer sums over the axis.
        heads: whether the channels are heads of attention.
    """

    layer: keras.layers.Layer
    weight: keras.Variable
    axis: int
    units: np.ndarray
    reads: bool = False
    heads: bool = False


@dataclasses.dataclass
class Group:
    """Units that are at the same places, each of which can be cut.

    Attributes:
        units: their numbers.
        slots: the slots that they are in.
        makers: names of the layers that make them.
    """

    units: np.ndarray
    slots: list
    makers: tuple

    @property
    def heads(self) -> bool:
        """Whether the units are heads of attention."""
        return any(slot.heads for slot in self.slots)


@dataclasses.dataclass
class Channels:
    """All channels of some tensors, with the layers that make, keep and read them."""

    producers: list = dataclasses.field(default_factory=list)
    members: list = dataclasses.field(default_factory=list)
    consumers: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class RemovableBlock:
    """A residual block that can be left out.

    Attributes:
        name: that of the addition.
        key: tells the addition, as in `OperationCall`.
        place: of the branch among the arguments of the addition.
        layers: the layers inside.
        ends: the weights that multiply the output of the branch.
    """

    name: str
    key: tuple
    place: int
    layers: tuple
    ends: list


class ChannelUnits:
    """The channels of all tensors of a model: each belongs to a unit, cut or left as a whole.

    Args:
        model: a Functional or built Sequential model.
        held: reasons why the channels of layers stay, by the ids of layers.
    """

    def __init__(self, model: keras.Model, held: dict[int, str] | None = None):
        self.model, self.held = model, {**_tied(model), **(held or {})}
        self.parents: list[int] = []
        self.fixed: dict[int, str] = {}
        self.sizes: dict[int, str] = {}  # arguments that tell the channels, found by trial, by ids
        self.slots: dict[tuple[int, int], Slot] = {}
        self.traces: dict[int, cloning.Trace] = {}
        self.axes: dict[tuple, list] = {}  # of the tensors of a call that names sizes, by its key
        self._known: dict[int, tuple[int, np.ndarray]] = {}
        self._all_traces: list[cloning.Trace] = []
        outputs = self._visit_graph(model, [None] * len(model.inputs), None)
        for _, units in outputs:
            self.fixed |= {self._root(unit): AT_THE_END for unit in units}
        self._end()

    def _end(self):
        """Replace the numbers of channels by those of their units; find groups and blocks."""
        roots = np.array([self._root(unit) for unit in range(len(self.parents))], int)
        for slot in self.slots.values():
            slot.units = roots[slot.units]
        self.axes = {
            key: [(axis, roots[units]) for axis, units in pair] for key, pair in self.axes.items()
        }
        self.count = len(roots)
        places = collections.defaultdict(list)
        for key, slot in self.slots.items():
            for unit in np.unique(slot.units):
                places[unit].append(key)
        members = collections.defaultdict(list)
        for unit, found in places.items():
            if unit not in self.fixed:
                members[tuple(found)].append(unit)
        self.groups = []
        for keys, units in members.items():
            slots = [self.slots[key] for key in keys]
            made = [slot.layer for slot in slots if not slot.reads]
            makers = (layer.name for layer in made if type(layer) in (*SIZES, *HEADS))
            self.groups.append(Group(np.array(units), slots, tuple(dict.fromkeys(makers))))

    def reason(self, layer: keras.layers.Layer) -> str | None:
        """Return why the output channels of a layer stay, `None` where some can be cut."""
        weights = {id(variable) for variable in layer.variables}
        own = [s for s in self.slots.values() if id(s.weight) in weights and not s.reads]
        if not own:
            return self.held.get(id(layer), f"there is no rule for a {type(layer).__name__}")
        units = np.concatenate([slot.units for slot in own])
        reasons = [self.fixed.get(unit) for unit in units]
        return reasons[0] if None not in reasons else None

    @functools.cached_property
    def blocks(self) -> list[RemovableBlock]:
        """The residual blocks that can be left out, whose branch ends with a product."""
        found = []
        for trace in self.traces.values():
            calls = {call.key: call for call in trace.calls}
            for block in residual_blocks.find_blocks(trace.graph, lambda layer: True):
                call = calls[block.call.key]
                ends = _ends(trace, call.flat_arguments[block.place])
                if ends:
                    inside, name = block.layers, call.operation.name
                    found.append(RemovableBlock(name, call.key, block.place, inside, ends))
        return found

    def cut(self, alive: np.ndarray, removed=()) -> keras.Model:
        """Return a copy of the model without some units, and without some residual blocks."""
        slots, left_out = collections.defaultdict(list), {block.key: block for block in removed}
        for slot in self.slots.values():
            slots[id(slot.layer)].append(slot)
        needed = set().union(*(_needed(trace, left_out) for trace in self.traces.values()))
        traced = {call.key: call for trace in self.traces.values() for call in trace.calls}

        def replaced(layer, *details):
            if id(layer) not in slots or not details:
                return None
            size = SIZES.get(type(layer), self.sizes.get(id(layer)))
            return _smaller(layer, details[0], slots[id(layer)], alive, size)

        def called(call, copy):
            operation, tensors = call.operation, call.tensors
            if not any(id(x) in needed for x in traced[call.key].outputs):
                return [None] * len(traced[call.key].outputs)
            if call.key in left_out:
                return call.flat_arguments[1 - left_out[call.key].place]
            if call.key in self.axes:
                return _resized(call, copy, self.axes[call.key], alive)
            shapes = [tuple(x.shape) for x in tensors]
            if is_graph(operation):
                return copy(operation, shapes)(*call.args, **call.kwargs)
            if type(operation) in HEADS:
                copy(operation, attention_shapes(call.args, call.kwargs))
            elif id(operation) in slots:
                copy(operation, shapes[0])
            return cloning.called(call, copy)

        return cloning.clone(self.model, replaced, called, functional=True)[0]

    # Units

    def _new(self, count, reason=None):
        """Return the numbers of new channels, which stay if there is a reason."""
        units = np.arange(len(self.parents), len(self.parents) + count)
        self.parents += units.tolist()
        return self._fix(units, reason) if reason else units

    def _root(self, unit):
        while self.parents[unit] != unit:
            self.parents[unit] = unit = self.parents[self.parents[unit]]
        return unit

    def _fix(self, units, reason):
        for unit in np.unique(units):
            self.fixed.setdefault(self._root(unit), reason)
        return units

    def _join(self, first, second):
        """Make each of some channels one unit with that at the same place of others."""
        for pair in set(zip(first.tolist(), second.tolist(), strict=True)):
            one, other = map(self._root, pair)
            if one != other:
                self.parents[other] = one
                if other in self.fixed:
                    self.fixed.setdefault(one, self.fixed.pop(other))
        return first

    def _slot(self, layer, name, axis, units=None, reads=False, owner=None, heads=False):
        """Return the channels on an axis of a weight or its name, those given if there is none."""
        weight = getattr(layer, name, None) if isinstance(name, str) else name
        if weight is None:
            return units
        axis %= len(weight.shape)
        known = self.slots.get((id(weight), axis))
        if known is not None:
            return known.units if units is None else self._join(known.units, units)
        units = self._new(weight.shape[axis]) if units is None else units
        self.slots[id(weight), axis] = Slot(owner or layer, weight, axis, units, reads, heads)
        return units

    # Calls

    def _visit_graph(self, graph, inputs, shapes):
        trace = cloning.Trace(graph, shapes)
        self.traces.setdefault(id(graph), trace)
        tensors = keras.tree.flatten(trace.view.input)
        for tensor, known in zip(tensors, inputs, strict=True):
            self._known[id(tensor)] = known or self._held(tensor, "its channels are inputs")
        for call in trace.calls:
            outputs = self._visit(call)
            self._known |= {id(x): y for x, y in zip(call.outputs, outputs, strict=True)}
        self._all_traces.append(trace)  # so that no id is used again
        return [self._known[id(tensor)] for tensor in trace.view.outputs]

    def _held(self, tensor, reason):
        return len(tensor.shape) - 1, self._new(tensor.shape[-1] or 1, reason)

    def _visit(self, call):
        """Return axis and units of the outputs of a call."""
        operation = call.operation
        inputs = [self._known[id(tensor)] for tensor in call.tensors]
        if is_graph(operation):
            return self._visit_graph(operation, inputs, [tuple(x.shape) for x in call.tensors])
        output = None
        if id(operation) not in self.held and len(call.outputs) == 1 and inputs:
            output = self._output(call, inputs)
        if output is not None:
            return [output]
        kind = type(operation).__name__
        if isinstance(operation, layers.Layer):
            for inner in flatten_layers(operation):
                if inner is not operation:
                    self.held.setdefault(id(inner), f"it is inside '{operation.name}' ({kind})")
        for _, units in inputs:
            self._fix(units, f"its channels go into '{operation.name}' ({kind})")
        reason = self.held.get(id(operation), f"'{operation.name}' is a {kind}")
        return [self._held(tensor, reason) for tensor in call.outputs]

    def _output(self, call, inputs):
        """Return axis and units of the output of a call, `None` if no rule is known."""
        layer, kind = call.operation, type(call.operation)
        (axis, units), rank = inputs[0], len(call.tensors[0].shape)
        if kind in SIZES:
            return self._product(call, axis, units)
        if kind in HEADS:
            return self._attention(call)
        if kind in (layers.Concatenate, _concatenation()):
            return self._concatenated(call, inputs)
        if len(inputs) > 1:
            merges = kind in _MERGING or kind in _merging_operations()
            return self._merged(call, inputs) if merges else None
        if kind in _NORMALIZATIONS:
            axes = layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
            if [one % rank for one in axes] != [axis]:
                return None
            for weight in layer.weights:
                self._slot(layer, weight, 0, units)
            return axis, units
        if kind in DEPTHWISE:
            if axis != channelwise.channel_axis(layer, rank):
                return None
            self._slot(layer, "kernel", -2, units)
            units = np.repeat(units, layer.depth_multiplier)
            self._slot(layer, "bias", 0, units)
            return axis, self._after_activation(layer, units)
        if kind in (layers.Flatten, layers.Reshape, _padding(), _indexing()):
            return self._moved(call, axis, units)
        if kind is layers.Permute:
            return (1 + layer.dims.index(axis), units) if axis else None
        after = channelwise.channel_axis_after(call, [axis])
        return self._tried(call, axis, units) if after is None else (after, units)

    def _tried(self, call, axis, units):
        """Return axis and units of the output of a layer without a rule, if a trial finds them."""
        layer, shape, found = call.operation, call.outputs[0].shape, None
        if not isinstance(layer, layers.Layer):
            return None
        if len(shape) == len(call.tensors[0].shape) and shape[axis] == len(units):
            found = channelwise.tried(call, axis)
        config = cloning.declared_config(layer) or {}
        names = [name for name, value in config.items() if value == shape[-1]]
        while not found and names:
            name = names.pop()
            made = channelwise.tried(call, len(shape) - 1, name)
            if made:
                self._fix(units, f"its channels go into '{layer.name}'")
                axis, units, found = len(shape) - 1, self._new(shape[-1]), made
                self.sizes[id(layer)] = name
        for weight, place in found or ():
            self._slot(layer, weight, place, units)
        return None if found is None else (axis, units)

    def _product(self, call, axis, units):
        """Return the channels that a layer makes of others."""
        layer, shape, kind = call.operation, call.tensors[0].shape, type(call.operation)
        if getattr(layer, "groups", 1) > 1:
            return None
        last = channelwise.channel_axis(layer, len(call.outputs[0].shape))
        if kind is layers.Embedding:
            return last, self._slot(layer, "embeddings", 1)
        read = channelwise.channel_axis(layer, len(shape))
        if axis != read:  # of an input nothing is known
            if not all(self._root(unit) in self.fixed for unit in units):
                return None
            units = self._new(shape[read], "its channels are inputs")
        if kind in SEPARABLE:
            self._slot(layer, "depthwise_kernel", -2, units)
            repeated = np.repeat(units, layer.depth_multiplier)
            self._slot(layer, "pointwise_kernel", -2, repeated, reads=True)
            made = self._slot(layer, "pointwise_kernel", -1)
        else:
            axes = (-1, -2) if kind in TRANSPOSED else (-2, -1)
            self._slot(layer, "kernel", axes[0], units, reads=True)
            made = self._slot(layer, "kernel", axes[1])
        self._slot(layer, "bias", 0, made)
        return last, self._after_activation(layer, made)

    def _attention(self, call):
        """Return the channels that attention makes of others, by heads that can be cut."""
        layer, kind = call.operation, type(call.operation)
        query, value, *key = attention_tensors(call.args, call.kwargs)
        sources = {"query": query, "gate": query, "key": [*key, value][0], "value": value}
        parts = {part.name: part for part in sublayers(layer)}
        last = parts["attention_output"]
        apart = all(self._known[id(x)][0] == len(x.shape) - 1 for x in sources.values())
        held = any(id(part) in self.held for part in parts.values())
        if held or not apart or len(last.kernel.shape) != 3:
            return None
        for tensor in call.tensors:
            if all(tensor is not source for source in sources.values()):  # a mask
                self._fix(self._known[id(tensor)][1], f"its channels go into '{layer.name}'")
        slot = functools.partial(self._slot, owner=layer)
        of_values = slot(parts["value"], "kernel", 1, heads=True)
        heads = np.repeat(of_values, last.kernel.shape[0] // len(of_values))
        for name, source in sources.items():
            if name in parts:
                units = of_values if name in ("key", "value") else heads
                slot(parts[name], "kernel", 0, self._known[id(source)][1], reads=True)
                slot(parts[name], "kernel", 1, units, heads=True)
                slot(parts[name], "bias", 0, units, heads=True)
        slot(last, "kernel", 0, heads, reads=True, heads=True)
        same = None
        if kind is layers.GroupQueryAttention:  # as many outputs as channels of query and value
            same = self._join(*(self._known[id(x)][1] for x in (query, value)))
        made = slot(last, "kernel", 2, same)
        slot(last, "bias", 0, made)
        return len(query.shape) - 1, made

    def _after_activation(self, layer, units):
        if not channelwise.is_elementwise(layer.activation):
            self._fix(units, "its activation mixes the channels")
        return units

    def _merged(self, call, inputs):
        """Return the channels of a sum or product, where one channel stands for all."""
        size, ranks = call.outputs[0].shape, {len(tensor.shape) for tensor in call.tensors}
        axes = {axis for axis, _ in inputs}
        if (
            len(ranks) > 1
            or len(axes) > 1
            or len(call.tensors) < len(keras.tree.flatten(call.args))
        ):
            return None
        (axis,) = axes
        whole = [units for _, units in inputs if len(units) == size[axis]]
        for _, units in inputs:
            if len(units) != size[axis]:
                self._fix(units, "its channel is one of many in a sum or product")
        for other in whole[1:]:
            self._join(whole[0], other)
        return axis, whole[0]

    def _concatenated(self, call, inputs):
        axes = {axis for axis, _ in inputs}
        along = call.operation.axis % len(call.outputs[0].shape)
        if len(axes) > 1:
            return None
        if axes == {along}:
            return along, np.concatenate([units for _, units in inputs])
        for _, units in inputs[1:]:
            self._join(inputs[0][1], units)
        return inputs[0]

    def _moved(self, call, axis, units):
        """Return the channels of what only moves numbers, or adds zeros."""
        (tensor,), (output,), operation = call.tensors, call.outputs, call.operation
        if type(operation) is _padding():
            config = operation.get_config()
            if config["mode"] != "constant" or call.kwargs.get("constant_values"):
                return None
            before, after = config["pad_width"][axis]
            made = axis, np.concatenate([self._new(before), units, self._new(after)])
        else:
            if (
                None in tensor.shape[1:]
                or getattr(operation, "data_format", None) == "channels_first"
            ):
                return None
            shape = [1] * (len(tensor.shape) - 1)
            shape[axis - 1] = -1
            spread = np.broadcast_to(units.reshape(shape), tensor.shape[1:])
            if type(operation) is _indexing():  # of places, not of channels
                key = [*call.args, *call.kwargs.values()][1]
                if not isinstance(key, tuple) or key[0] != slice(None):
                    return None
                spread = spread[None][key][0]
            spread = spread.reshape(output.shape[1:])
            made = None
            for place in range(spread.ndim):
                line = np.moveaxis(spread, place, -1).reshape(-1, spread.shape[place])
                if (line == line[0]).all():
                    made = place + 1, line[0]
            if made is None:
                return None
            if type(operation) is _indexing():
                return made if np.array_equal(made[1], units) else None
        if type(operation) is not layers.Flatten:
            self.axes[call.key] = [(axis, units), made]
        return made


def internal_channels(
    model: keras.Model,
    able: Callable[[keras.layers.Layer], bool],
    shared: Callable[[keras.layers.Layer], bool],
) -> list[Channels]:
    """Return the channels that some layers of a graph make, and others alone read, as wholes.

    Between them are layers that treat each channel by itself, and products.

    Args:
        model: the graph.
        able: whether a convolution or dense layer may make, keep or read such channels.
        shared: whether a layer is called more than once.
    """

    def passes(call):
        layer = call.operation
        if isinstance(layer, (*PRODUCERS, *DEPTHWISE)):
            return able(layer) and not shared(layer)
        once = not isinstance(layer, layers.BatchNormalization) or not shared(layer)
        return once and channelwise.keeps_channels_apart(call)

    calls = cloning.Trace(model).calls
    own = {id(call.operation) for call in calls}  # not those of graphs inside
    held = {id(call.operation): "no mask passes it" for call in calls if not passes(call)}
    units = ChannelUnits(model, held)
    found = []
    for group in units.groups:
        if any(id(s.layer) not in own or len(s.units) != len(group.units) for s in group.slots):
            continue
        channels = Channels()
        for slot in group.slots:
            kept = channels.members if isinstance(slot.layer, DEPTHWISE) else channels.producers
            part = channels.consumers if slot.reads else kept
            if not isinstance(slot.layer, layers.BatchNormalization) and slot.layer not in part:
                part.append(slot.layer)
        if channels.consumers and len(group.units) > 1:
            found.append(channels)
    return found


def unfolded(model: keras.Model) -> keras.Model:
    """Return a copy of a model with what layers of layers call in place of these.

    Those with weights of their own stay, and those that cannot be called on symbolic tensors.
    """
    if not any(map(_is_of_layers, flatten_layers(model))):
        return cloning.clone(model, lambda layer: None)[0]
    done: list[keras.layers.Layer] = []

    def called(call, copy):
        layer = call.operation
        outputs, new = cloning.called(call, copy), copy(layer)  # which is built by the call
        if not isinstance(layer, keras.layers.Layer) or not _is_of_layers(layer):
            return outputs
        try:
            inside = new.call(*call.args, **call.kwargs)
            left = keras.Model(call.tensors, inside).weights
        except Exception:  # code of others, not written for this
            return outputs
        if len(left) < len(new.weights):  # a layer that is called on constants is none of a graph
            return outputs
        if not any(new is other for other in done):
            done.append(new)
            for inner in sublayers(new):  # names differ in a graph
                inner.name = f"{layer.name}_{inner.name}"
        return inside

    model = cloning.clone(model, lambda layer: None, called, functional=True)[0]
    return unfolded(model) if done else model


def _is_of_layers(layer):
    """Return whether a layer, none of Keras' own, has only weights of the layers inside."""
    package = type(layer).__module__.split(".")[0]
    if package in ("keras", "keras_xd") or is_graph(layer) or hasattr(layer, "multiply_adds"):
        return False
    inside = {id(variable) for inner in sublayers(layer) for variable in inner.variables}
    return bool(inside) and all(id(variable) in inside for variable in layer.variables)


def _smaller(layer, shape, slots, alive, size=None):
    """Return a layer with some of its channels, as many as `size` tells, built for a shape."""
    changes, made = {}, [s for s in slots if not s.reads]
    if size is not None:
        last = max(made, key=lambda slot: (len(slot.weight.shape), slot.weight.name))
        changes[size] = int(alive[last.units].sum())
    attention = type(layer) in HEADS
    if attention:
        counts = [int(alive[slot.units].sum()) for slot in slots if slot.heads]
        changes |= dict(zip(HEADS[type(layer)], (max(counts), min(counts)), strict=False))
        if "output_shape" in layer.get_config():
            last = next(s for s in made if not s.heads)
            changes["output_shape"] = int(alive[last.units].sum())
    new = cloning.made_again(layer, changes)[0]
    new.build(*shape) if attention else new.build(tuple(shape))
    by_weight = collections.defaultdict(list)
    for slot in slots:
        by_weight[id(slot.weight)].append(slot)
    for before, after in zip(layer.variables, new.variables, strict=True):
        value = ops.convert_to_numpy(before)
        for slot in by_weight[id(before)]:
            value = np.compress(alive[slot.units], value, slot.axis)
        after.assign(value)
        after.trainable = before.trainable
    return new


def _resized(call, copy, axes, alive):
    """Return the output of what names sizes, for the channels that are left."""
    operation = call.operation
    (axis, units), (made_axis, made) = axes
    if isinstance(operation, layers.Layer):
        shape = list(operation.target_shape)
        shape[made_axis - 1] = int(alive[made].sum())
        config = {**operation.get_config(), "target_shape": tuple(shape)}
        return type(operation).from_config(config)(call.argument)
    widths = list(operation.get_config()["pad_width"])
    before, after = widths[axis]
    widths[axis] = (int(alive[made[:before]].sum()), int(alive[made[len(made) - after :]].sum()))
    return ops.pad(call.argument, widths)


def _needed(trace, left_out):
    """Return the ids of tensors that the outputs depend on without some branches."""

    def unused(call, tensor):
        block = left_out.get(call.key)
        return block is not None and call.flat_arguments[block.place] is tensor

    return trace.needed(unused)


def _ends(trace, tensor):
    """Return the weights of the layer whose output a branch ends with, which is linear in them."""
    call = trace.maker(tensor)
    while call is not None and isinstance(call.operation, layers.Dropout):
        call = trace.maker(call.tensors[0])
    layer = getattr(call, "operation", None)
    if type(layer) in HEADS:
        layer = next(part for part in sublayers(layer) if part.name == "attention_output")
        return [weight for weight in (layer.kernel, layer.bias) if weight is not None]
    if getattr(layer, "activation", None) not in (None, keras.activations.linear):
        return []
    if type(layer) not in (layers.BatchNormalization, *SIZES):
        return []
    weights = [getattr(layer, name, None) for name in _LAST_WEIGHTS]
    return [weight for weight in weights if weight is not None]


def _tied(model):
    """Return why layers with weights of other layers stay, by the ids of these layers."""
    owners = collections.defaultdict(dict)
    for layer in flatten_layers(model):
        inside = {id(v) for inner in sublayers(layer) for v in inner.variables}
        for variable in layer.variables:
            if id(variable) not in inside:
                owners[id(variable)][id(layer)] = layer
    tied = {}
    for found in owners.values():
        for key in found if len(found) > 1 else ():
            others = [f"'{layer.name}'" for other, layer in found.items() if other != key]
            tied[key] = f"its weights are those of {', '.join(others)} too"
    return tied


@functools.cache
def _merging_operations():
    functions = (ops.add, ops.subtract, ops.multiply, ops.divide, ops.maximum, ops.minimum)
    return tuple(map(cloning.operation_class, functions))


@functools.cache
def _concatenation():
    return cloning.operation_class(lambda x, y: ops.concatenate([x, y]))


@functools.cache
def _indexing():
    return cloning.operation_class(lambda x, y: x[:, :1])


@functools.cache
def _padding():
    return cloning.operation_class(lambda x, y: ops.pad(x, [(0, 0), (0, 1)]))
