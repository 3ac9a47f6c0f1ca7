"""The choice among search spaces: `keras_xd.search(model, x, y, to="auto")`."""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import logging
import math
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_xd import recipes
from keras_xd.core import files, saving
from keras_xd.core.mixtures import CandidateMixture
from keras_xd.core.searchable import flatten_layers
from keras_xd.core.validation import UnknownSizeError
from keras_xd.finalizing.finalizer import finalize
from keras_xd.finalizing.report import SearchReport, SearchReportRow
from keras_xd.graph.cost import complexity
from keras_xd.graph.replacing import LayerReplacer
from keras_xd.rewriting.rewriter import planned, rewrite
from keras_xd.training import budget as complexity_budget
from keras_xd.training import defaults, weight_groups
from keras_xd.training.callbacks.non_finite import RaiseOnNonFinite
from keras_xd.training.random_state import generator_states
from keras_xd.training.search_model import SearchModel

SPLIT = 0.2  # of the samples that validate, where nothing else is given
BLOCKS = 20  # of the validation samples, by whose differences the standard error is taken
CALLS = 10  # that latency is the median of
BACKBONE = "backbone"
INDEX = "search.json"


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A search space with its settings, or the backbone.

    Attributes:
        name: as in the report.
        to: as in `rewrite`; `None` for the backbone.
        cost: of a step, in steps of the backbone.
        rate: of the architecture.
        options: of `rewrite`, in addition to those of the space's recipe.
        later: the cost of a step of what it becomes before the last rung; `None` for the same.
    """

    name: str
    to: str | None = None
    cost: float = 1.0
    rate: float | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    later: float | None = None

    def rewrite(self, model: keras.Model) -> keras.Model:
        """Return the search space of a model, without a word on the layers that are left."""
        logger = logging.getLogger("keras_xd.rewriting")
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            return rewrite(model, self.to, **self.rewrite_options)
        finally:
            logger.setLevel(level)

    @property
    def rewrite_options(self) -> dict[str, Any]:
        """The arguments of `rewrite`."""
        return {**recipes.recipe(self.to).rewrite_options, **self.options}


# The most promising first: a small budget leaves out the last ones. Costs are typical ones of small
# networks on a processor; constants, so that a seed gives the same schedule on every machine.
SPACES = (
    Candidate("xd, rate 0.001", "xd", 3.0, 1e-3, {"depth": 3}),
    Candidate("dash", "dash", 3.5, 0.1, {"kernel_sizes": (3, 7, 11), "dilations": (1, 3)}, 1.0),
    Candidate("xd, rate 0.0001", "xd", 3.0, 1e-4, {"depth": 3}),
    Candidate("k_operation", "k_operation", 2.4, 1e-3),
    Candidate("structured", "structured", 2.5, 0.05, later=1.0),
)
SHORTEST = 0.4  # share of the epochs that the best space is trained for, before spaces are left out


@dataclasses.dataclass(frozen=True)
class Schedule:
    """What is trained for how long.

    Attributes:
        rungs: pairs of an epoch and of how many search spaces are trained up to it.
        seeds: how many seeds the backbone and the best space are trained with; several only where
            all trainings of the best space go to the last epoch.
        trainings: what all of it costs, in plain trainings of the backbone.
    """

    rungs: tuple[tuple[int, int], ...]
    seeds: int
    trainings: float

    @property
    def last(self) -> int:
        """The last epoch of a search space."""
        return self.rungs[-1][0]


def schedule(candidates: Sequence[Candidate], epochs: int, budget: float) -> Schedule:
    """Return the best schedule of successive halving that a budget pays for.

    The backbone is always trained for all epochs. Wanted are, in this order: all spaces, with three
    or two seeds of the finalists for all epochs; one seed, and as many epochs as are paid for; if
    they are fewer than 0.4 of all, fewer spaces.
    """
    count, least = len(candidates), math.floor(SHORTEST * epochs)
    wishes = [(count, epochs, seeds) for seeds in (3, 2)]
    for number in range(count, 0, -1):
        fewest = least if number > 1 else 0
        wishes += [(number, last, 1) for last in range(epochs, fewest, -1)]
    for number, last, seeds in wishes:
        found = _schedule(candidates[:number], epochs, last, seeds)
        if found.trainings <= budget:
            return found
    raise ValueError(
        "`budget` must pay for a plain training of the backbone and an epoch of one search space, "
        f"{found.trainings:.2g} plain trainings. Received: budget={budget}, epochs={epochs}"
    )


def _schedule(candidates, epochs, last, seeds):
    """Return a schedule, whose cost is that of the costliest survivors."""
    number, rungs = len(candidates), {}
    if number > 2:
        rungs[-(-last // 8)] = number
    rungs.setdefault(-(-last // 4), min(number, 2))
    rungs.setdefault(last, 1)
    costs = sorted((one.cost for one in candidates), reverse=True)
    later = max(one.cost if one.later is None else one.later for one in candidates)
    spent, alone, before = float(epochs), float(epochs), 0
    for epoch, kept in rungs.items():
        plain = before and epoch == last
        spent += (epoch - before) * (later if plain else sum(costs[:kept]))
        alone += (epoch - before) * (later if plain else costs[0])
        before = epoch
    spent += (seeds - 1) * alone
    return Schedule(tuple(rungs.items()), seeds, spent / epochs)


def candidates_for(model: keras.Model) -> list[Candidate]:
    """Return the search spaces that have something to replace in a model."""
    found = []
    for candidate in SPACES:
        try:
            _, plan = planned(model, candidate.to, candidate.rewrite_options, None, None)
        except ValueError:
            continue
        able = [one.layer for one in plan.found if one.reason is None]
        head = plan.found[-1].layer
        if candidate.to == "structured" and head in able:  # the outputs' layer stays what it is
            candidate = dataclasses.replace(candidate, options={"skip": head.name})
            able.remove(head)
        if able:
            found.append(candidate)
    if not found:
        raise ValueError(
            "`model` must have a convolution of known sizes or a dense layer to search; "
            f"`keras_xd.rewrite` says why there is none. Received: model '{model.name}'"
        )
    return found


@dataclasses.dataclass
class Setup:
    """What all trainings of a selection share.

    Attributes:
        model: the backbone, which is not changed.
        x, y: the training samples.
        data: arguments of `fit`, validation data among them.
        compiling: the arguments of `compile`, `optimizer`, `loss` and `metrics` among them.
        finalize_options: as in `search`.
        callbacks: as in `search`.
        seed: as in `search`.
        share: of the epochs, that spaces are trained for.
    """

    model: keras.Model
    x: Any
    y: Any
    data: dict[str, Any]
    compiling: dict[str, Any]
    finalize_options: dict[str, Any]
    callbacks: list[Any]
    seed: int = 0
    share: float = 1.0

    def compiled(self) -> dict[str, Any]:
        """Return new arguments of `compile`, from what was given or the backbone's own."""
        given = dict(self.compiling)
        optimizer, loss, metrics = (given.pop(n) for n in ("optimizer", "loss", "metrics"))
        if isinstance(optimizer, keras.optimizers.Optimizer):
            optimizer = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
        optimizer, _, loss, metrics, more = defaults.completed(
            self.model, optimizer, None, loss, metrics, given
        )
        return {"optimizer": optimizer, "loss": loss, "metrics": fresh(metrics), **fresh(more)}


