"""Copies of a model's graph with other layers in some places, and its layers' calls."""

import collections
import dataclasses

import keras

from keras_xd.core.searchable import flatten_layers, is_graph
from keras_xd.graph.layer_copies import copy_layer


def clone(model, replace, rename_inputs=None, insert=None, shapes=None, call=None):
    """Return a copy of a model in which some layers are replaced by others, or new ones inserted.

    The copy has the names, inputs and outputs (dictionaries and lists too), layers, values of
    weights and of random generators, trainable flags and dtype policies of `model`. Nested models
    are copied too; what is shared stays shared. A Sequential model stays one. The copy is not
    compiled, takes any batch size if it is Sequential, and a subclass of `keras.Model` becomes a
    plain Functional model. `model` is not touched: no layer of it is given a new inbound node.

    Args:
        model: a Functional or a built Sequential model.
        replace: function called once with each layer that is not such a model itself. Returns the
            layer to put in its place, or `None` for a copy of it.
        rename_inputs: function from the list of the names of the inputs of `model` to new ones. A
            dictionary of inputs keeps its names, and so does an input whose new name is taken.
        insert: function called with each call in a Functional model, `insert(graph, operation,
            number)`: the model, the layer or operation that is called, and how often it was called
            before in this model. Returns a dictionary of the layers through which inputs of the
            call are passed first, by the place of the tensor among all tensors of the call.
        shapes: shapes for the inputs of the copy, batch size included, as a flat list; `None` for
            those of `model`. With shapes `replace` is called with a layer and the shapes of the
            tensors it is given in the copy, Sequential models become Functional, and nothing can be
            inserted.
        call: function that calls each layer or operation of the copies of Functional models in its
            place, `call(operation, number, new, args, kwargs)`: what is called in `model`, how
            often before, its copy, and the arguments, with tensors of the copy in them. Returns the
            outputs. Not together with `insert` or `shapes`.

    Returns:
        `(copy, replaced)`: the new model, and the list of `(layer, replacement)`.

    Raises:
        ValueError: if a layer cannot be made again from its configuration.
    """
    graphs, copies, replaced, parts = {}, {}, {}, {}

    def copy(operation, *at):
        for known in (graphs, copies, replaced):
            if id(operation) in known:
                return known[id(operation)][1]
        if is_graph(operation):
            rename = rename_inputs if operation is model else None
            clone_graph = _clone_at if at else _clone_graph
            new = clone_graph(operation, copy, rename, *(at or [insert, call]))
            graphs[id(operation)] = (operation, new)
            return new
        new = replace(operation, *at) if isinstance(operation, keras.layers.Layer) else None
        if new is not None:
            replaced[id(operation)] = (operation, new)
        else:
            new = copy_layer(operation, parts)
            copies[id(operation)] = (operation, new)
        return new

    result = copy(model) if shapes is None else copy(model, shapes)
    # Before layers get their flags, which they pass on to all of their variables.
    flags = [
        (v, old.trainable and v.trainable) for old, new in replaced.values() for v in new.variables
    ]
    for old, new in reversed(graphs.values()):  # from the outermost, as each sets those inside
        new.trainable = old.trainable
        new.dtype_policy = old.dtype_policy
    for old, new in replaced.values():
        new.trainable = old.trainable
    for variable, _ in flags:
        variable.trainable = False
    for old, new in copies.values():
        if isinstance(old, keras.layers.Layer):
            copy_state(old, new)
    for variable, trainable in flags:  # what is shared with a frozen layer is not frozen
        variable.trainable = variable.trainable or trainable
    return result, list(replaced.values())


def layer_calls(model, shapes=None, inputs=None, insert=None):
    """Return `(layer, argument)` of every call of a layer in a model's graph, in their order.

    A nested model counts as one layer. `model` is not touched.

    Args:
        model: a Functional or a built Sequential model.
        shapes: the shapes of the model's inputs, batch size included, as a flat list; `None` for
            those it was made with.
        inputs: arrays or tensors for which to compute the calls, in inference mode, in the
            structure of the model's inputs; `None` for shapes only.
        insert: as in `clone`; the calls of inserted layers are returned too.

    Returns:
        A list of pairs. `argument` is what the layer was given first: a `keras.KerasTensor`, or a
        tensor where there are `inputs`, or a structure of these.
    """
    calls = graph_calls(model, shapes, inputs, insert)
    return [(layer, [*args, *kwargs.values()][0]) for layer, args, kwargs in calls]


