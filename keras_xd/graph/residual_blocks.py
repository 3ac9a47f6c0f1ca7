"""Residual blocks of a graph: additions of a skip and of a branch that could be left out."""

import dataclasses
from collections.abc import Callable

import keras

from keras_xd.core.searchable import flatten_layers, is_graph
from keras_xd.graph import cloning
from keras_xd.graph.cost import COUNTED
from keras_xd.graph.skips import is_addition


@dataclasses.dataclass(frozen=True)
class Block:
    """One residual block in a graph.

    Attributes:
        graph: the model in whose graph it is.
        operation: the addition.
        number: how often the addition was called before in this graph.
        place: the place of the branch among the arguments of the call, flattened.
        shape: the shape of the sum.
        layers: the layers of the branch, those on which nothing but the sum depends.
    """

    graph: keras.Model
    operation: keras.Operation
    number: int
    place: int
    shape: tuple
    layers: tuple

    @property
    def spatial(self):
        """The sizes of the axes between the batch's and the channels'; equal in a stage."""
        return self.shape[1:-1]


def find_blocks(graph: keras.Model, able: Callable[[keras.layers.Layer], bool]) -> list[Block]:
    """Return every residual `Block` of a graph whose branch can be left out, in their order."""
    dependencies = _Dependencies(graph)
    calls, found = dependencies.calls, {}
    for index, call in enumerate(calls):
        branch = _branch(call, dependencies)
        if branch is None:
            continue
        inside = dependencies.calls_only_for(index, branch)
        counted = [calls[i].operation for i in inside if _is_counted(calls[i].operation)]
        if counted and all(map(able, counted)):
            found[index] = branch, inside
    blocks = []
    for index, (branch, inside) in found.items():
        if found.keys() & inside:  # there are blocks inside it
            continue
        call = calls[index]
        arguments = keras.tree.flatten((call.args, call.kwargs))
        place = next(i for i, value in enumerate(arguments) if value is branch)
        operations = _operations_called_only_in(calls, inside)
        shape = tuple(call.outputs[0].shape)
        blocks.append(Block(graph, call.operation, call.number, place, shape, operations))
    return blocks


class _Dependencies:
    """What the tensors of a graph are computed by and from.

    Attributes:
        calls: its calls in their order. Sets of calls below are sets of positions in this list.
    """

    def __init__(self, graph):
        self._view, self.calls = cloning.traced_graph(graph)
        self._maker = {id(x): i for i, call in enumerate(self.calls) for x in call.outputs}
        self._calls_up_to = []
        for index, call in enumerate(self.calls):
            self._calls_up_to.append({index}.union(*map(self.calls_behind, call.tensors)))

    def calls_behind(self, tensor):
        """Return the set of calls that a tensor is computed by."""
        maker = self._maker.get(id(tensor))
        return set() if maker is None else self._calls_up_to[maker]

    def tensors_behind(self, tensor):
        """Return the set of the ids of a tensor and of all those that it is computed from."""
        behind = (self.calls[i].tensors for i in self.calls_behind(tensor))
        return {id(tensor)}.union(*({id(x) for x in tensors} for tensors in behind))

    def calls_only_for(self, addition, summand):
        """Return the set of calls that no output needs if an addition lacks a summand."""
        needed = {self._maker[id(x)] for x in self._view.outputs if id(x) in self._maker}
        for index in reversed(range(len(self.calls))):
            if index in needed:
                read = [x for x in self.calls[index].tensors if id(x) in self._maker]
                if index == addition:
                    read = [x for x in read if x is not summand]
                needed |= {self._maker[id(x)] for x in read}
        return set(range(len(self.calls))) - needed


def _branch(call, dependencies):
    """Return which summand of a call is the branch of a residual block, or `None`."""
    tensors = call.tensors
    if not is_addition(call.operation) or len(tensors) != 2 or tensors[0] is tensors[1]:
        return None
    if any(tensor.shape != call.outputs[0].shape for tensor in tensors):
        return None
    first, second = tensors
    before_first, before_second = map(dependencies.tensors_behind, tensors)
    if not before_first & before_second:
        return None
    if id(first) in before_second:
        return second
    if id(second) in before_first:
        return first
    # Neither is computed from the other: the one with fewer layers of its own is a projection.
    by_first, by_second = map(dependencies.calls_behind, tensors)
    layers_of_first, layers_of_second = (
        sum(_is_counted(dependencies.calls[i].operation) for i in own)
        for own in (by_first - by_second, by_second - by_first)
    )
    if layers_of_first == layers_of_second or min(layers_of_first, layers_of_second) > 1:
        return None
    return first if layers_of_first > layers_of_second else second


def _operations_called_only_in(calls, inside):
    """Return the operations without a call outside of a set of calls, in their order."""
    outside = {id(call.operation) for i, call in enumerate(calls) if i not in inside}
    operations = {id(calls[i].operation): calls[i].operation for i in sorted(inside)}
    return tuple(operation for key, operation in operations.items() if key not in outside)


def _is_counted(operation):
    """Return whether an operation is or holds a layer with multiply–adds, or is a model."""
    if not isinstance(operation, keras.layers.Layer):
        return False
    return is_graph(operation) or any(
        isinstance(layer, COUNTED) for layer in (operation, *flatten_layers(operation))
    )