class Run:
    """The training of one candidate with one seed, which goes on from a folder."""

    def __init__(self, setup, candidate, number, folder, progress):
        self.setup, self.candidate, self.number = setup, candidate, number
        self.folder, self.progress = folder, progress
        slug = "".join(c if c.isalnum() else "_" for c in candidate.name)
        self.name = f"{slug}-{number}"
        new = {"trained": [], "measured": {}, "history": {}, "seconds": 0.0, "failed": None}
        self.record = folder.read(self.name) or new
        self.search, self.plain = None, None  # the `SearchModel`, and the plain model of it

    @property
    def failed(self):
        """The error that ended it, or `None`."""
        return self.record["failed"]

    @property
    def epochs(self):
        """The last epoch that was measured."""
        return max(map(int, self.record["measured"]), default=0)

    @property
    def last(self):
        """What was measured last."""
        return self.at(self.epochs)

    def at(self, epochs):
        """Return what was measured at an epoch."""
        return self.record["measured"][str(epochs)]

    def train(self, epochs, switch=None):
        """Train up to an epoch, and measure there; a mixture becomes plain after `switch`."""
        if self.failed or str(epochs) in self.record["measured"]:
            return
        begin = time.perf_counter()
        try:
            self.restore(switch)
            for stop in sorted({epochs, min(epochs, switch or epochs)}):
                self._train(stop, switch)
            self.record["measured"][str(epochs)] = self._measured()
        except Exception as error:  # of one space, which ends neither the others nor the backbone
            if files.is_full(error) or self.candidate.to is None:
                raise
            self.record["failed"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self.forget()
        self.record["seconds"] += time.perf_counter() - begin
        self.folder.write(self.name, self.record)
        self.progress.told(self, epochs)

    def restore(self, switch=None):
        """Make the model as it was at the last epoch that was reached."""
        if self.search is not None or self.plain is not None:
            return
        keras.utils.set_random_seed(self._seed(0))
        options = self.setup.compiled()
        if self.candidate.to is None:
            self.plain = _copied(self.setup.model)
            self.plain.compile(**options)
        else:
            self.search = self._search(options)
        trained = self.record["trained"]
        for stop in trained:
            if stop in (switch, trained[-1]):
                self._become_plain(stop - 1, switch)
                self.folder.load(self._trained_model, f"{self.name}-{stop}")

    def forget(self):
        """Give the models free."""
        self.search = self.plain = None

    def result(self):
        """Return the plain model, compiled, the search and its history."""
        history = keras.callbacks.History()
        history.history = self.record["history"]
        history.epoch = list(range(len(next(iter(history.history.values()), ()))))
        return self._plain_model(), self.search, history

    @property
    def _trained_model(self):
        """The model that is trained at present."""
        return self.search if self.plain is None else self.plain

    def _search(self, options):
        """Return the compiled `SearchModel` of the candidate."""
        options["optimizer"] = _hurried(options["optimizer"], self.setup.share)
        search = SearchModel(self.candidate.rewrite(self.setup.model))
        scale = getattr(options["optimizer"], "loss_scale_factor", None)
        optimizer = keras.optimizers.Adam(self.candidate.rate, loss_scale_factor=scale)
        search.compile(architecture_optimizer=optimizer, **options)
        return search

    def _train(self, stop, switch):
        """Train from the last epoch to another one."""
        begin = max(self.record["trained"], default=0)
        if stop <= begin:
            return
        self._become_plain(begin, switch)
        model = self._trained_model
        keras.utils.set_random_seed(self._seed(begin))
        for number, state in enumerate(generator_states(model)):
            state.assign([self._seed(begin), number])
        own = [RaiseOnNonFinite(), self.progress.callback(self)]
        history = model.fit(
            self.setup.x,
            self.setup.y,
            initial_epoch=begin,
            epochs=stop,
            verbose=0,
            callbacks=[*self.setup.callbacks, *own],
            **self.setup.data,
        )
        for name, values in history.history.items():
            self.record["history"].setdefault(name, []).extend(map(float, values))
        self.record["trained"].append(stop)
        self.folder.save(model, f"{self.name}-{stop}")

    def _become_plain(self, epoch, switch):
        """Put the finalized model in place of a mixture, whose search has ended."""
        if switch is not None and epoch >= switch and self.plain is None and self._mixes():
            self.plain = self._plain_model()

    def _mixes(self):
        return any(isinstance(layer, CandidateMixture) for layer in flatten_layers(self.search))

    def _plain_model(self):
        if self.plain is not None:
            return self.plain
        plain = finalize(self.search, **self.setup.finalize_options)
        compile_plain(plain, self.search, self.setup.compiled())
        return plain

    def _measured(self):
        plain, data = self._plain_model(), self.setup.data
        row = report_row(self.candidate.name, plain, plain, data)
        blocks: dict[str, list[float]] = {}
        for x, y, sample_weight in _blocks(data):
            plain.reset_metrics()
            logs = plain.test_on_batch(x, y, sample_weight, return_dict=True)
            for name in row.metrics:
                blocks.setdefault(name, []).append(float(logs[name]))
        x = _mapped(lambda value: value[:1], next(_blocks(data))[0])
        return {
            "parameters": row.parameters,
            "multiply_adds": row.multiply_adds,
            "metrics": row.metrics,
            "blocks": blocks,
            "milliseconds": _milliseconds(lambda: plain.predict_on_batch(x)),
        }

    def _seed(self, epoch):
        return (self.setup.seed + 1009 * self.number + 7919 * epoch) % 2**32


def select(
    setup: Setup,
    epochs: int,
    budget: float,
    folder: str | os.PathLike | None,
    verbose: str | int,
) -> tuple[keras.Model, SearchModel | None, keras.callbacks.History, SearchReport]:
    """Try the backbone and search spaces; return what is kept, as `search` returns it."""
    candidates = candidates_for(setup.model)
    plan = schedule(candidates, epochs, budget)
    candidates = candidates[: plan.rungs[0][1]]
    setup = dataclasses.replace(setup, share=plan.last / epochs)
    names = [candidate.name for candidate in candidates]
    store = Folder(folder, _settings(setup, epochs, budget, names))
    progress = Progress(plan.trainings * epochs, verbose)
    if progress.verbose:
        seconds = _expected_seconds(setup, plan, epochs, [one.cost for one in candidates])
        progress.begin(_described(names, plan, epochs, budget, seconds))
    make = functools.partial(Run, setup, folder=store, progress=progress)
    backbones = [make(Candidate(BACKBONE), number) for number in range(plan.seeds)]
    backbones[0].train(epochs)
    objective = Objective.of(backbones[0].last["metrics"])
    runs = ranked = [make(candidate, 0) for candidate in candidates]
    switch = plan.rungs[-2][0] if len(plan.rungs) > 1 else None
    for epoch, number in plan.rungs:
        for run in ranked[number:]:
            run.forget()
        for run in ranked[:number]:
            run.train(epoch, switch)
        ranked = sorted(ranked[:number], key=objective.error)
    best = [ranked[0], *(make(ranked[0].candidate, number) for number in range(1, plan.seeds))]
    for run in [*backbones[1:], *best[1:]]:
        run.train(epochs, switch)
    gain, error = objective.gain(backbones, best)
    wins = gain > 2 * error
    chosen = min(best if wins else backbones, key=objective.error)
    chosen.restore(switch)
    repeats = {BACKBONE: backbones, best[0].candidate.name: best}
    rows = [_row(repeats.get(run.candidate.name, [run])) for run in (backbones[0], *runs)]
    progress.end()
    reason = objective.reason(best[0], gain, error, wins)
    reason += (
        f"\nAll trainings took {sum(row.seconds for row in rows):.3g} s, the first one of the "
        f"backbone {backbones[0].record['seconds']:.3g} s."
    )
    return *chosen.result(), SearchReport(tuple(rows), chosen.candidate.name, reason)


@dataclasses.dataclass(frozen=True)
class Objective:
    """The metric that candidates are compared by.

    Attributes:
        name: of the metric.
        sign: 1 if less is better, -1 if more is.
    """

    name: str
    sign: int

    @classmethod
    def of(cls, metrics: Mapping[str, float]) -> "Objective":
        """Return the first accuracy among metrics, else the loss."""
        found = [name for name in metrics if name == "acc" or "accuracy" in name]
        return cls(found[0], -1) if found else cls("loss", 1)

    def error(self, run: Run) -> float:
        """Return how bad a run is at its last epoch; infinite if it failed."""
        if run.failed:
            return math.inf
        value = self.sign * run.last["metrics"][self.name]
        return math.inf if math.isnan(value) else value

    def gain(self, backbones: Sequence[Run], best: Sequence[Run]) -> tuple[float, float]:
        """Return by how much a space is better than the backbone, and the standard error.

        The error is that of the differences on the same validation samples, in blocks, and over
        seeds, with the same seeds.
        """
        pairs = list(zip(backbones, best, strict=True))
        gains = [self.error(one) - self.error(two) for one, two in pairs]
        if not all(map(math.isfinite, gains)):
            return -math.inf, 0.0
        blocks = [np.subtract(*(run.last["blocks"][self.name] for run in pair)) for pair in pairs]
        error = math.hypot(standard_error(np.mean(blocks, axis=0)), standard_error(gains))
        return float(np.mean(gains)), error

    def reason(self, best: Run, gain: float, error: float, wins: bool) -> str:
        """Return a sentence on what was kept and why."""
        name = best.candidate.name
        if not math.isfinite(gain):
            return f"Kept is the backbone: {name}, the best of the spaces, failed."
        kept = name if wins else f"the backbone, not {name}"
        return (
            f"Kept is {kept}: its gain in val_{self.name} is {gain:.3g}, with a standard error of "
            f"the difference of {error:.2g}, and more than twice that is needed."
        )


class Folder:
    """Records and weights of what is finished, in files; nothing without a path."""

    def __init__(self, path: str | os.PathLike | None, settings: dict[str, Any]):
        self.path = None if path is None else os.fspath(path)
        if self.path is None:
            return
        settings = json.loads(json.dumps(settings))
        index = os.path.join(self.path, INDEX)
        if not os.path.exists(index):
            if os.path.exists(self.path) and os.listdir(self.path):
                raise ValueError(
                    "`folder` must be new, empty or that of an earlier search. "
                    f"Received: folder={self.path!r}, which has other files"
                )
            os.makedirs(self.path, exist_ok=True)
            files.write(index, json.dumps(settings, indent=1).encode())
        found = self._json(index)
        wrong = [name for name in settings if found.get(name) != settings[name]]
        if wrong:
            raise ValueError(
                "A folder holds one search: use another folder for another model, other data or "
                f"other settings. Received: folder={self.path!r}, where these differ: {wrong}"
            )

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a record, or `None`."""
        path = None if self.path is None else os.path.join(self.path, f"{name}.json")
        return self._json(path) if path is not None and os.path.exists(path) else None

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Keep a record, whose weights are there already."""
        if self.path is not None:
            path = os.path.join(self.path, f"{name}.json")
            files.write(path, json.dumps(record, indent=1).encode(), overwrite=True)

    def save(self, model: keras.Model, name: str) -> None:
        """Keep weights and the state of the optimizer."""
        if self.path is not None:
            saving.write_weights(model, os.path.join(self.path, f"{name}.weights.h5"))

    def load(self, model: keras.Model, name: str) -> None:
        """Load what `save` has written."""
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        model.load_weights(os.path.join(self.path, f"{name}.weights.h5"))

    def _json(self, path):
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            if not isinstance(content, dict):
                raise ValueError("no dictionary")
        except ValueError as error:
            raise ValueError(
                "A folder of a search must hold whole files of `keras_xd.search`. "
                f"Received: {path!r}, which cannot be read: {error}"
            ) from error
        return content


class Progress:
    """A bar with the time that is left, or a line for each training."""

    def __init__(self, units: float, verbose: str | int):
        self.units, self.verbose = units, 1 if verbose == "auto" else int(verbose)
        self.done, self.start = 0.0, time.perf_counter()
        self.bar = keras.utils.Progbar(100, unit_name="percent") if self.verbose == 1 else None

    def begin(self, text: str) -> None:
        """Tell what will be done."""
        print(text, flush=True)
        self.start = time.perf_counter()

    def callback(self, run: Run) -> keras.callbacks.Callback:
        """Return a callback that moves the bar with each epoch."""
        cost = 1.0 if run.search is None else run.candidate.cost
        if run.plain is not None:
            cost = run.candidate.later or cost
        return keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: self._add(cost))

    def told(self, run: Run, epochs: int) -> None:
        """Tell of a training up to an epoch."""
        if self.verbose == 2:
            elapsed = time.perf_counter() - self.start
            left = elapsed / max(self.done, 1e-9) * max(0.0, self.units - self.done)
            values = {} if run.failed else run.last["metrics"]
            text = ", ".join(f"val_{name} {value:.4g}" for name, value in values.items())
            print(
                f"{run.candidate.name}, seed {run.number}, epoch {epochs}: {run.failed or text}; "
                f"{elapsed:.0f} s, about {left:.0f} s left",
                flush=True,
            )

    def end(self) -> None:
        """Fill the bar."""
        if self.bar is not None:
            self.bar.update(100, finalize=True)

    def _add(self, cost):
        self.done += cost
        if self.bar is not None:
            self.bar.update(min(99, round(100 * self.done / self.units)))


