"""From a Keras model to a search space that computes the same function."""

import inspect
import logging
import re

import keras

from keras_xd import validation
from keras_xd.layers import cloning
from keras_xd.layers.searchable import SearchableLayer, named_layers
from keras_xd.rewriting.convolutions import SEARCH_SPACES, check_graph, convolutions

logger = logging.getLogger("keras_xd.rewriting")

# The arguments of a Keras convolution, each an attribute of the same name.
ARGUMENTS = (
    "filters",
    "kernel_size",
    "strides",
    "padding",
    "data_format",
    "dilation_rate",
    "groups",
    "use_bias",
    "kernel_initializer",
    "bias_initializer",
    "kernel_regularizer",
    "bias_regularizer",
    "activity_regularizer",
    "kernel_constraint",
    "bias_constraint",
    "name",
    "trainable",
)
BASE_ARGUMENTS = set(inspect.signature(keras.layers.Layer).parameters)


def rewrite(
    model,
    to="xd",
    *,
    depth=1,
    radix=None,
    padding="exact",
    only=None,
    skip=None,
    **layer_options,
):
    """Return a search space that starts as the same function as `model`.

    Every `Conv1D`, `Conv2D` and `Conv3D`, in nested models too, becomes the `XDConv` layer of the
    same name, with its weights, regularizers, constraints, trainable flag and dtype policy; a
    convolution that is frozen stays frozen, its architecture too. Everything else is copied with
    its weights; shared layers stay shared, a Sequential model stays one, and inputs and outputs
    keep their names and structure. Outputs equal the original's up to float32 rounding.

    The original is left untouched. The new model is not compiled, and where `model` is a
    subclass of a Functional model (with a `train_step` of its own, say) it is a plain one.

    Convolutions that cannot be rewritten stay convolutions: those called at unknown or at several
    spatial sizes, those inside `TimeDistributed` and other layers, subclasses of Keras'
    convolutions, transposed, depthwise and separable ones, and those with LoRA or quantization.
    They are listed by a warning of the logger `keras_xd.rewriting`, and with their reasons by
    `keras_xd.compare`.

    Args:
        model: a built Sequential or Functional model.
        to: the search space, `"xd"`.
        depth: depth of the K-matrices, an integer or a triple; see `XDConv`.
        radix: block sizes of the K-matrices; see `XDConv`.
        padding: `"exact"` keeps the padding of each convolution. `"circular"` continues the input
            periodically instead of by zeros in every convolution of stride 1 with padding "same"
            whose kernel fits its input: faster, and what the XD paper does, but the outputs
            differ from the original's near the borders.
        only: rewrite these convolutions only: a layer name, a pattern (`re.fullmatch` on the
            name), a predicate `layer -> bool`, or a list of these.
        skip: leave these as they are, likewise.
        **layer_options: further arguments for every new layer: `warm_start`, `frequency_bias`,
            `channel_gates`, `seed` (of the first layer; each further layer's is one higher).

    Returns:
        A new `keras.Model`.

    Raises:
        ValueError: if the model is subclassed or not built; if `only` names a layer that does not
            exist or cannot be rewritten, or `skip` one that does not exist; if options do not fit
            a layer; if nothing is rewritten.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> model = keras.Sequential([
    ...     keras.Input((8, 8, 1)),
    ...     keras.layers.Conv2D(2, 3, activation="relu", name="conv"),
    ...     keras.layers.GlobalAveragePooling2D(),
    ... ])
    >>> space = keras_xd.rewrite(model, depth=3)
    >>> type(space.get_layer("conv")).__name__
    'XDConv2D'

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, section 3.
    """
    classes = SEARCH_SPACES[validation.one_of(to, tuple(SEARCH_SPACES), "to")]
    validation.one_of(padding, ("exact", "circular"), "padding")
    check_graph(model)
    options = {"depth": depth, "radix": radix, **layer_options}
    _check_options(options, classes)
    found = convolutions(model, classes)
    chosen = _select(model, found, only, skip)
    if not chosen:
        raise ValueError(
            f"Nothing is left to rewrite. Received: only={only!r}, skip={skip!r}, and a model with "
            f"{_listing(found)}"
        )
    seed = options.pop("seed", None)
    new_layers = {}
    for number, (path, layer, shape) in enumerate(chosen):
        seeded = {} if seed is None else {"seed": seed + number}
        new_layers[id(layer)] = _searchable(
            classes[type(layer)], layer, path, shape, padding, {**options, **seeded}
        )
    result, replaced = cloning.clone(model, lambda layer: new_layers.get(id(layer)))
    for old, new in replaced:
        new.kernel.assign(old.kernel)
        new.kernel.trainable = old.kernel.trainable
        if old.use_bias:
            new.bias.assign(old.bias)
            new.bias.trainable = old.bias.trainable
    left = {}
    for path, _, _, reason in found:
        if reason:
            left.setdefault(reason, []).append(path)
    if left:
        groups = (f"{', '.join(paths)} ({reason})" for reason, paths in left.items())
        logger.warning("keras_xd.rewrite: left as they are: %s", "; ".join(groups))
    return result


