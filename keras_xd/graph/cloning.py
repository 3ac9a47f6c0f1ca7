"""Copies of layers and of graphs, with other layers in some places, and the calls in a graph."""

import collections
import dataclasses
import inspect
import types

import keras
import numpy as np

from keras_xd.core.argument_types import constructor_parameters
from keras_xd.core.searchable import flatten_layers, is_graph
from keras_xd.graph import sublayer_paths

_SIMPLE = (bool, int, float, complex, str, bytes, type(None))


def clone(model, replace, rename_inputs=None, insert=None, shapes=None, call=None):
    """Return a copy of a model in which some layers are replaced by others, or new ones
    inserted.
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


def graph_calls(model, shapes=None, inputs=None, insert=None):
    """Return `(layer, positional arguments, keyword arguments)` of every call of a layer,
    in order.
    """
    calls = []

    def probe(operation):
        return _probe(operation, lambda *call: calls.append(call))

    graph = _clone_functional(_view(model), probe, shapes, call=_inserting(model, insert, probe))
    if inputs is not None:
        calls.clear()
        graph(inputs, training=False)
    return calls


def traced_graph(model, shapes=None):
    """Return a copy of a model of the same tensors, and every `OperationCall` in it, in order."""
    calls = []

    def call(operation, number, new, args, kwargs):
        outputs = new(*args, **kwargs)
        calls.append(OperationCall(operation, number, args, kwargs, keras.tree.flatten(outputs)))
        return outputs

    return _clone_functional(_view(model), _probe, shapes, call=call), calls


def _probe(operation, note=lambda *call: None):
    """Return what stands for an operation in a graph that is only looked at."""
    is_layer = isinstance(operation, keras.layers.Layer)
    return GraphProbe(operation, note) if is_layer else copy_layer(operation)


def traced_graphs(graphs):
    """Return what `traced_graph` does of each graph, and how often each operation is called."""
    traced = [traced_graph(graph) for graph in graphs]
    return traced, collections.Counter(id(call.operation) for _, calls in traced for call in calls)


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
    """Return the shapes of the tensors in an argument of a call, as a flat list."""
    tensors = keras.tree.flatten(argument)
    return [tuple(tensor.shape) for tensor in tensors if tensor is not None]


class _Noting:
    """Computes what its `target()` does and notes each call."""

    def call(self, *args, **kwargs):
        self.note(self.target(), args, kwargs)
        return self.target()(*args, **kwargs)

    def compute_output_spec(self, *args, **kwargs):
        self.note(self.target(), args, kwargs)
        return self.target().compute_output_spec(*args, **kwargs)


class GraphProbe(_Noting, keras.Operation):
    """Takes the place of a layer in a copy of a graph, which needs no layer there."""

    def __init__(self, layer, note):
        super().__init__(name=layer.name)
        self.target, self.note = lambda: layer, note


class Probe(_Noting, keras.layers.Layer):
    """A `GraphProbe` for other models; those take Keras much longer to make."""

    def __init__(self, layer, note):
        super().__init__(name=layer.name, dtype=layer.dtype_policy, autocast=False)
        self.supports_masking = True
        # A function, because Keras would count the layer as a part of this one.
        self.target, self.note = lambda: layer, note
        self.built = True

    def __getattr__(self, name):
        """Return what only the layer has, for models that look at their layers."""
        if name.startswith("_") or "target" not in vars(self):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.target(), name)


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
    """Return a Functional copy for inputs of other shapes, its layers made by `copy` when
    called.
    """

    def call(operation, number, new, args, kwargs):
        tensors = [
            t for t in keras.tree.flatten((args, kwargs)) if isinstance(t, keras.KerasTensor)
        ]
        return copy(operation, [tuple(t.shape) for t in tensors])(*args, **kwargs)

    return _clone_functional(_view(model), lambda operation: operation, shapes, rename, call)


def _clone_functional(view, copy, shapes=None, rename=None, call=None):
    """Return a Functional copy of `view`, whose operations are made by `copy`."""
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
    """Return new input tensors for a model, of the same names, types and shapes, but for
    `changes`.
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


def copy_state(old, new, inside=None):
    """Copy values and trainable flags of all variables of a layer."""
    before, after = _own(old.variables, inside), _own(new.variables, inside)
    if len(before) != len(after):  # metrics of a compiled model inside
        before, after = _own(old.weights, inside), _own(new.weights, inside)
    if [v.shape for v in before] != [v.shape for v in after]:
        raise ValueError(
            "A layer made again by `from_config(get_config())` must have the same weights, in the "
            f"same attributes. Received: {type(old).__name__} '{old.name}' with "
            f"{[v.path for v in before]}, its copy with {[v.path for v in after]}"
        )
    layers = zip(flatten_layers(old), flatten_layers(new), strict=False)
    pairs = list(layers) if inside is None else []
    for old_layer, new_layer in pairs:
        new_layer.trainable = old_layer.trainable
    for old_variable, new_variable in zip(before, after, strict=True):
        # Copies, because on JAX training one model deletes the arrays that another shares.
        new_variable.assign(keras.ops.copy(old_variable))
        new_variable.trainable = old_variable.trainable
    for _, new_layer in pairs:
        if isinstance(new_layer, keras.layers.Normalization):
            new_layer.finalize_state()  # takes the values into use


