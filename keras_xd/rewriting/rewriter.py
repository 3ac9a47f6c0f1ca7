"""`rewrite`: a Keras model becomes a search space that computes the same function."""

import logging
from typing import Any

import keras
from keras import ops

from keras_xd.core import compile_config, validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import flatten_layers
from keras_xd.core.type_aliases import Radix, Selection
from keras_xd.graph import skips
from keras_xd.graph.cost import multiply_adds
from keras_xd.graph.replacing import LayerReplacer
from keras_xd.layers.weight_normalization import without_weight_normalization
from keras_xd.rewriting import spaces

logger = logging.getLogger("keras_xd.rewriting")
# Arguments of `rewrite` that stand for nothing given.
USUAL = {"operations": ("convolution",), "depth": None, "radix": None, "padding": "exact"}


@check_types
def rewrite(
    model: keras.Model,
    to: str = "xd",
    *,
    operations: str | tuple[str, ...] = ("convolution",),
    depth: int | tuple[int, int, int] | None = None,
    radix: Radix = None,
    padding: str = "exact",
    only: Selection = None,
    skip: Selection = None,
    **layer_options: Any,
) -> keras.Model:
    """Return a search space that starts as the same function as `model`.

    Every convolution (plain, transposed, depthwise, separable) that has a searchable twin, in
    nested models too, becomes the layer of `keras_xd.layers` of the same name, with its weights,
    regularizers, constraints, trainable flag and dtype policy; a convolution that is frozen stays
    frozen, its architecture too. On request average poolings are rewritten and layers are put into
    identity skips. Everything else is copied with its weights; shared layers stay shared, a
    Sequential model stays one, and inputs and outputs keep their names and structure. Outputs equal
    the original's up to float32 rounding, except with `"darts"`, `"dash"` and `"structured"`.

    Subclassed models and layers of several layers are rewritten where they hold layers: in
    attributes, lists, tuples and dictionaries, from their constructors on. They become a
    `keras_xd.graph.replacing.SubclassedModelWrapper` with the model in it, as `.model`, which is
    made again from its constructor's arguments or, where these are not known, from its attributes.
    Only the former can be saved as a whole. Layers in `TimeDistributed` are rewritten too. The
    additions that a `call` of your own makes are not seen: no skip is found there.

    The original is left untouched. The new model is not compiled; `SearchModel.compile` takes what
    it is not given from the `compile` of `model`, as long as the new model is not read from a file.
    Its own `compile` with one optimizer moves the architecture at the weights' rate: train it by
    `SearchModel`, or compile it with `keras_xd.optimizers.architecture_optimizer`.
    A `train_step` of your own is not taken over: a warning says so.

    Layers that cannot be rewritten stay as they are: those called at unknown or at several
    spatial sizes, those made in the `build` of a layer or inside wrappers such as
    `SpectralNormalization`, subclasses of Keras' layers, max pooling, and convolutions with LoRA or
    quantization. They are listed by a warning of the logger `keras_xd.rewriting`, and with their
    reasons by `keras_xd.compare`. Of unknown sizes a Python warning tells too: give the model's
    Input complete sizes, as by `input_shape` of `keras.applications`.

    Args:
        model: a built model: Functional, Sequential or subclassed (called on data once).
        to: the search space: `"xd"`; `"k_operation"` for K-operations (plain convolutions only);
            or `"darts"`, where each `Conv1D` and `Conv2D` becomes a `MixedOperation` that has it,
            with its weights, as one of its operations. That one has the probability `1 -
            other_weight`, so this space starts as the same function for `other_weight=0` only. The
            outputs of a layer are else `activation((1 - other_weight) · convolution + other_weight
            · m + bias)` with `m` the mean of the layer's other operations on the same inputs.
            `"dash"` likewise, with a `DashConv` of convolutions of many sizes and dilations. Or
            `"masked"`, where the sizes that the model has can be made smaller, as in DNArch:
            kernels, numbers of channels between layers, and residual blocks (Functional and
            Sequential models; see `docs/masked_models.md`). `finalize` cuts them. Or
            `"structured"`, where dense layers, projections of attention and recurrent layers get
            structured matrices near to their kernels; see `docs/structured.md`. Or one of your own,
            by `register_search_space`.
        operations: what is rewritten, a string or a tuple of these: `"convolution"`: all
            convolutions. `"pooling"`: `AveragePooling`, which becomes an `XDConv` that starts as
            the pooling. `"skip"`: an input of `keras.layers.Add`, `keras.ops.add` or `x + y` from
            which another input of the same addition is computed gets an `XDConv` with a kernel of
            size 3 (or `kernel_size`) that starts as the identity, under the name `<addition>_skip`.
            Other layers, of a space of your own, are always rewritten.
        depth: depth of the K-matrices, an integer or a triple; `None` for the layers' default.
        radix: block sizes of the K-matrices; see `XDConv2D`.
        padding: `"exact"` keeps the padding of each layer. `"circular"` continues the input
            periodically instead of by zeros in every layer with padding "same" whose kernel fits
            its input and, unless it is transposed, whose stride is 1: faster, and what the XD paper
            does, but the outputs differ from the original's near the borders.
        only: rewrite these only: a layer name, a pattern (`re.fullmatch` on the name), a predicate
            `layer -> bool`, or a list of these. Names of skips are those of the new layers, which
            predicates get too.
        skip: leave these as they are, likewise.
        **layer_options: further arguments for every new layer: `warm_start` (of convolutions),
            `frequency_bias` and `channel_gates` (both on by default), `method` (see `XDConv2D`),
            `seed` (of the first layer; each further layer's is one higher), `kernel_size` (kernels
            that are smaller, transposed ones excepted, become as large as that, with the weights in
            the middle); `causal`: `"triangular"` keeps causal models causal whatever is learned,
            `"windowed"` lets outputs
            learn to depend on all steps, where only the last one counts, see docs/sequences.md; for
            K-operations `warm_start`, `seed`, `kernel_size` and `operation`, a
            `keras_xd.layers.KOperation` that all of them share; for `"darts"` `other_weight` (0.1),
            `candidates` and `update` of `MixedOperation2D`, and not `depth` and `radix`; for
            `"dash"` `other_weight`, `kernel_sizes`, `dilations` and more of `DashConv2D`, see
            docs/dash.md; for `"masked"` those of `keras_xd.rewriting.masked.MaskOptions` and no
            others: `masks`, `temperature`, `depth_temperature`, `initial_value` and `depth_groups`;
            for `"structured"` those of `keras_xd.rewriting.structured.StructuredOptions`: `family`,
            `density`, `budget`, `sizes`, `calibration_data`, `learning_rates` and `embeddings`.

    Returns:
        A new `keras.Model`. With `to="structured"` its attribute `report`, which is not saved,
        tells the error of each kernel.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((8, 8, 1)),
    ...         keras.layers.Conv2D(2, 3, activation="relu", name="conv"),
    ...         keras.layers.AveragePooling2D(2, name="pool"),
    ...     ]
    ... )
    >>> space = keras_xd.rewrite(model, operations=("convolution", "pooling"), depth=3)
    >>> [type(layer).__name__ for layer in space.layers]
    ['XDConv2D', 'XDConv2D']

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, section 3; and
        "Searching for Convolutions and a More Ambitious NAS", 2020, for K-operations.
    """
    given = {"operations": operations, "depth": depth, "radix": radix, "padding": padding}
    original, model = model, without_weight_normalization(model)
    space, plan = planned(model, to, {**layer_options, **given}, only, skip)
    new_layers = {id(old.layer): new for old, new in plan.chosen if old.skip is None}
    inserted = [(old.skip, new) for old, new in plan.chosen if old.skip is not None]
    wanted = {*new_layers, *(id(skip.call.graph) for skip, _ in inserted)}
    replacer = LayerReplacer(
        lambda layer: id(layer) in wanted,
        lambda layer: new_layers[id(layer)],
        skips.inserting(inserted),
        build_time=space.build_time,
    )
    result = replacer(model)
    space.start(model, result, plan)
    compile_config.note_compilation(original, result)
    compile_config.watch_training(result)
    compile_config.warn_of_own_training(original, "A rewritten model")
    errors = filter(None, (getattr(x, "saving_error", None) for x in flatten_layers(result)))
    for error in list(errors)[:1]:
        logger.warning("keras_xd.rewrite: the result cannot be saved. %s", error)
    left: dict[str, list[str]] = {}
    for candidate in plan.found:
        if candidate.reason:
            left.setdefault(candidate.reason, []).append(candidate.path)
    if left:
        groups = (f"{', '.join(paths)} ({reason})" for reason, paths in left.items())
        logger.warning("keras_xd.rewrite: left as they are: %s", "; ".join(groups))
    if only is None:
        _log_single_taps(plan.chosen)
    return result


