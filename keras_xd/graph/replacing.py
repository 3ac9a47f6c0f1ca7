"""Models of every form, and layers of several layers, in which some layers are replaced."""

import json

import keras

from keras_xd.core import tracing
from keras_xd.core.saving import AtomicSaving
from keras_xd.core.searchable import SearchableLayer, flatten_layers, is_graph
from keras_xd.graph import cloning
from keras_xd.graph.exporting import export


# Under the name that it had in the versions of which there are files.
@keras.saving.register_keras_serializable(package="keras_xd", name="Rewritten")
class SubclassedModelWrapper(AtomicSaving, keras.Model):
    """A subclassed model, or a layer of several layers, with other layers in some of its places."""

    def __init__(self, model, new_layers, names=(), call=None, reference=None, **kwargs):
        kwargs.setdefault("name", model.name)
        kwargs.setdefault("dtype", model.dtype_policy)
        super().__init__(autocast=False, **kwargs)
        model_class, config, self.original, self.saving_error = type(model), None, None, None
        try:
            config = cloning.made_again(model)[1]
        except Exception:  # of a class that anybody may have written
            pass
        try:
            # As text, because Keras would look for layers in it.
            self.original = json.dumps(cloning.serialized(model, config))
        except ValueError as error:
            self.saving_error = str(error)
        # A function for the same reason.
        self.maker = lambda: None if config is None else (model_class, config)
        self.places = json.dumps([place for place, _ in new_layers])
        self.names = json.dumps(list(names))
        self.building_call = None
        if call is not None:
            self.building_call = json.dumps(keras.saving.serialize_keras_object(call))
        self.supports_masking = model.supports_masking
        self.pending = None
        holders = [_holder_to_copy(model, place) for place, _ in new_layers]
        if reference is None and any(holder is not None for holder in holders):
            self.pending = lambda: (model, new_layers)
        else:
            self._take(model, new_layers, reference)
        self.built = True  # the model in it builds itself
        if call is not None:
            args, kwargs = call
            self.compute_output_spec(*args, **kwargs)

    def _take(self, model, new_layers, reference):
        model = with_layers(model, new_layers, reference)
        for place, name in json.loads(self.names):
            inner = cloning.layer_at(model, _as_place(place))
            if inner is not None:
                inner.name = name
        model.name = self.name
        self.model, self.pending = model, None

    def call(self, *args, **kwargs):
        if self.pending is not None:
            reference = self.original_copy()
            reference(*args, **kwargs)
            self._take(*self.pending(), reference)
        return self.model(*args, **kwargs)

    def compute_output_spec(self, *args, **kwargs):
        with tracing.shapes_alone():
            return super().compute_output_spec(*args, **kwargs)

    def compute_mask(self, *args, **kwargs):
        return self.model.compute_mask(*args, **kwargs)

    @property
    def new_places(self):
        """The places of the layers that have been replaced."""
        return [_as_place(place) for place in json.loads(self.places)]

    def original_copy(self):
        """Return a new copy, not built, of the model as it was before layers were replaced."""
        maker = self.maker()
        return cloning.copy_layer(self.model) if maker is None else cloning.from_config(*maker)[0]

    def recorded_call(self):
        """Return the `call` it was built by, or `None`."""
        if self.building_call is None:
            return None
        args, kwargs = keras.saving.deserialize_keras_object(json.loads(self.building_call))
        return tuple(args), kwargs

    def export(self, *args, **kwargs):
        """Export the model in it, as `FinalizedModel.export`."""
        export_model(self, *args, **kwargs)

    def get_config(self):
        if self.saving_error is not None:
            raise ValueError(self.saving_error)
        serialize = keras.saving.serialize_keras_object
        new_layers = [
            {
                "place": place,
                "layer": serialize(cloning.layer_at(self.model, _as_place(place))),
            }
            for place in json.loads(self.places)
        ]
        return {
            **super().get_config(),
            "model": json.loads(self.original),
            "new_layers": new_layers,
            "names": json.loads(self.names),
            "call": None if self.building_call is None else json.loads(self.building_call),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config, restored = dict(config), {}
        for name in ("model", "call"):
            restored[name] = keras.saving.deserialize_keras_object(
                config.pop(name), custom_objects=custom_objects
            )
        new_layers = [
            (
                _as_place(item["place"]),
                keras.saving.deserialize_keras_object(item["layer"], custom_objects=custom_objects),
            )
            for item in config.pop("new_layers")
        ]
        names = [(_as_place(place), name) for place, name in config.pop("names")]
        return cls(**restored, new_layers=new_layers, names=names, **config)


class LayerReplacer:
    """Makes copies of models of every form in which some layers are replaced by others."""

    def __init__(self, wanted, replace, call=cloning.called, build_time=False):
        self.wanted, self.replace = wanted, replace
        self.call, self.build_time = call, build_time
        self.wrapped = []

    def __call__(self, model, rename_inputs=None):
        """Return a copy of a built model: Functional, Sequential or subclassed."""
        if is_graph(model):
            copy, _ = cloning.clone(model, self._of_layer, self.call, rename_inputs)
        else:
            copy = self._wrapped(model, symbolic_call(model))
        for old, new in self.wrapped:
            _copy_state(old, new)
        return copy

    def _of_layer(self, layer):
        """Return what takes the place of a layer, or `None`."""
        if not is_graph(layer) and self.wanted(layer):
            return self.replace(layer)
        if not concerns(layer, self.wanted):
            return None
        if is_graph(layer):
            return cloning.clone(layer, self._of_layer, self.call)[0]
        if type(layer) is keras.layers.TimeDistributed:
            inner = self._of_layer(layer.layer)
            if inner is None:
                return None
            return keras.layers.TimeDistributed(inner, name=layer.name, dtype=layer.dtype_policy)
        return self._wrapped(layer) if is_composite(layer, self.wanted) else None

    def _wrapped(self, layer, call=None):
        base, copy = _with_new_copy(layer)
        before = set(layer.new_places) if base is not layer else set()
        new_layers, names = [], []
        for place, inner in _walk(base, self.wanted):
            there = cloning.layer_at(copy, place) is not None
            if not (there or self.build_time or place in before):
                continue
            new = None if is_composite(inner, self.wanted) else self._of_layer(inner)
            if new is None and place in before:
                new = cloning.copy_layer(inner)
            if new is not None:
                new_layers.append((place, new))
            elif there:
                names.append((place, inner.name))
        new = SubclassedModelWrapper(copy, new_layers, names, call, base)
        self.wrapped.append((layer, new))
        return new


def export_model(model, *args, **kwargs):
    """Export a model of any form; the arguments are those of `keras_xd.graph.exporting.export`."""
    export(model, *args, call=None if is_graph(model) else symbolic_call(model), **kwargs)


def concerns(layer, wanted):
    """Return whether something is `wanted` of a layer or of a layer in it."""
    return any(wanted(inner) for inner in (layer, *flatten_layers(layer)))


def is_composite(layer, wanted):
    """Return whether a layer can be taken apart and has something `wanted` in it."""
    whole = (SearchableLayer, keras.layers.Wrapper)
    return (
        cloning.is_layer(layer)
        and not is_graph(layer)
        and not isinstance(layer, whole)
        and not wanted(layer)
        and concerns(layer, wanted)
    )


def every_call(model, wanted, inputs=None, build_time=False):
    """Yield every `OperationCall` in a model of any form, those of what is not taken apart."""

    def calls_of(call):
        layer, first = call.operation, call.argument
        if is_graph(layer):
            shapes = cloning.shapes_of(first) if inputs is None and layer is not model else None
            trace = cloning.Trace(layer, shapes)
            for inner in trace.calls if inputs is None else trace.calls_on(first):
                yield from calls_of(inner)
        elif type(layer) is keras.layers.TimeDistributed and concerns(layer.layer, wanted):
            for step in range(first.shape[1] or 0):
                inner = cloning.OperationCall(None, layer.layer, step, (_step(first, step),), {})
                yield from calls_of(inner)
        elif is_composite(layer, wanted):
            for inner in inner_calls(layer, call.args, call.kwargs, wanted, build_time):
                yield from calls_of(inner)
        else:
            yield call

    args, kwargs = symbolic_call(model) if inputs is None else ((inputs,), {})
    yield from calls_of(cloning.OperationCall(None, model, 0, args, kwargs))


def inner_calls(layer, args, kwargs, wanted, build_time=False):
    """Return the calls of layers by a call of a composite layer, each an `OperationCall`."""
    base, copy = _with_new_copy(layer)
    calls, probes = [], []
    for place, inner in _walk(base, wanted):
        there = build_time or cloning.layer_at(copy, place) is not None
        if there and not is_composite(inner, wanted):
            probes.append((place, _Probe(inner, calls)))
    copy = with_layers(copy, probes, base)
    copy(*args, **kwargs)
    copy_state_except([place for place, _ in probes], base, copy)
    _Run(copy, calls)(*args, **kwargs)
    tensors = keras.tree.flatten((args, kwargs))
    if any(isinstance(tensor, keras.KerasTensor) for tensor in tensors):
        return [call.with_arguments(map(_symbolic, call.flat_arguments)) for call in calls]
    return calls


class _Probe(keras.layers.Layer):
    """Takes the place of a layer in another and notes its calls."""

    def __init__(self, layer, calls):
        super().__init__(name=layer.name, dtype=layer.dtype_policy, autocast=False)
        self.supports_masking = True
        # Functions, because Keras would count the layer and the list as parts of this one.
        self.target = lambda: layer
        self.note = lambda *call: calls.append(cloning.OperationCall(None, layer, 0, *call))
        self.built = True

    def call(self, *args, **kwargs):
        self.note(args, kwargs)
        return self.target()(*args, **kwargs)

    def compute_output_spec(self, *args, **kwargs):
        self.note(args, kwargs)
        return self.target().compute_output_spec(*args, **kwargs)

    def __getattr__(self, name):
        """Return what only the layer has, for models that look at their layers."""
        if name.startswith("_") or "target" not in vars(self):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.target(), name)