def fresh(metrics: Any) -> Any:
    """Return a structure of metrics with a new object for each that keeps values."""

    def copy(metric):
        if not isinstance(metric, keras.metrics.Metric):
            return metric
        try:
            return metric.from_config(metric.get_config())
        except (TypeError, ValueError):  # a class of your own without a whole configuration
            return metric

    return keras.tree.map_structure(copy, metrics)


def compile_plain(plain: keras.Model, search: SearchModel, options: dict[str, Any]) -> None:
    """Compile a finalized model, with a fresh optimizer like that of the search's weights."""
    optimizer = weight_groups.joined(search.search_optimizer, plain)
    optimizer = optimizer.from_config(optimizer.get_config())
    plain.compile(**{**fresh(options), "optimizer": optimizer})
    if isinstance(optimizer.get_config().get("learning_rate"), dict):  # a schedule goes on
        optimizer.iterations.assign(search.search_optimizer.iterations)


def penalties(model: keras.Model, compiled: keras.Model) -> float:
    """Return what is in a loss beside data and outputs, which differs from one row to the next."""
    weights = [weight for weight in model.trainable_variables if weight.regularizer is not None]
    found = [weight.regularizer(weight) for weight in weights]
    if isinstance(compiled, SearchModel) and compiled.complexity_target is not None:
        found.append(complexity_budget.complexity_term(compiled))
    return sum(map(float, found))


