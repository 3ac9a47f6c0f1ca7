"""Copies of graphs and of layers with other layers in some places, and the calls in a graph."""

import collections
import dataclasses
import functools
import inspect
import itertools
import types

import keras
import numpy as np

from keras_xd.core.argument_types import constructor_parameters
from keras_xd.core.configured import config_with_functions
from keras_xd.core.searchable import flatten_layers, is_graph

_SIMPLE = (bool, int, float, complex, str, bytes, type(None))


@dataclasses.dataclass(frozen=True)
class OperationCall:
    """One call of a layer or operation in a graph."""

    graph: keras.Model | None
    operation: keras.Operation
    number: int
    args: tuple
    kwargs: dict
    outputs: list = dataclasses.field(default_factory=list)

    @property
    def key(self):
        """What tells the call from all others."""
        return id(self.graph), id(self.operation), self.number

    @property
    def argument(self):
        """The first argument."""
        return [*self.args, *self.kwargs.values()][0]

    @property
    def flat_arguments(self):
        """All arguments as a flat list."""
        return keras.tree.flatten((self.args, self.kwargs))

    @property
    def tensors(self):
        """The symbolic tensors among the arguments, a flat list."""
        return [value for value in self.flat_arguments if isinstance(value, keras.KerasTensor)]

    def with_arguments(self, flat):
        """Return the call with other arguments, given as a flat list."""
        args, kwargs = keras.tree.pack_sequence_as((self.args, self.kwargs), flat)
        return dataclasses.replace(self, args=args, kwargs=kwargs)


def called(call, copy):
    """Return the outputs of a call in the copy of a graph."""
    return copy(call.operation)(*call.args, **call.kwargs)


def clone(model, replace, call=called, rename_inputs=None, shapes=None, functional=False):
    """Return a copy of a model with other layers in it, and the pairs of old and new ones.

    Args:
        model: a Functional or Sequential model.
        replace: function of a layer that returns the one in its place, `None` for a copy.
        call: function of an `OperationCall` of a Functional model, with the tensors of the copy in
            it, and of `copy`: it returns the outputs in the copy. `copy(operation, *details)` is
            the copy of an operation or what `replace(operation, *details)` has put in its place; of
            a graph, for which `details` are shapes of its inputs, a copy of it.
        rename_inputs: function of the list of the inputs' names that returns others.
        shapes: other shapes of the inputs, a flat list.
        functional: whether Sequential models become Functional ones, as with `shapes`.
    """
    known, parts = {}, {}
    graphs, copies, replaced = [], [], []

    def copy(operation, *details):
        if id(operation) in known:
            return known[id(operation)]
        pairs = graphs if is_graph(operation) else replaced
        if pairs is graphs:
            new = copy_graph(operation, *details)
        else:
            new = replace(operation, *details) if is_layer(operation) else None
            if new is None:
                pairs, new = copies, copy_layer(operation, parts)
        known[id(operation)] = new
        pairs.append((operation, new))
        return new

    def copy_graph(graph, shapes=None):
        rename = rename_inputs if graph is model else None
        if functional or shapes is not None or not isinstance(graph, keras.Sequential):
            return _rebuilt(graph, lambda made: call(made, copy), shapes, rename)
        if not any(getattr(layer, "stateful", False) for layer in flatten_layers(graph)):
            # A model built by calling it on data has taken over the batch size of that data.
            shapes = [(None, *graph.input_shape[1:])]
        inputs = _new_inputs(view(graph), shapes, rename)
        return keras.Sequential([*inputs, *map(copy, graph.layers)], name=graph.name)

    result = copy(model) if shapes is None else copy(model, shapes)
    _set_state(graphs, copies, replaced)
    return result, replaced


