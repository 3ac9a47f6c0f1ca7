"""A whole search in one call: rewrite, compile, fit, finalize, report."""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import searchable_layers
from keras_xd.core.tables import aligned
from keras_xd.core.validation import UnknownSizeError, nonnegative_integer, positive_integer
from keras_xd.finalizing.finalizer import check_options, finalize
from keras_xd.graph.cost import complexity
from keras_xd.layers.masked.base import MaskedLayer
from keras_xd.rewriting.candidates import check_model
from keras_xd.rewriting.rewriter import rewrite
from keras_xd.training import budget, defaults, weight_groups
from keras_xd.training.callbacks.non_finite import RaiseOnNonFinite
from keras_xd.training.inner_model import InnerModel
from keras_xd.training.search_model import SearchModel

# Arguments of `search` itself, which options may not give again.
OF_REWRITE = ("model", "to")
OF_COMPILE = ("optimizer", "architecture_optimizer", "loss", "metrics", "mode")
OF_FINALIZE = ("model",)
# Options of `compile` that hold for the evaluation of backbone and finalized model too.
SHARED = ("loss_weights", "weighted_metrics", "run_eagerly", "jit_compile", "steps_per_execution")


@dataclasses.dataclass(frozen=True)
class SearchReportRow:
    """One model in a `SearchReport`.

    Attributes:
        model: `"backbone"`, `"search"` or `"finalized"`.
        parameters: the number of all its weights.
        multiply_adds: those of one sample, as by `keras_xd.complexity`; `None` if a size is
            unknown.
        metrics: loss, without the regularizers of weights, and metrics on the validation data;
            empty without such data.
    """

    model: str
    parameters: int
    multiply_adds: int | None
    metrics: dict[str, float]


