"""`finalize`: a search space becomes a plain model that can be exported."""

import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.saving import AtomicSaving
from keras_xd.core.searchable import SearchableLayer, check_finite, flatten_layers, named_layers
from keras_xd.core.type_aliases import Tensor
from keras_xd.core.warning_location import stacklevel
from keras_xd.finalizing import candidate_choice
from keras_xd.finalizing.normalization_folding import fold_normalizations
from keras_xd.finalizing.pruning import has_masks, prune
from keras_xd.finalizing.replacing import NO_RANKS, Replacement, replace, trimmed_rows
from keras_xd.finalizing.report import FinalizingReport, LayerReport
from keras_xd.finalizing.streams import split_streams, trim_streams
from keras_xd.graph.cloning import view
from keras_xd.graph.exporting import export
from keras_xd.graph.replacing import LayerReplacer, SubclassedModelWrapper
from keras_xd.layers.weight_normalization import without_weight_normalization
from keras_xd.layers.xd.finalized import STORAGES
from keras_xd.layers.xd.finalized_sizes import is_low_rank
from keras_xd.rewriting.candidates import check_model
from keras_xd.training.budget import log_excess
from keras_xd.training.search_model import SearchModel


@keras.saving.register_keras_serializable(package="keras_xd")
class FinalizedModel(AtomicSaving, keras.Model):
    """A Functional model from `finalize`: Keras' own, but `export` does not overwrite unasked."""

    report: FinalizingReport | None = None  # that of `finalize`, which is not saved

    def export(self, filepath: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Export the model for serving, by the arguments of `keras_xd.export`."""
        export(self, filepath, *args, **kwargs)


@check_types
def finalize(
    model: keras.Model,
    *,
    form: str = "auto",
    weight_dtype: str | None = None,
    snap: float | None = None,
    tolerance: float | None = None,
    fold_normalization: bool = False,
    complexity_target: float | None = None,
    complexity_measure: str | Callable[[keras.Model], float | Tensor] = "multiply_adds",
) -> keras.Model:
    """Return a plain, fast model with the same outputs as a search space.

    Every searchable layer is replaced by its `finalize()`, under the same name; for an `XDConv`
    that is a layer with its matrices multiplied out, so that no work on the architecture is left
    at inference. A mixture (`MixedOperation`, `DashConv`, `MixedDense`, …) becomes the candidate of
    its largest probability, so the outputs are the same only where that probability is 1. The
    largest ones may cost more than the mixture, so with a `complexity_target` they are those of the
    largest product of probabilities among the choices that keep to it.

    Of a model of masked layers (`rewrite(…, to="masked")`) the channels, taps and blocks beyond the
    masks are cut out, with the same outputs, and all layers are Keras' own. Channels that pass all
    blocks of a `keras_xd.models.ccnn` unchanged are led around them, and those that its encoder's
    mask sets to zero are cut out, unless a block uses them. Everything else is copied with
    its weights. Nested models and shared layers stay so; `model` is left untouched.

    Regularizers and constraints of biases and outputs are kept, those of kernels where a kernel is
    left (`form="kernel"`, snapped layers, mixtures); the report names the layers that lose one.

    A model in which nothing is searched, but which has other layers of this package, such as
    `keras_xd.models.fno`, is copied as it is: the copy's `export` is that of `keras_xd.export`.

    The spectrum of an XD-operation has a complex number for each frequency and pair of channels, so
    it may be many times larger than the convolution that it replaced. By default the form of every
    operation is chosen: one that has not moved from a convolution of Keras becomes that one. Of the
    others all exact forms are called with 32 samples on this machine, once for equal sizes in a
    process, and the fastest of those with at most twice the parameters of the smallest is taken; if
    that one takes more than 1.5 times as long as the fastest of all, the fastest of all. Exact
    forms are the kernel, the spectrum, the spectrum where it carries something (of Fourier
    operators whose matrices were not trained) and low ranks, if they have the same outputs to
    rounding. The report shows them all.
    Only operations in graphs, in `XDSeparableConv2D` and in `SearchableResampled` have this choice,
    and `weight_dtype` and `snap`; the XD-operations inside cells keep their spectrum. With a
    `weight_dtype` no operation becomes a layer of Keras unasked.
    `benchmarks/finalized.md` has sizes and times.

    The result is not compiled. It is a Functional model, or of a subclassed one a
    `keras_xd.graph.replacing.SubclassedModelWrapper`. `model.save("model.keras")` is Keras' own;
    reading the file again needs `import keras_xd`, unless all searched layers were snapped to
    layers of Keras. `model.export(path)` is Keras' own too, except that it refuses a path where
    there is something; the SavedModel needs neither keras_xd nor Keras. Its signature's keys are
    the names of the inputs: those given, and `inputs` (`inputs_0`, `inputs_1`, … of several) for an
    input without a name.

    Args:
        model: a built search space (Functional, Sequential or subclassed), or a `SearchModel`.
        form: what is stored of XD-operations: `"auto"`, by the rule above; `"spectrum"`;
            `"kernel"`, of which every call computes the spectrum; or `"low_rank"`: an approximation
            of each operation by few matrices by axis or by the frequencies that carry most, at most
            twice as large as the searched layer and as fast as the spectrum. An operation of which
            none within the `tolerance` is so, as on long axes in 1-D, keeps its kernel, or its
            spectrum where that is smaller, with a warning.
        weight_dtype: `"float16"` or `"bfloat16"`: the data type that matrices, spectra and kernels
            of XD-operations are stored in; computed in the layers' own type, not trained further.
            `None` stores them as they are.
        snap: a number between 0 and 1: an XD-operation whose linear map is within this relative
            distance of what a plain layer computes becomes that layer, the one with the fewest
            multiply–adds: `Conv…` of any kernel size, `…Transpose`, `DepthwiseConv…`,
            `SeparableConv…`, `AveragePooling…`, `Identity`, a layer of zeros, or else a
            `SpectralConv` (the Fourier operator). Outputs change by that. `None` snaps nothing.
        tolerance: of `form="low_rank"`, a number between 0 and 1: how far the linear map of each
            operation may move, relative to its Frobenius norm. By default 0.01.
        fold_normalization: whether a `BatchNormalization` that alone reads an XD-operation, a
            convolution or a `Dense` layer becomes part of it. The same outputs in inference, and
            faster; not for training on, and not for a subclassed model.
        complexity_target: what the result may cost at most, for a model of mixtures; by default
            that of the `SearchModel`, if there are mixtures in it.
        complexity_measure: what the target counts, as in `SearchModel.compile`; a function of
            yours must be a sum over the layers. By default that of the `SearchModel`.

    Returns:
        A `FinalizedModel`; of a subclassed model a `SubclassedModelWrapper`; a `keras.Model` if all
        searched layers were snapped to layers of Keras. Its attribute `report`, which is not saved,
        is a `FinalizingReport` with a row for each searched layer, and each that lost channels by
        masks; `print` shows a table. If a `SearchModel` costs over 1.02 of its `complexity_target`,
        the logger `keras_xd.training` says by how much.

    Warns:
        UserWarning: of operations that `form="low_rank"` does not approximate.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> space = keras.Sequential(
    ...     [keras.Input((8, 8, 1)), keras_xd.layers.XDConv2D(2, 3, name="conv")]
    ... )
    >>> model = keras_xd.finalize(space)  # it has not been searched
    >>> type(model.get_layer("conv")).__name__, model.report.rows[0].operation
    ('Conv2D', 'convolution 3×3')
    >>> model = keras_xd.finalize(space, form="spectrum")
    >>> type(model.get_layer("conv")).__name__
    'StaticXD'
    """
    check_options(form, weight_dtype, snap, tolerance)
    budget = complexity_target, complexity_measure
    fold_normalization = validation.boolean(fold_normalization, "fold_normalization")
    search = model if isinstance(model, SearchModel) else None
    if search is not None:
        if complexity_target is None and candidate_choice.mixtures(model):
            budget = model.complexity_target, model.complexity_measure
        model = model.model
    check_model(model)
    check_finite(model)
    given, model = model, without_weight_normalization(model)
    masked = has_masks(model)
    rows: tuple[LayerReport, ...] = ()
    if masked:
        original, model = model, prune(model)
        rows = trimmed_rows(original, model)
    searchable = [pair for pair in named_layers(model) if isinstance(pair[1], SearchableLayer)]
    if not searchable and not masked and not _has_own_layers(given):
        raise ValueError(
            "`model` must have searchable layers, or others of keras_xd; a model without them is "
            f"plain already: save it, or `keras_xd.export` it. Received: model '{model.name}'"
        )
    paths = {id(layer): path or layer.name for path, layer in searchable}
    done: set[int] = set()
    found: dict[int, Replacement] = {}

    def finalized(layer):
        """Return the plain layer of a searchable one, under its name."""
        done.update(id(inner) for inner in flatten_layers(layer))
        found[id(layer)] = replace(layer, form, weight_dtype, snap, tolerance)
        plain = found[id(layer)].after
        plain.name = layer.name
        return plain

    replacer = LayerReplacer(
        lambda layer: isinstance(layer, SearchableLayer), finalized, build_time=True
    )
    with candidate_choice.choosing(model, *budget):
        copy = replacer(model, rename_inputs=_stable_names)
    missed = [path for path, layer in searchable if id(layer) not in done]
    if missed:
        raise ValueError(
            "Searchable layers can be finalized in graphs, in attributes of layers and models, and "
            "in TimeDistributed. Received: others, "
            f"{missed}"
        )
    if fold_normalization and isinstance(copy, SubclassedModelWrapper):
        raise ValueError(
            "`fold_normalization` needs a Functional or Sequential model: which layers follow one "
            "another in the `call` of a subclassed one is not known. "
            f"Received: model '{model.name}' of class {type(model).__name__}"
        )
    rows = (*rows, *(found[key].row(paths[key]) for key in paths if key in found))
    report = FinalizingReport(rows)
    if not isinstance(copy, SubclassedModelWrapper):
        copy = split_streams(trim_streams(view(copy)))
        copy = fold_normalizations(copy) if fold_normalization else copy
        of_keras = all(_package(layer) == "keras" for layer in flatten_layers(copy))
        kind = keras.Model if snap and report.snapped and of_keras else FinalizedModel
        copy = kind(copy.input, copy.output, name=copy.name)
    copy.report = report
    _warn_of_exact_forms(rows)
    if search is not None and not candidate_choice.mixtures(search.model):
        log_excess(search, copy if masked else search.model)
    return copy


def check_options(form="auto", weight_dtype=None, snap=None, tolerance=None, **others):
    """Raise `ValueError` for options of `finalize` that are none; others are not looked at."""
    is_low_rank(form, tolerance)
    validation.one_of(weight_dtype, (None, *STORAGES), "weight_dtype")
    if snap is not None and not 0 < validation.real_number(snap, "snap") < 1:
        raise ValueError(
            "`snap` is a relative distance and must lie between 0 and 1, both excluded. "
            f"Received: snap={snap!r}"
        )


def _warn_of_exact_forms(rows):
    """Warn of operations that are not approximated although that was asked for."""
    exact = [row.name for row in rows if row.left_because == NO_RANKS]
    if exact:
        warnings.warn(
            f'`form="low_rank"`: {NO_RANKS} for {", ".join(exact)}, which keep the smaller of '
            "kernel and spectrum. A larger `tolerance` may help.",
            stacklevel=stacklevel(),
        )


def _has_own_layers(model):
    """Return whether some layer of a model is one of this package."""
    inner = (layer for layer in flatten_layers(model) if not isinstance(layer, keras.Model))
    return any(_package(layer) == "keras_xd" for layer in inner)


def _package(layer):
    return type(layer).__module__.split(".")[0]


def _stable_names(names):
    """Return names for the inputs that do not depend on how many models were made before."""
    if len(names) == 1:
        return ["inputs" if _is_automatic(names[0]) else names[0]]
    return [f"inputs_{index}" if _is_automatic(name) else name for index, name in enumerate(names)]


def _is_automatic(name):
    return bool(re.fullmatch(r"(input_layer|keras_tensor)(_\d+)?", name))