class _Run(keras.layers.Layer):
    """Calls a model after it has forgotten the calls that earlier runs have noted."""

    def __init__(self, model, calls):
        super().__init__(autocast=False)

        # A function, because Keras would count the model and the list as parts of this layer.
        def run(*args, **kwargs):
            calls.clear()
            return model(*args, **kwargs)

        self.run = run
        self.built = True

    def call(self, *args, **kwargs):
        return self.run(*args, **kwargs)


def symbolic_call(model):
    """Return the arguments, `keras.KerasTensor` in them, of a call like that which built a
    model.
    """
    if isinstance(model, SubclassedModelWrapper):
        return model.recorded_call() or symbolic_call(model.model)
    if is_graph(model):
        return (cloning.view(model).input,), {}
    config = cloning.build_config(model) if model.built else None
    if not config:
        raise ValueError(
            "`model` must be built: call it on data. "
            f"Received: '{model.name}' of class {type(model).__name__}, which is not"
        )

    def tensors(shapes):
        return keras.tree.map_shape_structure(
            lambda shape: keras.Input(batch_shape=(None, *shape[1:]), dtype=model.compute_dtype),
            _untracked(shapes),
        )

    if "input_shape" in config:
        return (tensors(config["input_shape"]),), {}
    shapes = config["shapes_dict"].items()
    return (), {name.rpartition("_")[0]: tensors(shape) for name, shape in shapes}


