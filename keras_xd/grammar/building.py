"""Terms to Keras models."""

from collections.abc import Callable, Mapping

import keras

from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Tensor
from keras_xd.grammar.graphs import network_graph
from keras_xd.grammar.motifs import motif_terms
from keras_xd.grammar.terms import Term
from keras_xd.grammar.topologies import (
    IDENTITY,
    ZERO,
    Topology,
    UnknownOperatorError,
    check_operators,
)


@check_types
def build(
    term: Term,
    inputs: keras.KerasTensor | list[keras.KerasTensor],
    primitives: Mapping[str, Callable],
    *,
    stem: Callable[[Tensor], Tensor] | None = None,
    head: Callable[[Tensor], Tensor] | None = None,
    share_weights: bool = False,
    topologies: Mapping[str, Topology] | None = None,
    name: str | None = None,
) -> keras.Model:
    """Return the Keras model of a term.

    Nodes of the term's topologies become sums, edges the layers that the table gives for their
    primitives; `id` passes its input on, `zero` and whatever lies on no path from input to output
    is left out.

    Args:
        term: a term of any grammar.
        inputs: a Keras input, or a list of as many as the outermost topology has.
        primitives: dictionary from the names of primitives to functions `(shape, name)` of the
            input's shape, the batch axis included, and a name that is unique in the model. They
            return a layer, a model, or any function of one tensor. The primitive after a stacking
            node (`BinaryTopo`) gets lists of shapes and tensors. `keras_xd.grammar.primitives` has
            tables for the spaces; `{**table, "mine": …}` extends one.
        stem, head: functions applied to each input, and to the output, or `None`.
        share_weights: whether shared motifs share their layers too, wherever the inputs have the
            same shape. Otherwise they share the architecture alone.
        topologies: dictionary from operators to `keras_xd.grammar.Topology`; `None` for
            `grammar.topologies.TOPOLOGIES`.
        name: the model's name.

    Returns:
        A functional `keras.Model`. The layers' names are those of the primitives with the numbers
        of their edges in `network_graph`, from 1, the same for every model of the term.

    Example:

    ```python
    import keras
    from keras_xd import grammar

    space = grammar.Grammar(
        "S -> Residual2 OP OP OP \\n OP -> dense | relu | id | zero"
    )
    table = {
        "dense": lambda shape, name: keras.layers.Dense(shape[-1], name=name),
        "relu": lambda shape, name: keras.layers.ReLU(name=name),
    }
    term = space.parse("(S Residual2 (OP dense) (OP id) (OP relu))")
    model = grammar.build(term, keras.Input((8,)), table)
    print(
        [layer.name for layer in model.layers[1:]]
    )  # ['dense_edge1', 'relu_edge3', 'add_node1']
    ```
    """
    if term.rules is not None:
        check_operators(term.rules, topologies, {*primitives, IDENTITY, ZERO})
    main, motifs = motif_terms(term)
    graph = network_graph(main.substitute(motifs), topologies)
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    _check(term, graph, given, {*primitives, IDENTITY})
    shared = {id(node) for motif in motifs.values() for node in motif.nodes()}
    made = {} if share_weights else None
    arriving, leaving, names = {}, {}, {}
    for number, edge in enumerate(graph.edges, start=1):
        arriving.setdefault(edge.target, []).append(edge)
        leaving.setdefault(edge.source, []).append(edge)
        # Slashes would end up in the paths of variables.
        names[id(edge)] = f"{edge.operation}_edge{number}".replace("/", "_")
    values = {
        node: tensor if stem is None else stem(tensor)
        for node, tensor in zip(graph.inputs, given, strict=True)
    }
    outputs = {}
    for node in graph.order():
        if node not in values:
            tensors = [outputs.pop(id(edge)) for edge in arriving[node]]
            values[node] = _merged(tensors, graph.merges.get(node), node)
        for edge in leaving.get(node, ()):
            tensor = values[node]
            if edge.operation != IDENTITY:
                tensor = _layer(edge, tensor, primitives, names[id(edge)], shared, made)(tensor)
            outputs[id(edge)] = tensor
    result = values[graph.output]
    return keras.Model(inputs, result if head is None else head(result), name=name)


def _check(term, graph, inputs, known):
    if not graph.edges:
        raise ValueError(
            f"A path must lead from an input to the output. Received: {str(term)[:200]!r}"
        )
    missing = sorted({edge.operation for edge in graph.edges} - known)
    if missing:
        raise UnknownOperatorError(
            "`primitives` must have every primitive of the term. Received: no "
            f"{', '.join(missing)[:200]}, only {', '.join(sorted(known))[:400]}"
        )
    if len(inputs) != len(graph.inputs):
        raise ValueError(
            f"The term has {len(graph.inputs)} inputs. Received: inputs with {len(inputs)} tensors"
        )


def _layer(edge, tensor, primitives, name, shared, made):
    """Make the layer of an edge, or take that of the same part of a shared motif."""
    several = isinstance(tensor, list)
    shape = [tuple(t.shape) for t in tensor] if several else tuple(tensor.shape)
    key = (id(edge.term), str(shape))
    if made is not None and key in made:
        return made[key]
    layer = primitives[edge.operation](shape, name)
    if made is not None and id(edge.term) in shared:
        made[key] = layer
    return layer


def _merged(tensors, how, node):
    """Add up what arrives at a node, or leave it a list, or concatenate channels."""
    if how == "stack":
        return tensors
    if len(tensors) == 1:
        return tensors[0]
    if how == "concatenate":
        axis = -1 if keras.config.image_data_format() == "channels_last" else 1
        return keras.layers.Concatenate(axis=axis, name=f"concatenate_node{node}")(tensors)
    shapes = {tuple(tensor.shape) for tensor in tensors}
    if len(shapes) > 1:
        raise ValueError(
            f"Tensors that meet in a node must have the same shape. Received: {sorted(shapes)}"
        )
    return keras.layers.Add(name=f"add_node{node}")(tensors)