def report_row(
    name: str, model: keras.Model, compiled: keras.Model, data: Mapping[str, Any]
) -> SearchReportRow:
    """Return a row of the report; `data` are arguments of `fit`."""
    metrics, validation = {}, data.get("validation_data")
    if validation is not None:
        options = {"steps": data.get("validation_steps"), "verbose": 0, "return_dict": True}
        if isinstance(validation, (tuple, list)):
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(tuple(validation))
            size = data.get("validation_batch_size") or data.get("batch_size")
            options |= {"y": y, "sample_weight": sample_weight, "batch_size": size}
        else:
            x = validation
        found = compiled.evaluate(x, **options)
        metrics = {key: float(value) for key, value in found.items()}
        metrics["loss"] -= penalties(model, compiled)
    try:
        multiply_adds = int(complexity(model))
    except UnknownSizeError:
        multiply_adds = None
    return SearchReportRow(name, model.count_params(), multiply_adds, metrics)


def held_out(
    x: Any, y: Any, data: dict[str, Any], default: float | None, seed: int
) -> tuple[Any, Any, dict[str, Any]]:
    """Return samples and arguments of `fit` with `validation_data` in place of a split.

    As in Keras the last samples validate, or by default a share that is drawn.
    """
    split = data.get("validation_split") or None
    if data.get("validation_data") is not None or y is None or (split or default) is None:
        return x, y, data
    parts = x, y, data.get("sample_weight")
    count = len(keras.tree.flatten(y)[0])
    kept = math.floor(count * (1 - (split or default)))
    if not 0 < kept < count:
        raise ValueError(
            "Some samples must train and some must validate. "
            f"Received: {count} samples, validation_split={split or default}"
        )
    order = np.random.default_rng(seed).permutation(count)
    rows = (slice(kept), slice(kept, None)) if split else (order[:kept], order[kept:])
    train, held = (_mapped(lambda value, r=r: np.asarray(value)[r], parts) for r in rows)
    data = {name: value for name, value in data.items() if name != "validation_split"}
    if parts[2] is not None:
        data["sample_weight"] = train[2]
    data["validation_data"] = held if parts[2] is not None else held[:2]
    return train[0], train[1], data