def _untracked(structure):
    """Return a structure of plain dictionaries, lists and tuples, for which JAX takes no others."""
    if isinstance(structure, dict):
        return {key: _untracked(value) for key, value in structure.items()}
    if isinstance(structure, (list, tuple)):
        plain = list if isinstance(structure, list) else tuple
        return plain(map(_untracked, structure))
    return structure


def reachable_layers(model, wanted):
    """Return the wanted layers that `LayerReplacer` reaches, build-time sublayers too."""
    found = {}

    def visit(layer):
        if id(layer) in found:
            return
        found[id(layer)], inside = layer, []
        if is_graph(layer):
            inside = layer.layers
        elif type(layer) is keras.layers.TimeDistributed:
            inside = [layer.layer]
        elif is_composite(layer, wanted):
            inside = [inner for _, inner in _walk(_base(layer), wanted)]
        for inner in inside:
            visit(inner)

    visit(model)
    return [layer for layer in found.values() if wanted(layer)]


def _base(layer):
    """Return a layer, or the model in a `SubclassedModelWrapper`."""
    return layer.model if isinstance(layer, SubclassedModelWrapper) else layer


def _with_new_copy(layer):
    """Return the `_base` of a layer, and a copy as it was before layers in it were replaced."""
    base = _base(layer)
    return base, cloning.copy_layer(layer) if base is layer else layer.original_copy()