def _set_state(graphs, copies, replaced):
    """Give copies the state, and all new layers the flags, of the old ones."""
    # Before layers get their flags, which they pass on to all of their variables. What is shared
    # with a frozen layer is not frozen.
    unfrozen = [new for old, new in replaced if old.trainable]
    trainable = {id(v) for new in unfrozen for v in new.variables if v.trainable}
    for old, new in [*reversed(graphs), *replaced]:  # outer ones first, as each sets those inside
        new.trainable = old.trainable
    for old, new in graphs:
        new.dtype_policy = old.dtype_policy
    for old, new in copies:
        if is_layer(old):
            copy_state(old, new)
    for _, new in replaced:
        for variable in new.variables:
            variable.trainable = id(variable) in trainable


class Trace:
    """The calls in a graph."""

    def __init__(self, graph, shapes=None):
        self.graph, self.calls, self._probes = graph, [], {}
        self.view = _rebuilt(graph, self._probed, shapes)
        self.uses = collections.Counter(id(x) for call in self.calls for x in call.tensors)
        self.uses.update(id(x) for x in self.view.outputs)
        self.makers = {id(x): i for i, call in enumerate(self.calls) for x in call.outputs}

    def maker(self, tensor):
        """Return the call that a tensor comes from, `None` for an input."""
        return self.calls[self.makers[id(tensor)]] if id(tensor) in self.makers else None

    @functools.cached_property
    def _up_to(self):
        """The set of calls that each call depends on, and itself."""
        found = []
        for index, call in enumerate(self.calls):
            before = (found[self.makers[id(x)]] for x in call.tensors if id(x) in self.makers)
            found.append({index}.union(*before))
        return found

    def calls_behind(self, tensor):
        """Return the set of calls that a tensor is computed by."""
        return self._up_to[self.makers[id(tensor)]] if id(tensor) in self.makers else set()

    def tensors_behind(self, tensor):
        """Return the set of the ids of a tensor and of all those that it is computed from."""
        behind = (self.calls[i].tensors for i in self.calls_behind(tensor))
        return {id(tensor)}.union(*(map(id, tensors) for tensors in behind))

    def needed(self, left_out=lambda call, tensor: False):
        """Return the ids of the tensors that the outputs depend on, except for some of calls."""
        needed = {id(x) for x in self.view.outputs}
        for call in reversed(self.calls):
            if any(id(x) in needed for x in call.outputs):
                needed |= {id(x) for x in call.tensors if not left_out(call, x)}
        return needed

    def _probed(self, call):
        key = id(call.operation)
        if key not in self._probes:
            self._probes[key] = _GraphProbe(call.operation)
        outputs = self._probes[key](*call.args, **call.kwargs)
        self.calls.append(dataclasses.replace(call, outputs=keras.tree.flatten(outputs)))
        return outputs

    def calls_on(self, inputs):
        """Return the calls with the arguments that they have for an input batch."""
        tensors = [x for call in self.calls for x in call.tensors]
        if not tensors:
            return self.calls
        values = keras.Model(self.view.input, tensors)(inputs, training=False)
        values = dict(zip(map(id, tensors), keras.tree.flatten(values), strict=True))
        return [
            call.with_arguments([values.get(id(x), x) for x in call.flat_arguments])
            for call in self.calls
        ]


def traces(model):
    """Return the `Trace` of each graph in a model, and how often all call each operation."""
    found = [Trace(graph) for graph in flatten_layers(model) if is_graph(graph)]
    return found, collections.Counter(id(call.operation) for one in found for call in one.calls)


def unused_name(name, taken):
    """Return a name, with a number after it if it is taken, and note it as taken."""
    candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(1)))
    name = next(candidate for candidate in candidates if candidate not in taken)
    taken.add(name)
    return name


def is_layer(operation):
    """Return whether an operation is a layer."""
    return isinstance(operation, keras.layers.Layer)


@functools.cache
def operation_class(function):
    """Return the class of a binary operation, which has no public name."""
    tensors = [keras.Input((1,)), keras.Input((1,))]
    return type(keras.Function(tensors, function(*tensors)).operations[-1])


def shapes_of(argument):
    """Return the shapes of the tensors in an argument of a call, as a flat list."""
    tensors = keras.tree.flatten(argument)
    return [tuple(tensor.shape) for tensor in tensors if tensor is not None]


