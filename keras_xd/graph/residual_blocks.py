"""Residual blocks of a graph: additions of a skip and of a branch that could be left out."""

import dataclasses
from collections.abc import Callable

import keras

from keras_xd.core.searchable import flatten_layers, is_graph
from keras_xd.graph import cloning
from keras_xd.graph.cost import COUNTED
from keras_xd.graph.sequence_counts import ATTENTION_OF_HEADS
from keras_xd.graph.skips import is_addition


@dataclasses.dataclass(frozen=True)
class Block:
    """One residual block in a graph."""

    call: cloning.OperationCall
    place: int
    layers: tuple

    @property
    def shape(self):
        """The shape of the sum."""
        return tuple(self.call.outputs[0].shape)

    @property
    def spatial(self):
        """The sizes of the axes between the batch's and the channels'; equal in a stage."""
        return self.shape[1:-1]


def find_blocks(graph: keras.Model, able: Callable[[keras.layers.Layer], bool]) -> list[Block]:
    """Return every residual `Block` of a graph whose branch can be left out, in their order."""
    trace, found = cloning.Trace(graph), {}
    for index, call in enumerate(trace.calls):
        branch = _branch(call, trace)
        if branch is None:
            continue
        inside = _calls_only_for(trace, call, branch)
        counted = [x for x in (trace.calls[i].operation for i in inside) if _is_counted(x)]
        if counted and all(map(able, counted)):
            found[index] = branch, inside
    blocks = []
    for index, (branch, inside) in found.items():
        if found.keys() & inside:  # there are blocks inside it
            continue
        call = trace.calls[index]
        place = next(i for i, value in enumerate(call.flat_arguments) if value is branch)
        blocks.append(Block(call, place, _operations_called_only_in(trace.calls, inside)))
    return blocks


def _calls_only_for(trace, addition, summand):
    """Return the set of calls that no output needs if an addition lacks a summand."""
    needed = trace.needed(lambda call, tensor: call is addition and tensor is summand)
    outputs = enumerate([id(x) for x in call.outputs] for call in trace.calls)
    return {index for index, ids in outputs if needed.isdisjoint(ids)}


def _branch(call, trace):
    """Return which summand of a call is the branch of a residual block, or `None`."""
    tensors = call.tensors
    if not is_addition(call.operation) or len(tensors) != 2 or tensors[0] is tensors[1]:
        return None
    if any(tensor.shape != call.outputs[0].shape for tensor in tensors):
        return None
    first, second = tensors
    before_first, before_second = map(trace.tensors_behind, tensors)
    if not before_first & before_second:
        return None
    if id(first) in before_second:
        return second
    if id(second) in before_first:
        return first
    # Neither is computed from the other: the one with fewer layers of its own is a projection.
    by_first, by_second = map(trace.calls_behind, tensors)
    layers_of_first, layers_of_second = (
        sum(_is_counted(trace.calls[i].operation) for i in own)
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
        isinstance(layer, (*COUNTED, *ATTENTION_OF_HEADS))
        for layer in (operation, *flatten_layers(operation))
    )