def graph_calls(model, shapes=None, inputs=None, insert=None):
    """Return `(layer, positional arguments, keyword arguments)` of the calls of `layer_calls`."""
    calls = []

    def probe(operation):
        if isinstance(operation, keras.layers.Layer):
            return GraphProbe(operation, lambda *call: calls.append(call))
        return copy_layer(operation)

    graph = _clone_functional(_view(model), probe, shapes, call=_inserting(model, insert, probe))
    if inputs is not None:
        calls.clear()
        graph(inputs, training=False)
    return calls


def operation_calls(model, shapes=None):
    """Return `(operation, inputs, outputs)` of every call of a layer or operation in a graph.

    Args:
        model: a Functional or a built Sequential model; it is not touched.
        shapes: as in `layer_calls`.

    Returns:
        A list of triples in the order of the calls. `inputs` and `outputs` are flat lists, of
        `keras.KerasTensor` where an argument is a tensor. Equal tensors are the same object.
    """
    return [
        (call.operation, keras.tree.flatten((call.args, call.kwargs)), call.outputs)
        for call in traced_graph(model, shapes)[1]
    ]


def traced_graph(model, shapes=None):
    """Return a copy of a model of the same tensors, and every `OperationCall` in it, in order.

    Args:
        model: a Functional or a built Sequential model; it is not touched.
        shapes: as in `layer_calls`.

    Returns:
        `(copy, calls)`: a Functional model, whose inputs and outputs are among the tensors of the
        calls, and the calls.
    """
    calls = []

    def probe(operation):
        return (
            GraphProbe(operation, lambda *call: None)
            if isinstance(operation, keras.layers.Layer)
            else copy_layer(operation)
        )

    def call(operation, number, new, args, kwargs):
        outputs = new(*args, **kwargs)
        calls.append(OperationCall(operation, number, args, kwargs, keras.tree.flatten(outputs)))
        return outputs

    return _clone_functional(_view(model), probe, shapes, call=call), calls


@dataclasses.dataclass(frozen=True)
class OperationCall:
    """One call of a layer or operation in a graph.

    Attributes:
        operation: the layer or operation.
        number: how often it was called before in the graph.
        args, kwargs: the arguments, with `keras.KerasTensor` in them.
        outputs: the outputs as a flat list of `keras.KerasTensor`.
    """

    operation: keras.Operation
    number: int
    args: tuple
    kwargs: dict
    outputs: list

    @property
    def tensors(self):
        """The tensors among the arguments, a flat list."""
        flat = keras.tree.flatten((self.args, self.kwargs))
        return [value for value in flat if isinstance(value, keras.KerasTensor)]


def shapes_of(argument):
    """Return the shapes of the tensors in an argument of `layer_calls`, as a flat list."""
    tensors = keras.tree.flatten(argument)
    return [tuple(tensor.shape) for tensor in tensors if tensor is not None]


class Probe(keras.layers.Layer):
    """Takes the place of a layer in a copy of a model: computes the same and notes each call.

    Args:
        layer: the layer.
        calls: list to which `(layer, positional arguments, keyword arguments)` are appended.
    """

    def __init__(self, layer, calls):
        super().__init__(name=layer.name, dtype=layer.dtype_policy, autocast=False)
        self.supports_masking = True
        # In functions, because Keras would count the layer and the list as parts of this one.
        self.target = lambda: layer
        self.note = lambda args, kwargs: calls.append((layer, args, kwargs))
        self.built = True

    def __getattr__(self, name):
        """Return what only the layer has, for models that look at their layers."""
        if name.startswith("_") or "target" not in vars(self):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.target(), name)

    def call(self, *args, **kwargs):
        self.note(args, kwargs)
        return self.target()(*args, **kwargs)

    def compute_output_spec(self, *args, **kwargs):
        self.note(args, kwargs)
        return self.target().compute_output_spec(*args, **kwargs)


class GraphProbe(keras.Operation):
    """A `Probe` for graphs, where no layer is needed: those take Keras much longer to make.

    Args:
        layer: the layer.
        note: function that is called with the layer, the positional and the keyword arguments.
    """

    def __init__(self, layer, note):
        super().__init__(name=layer.name)
        self.layer, self.note = layer, note

    def call(self, *args, **kwargs):
        self.note(self.layer, args, kwargs)
        return self.layer(*args, **kwargs)

    def compute_output_spec(self, *args, **kwargs):
        self.note(self.layer, args, kwargs)
        return self.layer.compute_output_spec(*args, **kwargs)


def _view(model):
    """Return an uncompiled Functional model of the same layers: `clone_model` would compile."""
    if isinstance(model, keras.Sequential):
        return keras.Model(model.inputs[0], model.outputs[0], name=model.name)
    return keras.Model(model.input, model.output, name=model.name)


