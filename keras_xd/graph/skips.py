"""Identity skip connections: inputs of an addition that another of its inputs is computed from."""

import collections
import dataclasses
import functools

import keras

from keras_xd.core.searchable import is_graph, named_layers
from keras_xd.graph import cloning

_MIXED = {"float16": "mixed_float16", "bfloat16": "mixed_bfloat16"}


@dataclasses.dataclass(frozen=True)
class Skip:
    """One identity skip connection in a graph.

    Attributes:
        path: name of a layer in it, `<addition>_skip`, after those of the nested models around it.
        graph: the model in whose graph it is.
        operation: the addition.
        number: how often the addition was called before in this graph.
        place: the place of the skip among the tensors of the call.
        shapes: the set of its shapes in all calls of the graph, batch size `None`.
        dtype: the dtype policy of a layer in it.
        calls: how often the graph is called.
    """

    path: str
    graph: keras.Model
    operation: keras.Operation
    number: int
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
    shapes, dtypes, places, visited = collections.defaultdict(list), {}, {}, set()

    def visit(graph, graph_shapes):
        visited.add(id(graph))
        ancestors = {}
        for call in cloning.traced_graph(graph, graph_shapes)[1]:
            operation, tensors, outputs = call.operation, call.tensors, call.outputs
            above = {id(x) for x in tensors}.union(*(ancestors.get(id(x), ()) for x in tensors))
            ancestors |= {id(x): ancestors.get(id(x), set()) | above for x in outputs}
            if is_graph(operation):
                visit(operation, cloning.shapes_of(tensors))
            if not is_addition(operation):
                continue
            for place, x in enumerate(keras.tree.flatten((call.args, call.kwargs))):
                if not isinstance(x, keras.KerasTensor) or x.shape[1:] != outputs[0].shape[1:]:
                    continue
                if "float" in x.dtype and any(id(x) in ancestors.get(id(y), ()) for y in tensors):
                    key = (id(graph), id(operation), call.number, place)
                    shapes[key].append((None, *x.shape[1:]))
                    dtypes[key] = _MIXED.get(x.dtype, x.dtype)
                    places[key] = (graph, operation, call.number, place)

    for _, layer in named_layers(model):
        if is_graph(layer) and id(layer) not in visited:
            visit(layer, None)
    paths = {id(layer): path for path, layer in named_layers(model)}
    taken = collections.defaultdict(set)
    skips = []
    for key, (graph, operation, number, place) in places.items():
        names = taken[id(graph)]
        names |= {layer.name for layer in graph.layers}
        name, count = f"{operation.name}_skip", 0
        while name in names:
            count += 1
            name = f"{operation.name}_skip_{count}"
        names.add(name)
        path = f"{paths[id(graph)]}/{name}" if paths[id(graph)] else name
        called = frozenset(shapes[key]), dtypes[key], len(shapes[key])
        skips.append(Skip(path, graph, operation, number, place, *called))
    return skips


def inserting(layers):
    """Return the `insert` of `cloning.clone` that puts layers into skips."""
    places = collections.defaultdict(dict)
    for skip, layer in layers:
        places[id(skip.graph), id(skip.operation), skip.number][skip.place] = layer

    def insert(graph, operation, number):
        return places.get((id(graph), id(operation), number), {})

    return insert


def is_addition(operation):
    """Return whether an operation adds: `keras.layers.Add`, `keras.ops.add` or `x + y`."""
    if isinstance(operation, keras.layers.Layer):
        return isinstance(operation, keras.layers.Add)
    return isinstance(operation, _addition_class())


@functools.cache
def _addition_class():
    """Return the class of the operation that `x + y` makes, which has no public name."""
    tensors = [keras.Input((1,)), keras.Input((1,))]
    return type(keras.Function(tensors, tensors[0] + tensors[1]).operations[-1])
