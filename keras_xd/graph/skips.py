"""Identity skip connections: inputs of an addition that another of its inputs is computed from."""

import collections
import dataclasses

import keras

from keras_xd.core.searchable import is_graph, named_layers
from keras_xd.graph import cloning

_MIXED = {"float16": "mixed_float16", "bfloat16": "mixed_bfloat16"}


@dataclasses.dataclass(frozen=True)
class Skip:
    """One identity skip connection in a graph."""

    path: str
    call: cloning.OperationCall
    place: int
    shapes: frozenset
    dtype: str
    calls: int

    @property
    def name(self):
        """The name of a layer in it."""
        return self.path.rpartition("/")[2]


def find_skips(model):
    """Return every `Skip` in the graphs of a model: its own and those of models inside."""
    found, visited = collections.defaultdict(list), set()

    def visit(graph, shapes):
        visited.add(id(graph))
        trace = cloning.Trace(graph, shapes)
        for call in trace.calls:
            if is_graph(call.operation):
                visit(call.operation, cloning.shapes_of(call.tensors))
            if not is_addition(call.operation):
                continue
            for place, x in enumerate(call.flat_arguments):
                if not isinstance(x, keras.KerasTensor) or x.shape[1:] != call.outputs[0].shape[1:]:
                    continue
                others = [tensor for tensor in call.tensors if tensor is not x]
                behind = any(id(x) in trace.tensors_behind(other) for other in others)
                if "float" in x.dtype and behind:
                    found[*call.key, place].append((call, x))

    paths = {id(layer): path for path, layer in named_layers(model)}
    for _, layer in named_layers(model):
        if is_graph(layer) and id(layer) not in visited:
            visit(layer, None)
    taken, skips = collections.defaultdict(set), []
    for (*_, place), calls in found.items():
        call, x = calls[-1]
        names = taken[id(call.graph)]
        names |= {layer.name for layer in call.graph.layers}
        name = cloning.unused_name(f"{call.operation.name}_skip", names)
        path = f"{paths[id(call.graph)]}/{name}".lstrip("/")
        shapes = frozenset((None, *x.shape[1:]) for _, x in calls)
        skips.append(Skip(path, call, place, shapes, _MIXED.get(x.dtype, x.dtype), len(calls)))
    return skips


def inserting(layers):
    """Return the `call` of `cloning.clone` that puts layers into skips."""
    places = collections.defaultdict(dict)
    for skip, layer in layers:
        places[skip.call.key][skip.place] = layer

    def call(call, copy):
        inside = places.get(call.key, {})
        flat = [inside[i](x) if i in inside else x for i, x in enumerate(call.flat_arguments)]
        return cloning.called(call.with_arguments(flat), copy)

    return call


def is_addition(operation):
    """Return whether an operation adds: `keras.layers.Add`, `keras.ops.add` or `x + y`."""
    if isinstance(operation, keras.layers.Layer):
        return isinstance(operation, keras.layers.Add)
    return isinstance(operation, cloning.operation_class(keras.ops.add))
