"""What of a model can be rewritten, and why the rest cannot."""

import collections
import dataclasses

import keras

from keras_xd.core.searchable import is_graph, named_layers
from keras_xd.graph import cloning, replacing, skips
from keras_xd.rewriting import causality, kinds

SIZE_UNKNOWN = "its spatial size is unknown"
SEES_LATER_STEPS = "its twin would see later steps, which this causal model does not"


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A place of a model where a searchable layer may stand.

    Attributes:
        path: names of the layers around the layer, and its own.
        operation: `"convolution"`, `"pooling"` or `"skip"`; `"matrix"` of structured layers.
        layer: the layer there, `None` for a skip.
        shape: the shape of its input, `None` if unknown.
        reason: why it cannot be rewritten; `None` if it can, and then all sizes are known.
        skip: the `Skip`, `None` for a layer.
        calls: how often it is called.
        causal: whether what takes its place must not see later steps.
    """

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


def find_candidates(model, to="xd", operations=kinds.OPERATIONS, windowed=False):
    """Return the `Candidate` of every convolution, pooling and skip in `model`.

    Layers come first, in the order of `named_layers`, then skips in the order of the graph.

    Args:
        model: a built model.
        to: the search space.
        operations: the kinds to look for.
        windowed: whether layers in place of causal ones may see later steps.
    """
    if to == "structured":
        return _find_matrices(model)
    shapes, paths = collections.defaultdict(list), named_layers(model)
    for layer, argument in replacing.every_call(model, lambda x: kinds.operation_of(x) is not None):
        called = cloning.shapes_of(argument)
        if called:
            shapes[id(layer)].append((None, *called[0][1:]))
    places = dict(paths)
    result = []
    for path, layer in paths:
        operation = kinds.operation_of(layer)
        if operation in operations:
            holder = places.get(path.rpartition("/")[0])
            called = shapes.get(id(layer), ())
            reason = _reason(layer, set(called), holder, to)
            shape = min(called, key=str, default=None)
            candidate = Candidate(path, operation, layer, shape, reason, calls=len(called))
            result.append(candidate)
    if "skip" in operations:
        for skip in skips.find_skips(model):
            reason, shape = _skip_reason(skip), min(skip.shapes, key=str)
            result.append(Candidate(skip.path, "skip", None, shape, reason, skip, skip.calls))
    if windowed or to == "masked":  # masks only make kernels smaller
        return result
    causal_model = _is_causal(model) or (
        any(map(_might_look_ahead, result))
        and causality.is_causal(model, 2 if kinds.data_format_of(model) == "channels_first" else 1)
    )
    return [_kept_causal(candidate, causal_model) for candidate in result]


def _is_causal(model):
    """Return whether a model has outputs of several steps, and convolutions that are all causal.

    One with padding "same" looks ahead itself. Models that are causal for another reason, such as
    recurrent layers, are found by `causality.is_causal`.
    """
    layers = [layer for _, layer in named_layers(model)]
    outputs = getattr(model, "outputs", None)
    shapes = [(None, None, None)] if outputs is None else [output.shape for output in outputs]
    return (
        any(map(_pads_causally, layers))
        and not any(map(_looks_ahead, layers))
        and any(len(shape) == 3 and shape[1] != 1 for shape in shapes)
    )


def _looks_ahead(layer):
    one_axis = isinstance(layer, kinds.ANY_CONVOLUTION) and len(layer.kernel_size) == 1
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
    if isinstance(layer, keras.layers.Conv1D) and layer.kernel_size == (1,):
        return dataclasses.replace(candidate, causal=True)
    return dataclasses.replace(candidate, reason=candidate.reason or SEES_LATER_STEPS)


def _find_matrices(model):
    """Return the `Candidate` of every layer that is a matrix and what surrounds it."""
    paths = named_layers(model)
    places = dict(paths)

    def wanted(layer):
        return kinds.operation_of(layer, "structured") is not None

    reachable = {id(layer) for layer in replacing.reachable_layers(model, wanted)}
    result = []
    for path, layer in filter(lambda pair: wanted(pair[1]), paths):
        called = [None] if id(layer) in reachable else []
        holder = places.get(path.rpartition("/")[0])
        reason = _reason_of_class(layer, called, holder, "structured") or _reason_of_matrix(layer)
        result.append(Candidate(path, "matrix", layer, None, reason))
    return result


def _reason_of_matrix(layer):
    """Return why a layer cannot become a structured one, or `None`."""
    for name in ("kernel_constraint", "recurrent_constraint", "embeddings_constraint"):
        if getattr(layer, name, None) is not None:
            return f"its {'table' if name.startswith('emb') else 'kernel'} has a constraint"
    if getattr(layer, "recurrent_dropout", 0):
        return "it has recurrent dropout"
    if not getattr(layer, "reset_after", True):
        return "its reset gate comes before the product with the recurrent kernel"
    if isinstance(layer, keras.layers.EinsumDense):
        try:
            kinds.STRUCTURED[keras.layers.EinsumDense].kernels_of(layer)
        except ValueError as error:
            return f"it is no product with a matrix: {error}"
    return None


def _reason(layer, shapes, holder, to):
    """Return why a layer cannot be rewritten, or `None`."""
    reason = _reason_of_class(layer, shapes, holder, to) or reason_of_state(layer)
    return reason or _reason_of_shapes(shapes)


def _reason_of_class(layer, shapes, holder, to):
    """Return why a layer of this class, or one in its place, cannot be rewritten, or `None`."""
    kind, classes = type(layer).__name__, kinds.SEARCH_SPACES[to]
    if type(layer) not in classes:
        keras_class = next((c for c in classes if isinstance(layer, c)), None)
        if keras_class is not None:
            return f"{kind} is a subclass of {keras_class.__name__}"
        if isinstance(layer, kinds.MAX_POOLING):
            return "no linear operation can start as a maximum"
        return kinds.NO_TWIN.get(to, kinds.NO_TWIN["xd"]).format(kind)
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