class _GraphProbe(keras.Operation):
    """Takes the place of an operation in a copy of a graph, which needs none there."""

    def __init__(self, operation):
        super().__init__(name=operation.name)
        self.call, self.compute_output_spec = operation, operation.compute_output_spec


def view(model):
    """Return an uncompiled Functional model of the same layers: `clone_model` would compile."""
    first = isinstance(model, keras.Sequential)  # of which Keras has lists
    inputs = model.inputs[0] if first else model.input
    return keras.Model(inputs, model.outputs[0] if first else model.output, name=model.name)


def _rebuilt(graph, outputs_of, shapes=None, rename=None):
    """Return a Functional copy of a graph, in which a function of each call gives its outputs."""
    base, numbers = view(graph), collections.Counter()

    def call(operation, *args, **kwargs):
        numbers[id(operation)] += 1
        number = numbers[id(operation)] - 1
        return outputs_of(OperationCall(graph, operation, number, args, kwargs))

    inputs = keras.tree.pack_sequence_as(base.input, _new_inputs(base, shapes, rename))
    return keras.models.clone_model(base, inputs, lambda operation: operation, call)


def _new_inputs(model, shapes=None, rename=None):
    """Return new input tensors for a model, of other shapes and names if these are given."""
    layers = {id(x.output): x for x in model.layers if isinstance(x, keras.layers.InputLayer)}
    layers = [layers[id(tensor)] for tensor in keras.tree.flatten(model.input)]
    names = [layer.name for layer in layers]
    if rename is not None and not isinstance(model.input, dict):
        taken = {layer.name for layer in model.layers}
        pairs = zip(names, rename(names), strict=True)
        names = [old if new in taken else new for old, new in pairs]
    shapes = [layer.batch_shape for layer in layers] if shapes is None else shapes
    return [
        type(layer).from_config({**layer.get_config(), "batch_shape": shape, "name": name}).output
        for layer, shape, name in zip(layers, shapes, names, strict=True)
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
    declared = declared_config(operation)
    config = _arguments_in_attributes(operation) if declared is None else declared
    for value in keras.tree.flatten(config):
        if isinstance(value, (keras.layers.Layer, keras.Variable)):
            raise ValueError("its arguments are layers")  # they would be those of two
    new, config = from_config(type(operation), {**config, **(changes or {})})
    if declared is None and not _same_settings(operation, new):
        raise ValueError("its attributes are not the arguments of its constructor")
    return new, config


def declared_config(operation):
    """Return `get_config()`, or `None` where it fails or has only Keras' defaults, as of models."""
    kind = type(operation)
    if isinstance(operation, keras.Model) and kind.get_config is keras.Model.get_config:
        return None
    try:
        return config_with_functions(operation)
    except (RuntimeError, AttributeError, KeyError):  # what Keras and wrong methods raise
        return None


def from_config(kind, config):
    """Return an operation and its configuration, which may say more than its class takes."""
    try:
        return kind.from_config(dict(config)), config
    except TypeError:  # what Keras raises for an argument that is none
        taken = {name: value for name, value in config.items() if name in argument_names(kind)}
        if len(taken) == len(config):
            raise
        return kind.from_config(dict(taken)), taken


def argument_names(kind):
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
    if declared_config(old) is None:
        for place, inner in walk(new, lambda layer: True):
            pairs.append((layer_at(old, place), inner))
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
    declared = declared_config(layer)
    settings = attributes(layer) if declared is None else declared
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
    values = attributes(layer)
    for _, inner in layers_inside(layer):  # in their order
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


def layers_inside(layer):
    """Return `(steps, layer)` for each layer that `layer` keeps itself, each once."""
    if is_graph(layer):
        return []
    found = {}

    def visit(value, steps, containers):
        if isinstance(value, keras.layers.Layer):
            found.setdefault(id(value), (steps, value))
        elif isinstance(value, (dict, list, tuple)) and id(value) not in containers:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                visit(item, (*steps, key), containers | {id(value)})

    for name, value in attributes(layer).items():
        visit(value, (name,), frozenset())
    found.pop(id(layer), None)
    # Torch keeps layers apart from lists, so attributes alone do not have the order of a model.
    order = [id(inner) for inner in layer.layers] if isinstance(layer, keras.Model) else []
    places = {inner: place for place, inner in enumerate(order)}
    return sorted(found.values(), key=lambda entry: places.get(id(entry[1]), len(order)))


def attributes(layer):
    """Return the attributes of a layer that are not Keras' own, by name."""
    own = _names_of_keras()
    return {name: value for name, value in _kept(layer).items() if name not in own}


def _kept(layer):
    """All attributes; layers of torch keep those that are layers apart."""
    return {**vars(layer).get("_modules", {}), **vars(layer)}


def layer_at(root, place):
    """Return the layer at a place of `root`, or `None`."""
    value = root
    try:
        for name, *keys in place:
            value = getattr(value, name)
            for key in keys:
                value = value[key]
    except (AttributeError, LookupError, TypeError):
        return None
    return value if isinstance(value, keras.layers.Layer) else None


def walk(root, descend):
    """Return `(place, layer)` of the layers in `root`, each once, containers before their
    content.
    """
    found, result = {id(root)}, []

    def visit(layer, place):
        for steps, inner in layers_inside(layer):
            if id(inner) not in found:
                found.add(id(inner))
                result.append(((*place, steps), inner))
                if descend(inner):
                    visit(inner, (*place, steps))

    visit(root, ())
    return result


def require(root, places):
    """Raise `ValueError` for a place without a layer."""
    for place in places:
        if layer_at(root, place) is None:
            raise ValueError(
                "A model made again from its configuration must have its layers in the same "
                f"attributes. Received: {type(root).__name__} '{root.name}' without a layer at "
                f"{place}"
            )


def put(root, new_layers):
    """Put layers in the places of others, wherever `root` keeps these, as the same object too."""
    require(root, [place for place, _ in new_layers])
    exchange = {id(layer_at(root, place)): new for place, new in new_layers}
    holders = [root, *(layer for _, layer in walk(root, lambda layer: id(layer) not in exchange))]
    for holder in holders:
        if id(holder) not in exchange:
            _put_into(holder, exchange)


def _put_into(holder, exchange):
    order = [layer for _, layer in layers_inside(holder)]
    if not any(id(layer) in exchange for layer in order):
        return
    for name, value in attributes(holder).items():
        new = _exchanged(value, exchange)
        if new is not value:
            setattr(holder, name, new)
    # Keras tracks what an attribute held until it is taken out of a list of the layer. All are
    # taken out and put in again, so that their order stays.
    new_order = [exchange.get(id(layer), layer) for layer in order]
    holder.exchanged_layers = [*order, *new_order]
    while holder.exchanged_layers:
        holder.exchanged_layers.pop()
    holder.exchanged_layers = new_order
    holder.exchanged_layers = None


def _exchanged(value, exchange):
    """Return `value` with layers exchanged; the same object where there is nothing to exchange."""
    if isinstance(value, keras.layers.Layer):
        return exchange.get(id(value), value)
    if isinstance(value, dict):
        new = {key: _exchanged(item, exchange) for key, item in value.items()}
        return new if any(new[key] is not item for key, item in value.items()) else value
    if isinstance(value, (list, tuple)):
        new = [_exchanged(item, exchange) for item in value]
        if all(a is b for a, b in zip(new, value, strict=True)):
            return value
        if isinstance(value, list):
            return new
        # The class, because TensorFlow wraps tuples.
        return value.__class__(*new) if hasattr(value, "_fields") else tuple(new)
    return value


@functools.cache
def _names_of_keras():
    """Return the names of the attributes that Keras itself gives layers and models."""
    names = set()
    for sample in (keras.Model(), keras.layers.Layer(), keras.Sequential()):
        sample.list, sample.layer = [keras.layers.Identity()], keras.layers.Identity()
        names |= set(_kept(sample)) - {"list", "layer"}
    return names