def standard_error(values: Any) -> float:
    """Return the standard error of the mean of values; 0 of a single one."""
    values = list(values)
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _mapped(function, structure):
    """Return a structure of what a function makes of its values, except for `None`."""
    return keras.tree.map_structure(lambda v: None if v is None else function(v), structure)


def _hurried(optimizer, share):
    """Return an optimizer whose rate falls in a share of the steps, if along a schedule."""
    config = optimizer.get_config()
    rate = config.get("learning_rate")
    if share == 1 or not isinstance(rate, dict) or "decay_steps" not in rate["config"]:
        return optimizer
    steps = max(1, round(share * rate["config"]["decay_steps"]))
    rate = {**rate, "config": {**rate["config"], "decay_steps": steps}}
    return optimizer.from_config({**config, "learning_rate": rate})


def _copied(model):
    """Return a copy of a model of any form."""
    return LayerReplacer(lambda layer: False, lambda layer: layer)(model)


def _blocks(data) -> Iterator[tuple[Any, Any, Any]]:
    """Yield small parts `(x, y, sample_weight)` of the validation samples."""
    validation, steps, pieces = data["validation_data"], data.get("validation_steps"), 4
    if isinstance(validation, (tuple, list)):
        batches, pieces = [tuple(validation)], BLOCKS
    elif isinstance(validation, keras.utils.PyDataset):
        batches = (validation[index] for index in range(validation.num_batches))
    else:
        batches = iter(validation)
    for batch in itertools.islice(batches, steps):
        count = len(keras.tree.flatten(batch)[0])
        for piece in range(min(pieces, count)):
            part = _mapped(lambda value, p=piece: value[p::pieces], batch)
            yield keras.utils.unpack_x_y_sample_weight(tuple(part))


