"""A whole search in one call: rewrite, compile, fit, finalize, report."""

import dataclasses
import inspect
import os
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from keras_xd import auto, one_call
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import searchable_layers
from keras_xd.core.validation import nonnegative_integer, positive_integer
from keras_xd.finalizing.finalizer import check_options, finalize
from keras_xd.finalizing.report import SearchReport
from keras_xd.layers.masked.base import MaskedLayer
from keras_xd.rewriting.candidates import check_model
from keras_xd.rewriting.rewriter import rewrite
from keras_xd.training import checks, defaults
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
class SearchResult:
    """What `keras_xd.search` returns; its docstring says what the attributes are."""

    model: keras.Model
    search: SearchModel | None
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
    to: str = "auto",
    budget: float | None = None,
    seed: int | None = None,
    folder: str | os.PathLike | None = None,
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

    With the name of a search space it is `rewrite`, `SearchModel`, its `compile` and `fit`, and
    `finalize`, with nothing that these do not do by themselves. Take them one by one to keep a
    search space, to go on with a search, or for restarts and guards.

    With `to="auto"` the backbone itself is trained, and search spaces that fit it: XD of depth 1,
    with the weights' learning rate and with half of it, with a larger budget K-operations, XD of
    depth 3 and DASH too, or structured matrices where nothing convolves. The spaces are trained for
    some epochs, the one with the least loss to the end. Arrays are shuffled in each epoch. What is
    kept is the backbone, unless the best space is better by more than twice the standard error of
    the difference, over validation samples and seeds, in the first accuracy among the metrics or,
    where that is not worse, in the loss. A space that mixes operations is finalized after a third
    of the epochs and trained on. Where the budget pays for that, `budget=12`, backbone and best
    space are repeated with other seeds. What a step of a space costs is a typical figure, so that a
    seed gives the same result; the report has the seconds.

    `model` is not changed, unless it is a search space already (it has searchable layers). Such a
    model is not rewritten but trained as it is.

    Args:
        model: a built Keras model: Functional, Sequential or subclassed.
        x, y: as in `keras.Model.fit`: arrays, a `tf.data.Dataset`, a `keras.utils.PyDataset`.
        epochs: number of epochs.
        validation_data: as in `keras.Model.fit`, or of arrays `validation_split`. The report gives
            the metrics on them. With `to="auto"`, which decides by them, a fifth of the arrays,
            drawn by `seed`, validates if neither is given.
        to: the search space, as in `rewrite`, or `"auto"`, as above.
        budget: with `to="auto"`, what all trainings may cost, in plain trainings of the backbone
            for `epochs` epochs; 4 by default.
        seed: with `to="auto"`, an integer that gives the same result again; 0 by default. Random
            numbers of Keras, NumPy and Python are seeded, and left so.
        folder: with `to="auto"`, a folder for what is finished. The same call, with the same
            samples, goes on there after an interruption. Of data sets only the form is compared.
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
        A `keras_xd.searching.SearchResult` with the attributes

        - `model`: the plain model that `keras_xd.finalize` makes of the search, compiled with the
          loss and the metrics of the search and a fresh copy of the optimizer of its weights. With
          `to="auto"` it may be a trained copy of the backbone.
        - `search`: the trained `SearchModel`; `None` if the backbone was kept.
        - `history`: the `keras.callbacks.History` of the training.
        - `report`: `str()` of it is a table, `to_dict()` plain values. Its `rows` are the backbone
          as it was given, the search and the finalized model, each with its name `model`,
          `parameters`, `multiply_adds` of one sample (or `None`) and `metrics` on the validation
          data. With `to="auto"` they are the trained backbone and the finalized model of each space
          that was tried, with `standard_errors` over samples and seeds, `epochs`, `seeds`,
          `seconds` of all trainings, `milliseconds` of a call with one sample and the error by
          which it `failed`; `report.kept` names the row that was kept, `report.reason` says why.

    Raises:
        ValueError: as `rewrite`, `SearchModel.compile`, `SearchModel.fit` and `finalize`; for
            arrays with NaN or infinity, labels that do not fit the loss or of one class only; for a
            `budget` that pays for no space, and a `folder` of another search; if warm-up and
            cool-down leave no epoch for the architecture; if options are given twice, or are none
            of the function they are for; for masks without a `complexity_target`; after the first
            batch whose loss is NaN or infinite.

    Warns:
        UserWarning: for fewer samples than a batch, and a validation part that lacks a class.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> images, labels = np.random.rand(32, 8, 8, 1), np.random.randint(3, size=32)
    >>> backbone = keras.Sequential(
    ...     [
    ...         keras.Input((8, 8, 1)),
    ...         keras.layers.Conv2D(4, 3, activation="relu"),
    ...         keras.layers.GlobalAveragePooling2D(),
    ...         keras.layers.Dense(3, activation="softmax"),
    ...     ]
    ... )
    >>> backbone.compile(
    ...     "adam", "sparse_categorical_crossentropy", metrics=["accuracy"]
    ... )
    >>> options = {"validation_split": 0.5, "batch_size": 8, "verbose": 0}
    >>> result = keras_xd.search(backbone, images, labels, to="xd", epochs=1, **options)
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
    space, searchable = model, searchable_layers(model)
    data = {**fit_options, "validation_data": validation_data, "batch_size": batch_size}
    callbacks = keras.tree.flatten(callbacks or [])
    chosen_by = {"budget": budget, "seed": seed, "folder": folder}
    chosen_by = {name: value for name, value in chosen_by.items() if value is not None}
    if (to, searchable) == ("auto", []):
        of_space = {"mode": mode, "architecture_optimizer": architecture_optimizer}
        _check_choice(x, y, data, {**rewrite_options, **of_space}, compile_options)
        compiling = {"optimizer": optimizer, "loss": loss, "metrics": metrics, **compile_options}
        setup = auto.Setup(model, x, y, data, compiling, finalize_options, callbacks, epochs)
        return _chosen(setup, verbose, **chosen_by)
    if chosen_by:
        raise ValueError(
            f"`{'`, `'.join(chosen_by)}` are for to='auto'. Received: to={to!r}, {chosen_by}"
        )
    if not searchable:
        space = rewrite(model, to, **rewrite_options)
    elif to not in ("auto", "xd") or rewrite_options:
        raise ValueError(
            "A model with searchable layers is searched as it is, not rewritten. "
            f"Received: to={to!r}, rewrite_options={rewrite_options!r}"
        )
    optimizer, architecture_optimizer, loss, metrics, compile_options = defaults.completed(
        space, optimizer, architecture_optimizer, loss, metrics, compile_options
    )
    _check_budget(space, compile_options)
    checks.check_samples(model, x, y, loss, data)
    x, y, data = one_call.held_out(x, y, data, None, 0)
    checks.check_parts(model, y, loss, data)
    trained = SearchModel(space)
    trained.compile(optimizer, architecture_optimizer, loss, metrics, mode=mode, **compile_options)
    same = {name: compile_options[name] for name in SHARED if name in compile_options}
    backbone = _Measured(model)
    backbone.compile(loss=loss, metrics=one_call.fresh(metrics), **one_call.fresh(same))
    rows = [one_call.report_row("backbone", model, backbone, data)]
    callbacks = [*callbacks, RaiseOnNonFinite()]
    history = trained.fit(x, y, epochs=epochs, callbacks=callbacks, verbose=verbose, **data)
    plain = finalize(trained, **finalize_options)
    one_call.compile_plain(plain, trained, {"loss": loss, "metrics": metrics, **same})
    rows.append(one_call.report_row("search", trained, trained, data))
    rows.append(one_call.report_row("finalized", plain, plain, data))
    report = SearchReport(tuple(rows))
    if verbose:
        print(report)
    return SearchResult(plain, trained, history, report)