def _walk(base, wanted):
    return cloning.walk(base, lambda layer: is_composite(layer, wanted))


def _step(tensor, step):
    """Return one step of the input of a `TimeDistributed`."""
    if isinstance(tensor, keras.KerasTensor):
        return keras.Input(batch_shape=(None, *tensor.shape[2:]), dtype=tensor.dtype)
    return tensor[:, step]


def _symbolic(value):
    """Return a new `keras.KerasTensor` in place of a tensor."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return value
    dtype = keras.backend.standardize_dtype(value.dtype)
    return keras.Input(batch_shape=(None, *tuple(value.shape)[1:]), dtype=dtype)


def _copy_state(old, new):
    """Copy the state of all that is the same in a layer and in the wrapped one."""
    base = _base(old)
    new.trainable = old.trainable
    copy_state_except(new.new_places, base, new.model)
    for place in new.new_places:
        before, after = (cloning.layer_at(root, place) for root in (base, new.model))
        shapes = [[v.shape for v in layer.variables] for layer in (before, after)]
        if is_graph(before):
            continue
        if type(before) is type(after) and shapes[0] == shapes[1]:
            cloning.copy_state(before, after)
        else:
            flags = {id(v): v.trainable for v in after.variables}
            after.trainable = before.trainable
            for variable in after.variables:
                variable.trainable = before.trainable and flags[id(variable)]


def _as_place(place):
    return tuple(tuple(steps) for steps in place)


def with_layers(root, new_layers, reference=None):
    """Return `root`, or a copy of it, with other layers in some of its places."""
    inside, direct = {}, []
    for place, new in new_layers:
        holder = _holder_to_copy(root, place) if reference is not None else None
        if holder is None:
            direct.append((place, new))
        else:
            inside.setdefault(holder, []).append((place[len(holder) :], new))
    if () in inside:
        cloning.require(reference, [place[:1] for place, _ in inside[()]])
        return with_layers(cloning.copy_attributes(reference), new_layers, reference)
    for place, group in inside.items():
        built = cloning.layer_at(reference, place)
        cloning.require(built, [inner[:1] for inner, _ in group])
        direct.append((place, with_layers(cloning.copy_attributes(built), group, built)))
    cloning.put(root, direct)
    return root


def _holder_to_copy(root, place):
    """Return the place of the outermost layer on the way that takes no new layer, or `None`."""
    for depth in range(len(place)):
        holder = cloning.layer_at(root, place[:depth]) if depth else root
        closed = holder.built and holder.get_build_config() is not None
        if closed or cloning.layer_at(root, place[: depth + 1]) is None:
            return place[:depth]
    return None


def copy_state_except(places, base, copy):
    """Copy the state of `base` to a built copy, except for the layers at some places."""
    roots = base, copy
    excluded = {id(cloning.layer_at(root, place)) for place in places for root in roots}
    pairs = [roots]
    for place, inner in cloning.walk(base, lambda layer: id(layer) not in excluded):
        other = cloning.layer_at(copy, place)
        if id(inner) not in excluded and other is not None:
            other.trainable = inner.trainable  # from the outermost, as each sets those inside
            pairs.append((inner, other))
    known = excluded.union(id(layer) for pair in pairs for layer in pair)
    for pair in pairs:
        inside = [x for layer in pair for _, x in cloning.layers_inside(layer)]
        inside = [layer for layer in inside if id(layer) in known]
        cloning.copy_state(*pair, {id(v) for x in inside for v in x.variables} if inside else None)