def _milliseconds(call):
    """Return the median time of calls."""
    call()
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


def _expected_seconds(setup, plan, epochs, costs):
    """Return about how long a schedule takes, from steps of a copy, or `None` if unknown."""
    x, y, data = setup.x, setup.y, setup.data
    if y is not None:
        size = data.get("batch_size") or 32
        count = -(-len(keras.tree.flatten(y)[0]) // size)
        batch = _mapped(lambda value: value[:size], (x, y))
    else:
        count = None
        with contextlib.suppress(TypeError):
            count = len(x)
        batch = x[0] if isinstance(x, keras.utils.PyDataset) else next(iter(x))
    count = data.get("steps_per_epoch") or count
    if count is None:
        return None
    model = _copied(setup.model)
    model.compile(**setup.compiled())
    inputs, targets, _ = keras.utils.unpack_x_y_sample_weight(tuple(batch))
    begin = time.perf_counter()
    model.train_on_batch(inputs, targets)
    first = time.perf_counter() - begin
    step = _milliseconds(lambda: model.train_on_batch(inputs, targets)) / 1e3
    # Training, evaluating and predicting have a graph each.
    graphs = 3 * (plan.seeds + sum(costs) + (plan.seeds - 1) * max(costs))
    return count * step * epochs * plan.trainings + graphs * first


def _described(names, plan, epochs, budget, seconds):
    """Return a sentence on what will be tried."""
    about = "" if seconds is None else f", about {seconds:.3g} s"
    rungs = ", ".join(f"{number} up to epoch {epoch}" for epoch, number in plan.rungs)
    repeats = f"; backbone and best space with {plan.seeds} seeds" if plan.seeds > 1 else ""
    return (
        f"keras_xd.search trains the backbone for {epochs} epochs and of the search spaces "
        f"{'; '.join(names)} {rungs}{repeats}: "
        f"{plan.trainings:.2g} plain trainings of the backbone, budget {budget:g}{about}."
    )


def _row(runs):
    """Return the row of a candidate, the mean over its seeds."""
    first, name = runs[0], runs[0].candidate.name
    seconds = sum(run.record["seconds"] for run in runs)
    failed = next((run.failed for run in runs if run.failed), None)
    if not first.record["measured"]:
        return SearchReportRow(name, 0, None, {}, seconds=seconds, failed=failed)
    metrics, errors = {}, {}
    whole = [run.last for run in runs if not run.failed] or [first.last]
    for metric in first.last["metrics"]:
        values = [measured["metrics"][metric] for measured in whole]
        blocks = np.mean([measured["blocks"][metric] for measured in whole], axis=0)
        metrics[metric] = float(np.mean(values))
        errors[metric] = math.hypot(standard_error(blocks), standard_error(values))
    sizes = first.last["parameters"], first.last["multiply_adds"]
    milliseconds = first.last["milliseconds"]
    return SearchReportRow(
        name, *sizes, metrics, errors, first.epochs, len(runs), seconds, milliseconds, failed
    )


def _settings(setup, epochs, budget, names):
    """Return what tells a search from others, of plain values."""
    digest = hashlib.sha256()
    for weight in setup.model.weights:
        digest.update(np.ascontiguousarray(keras.ops.convert_to_numpy(weight)).tobytes())
    samples = setup.x, setup.y, setup.data.get("validation_data")
    options = {n: v for n, v in setup.data.items() if n not in ("validation_data", "sample_weight")}
    return {
        "model": [[layer.name, type(layer).__name__] for layer in flatten_layers(setup.model)],
        "weights": digest.hexdigest(),
        "data": [_form(value) for value in keras.tree.flatten(samples)],
        "search": {"epochs": epochs, "budget": budget, "seed": setup.seed, "spaces": names},
        "fit": _plain(options),
        "compile": _plain(setup.compiled()),
        "finalize": _plain(setup.finalize_options),
    }


def _form(value):
    """Return the shape and type of an array, or those of the elements of a data set."""
    if hasattr(value, "shape"):
        return [list(value.shape), str(value.dtype)]
    return str(getattr(value, "element_spec", type(value).__name__))


def _plain(value):
    """Return a value as JSON has it, objects by their configurations."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "get_config"):
        return [type(value).__name__, str(value.get_config())]
    return getattr(value, "__name__", type(value).__name__)