def _own(variables, inside):
    return [v for v in variables if inside is None or id(v) not in inside]


def copy_layer(operation, parts=None):
    """Return a new layer or operation like `operation`, with new weights, or a copy of a graph."""
    parts = {} if parts is None else parts
    if is_graph(operation):
        return clone(operation, lambda inner: None)[0]
    try:
        if type(operation) is keras.layers.Lambda:
            return _copy_lambda(operation)
        changes = {}
        for name, part in getattr(operation, "shared_parts", {}).items():
            if id(part) not in parts:
                parts[id(part)] = type(part).from_config(part.get_config())
            changes[name] = parts[id(part)]
        return made_again(operation, changes)[0]
    except Exception as error:  # of a class that anybody may have written
        try:
            return copy_attributes(operation)
        except TypeError as reason:
            raise ValueError(_cannot_be_made(operation, f"{error}; {reason}")) from error


def made_again(operation, changes=None):
    """Return `(new, config)`: a new operation of the same class, and the configuration it
    is from.
    """
    declared = _declared_config(operation)
    config = _arguments_in_attributes(operation) if declared is None else declared
    for value in keras.tree.flatten(config):
        if isinstance(value, (keras.layers.Layer, keras.Variable)):
            raise ValueError("its arguments are layers")  # they would be those of two
    new, config = from_config(type(operation), {**config, **(changes or {})})
    if declared is None and not _same_settings(operation, new):
        raise ValueError("its attributes are not the arguments of its constructor")
    return new, config


def _declared_config(operation):
    """Return `get_config()`, or `None` where it fails or has only Keras' defaults, as of models."""
    kind = type(operation)
    if isinstance(operation, keras.Model) and kind.get_config is keras.Model.get_config:
        return None
    try:
        return operation.get_config()
    except (RuntimeError, AttributeError, KeyError):  # what Keras and wrong methods raise
        return None


def from_config(kind, config):
    """Return an operation and its configuration, which may say more than its class takes."""
    try:
        return kind.from_config(dict(config)), config
    except TypeError:  # what Keras raises for an argument that is none
        taken = {name: value for name, value in config.items() if name in _argument_names(kind)}
        if len(taken) == len(config):
            raise
        return kind.from_config(dict(taken)), taken


def _argument_names(kind):
    """Return the names of arguments of a class, and of the classes that it passes others on to."""
    names = set()
    for base in kind.__mro__:
        if "__init__" in vars(base):
            parameters = constructor_parameters(base)
            names |= set(parameters)
            if all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
                break
    return names