def planned(model, to, options, only, skip, no_forecast=False):
    """Return the `SearchSpace` of a name, and its `Plan` for a model."""
    validation.one_of(to, tuple(spaces.SEARCH_SPACES), "to")
    space = spaces.SEARCH_SPACES[to]
    if no_forecast and space.no_forecast is not None:
        raise ValueError(f"{space.no_forecast} Received: to={to!r}")
    given = {n: v for n, v in options.items() if n not in USUAL or v != USUAL[n]}
    return space, space.plan(model, given, only, skip)


def _log_single_taps(chosen):
    """Log the cost of searching convolutions that only mix channels, compared with larger ones."""
    counts: dict[bool, list[list[float]]] = {True: [], False: []}
    for old, new in chosen:
        if getattr(old.layer, "kernel_size", None) is not None:
            pair = multiply_adds(old.layer, old.shape), multiply_adds(new, old.shape)
            single = max(old.layer.kernel_size) == 1
            counts[single].append([float(ops.convert_to_numpy(n)) * old.calls for n in pair])
    if not counts[True] or not counts[False]:
        return
    before, after = map(sum, zip(*counts[True], strict=True))
    if after > 1.01 * before:  # masks begin with what the model has
        logger.warning(
            "keras_xd.rewrite: %d of %d convolutions have kernels of one tap; to search them too "
            "costs %s multiply–adds in place of %s (all: %s). To leave them: "
            "skip=lambda layer: max(getattr(layer, 'kernel_size', (3,))) == 1",
            len(counts[True]),
            len(counts[True]) + len(counts[False]),
            *(f"{n:,.0f}" for n in (after, before, after + sum(n for _, n in counts[False]))),
        )
