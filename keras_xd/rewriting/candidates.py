"""Layers of a model that can be rewritten, and reasons why others cannot."""

import collections
import dataclasses

import keras

from keras_xd.core.searchable import SearchableLayer, is_graph, named_layers
from keras_xd.graph import cloning, replacing, skips
from keras_xd.rewriting import causality, twins

SIZE_UNKNOWN = "its spatial size is unknown"
SEES_LATER_STEPS = "its twin would see later steps, which this causal model does not"


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A place of a model where a searchable layer may stand."""

    path: str
    operation: str
    layer: keras.layers.Layer | None
    shape: tuple | None
    reason: str | None
    skip: skips.Skip | None = None
    calls: int = 1
    causal: bool = False

    @property
    def size_unknown(self):
        """Whether it cannot be rewritten because its spatial size is unknown."""
        return self.reason is not None and self.reason.startswith(SIZE_UNKNOWN)


def check_graph(model):
    """Raise `ValueError` unless `model` is a built Sequential or Functional model."""
    if is_graph(model):
        return
    if isinstance(model, keras.Sequential):
        raise ValueError(
            "`model` must be built: give it an Input, or call it on data. "
            f"Received: Sequential model '{model.name}', which is not"
        )
    raise ValueError(
        "`model` must be a Sequential or Functional model, because the calls inside a subclassed "
        "model cannot be seen from outside. Make it Functional (`keras.Model(inputs, outputs)`), "
        "take the Functional model in it, or use the layers of `keras_xd.layers` in its class. "
        f"Received: '{model.name}' of class {type(model).__name__}"
    )


def check_model(model):
    """Raise `ValueError` unless `model` is a built model: Functional, Sequential or subclassed."""
    subclassed = isinstance(model, keras.Model) and not isinstance(model, keras.Sequential)
    if not subclassed or is_graph(model):
        check_graph(model)
        return
    try:
        replacing.symbolic_call(model)
    except ValueError as error:
        inner = getattr(model, "model", None)
        if not model.built or not isinstance(inner, keras.Model):
            raise
        raise ValueError(
            "`model` must be a model itself, not a wrapper of one: take the model in it, `.model`. "
            f"Received: '{model.name}' of class {type(model).__name__} with the model "
            f"'{inner.name}' in it"
        ) from error


def find_candidates(model, space, operations=twins.OPERATIONS, windowed=False):
    """Return the `Candidate` of every layer and skip in `model` that a space is about."""
    shapes, paths = collections.defaultdict(list), named_layers(model)
    for call in replacing.every_call(model, lambda x: space.operation_of(x) is not None):
        if cloning.is_layer(call.operation):
            for shape in cloning.shapes_of(call.argument)[:1]:
                shapes[id(call.operation)].append((None, *shape[1:]))
    places = dict(paths)
    result = []
    for path, layer in paths:
        operation = space.operation_of(layer)
        if operation in (*operations, "layer"):
            holder = places.get(path.rpartition("/")[0])
            called = shapes.get(id(layer), ())
            reason = reason_of_class(layer, called, holder, space) or reason_of_state(layer)
            if reason is None and operation != "layer":  # others may be called at any sizes
                reason = _reason_of_shapes(set(called))
            shape = min(called, key=str, default=None)
            candidate = Candidate(path, operation, layer, shape, reason, calls=len(called))
            result.append(candidate)
    if "skip" in operations:
        for skip in skips.find_skips(model):
            reason, shape = _skip_reason(skip), min(skip.shapes, key=str)
            result.append(Candidate(skip.path, "skip", None, shape, reason, skip, skip.calls))
    if windowed:
        return result
    causal_model = _is_causal(model) or (
        any(map(_might_look_ahead, result))
        and causality.is_causal(model, 2 if twins.data_format_of(model) == "channels_first" else 1)
    )
    return [_kept_causal(candidate, causal_model) for candidate in result]


def _is_causal(model):
    """Return whether a model has outputs of several steps, and convolutions that are all causal."""
    layers = [x for _, x in named_layers(model) if not isinstance(x, SearchableLayer)]
    outputs = getattr(model, "outputs", None)
    shapes = [(None, None, None)] if outputs is None else [output.shape for output in outputs]
    return (
        any(map(_pads_causally, layers))
        and not any(map(_looks_ahead, layers))
        and any(len(shape) == 3 and shape[1] != 1 for shape in shapes)
    )


def _looks_ahead(layer):
    one_axis = isinstance(layer, twins.ANY_CONVOLUTION) and len(layer.kernel_size) == 1
    return one_axis and layer.padding == "same" and max(layer.kernel_size) > 1


def _pads_causally(layer):
    return isinstance(layer, keras.layers.Conv1D) and layer.padding == "causal"


def _might_look_ahead(candidate):
    """Return whether what takes the place of a candidate has steps and is not causal for sure."""
    steps = candidate.shape is not None and len(candidate.shape) == 3
    return candidate.reason is None and steps and not _pads_causally(candidate.layer)


def _kept_causal(candidate, causal_model):
    """Return a candidate that is marked, or left, if what takes its place might see later steps."""
    layer = candidate.layer
    if layer is not None and _pads_causally(layer):
        return dataclasses.replace(candidate, causal=True)
    if not causal_model or candidate.shape is None or len(candidate.shape) != 3:
        return candidate
    pointwise = isinstance(layer, keras.layers.Conv1D) and layer.kernel_size == (1,)
    if pointwise or candidate.operation == "layer":  # which is tried, once it is built
        return dataclasses.replace(candidate, causal=True)
    return dataclasses.replace(candidate, reason=candidate.reason or SEES_LATER_STEPS)


def reason_of_class(layer, shapes, holder, space):
    """Return why a layer of this class, or one in its place, cannot be rewritten, or `None`."""
    kind, classes = type(layer).__name__, space.replaced
    if type(layer) not in classes:
        keras_class = next((c for c in classes if isinstance(layer, c)), None)
        if keras_class is not None:
            return f"{kind} is a subclass of {keras_class.__name__}"
        if isinstance(layer, twins.MAX_POOLING):
            return "no linear operation can start as a maximum"
        return f"to='{space.name}' has no {kind}"
    if not shapes:
        inside = "" if holder is None else f" {type(holder).__name__} '{holder.name}'"
        return f"it is called inside the layer{inside}"
    return None


def reason_of_state(layer):
    """Return why a layer, though of the right class, cannot be made again as another, or `None`."""
    if getattr(layer, "lora_enabled", False):
        return "LoRA is enabled"
    if getattr(layer, "quantization_mode", None) is not None:
        return f"it is quantized ({layer.quantization_mode})"
    activation = getattr(layer, "activation", None)
    if isinstance(activation, keras.layers.Layer):
        if activation.weights or not activation.built:  # a layer without weights is born built
            return "its activation is a layer with weights"
    return None


def _skip_reason(skip):
    """Return why no layer can be put into a skip, or `None`."""
    rank = len(next(iter(skip.shapes))) - 2
    if rank not in (1, 2, 3):
        return f"it has no spatial axes, {min(skip.shapes, key=str)}"
    return _reason_of_shapes(skip.shapes)


def _reason_of_shapes(shapes):
    if len(shapes) > 1:
        return f"it is called at several shapes, {', '.join(map(str, sorted(shapes, key=str)))}"
    (shape,) = shapes
    if None in shape[1:]:
        return f"{SIZE_UNKNOWN}, {shape}"
    return None
