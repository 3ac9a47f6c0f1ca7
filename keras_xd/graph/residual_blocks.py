"""Residual blocks of a graph: additions of a skip and of a branch that could be left out."""

import collections
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
        place: the place of the branch among the tensors of the call.
        shape: the shape of the sum.
        layers: the layers of the branch: what nothing but the sum depends on.
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
    """Return every residual `Block` of a graph whose branch can be left out, in their order.

    A block is an addition of two tensors of the shape of the sum. If one is computed from the
    other, that is the skip. Else the skip is the one that is computed from what both are computed
    from by at most one layer with multiply–adds, and by fewer than the other: a projection. A
    branch has at least one such layer, and all of them are `able`. Of blocks inside one another
    the inner ones are returned.

    Args:
        graph: a Functional or a built Sequential model.
        able: predicate of a layer: whether its multiply–adds can be made to depend on the depth.
    """
    copy, calls = cloning.traced_graph(graph)
    maker = {id(tensor): index for index, call in enumerate(calls) for tensor in call.outputs}
    above = []  # numbers of the calls that each call depends on, its own included
    for index, call in enumerate(calls):
        inputs = [above[maker[id(x)]] for x in call.tensors if id(x) in maker]
        above.append({index}.union(*inputs))

    def behind(tensor):
        return above[maker[id(tensor)]] if id(tensor) in maker else set()

    def sources(tensor):
        indices = behind(tensor)
        return {id(tensor)}.union(*({id(x) for x in calls[i].tensors} for i in indices))

    found = []
    for index, call in enumerate(calls):
        tensors = call.tensors
        if not is_addition(call.operation) or len(tensors) != 2 or tensors[0] is tensors[1]:
            continue
        if any(tensor.shape != call.outputs[0].shape for tensor in tensors):
            continue
        if not sources(tensors[0]) & sources(tensors[1]):
            continue
        place = _branch(calls, tensors, behind, sources)
        if place is None:
            continue
        dead = _dead_without(calls, copy.outputs, maker, index, tensors[place])
        parts = [calls[i].operation for i in dead]
        counted = [part for part in parts if _is_counted(part)]
        if counted and all(able(part) for part in counted):
            found.append((index, place, dead))
    additions = {index for index, _, _ in found}
    found = [item for item in found if not additions & item[2]]
    counts = collections.Counter(id(call.operation) for call in calls)
    result = []
    for index, place, dead in found:
        call = calls[index]
        flat = keras.tree.flatten((call.args, call.kwargs))
        at = next(i for i, value in enumerate(flat) if value is call.tensors[place])
        inside = collections.Counter(id(calls[i].operation) for i in dead)
        parts = {id(calls[i].operation): calls[i].operation for i in sorted(dead)}
        whole = tuple(part for key, part in parts.items() if counts[key] == inside[key])
        shape = tuple(call.outputs[0].shape)
        result.append(Block(graph, call.operation, call.number, at, shape, whole))
    return result


def _branch(calls, tensors, behind, sources):
    """Return which of two summands is the branch, 0 or 1, or `None`."""
    for skip, branch in ((0, 1), (1, 0)):
        if id(tensors[skip]) in sources(tensors[branch]):
            return branch
    own = [behind(tensors[0]) - behind(tensors[1]), behind(tensors[1]) - behind(tensors[0])]
    first, second = (sum(_is_counted(calls[i].operation) for i in indices) for indices in own)
    if first == second or min(first, second) > 1:
        return None
    return 0 if first > second else 1


def _dead_without(calls, outputs, maker, index, branch):
    """Return the numbers of the calls that no output needs when an addition lacks its branch."""
    needed = {maker[id(tensor)] for tensor in outputs if id(tensor) in maker}
    for number in range(len(calls) - 1, -1, -1):
        if number in needed:
            for tensor in calls[number].tensors:
                if id(tensor) in maker and not (number == index and tensor is branch):
                    needed.add(maker[id(tensor)])
    return set(range(len(calls))) - needed


def _is_counted(operation):
    """Return whether an operation is or holds a layer with multiply–adds, or is a model."""
    if not isinstance(operation, keras.layers.Layer):
        return False
    return is_graph(operation) or any(
        isinstance(layer, COUNTED) for layer in (operation, *flatten_layers(operation))
    )