def _select(model, found, only, skip):
    """Return `(path, layer, shape)` of the convolutions to rewrite."""
    _check_names(model, found, only, "only")
    _check_names(model, found, skip, "skip")
    wanted = validation.matcher(only, "only") if only is not None else lambda layer: True
    unwanted = validation.matcher(skip, "skip")
    return [
        (path, layer, shape)
        for path, layer, shape, reason in found
        if reason is None and wanted(layer) and not unwanted(layer)
    ]


def _check_names(model, found, selection, argument):
    """Raise `ValueError` if a name or pattern in `selection` does not find what it should."""
    items = selection if isinstance(selection, (list, tuple, set)) else [selection]
    for item in items:
        if not isinstance(item, (str, re.Pattern)):
            continue
        try:
            matches = validation.matcher(item, argument)
            existing = [layer for _, layer in named_layers(model)[1:] if matches(layer)]
        except re.error as error:
            raise ValueError(
                f"`{argument}` must hold layer names or patterns. Received: {argument}={item!r}, "
                f"which is no layer's name and not a pattern: {error}"
            ) from error
        if not existing:
            raise ValueError(
                f"`{argument}` must name layers of the model. Received: {argument}={item!r}, which "
                f"does not exist; the model has {_listing(found)}"
            )
        if argument == "only" and not any(matches(f[1]) for f in found if f[3] is None):
            reasons = [f"'{f[0]}': {f[3]}" for f in found if matches(f[1])]
            reasons = reasons or [f"'{existing[0].name}' is a {type(existing[0]).__name__}"]
            raise ValueError(
                f"`only` must name layers that can be rewritten. Received: only={item!r}, which "
                f"cannot be ({'; '.join(reasons)}); the model has {_listing(found)}"
            )


def _listing(found):
    """Return the convolutions that can be rewritten, and those that cannot, for a message."""
    able = [path for path, _, _, reason in found if reason is None]
    unable = [f"'{path}': {reason}" for path, _, _, reason in found if reason is not None]
    text = f"the convolutions {able}" if able else "no convolution that can be rewritten"
    return f"{text} (not: {'; '.join(unable)})" if unable else text


def _check_options(options, classes):
    """Raise `ValueError` for an option that the new layers do not have beyond Keras'."""
    for layer_class in set(classes.values()):
        own = [base for base in layer_class.__mro__ if issubclass(base, SearchableLayer)]
        parameters = [p for base in own for p in inspect.signature(base).parameters.values()]
        allowed = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - BASE_ARGUMENTS
        wrong = {name: value for name, value in options.items() if name not in allowed}
        if wrong:
            raise ValueError(
                f"`rewrite` takes the options {sorted(allowed)} of the new layers; the rest comes "
                f"from the convolutions. Received: {wrong}"
            )


def _searchable(layer_class, layer, path, shape, padding, options):
    """Return the new layer, not yet built, of a convolution."""
    arguments = {name: getattr(layer, name) for name in ARGUMENTS}
    arguments["dtype"] = layer.dtype_policy
    arguments["activation"] = layer.activation
    if isinstance(layer.activation, keras.layers.Layer):
        arguments["activation"] = type(layer.activation).from_config(layer.activation.get_config())
    spatial = shape[1:-1] if layer.data_format == "channels_last" else shape[2:]
    spans = [d * (k - 1) + 1 for d, k in zip(layer.dilation_rate, layer.kernel_size, strict=True)]
    fits = all(span <= size for span, size in zip(spans, spatial, strict=True))
    if padding == "circular" and layer.padding == "same" and max(layer.strides) == 1 and fits:
        arguments["padding"] = "circular"
    try:
        new = layer_class(**arguments, **options)
        new.compute_output_shape(shape)
    except ValueError as error:
        raise ValueError(f"The options do not fit the layer '{path}': {error}") from error
    return new