def _chosen(setup, verbose, budget=4.0, seed=0, folder=None):
    """Return the result of a choice among search spaces."""
    seed = validation.nonnegative_integer(seed, "seed")
    budget = validation.positive_number(budget, "budget")
    model, loss = setup.model, setup.compiled()["loss"]
    checks.check_samples(model, setup.x, setup.y, loss, setup.data)
    x, y, data = one_call.held_out(setup.x, setup.y, setup.data, auto.SPLIT, seed)
    setup = dataclasses.replace(setup, x=x, y=y, data=data, seed=seed)
    checks.check_parts(model, y, loss, data)
    *found, report = auto.select(setup, budget, folder, verbose)
    if verbose:
        print(report)
    return SearchResult(*found, report)


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


def _check_choice(x, y, data, of_space, compile_options):
    """Raise `ValueError` for what does not go with a choice among search spaces."""
    wrong = {name: value for name, value in of_space.items() if value not in (None, "joint")}
    of_search = {n: v for n, v in compile_options.items() if not _takes(n, keras.Model.compile)}
    of_search |= {n: v for n, v in data.items() if "architecture" in n or n == "initial_epoch"}
    wrong |= of_search
    if wrong:
        raise ValueError(
            "to='auto' takes the settings of each space from its recipe. For others name the "
            f"space, such as to='xd'. Received: {wrong}"
        )
    if isinstance(x, Iterator):
        raise ValueError(
            "to='auto' reads the samples several times: give arrays, a tf.data.Dataset or a "
            f"keras.utils.PyDataset. Received: x={x!r}"
        )
    if y is None and data["validation_data"] is None:
        raise ValueError(
            "to='auto' needs `validation_data` with a data set, whose samples are not split. "
            f"Received: x={x!r}, validation_data=None"
        )