@dataclasses.dataclass(frozen=True)
class SearchReport:
    """What a search in one call came to; `str()` of it is a table.

    Attributes:
        rows: a `SearchReportRow` for the backbone as it was given, the search and the finalized
            model.
    """

    rows: tuple[SearchReportRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return `{"rows": [{…}, …]}`, of plain Python values."""
        return {"rows": [dataclasses.asdict(row) for row in self.rows]}

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for row in self.rows for name in row.metrics))
        table = [("model", "parameters", "multiply–adds", *(f"val_{name}" for name in names))]
        for row in self.rows:
            counts = ["?" if c is None else f"{c:,}" for c in (row.parameters, row.multiply_adds)]
            values = [row.metrics.get(name) for name in names]
            table.append((row.model, *counts, *("" if v is None else f"{v:.4g}" for v in values)))
        return "\n".join(aligned(table))


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """What `keras_xd.search(model, …)` returns.

    Attributes:
        model: the plain model that `keras_xd.finalize` makes of the search, compiled with the loss
            and the metrics of the search and a fresh copy of the optimizer of its weights.
        search: the trained `SearchModel`.
        history: the `keras.callbacks.History` of its `fit`.
        report: a `SearchReport`.
    """

    model: keras.Model
    search: SearchModel
    history: keras.callbacks.History
    report: SearchReport


@check_types
def search(
    model: keras.Model,
    x: Any,
    y: Any = None,
    *,
    epochs: int,
    validation_data: Any = None,
    to: str = "xd",
    optimizer: str | keras.optimizers.Optimizer | None = None,
    architecture_optimizer: str | keras.optimizers.Optimizer | None = None,
    loss: Any = None,
    metrics: Any = None,
    mode: str = "joint",
    batch_size: int | None = None,
    callbacks: Any = None,
    rewrite_options: Mapping[str, Any] | None = None,
    compile_options: Mapping[str, Any] | None = None,
    finalize_options: Mapping[str, Any] | None = None,
    verbose: str | int = "auto",
    **fit_options: Any,
) -> SearchResult:
    """Search the operations of a model, in one call: `keras_xd.search(model, x, y, epochs=10)`.

    It is `rewrite`, `SearchModel`, its `compile` and `fit`, and `finalize`, with nothing that these
    do not do by themselves. Take them one by one to keep a search space, to go on with a search, or
    for restarts and guards.

    `model` is not changed, unless it is a search space already (it has searchable layers). Such a
    model is not rewritten but trained as it is.

    Args:
        model: a built Keras model: Functional, Sequential or subclassed.
        x, y: as in `keras.Model.fit`: arrays, a `tf.data.Dataset`, a `keras.utils.PyDataset`.
        epochs: number of epochs.
        validation_data: as in `keras.Model.fit`. The report gives the metrics on them, of the
            backbone before any training of this search.
        to: the search space, as in `rewrite`.
        optimizer, architecture_optimizer, loss, metrics, mode: as in `SearchModel.compile`, where
            `None` takes what `model` was compiled with. A loss is needed from one of the two.
        batch_size, callbacks, verbose: as in `keras.Model.fit`. The report is printed unless
            `verbose=0`.
        rewrite_options: dictionary of the other arguments of `rewrite`, such as
            `{"depth": 3, "seed": 1}`.
        compile_options: dictionary of the other arguments of `SearchModel.compile`, such as
            `{"warmup_epochs": 2}`. With masks (`to="masked"`) it needs a `complexity_target`: they
            begin at full size, and nothing else makes them smaller.
        finalize_options: dictionary of arguments of `finalize`, such as `{"form": "kernel"}`.
        **fit_options: the other arguments of `SearchModel.fit`. The bilevel modes need
            `architecture_validation_data` or `architecture_validation_split`.

    Returns:
        A `SearchResult` with the finalized model, the search, the history and the report.

    Raises:
        ValueError: as `rewrite`, `SearchModel.compile`, `SearchModel.fit` and `finalize`; if
            warm-up and cool-down leave no epoch for the architecture; if options are given twice,
            or are none of the function they are for; for masks without a `complexity_target`;
            after the first batch whose loss is NaN or infinite.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> images, labels = np.random.rand(32, 8, 8, 1), np.random.randint(3, size=32)
    >>> backbone = keras.Sequential([
    ...     keras.Input((8, 8, 1)),
    ...     keras.layers.Conv2D(4, 3, activation="relu"),
    ...     keras.layers.GlobalAveragePooling2D(),
    ...     keras.layers.Dense(3, activation="softmax"),
    ... ])
    >>> backbone.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    >>> result = keras_xd.search(
    ...     backbone, images, labels, validation_data=(images, labels), epochs=1, verbose=0
    ... )
    >>> [row.model for row in result.report.rows]
    ['backbone', 'search', 'finalized']
    >>> sorted(result.model.evaluate(images, labels, verbose=0, return_dict=True))
    ['accuracy', 'loss']
    """
    rewrite_options = _options(rewrite_options, "rewrite_options", OF_REWRITE)
    compile_options = _options(compile_options, "compile_options", OF_COMPILE)
    finalize_options = _options(finalize_options, "finalize_options", OF_FINALIZE)
    _check_names("finalize_options", finalize_options, finalize)
    _check_names("**fit_options", fit_options, SearchModel.fit, keras.Model.fit)
    check_options(**finalize_options)
    epochs = positive_integer(epochs, "epochs")
    _check_epochs(epochs, compile_options)
    if isinstance(validation_data, Iterator):
        raise ValueError(
            "`validation_data` must be able to be read several times, for the backbone, the search "
            "and the finalized model: arrays, a tf.data.Dataset or a keras.utils.PyDataset. "
            f"Received: validation_data={validation_data!r}"
        )
    check_model(model)
    space = model
    if not searchable_layers(model):
        space = rewrite(model, to, **rewrite_options)
    elif {"to": to, **rewrite_options} != {"to": "xd"}:
        raise ValueError(
            "A model with searchable layers is searched as it is, not rewritten. "
            f"Received: to={to!r}, rewrite_options={rewrite_options!r}"
        )
    optimizer, architecture_optimizer, loss, metrics, compile_options = defaults.completed(
        space, optimizer, architecture_optimizer, loss, metrics, compile_options
    )
    _check_budget(space, compile_options)
    trained = SearchModel(space)
    trained.compile(optimizer, architecture_optimizer, loss, metrics, mode=mode, **compile_options)
    same = {name: compile_options[name] for name in SHARED if name in compile_options}
    backbone = _Measured(model)
    backbone.compile(loss=loss, metrics=_fresh(metrics), **_fresh(same))
    data = {"validation_data": validation_data, "batch_size": batch_size}
    rows = [_row("backbone", model, backbone, data, fit_options)]
    callbacks = [*keras.tree.flatten(callbacks or []), RaiseOnNonFinite()]
    history = trained.fit(
        x, y, epochs=epochs, callbacks=callbacks, verbose=verbose, **data, **fit_options
    )
    plain = finalize(trained, **finalize_options)
    weights_optimizer = weight_groups.joined(trained.search_optimizer, plain)
    weights_optimizer = weights_optimizer.from_config(weights_optimizer.get_config())
    plain.compile(weights_optimizer, loss=loss, metrics=_fresh(metrics), **_fresh(same))
    rows.append(_row("search", trained, trained, data, fit_options))
    rows.append(_row("finalized", plain, plain, data, fit_options))
    report = SearchReport(tuple(rows))
    if verbose:
        print(report)
    return SearchResult(plain, trained, history, report)


class _Measured(InnerModel):
    """A model to compile for evaluation without touching how the model in it is compiled."""

    def __init__(self, model):
        super().__init__(name=model.name, autocast=False, dtype=model.dtype_policy)
        self.model = model
        self.built = True

    def call(self, inputs, training=None):
        return self.model(inputs, training=training)


def _options(options, name, elsewhere):
    """Return options as a dictionary, or raise `ValueError` if some are arguments of `search`."""
    if options is None:
        return {}
    if not all(isinstance(key, str) for key in options):
        raise ValueError(
            f"`{name}` must be a dictionary of arguments by their names. "
            f"Received: {name}={options!r}"
        )
    twice = sorted(set(options) & set(elsewhere))
    if twice:
        raise ValueError(
            f"`{name}` must not have what is an argument of its own, {list(elsewhere)}. "
            f"Received: {name} with {twice}"
        )
    return dict(options)


def _check_names(name, options, *functions):
    """Raise `ValueError`, which says where they belong, for options that are no arguments."""
    places = {
        "rewrite_options": (rewrite,),
        "compile_options": (SearchModel.compile, keras.Model.compile),
        "finalize_options": (finalize,),
    }
    for key, value in options.items():
        if not _takes(key, *functions):
            given = f"{key}={value!r}" if name.startswith("*") else f"{name}={{{key!r}: {value!r}}}"
            own = (place for place, takers in places.items() if _takes(key, *takers))
            own = next(own, "rewrite_options")
            raise ValueError(
                "`search` takes arguments of `fit` by name, those of `rewrite`, and options of its "
                "layers, in `rewrite_options`, of `SearchModel.compile` in `compile_options`, of "
                f"`finalize` in `finalize_options`. Received: {given}; give it as "
                f"{own}={{{key!r}: {value!r}}} if that is meant"
            )


def _takes(name, *functions):
    """Return whether one of some functions has an argument of a name."""
    return any(name in inspect.signature(function).parameters for function in functions)


def _check_budget(space, compile_options):
    """Raise `ValueError` for masks that nothing makes smaller."""
    masked = any(isinstance(layer, MaskedLayer) for layer in searchable_layers(space))
    if masked and compile_options.get("complexity_target") is None:
        raise ValueError(
            "A search of masks needs a `complexity_target`: they begin at full size, and nothing "
            "else makes them smaller. Give compile_options={'complexity_target': 0.5 * "
            "keras_xd.complexity(model), 'complexity_weight': 1.0} for half of the multiply–adds. "
            f"Received: compile_options={compile_options!r}"
        )


def _check_epochs(epochs, compile_options):
    """Raise `ValueError` if warm-up and cool-down leave no epoch in which anything is searched."""
    fixed = {name: compile_options.get(name, 0) for name in ("warmup_epochs", "cooldown_epochs")}
    for name, value in fixed.items():
        nonnegative_integer(value, name)
    if sum(fixed.values()) >= epochs:
        raise ValueError(
            "`epochs` must leave an epoch in which the architecture moves, after warm-up and "
            f"before cool-down. Received: epochs={epochs}, {fixed}"
        )


def _fresh(metrics):
    """Return a structure of metrics with a new object for each that keeps values."""

    def copy(metric):
        if not isinstance(metric, keras.metrics.Metric):
            return metric
        try:
            return metric.from_config(metric.get_config())
        except (TypeError, ValueError):  # a class of one's own without a whole configuration
            return metric

    return keras.tree.map_structure(copy, metrics)


def _penalties(model, compiled):
    """Return what is in a loss beside data and outputs, which differs from one row to the next."""
    weights = [weight for weight in model.trainable_variables if weight.regularizer is not None]
    penalties = [weight.regularizer(weight) for weight in weights]
    if isinstance(compiled, SearchModel) and compiled.complexity_target is not None:
        penalties.append(budget.complexity_term(compiled))
    return sum(map(float, penalties))


def _row(name, model, compiled, data, fit_options):
    """Return a row of the report."""
    metrics, validation = {}, data["validation_data"]
    if validation is not None:
        options = {"steps": fit_options.get("validation_steps"), "verbose": 0, "return_dict": True}
        if isinstance(validation, (tuple, list)):
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(tuple(validation))
            size = fit_options.get("validation_batch_size") or data["batch_size"]
            options |= {"y": y, "sample_weight": sample_weight, "batch_size": size}
        else:
            x = validation
        found = compiled.evaluate(x, **options)
        metrics = {key: float(value) for key, value in found.items()}
        metrics["loss"] -= _penalties(model, compiled)
    try:
        multiply_adds = int(complexity(model))
    except UnknownSizeError:
        multiply_adds = None
    return SearchReportRow(name, model.count_params(), multiply_adds, metrics)