def _clone_graph(model, copy, rename=None, insert=None, call=None):
    """Return a copy of a Functional or Sequential model, its layers made by `copy`."""
    view = _view(model)
    if not isinstance(model, keras.Sequential):
        call = _inserting(model, insert) or call
        return _clone_functional(view, copy, rename=rename, call=call)
    changes = {}
    if not any(getattr(layer, "stateful", False) for layer in flatten_layers(model)):
        # A model built by calling it on data has taken over the batch size of that data.
        changes = {"batch_shape": (None, *model.input_shape[1:])}
    (tensor,) = _new_inputs(view, [changes], rename)
    return keras.Sequential([tensor, *map(copy, model.layers)], name=model.name)


def _clone_at(model, copy, rename, shapes):
    """Return a Functional copy for inputs of other shapes, its layers made by `copy` when called.

    `copy(operation, shapes)` is given the shapes of all tensors in the first call of an operation.
    """

    def call(operation, number, new, args, kwargs):
        tensors = [
            t for t in keras.tree.flatten((args, kwargs)) if isinstance(t, keras.KerasTensor)
        ]
        return copy(operation, [tuple(t.shape) for t in tensors])(*args, **kwargs)

    return _clone_functional(_view(model), lambda operation: operation, shapes, rename, call)


def _clone_functional(view, copy, shapes=None, rename=None, call=None):
    """Return a Functional copy of `view`, whose operations are made by `copy`.

    `call(operation, number, new, args, kwargs)`, where given, calls each copied operation.
    """
    changes = [{}] * len(view.inputs)
    if shapes is not None:
        changes = [{"batch_shape": shape} for shape in shapes]
    tensors = _new_inputs(view, changes, rename)
    copies, numbers = {}, collections.Counter()

    def copy_and_note(operation):
        new = copy(operation)
        copies[id(new)] = operation
        return new

    def call_copy(new, *args, **kwargs):
        operation = copies[id(new)]
        numbers[id(operation)] += 1
        return call(operation, numbers[id(operation)] - 1, new, args, kwargs)

    return keras.models.clone_model(
        view,
        input_tensors=keras.tree.pack_sequence_as(view.input, tensors),
        clone_function=copy_and_note,
        call_function=None if call is None else call_copy,
    )


def _inserting(graph, insert, wrap=lambda layer: layer):
    """Return the `call` of `_clone_functional` that passes inputs through inserted layers."""
    if insert is None:
        return None

    def call(operation, number, new, args, kwargs):
        places = insert(graph, operation, number)
        flat = keras.tree.flatten((args, kwargs))
        flat = [wrap(places[i])(x) if i in places else x for i, x in enumerate(flat)]
        args, kwargs = keras.tree.pack_sequence_as((args, kwargs), flat)
        return new(*args, **kwargs)

    return call


def _new_inputs(view, changes, rename):
    """Return new input tensors for a model, of the same names, types and shapes, but for `changes`.

    Args:
        view: a Functional model.
        changes: changes of the configuration of each input layer.
        rename: function from names to names, or `None`.
    """
    layers = {
        id(layer.output): layer
        for layer in view.layers
        if isinstance(layer, keras.layers.InputLayer)
    }
    layers = [layers[id(tensor)] for tensor in keras.tree.flatten(view.input)]
    names = [layer.name for layer in layers]
    taken = {layer.name for layer in view.layers}
    if rename is not None and not isinstance(view.input, dict):
        names = [
            old if new in taken else new for old, new in zip(names, rename(names), strict=True)
        ]
    return [
        type(layer).from_config({**layer.get_config(), **change, "name": name}).output
        for layer, change, name in zip(layers, changes, names, strict=True)
    ]


def copy_state(old, new):
    """Copy values and trainable flags of all variables of a layer."""
    before, after = old.variables, new.variables
    if len(before) != len(after):  # metrics of a compiled model inside
        before, after = old.weights, new.weights
    if [v.shape for v in before] != [v.shape for v in after]:
        raise ValueError(
            "A layer made again by `from_config(get_config())` must have the same weights. "
            f"Received: layer '{old.name}' with {[v.path for v in before]}, its copy with "
            f"{[v.path for v in after]}"
        )
    pairs = list(zip(flatten_layers(old), flatten_layers(new), strict=False))
    for old_layer, new_layer in pairs:
        new_layer.trainable = old_layer.trainable
    for old_variable, new_variable in zip(before, after, strict=True):
        # Copies, because on JAX training one model deletes the arrays that another shares.
        new_variable.assign(keras.ops.copy(old_variable))
        new_variable.trainable = old_variable.trainable
    for _, new_layer in pairs:
        if isinstance(new_layer, keras.layers.Normalization):
            new_layer.finalize_state()  # takes the values into use