def _own_parameters(layer):
    """Return the parameters of a layer's constructor that Keras does not know, by name."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        name: parameter
        for name, parameter in constructor_parameters(type(layer)).items()
        if parameter.kind not in variadic and name not in ("name", "dtype", "trainable")
    }


def _arguments_in_attributes(layer):
    """Return a configuration of the attributes that have the names of arguments."""
    config = {"name": layer.name, "dtype": layer.dtype_policy}
    for name, parameter in _own_parameters(layer).items():
        if hasattr(layer, name):
            config[name] = getattr(layer, name)
        elif parameter.default is inspect.Parameter.empty:
            raise ValueError(f"it has no attribute `{name}`")
    return config


def _same_settings(old, new):
    """Return whether two layers have the same simple settings, and those in them if none says."""
    pairs = [(old, new)]
    if _declared_config(old) is None:
        for place, inner in sublayer_paths.walk(new, lambda layer: True):
            pairs.append((sublayer_paths.layer_at(old, place), inner))
    return all(
        type(a) is type(b) and _settings(b).items() <= _settings(a).items() for a, b in pairs
    )


def _settings(layer):
    """Return what is simple among the configuration and the attributes of a layer, as text."""
    if is_graph(layer):
        return {
            f"{number}/{name}": value
            for number, inner in enumerate(layer.layers)
            for name, value in {"class": type(inner).__name__, **_settings(inner)}.items()
        }
    declared = _declared_config(layer)
    settings = sublayer_paths.attributes(layer) if declared is None else declared
    return {
        name: repr([getattr(leaf, "__name__", leaf) for leaf in leaves])
        for name, leaves in ((n, keras.tree.flatten(_without_ids(v))) for n, v in settings.items())
        if name != "name" and all(isinstance(x, (*_SIMPLE, types.FunctionType)) for x in leaves)
    }


def _without_ids(value):
    """Return a configuration without the numbers that Keras gives objects while it loads them."""
    if isinstance(value, dict):
        return {k: _without_ids(v) for k, v in value.items() if k != "shared_object_id"}
    return [_without_ids(v) for v in value] if isinstance(value, (list, tuple)) else value


def copy_attributes(layer):
    """Return a layer whose attributes are those of `layer`, with copies of its layers and
    weights.
    """
    if not isinstance(layer, keras.layers.Layer):
        raise TypeError("it is no layer")
    kind, memo = type(layer), {}
    base = keras.Model if isinstance(layer, keras.Model) else keras.layers.Layer
    new = kind.__new__(kind)
    base.__init__(new, name=layer.name, dtype=layer.dtype_policy)
    inside = {id(v) for inner in flatten_layers(layer)[1:] for v in inner.variables}
    for old in layer.weights:
        if id(old) not in inside:
            memo[id(old)] = new.add_weight(
                shape=old.shape,
                initializer="zeros",
                dtype=old.dtype,
                trainable=old.trainable,
                regularizer=old.regularizer,
                constraint=old.constraint,
                name=old.name,
            )
    values = sublayer_paths.attributes(layer)
    for _, inner in sublayer_paths.layers_inside(layer):  # in their order
        memo[id(inner)] = copy_layer(inner)
    for name, value in values.items():
        setattr(new, name, _copied(value, memo, name))
    new.supports_masking = layer.supports_masking
    new.built = layer.built and kind.build is not keras.Model.build
    if new.built:
        new.build_config_of_original = build_config(layer)
    return new


def build_config(layer):
    """Return the build configuration of a layer, or that of the one whose attributes it has."""
    return layer.get_build_config() or getattr(layer, "build_config_of_original", None)


def _copied(value, memo, name):
    """Return a value of an attribute for a copy of its layer."""
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, dict):
        return {key: _copied(item, memo, name) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        items = [_copied(item, memo, name) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else _plain(value)(items)
    if isinstance(value, (keras.random.SeedGenerator, keras.metrics.Metric)):
        return type(value).from_config(value.get_config())
    if isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            _copied(cell.cell_contents, {}, name)
        return value
    shared = (*_SIMPLE, np.ndarray, np.generic, types.BuiltinFunctionType, type, types.ModuleType)
    if isinstance(value, shared) or type(value).__module__.startswith("keras."):
        if not isinstance(value, (keras.Operation, keras.Variable)):
            return value
    raise TypeError(f"its attribute `{name}` is a {type(value).__name__}, which is not copied")


def _plain(value):
    """Return the class of a list, tuple or set, which Keras and TensorFlow wrap."""
    return next(kind for kind in (list, tuple, set) if isinstance(value, kind))


def _cannot_be_made(layer, reason):
    """Return a message that shows what to add to a class."""
    arguments = ", ".join(f'"{name}": self.{name}' for name in _own_parameters(layer))
    return (
        "Every layer of the model must be able to be made again by `from_config(get_config())`. "
        f"Received: {type(layer).__name__} '{layer.name}', which fails with: {reason}. Keep each "
        "argument of the constructor in an attribute of its name, and add to the class\n"
        "    def get_config(self):\n"
        f"        return {{**super().get_config(), {arguments}}}"
    )


def serialized(layer, config=None):
    """Return what `keras.saving.serialize_keras_object` does, of the arguments that a
    class takes.
    """
    try:
        config = made_again(layer)[1] if config is None else config
        leaves = keras.tree.flatten(config)
        if "<lambda>" in (getattr(leaf, "__name__", None) for leaf in leaves):
            raise ValueError("a lambda function cannot be saved")
        config = {name: keras.saving.serialize_keras_object(v) for name, v in config.items()}
        if not all(isinstance(leaf, _SIMPLE) for leaf in leaves) and not _same_settings(
            layer, from_config(type(layer), config)[0]
        ):
            raise ValueError("its constructor does not take what its arguments are saved as")
    except Exception as error:  # of a class that anybody may have written
        raise ValueError(_cannot_be_made(layer, error)) from error
    return {
        "module": type(layer).__module__,
        "class_name": type(layer).__name__,
        "config": config,
        "registered_name": keras.saving.get_registered_name(type(layer)),
    }


def _copy_lambda(layer):
    """Return a copy that calls the same function; made from its code it would lose its globals."""
    config = layer.get_config()
    if isinstance(config.get("output_shape"), dict):  # a function too, which only the config has
        return type(layer).from_config(config, safe_mode=False)
    return type(layer)(
        layer.function,
        output_shape=config.get("output_shape"),
        mask=layer.mask,
        arguments=layer.arguments,
        name=layer.name,
        dtype=layer.dtype_policy,
    )
