"""The choice among search spaces: `keras_xd.search(model, x, y, to="auto")`."""

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

from keras_xd import one_call, recipes
from keras_xd.core import files, saving
from keras_xd.core.searchable import flatten_layers
from keras_xd.finalizing.finalizer import finalize
from keras_xd.finalizing.report import SearchReport, SearchReportRow
from keras_xd.graph.replacing import LayerReplacer
from keras_xd.rewriting.rewriter import planned, rewrite
from keras_xd.training import checks, defaults
from keras_xd.training.callbacks.non_finite import RaiseOnNonFinite
from keras_xd.training.random_state import generator_states
from keras_xd.training.search_model import SearchModel

SPLIT = 0.2  # of the samples that validate, where nothing else is given
BLOCKS = 20  # of the validation samples, by whose differences the standard error is taken
CALLS = 10  # that latency is the median of
BACKBONE = "backbone"
INDEX = "search.json"
# Arguments of optimizers and of schedules.
RATES = "learning_rate initial_learning_rate warmup_target end_learning_rate values".split()


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A search space with its settings, or the backbone.

    Attributes:
        name: as in the report.
        to: as in `rewrite`; `None` for the backbone.
        rate: of the architecture, which falls to 0 along a cosine.
        cost: of a step, in steps of the backbone.
        options: of `rewrite`, beside those of the space's recipe.
        mixes: whether it is searched for a third of the epochs, and finalized for the others.
        factor: of the weights' rate.
    """

    name: str
    to: str | None = None
    rate: float | None = None
    cost: float = 1.0
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    mixes: bool = False
    factor: float = 1.0

    @property
    def rewrite_options(self) -> dict[str, Any]:
        """The arguments of `rewrite`."""
        return {**recipes.recipe(self.to).rewrite_options, **self.options}

    def rewrite(self, model: keras.Model) -> keras.Model:
        """Return the search space of a model, without a word on the layers that are left."""
        logger = logging.getLogger("keras_xd.rewriting")
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            return rewrite(model, self.to, **self.rewrite_options)
        finally:
            logger.setLevel(level)

    def searched(self, epochs: int) -> int:
        """Return the epochs of a training in which the architecture moves."""
        return -(-epochs // 3) if self.mixes else epochs

    def spent(self, epoch: int, epochs: int) -> float:
        """Return the cost of a training up to an epoch, in epochs of the backbone."""
        searched = min(epoch, self.searched(epochs))
        return self.cost * searched + epoch - searched


# The most promising first: a small budget leaves out the last ones. Costs are typical ones of small
# networks on a processor; constants, so that a seed gives the same schedule on every machine.
SPACES = (
    Candidate("xd, depth 1", "xd", 5e-3, 2.2, {"depth": 1}),
    Candidate("xd, depth 1, half the rate", "xd", 5e-3, 2.2, {"depth": 1}, factor=0.5),
    Candidate("k_operation", "k_operation", 5e-3, 2.1),
    Candidate("k_operation, half the rate", "k_operation", 5e-3, 2.1, factor=0.5),
    Candidate("xd, depth 3", "xd", 5e-4, 2.6, {"depth": 3}),
    Candidate("dash", "dash", 0.1, 2.5, {"kernel_sizes": (3, 7), "dilations": (1, 3)}, mixes=True),
)
# Of models without convolutions. It begins as the backbone, so that few epochs say little of it.
STRUCTURED = Candidate("structured", "structured", 0.05, 2.0, mixes=True)


def candidates_for(model: keras.Model) -> list[Candidate]:
    """Return the search spaces that have something to replace in a model."""
    found = [candidate for candidate in SPACES if any(_replaceable(candidate, model).values())]
    if found:
        return found
    layers = _replaceable(STRUCTURED, model)
    head, last = layers.popitem() if layers else (None, False)
    if not any(layers.values()):
        raise ValueError(
            "`model` must have a convolution of known sizes or a hidden dense layer to search; "
            f"`keras_xd.rewrite` says why there is none. Received: model '{model.name}'"
        )
    options = {"skip": head} if last else {}  # the outputs' layer stays what it is
    return [dataclasses.replace(STRUCTURED, options=options)]


def _replaceable(candidate, model):
    """Return the names of the layers that a space is for, and whether each can be replaced."""
    try:
        _, plan = planned(model, candidate.to, candidate.rewrite_options, None, None)
    except ValueError:
        return {}
    return {one.layer.name: one.reason is None for one in plan.found}


@dataclasses.dataclass(frozen=True)
class Schedule:
    """What is trained for how long.

    Attributes:
        spaces: how many search spaces are tried.
        first: the epochs that all of them are trained for, before only the best one goes on.
        seeds: how many seeds the backbone and the best space are trained with.
        trainings: what all of it costs, in plain trainings of the backbone.
    """

    spaces: int
    first: int
    seeds: int
    trainings: float


def schedule(candidates: Sequence[Candidate], epochs: int, budget: float) -> Schedule:
    """Return the best schedule that a budget pays for.

    The backbone and the best space are always trained for all epochs. Wanted are, in this order:
    three seeds of both, or two, with half of the spaces at least, or one; all spaces, or fewer;
    each for a quarter of the epochs before one is left, or for up to half where the budget allows.
    """
    count = len(candidates)
    wishes = itertools.product((3, 2, 1), range(count, 0, -1))
    wishes = (wish for wish in wishes if wish[0] == 1 or 2 * wish[1] >= count)
    firsts = range(max(1, epochs // 2), -(-epochs // 4) - 1, -1)
    for (seeds, spaces), first in itertools.product(wishes, firsts):
        tried = candidates[:spaces]
        whole = [one.spent(epochs, epochs) for one in tried]
        begun = [one.spent(first, epochs) for one in tried]
        # At most: the costliest one goes on.
        rest = max(cost - paid for cost, paid in zip(whole, begun, strict=True))
        spent = seeds * epochs + sum(begun) + rest + (seeds - 1) * max(whole)
        if spent <= budget * epochs:
            return Schedule(spaces, first, seeds, spent / epochs)
    raise ValueError(
        "`budget` must pay for a plain training of the backbone and one of a search space, "
        f"{spent / epochs:.2g} plain trainings. Received: budget={budget}, epochs={epochs}"
    )


class ShuffledArrays(keras.utils.PyDataset):
    """Batches of arrays, in another order in each epoch.

    Where a seed is set, Keras takes arrays in the same order in all epochs on TensorFlow.
    """

    def __init__(self, arrays, batch_size, seed):
        super().__init__()
        self.arrays, self.batch_size = one_call.mapped(np.asarray, arrays), batch_size
        self.order = np.arange(len(keras.tree.flatten(arrays)[0]))
        self.rng = None if seed is None else np.random.default_rng(seed)

    def __len__(self):
        return -(-len(self.order) // self.batch_size)

    def __getitem__(self, index):
        if index == 0 and self.rng is not None:
            self.order = self.rng.permutation(len(self.order))
        rows = self.order[index * self.batch_size :][: self.batch_size]
        return one_call.mapped(lambda array: array[rows], self.arrays)


@dataclasses.dataclass
class Setup:
    """What all trainings of a selection share.

    Attributes:
        model: the backbone, which is not changed.
        x, y: the training samples.
        data: arguments of `fit`, validation data among them.
        compiling: the arguments of `compile`, `optimizer`, `loss` and `metrics` among them.
        finalize_options, callbacks, seed, epochs: as in `search`.
    """

    model: keras.Model
    x: Any
    y: Any
    data: dict[str, Any]
    compiling: dict[str, Any]
    finalize_options: dict[str, Any]
    callbacks: list[Any]
    epochs: int
    seed: int = 0

    def compiled(self, factor: float = 1.0) -> dict[str, Any]:
        """Return new arguments of `compile`, from what was given or the backbone's own."""
        given = dict(self.compiling)
        optimizer, loss, metrics = (given.pop(n) for n in ("optimizer", "loss", "metrics"))
        optimizer, _, loss, metrics, more = defaults.completed(
            self.model, optimizer, None, loss, metrics, given
        )
        config = keras.optimizers.serialize(keras.optimizers.get(optimizer))
        optimizer = keras.optimizers.deserialize(slowed(config, factor))
        return one_call.fresh({"optimizer": optimizer, "loss": loss, "metrics": metrics, **more})

    def steps(self) -> int | None:
        """Return the number of steps of an epoch, `None` where it is not known."""
        given = self.samples(0)
        try:
            return given.get("steps_per_epoch") or len(given["x"])
        except TypeError:  # a data set of unknown length
            return getattr(self.x, "num_batches", None)

    def samples(self, seed: int) -> dict[str, Any]:
        """Return samples and arguments of `fit`, arrays in an order drawn for each epoch."""
        found = {"x": self.x, "y": self.y, **self.data}
        if self.y is None or found.get("steps_per_epoch"):
            return found
        size = found.pop("batch_size", None) or checks.BATCH_SIZE
        parts = (found.pop(name, None) for name in ("x", "y", "sample_weight"))
        parts = tuple(part for part in parts if part is not None)
        batches = ShuffledArrays(parts, size, seed if found.get("shuffle", True) else None)
        return {"validation_batch_size": size, **found, "x": batches, "shuffle": False}


def slowed(config: Any, factor: float) -> Any:
    """Return the configuration of an optimizer with all its learning rates times a factor."""
    if not isinstance(config, dict):
        return config
    rates = {n: v for n, v in config.items() if n in RATES and not isinstance(v, dict)}
    rates = one_call.mapped(lambda rate: factor * rate, rates)
    return {name: slowed(value, factor) for name, value in config.items()} | rates


class Run:
    """The training of one candidate with one seed, which goes on from a folder."""

    def __init__(self, setup, candidate, number, folder, progress):
        self.setup, self.candidate, self.number = setup, candidate, number
        self.folder, self.progress = folder, progress
        slug = "".join(c if c.isalnum() else "_" for c in candidate.name)
        self.name = f"{slug}-{number}"
        new = {"trained": [], "measured": None, "history": {}, "seconds": 0.0, "failed": None}
        self.record = folder.read(self.name) or new
        self.model = self.search = None  # the model that is trained, and its `SearchModel`
        self.switch = candidate.searched(setup.epochs) if candidate.mixes else math.inf

    @property
    def failed(self):
        """The error that ended it, or `None`."""
        return self.record["failed"]

    @property
    def measured(self):
        """What was measured last, and after which epoch; `None` before that."""
        return self.record["measured"]

    def train(self, epochs):
        """Train up to an epoch, and measure there; a mixture becomes plain at the switch."""
        if self.failed or self.measured and epochs <= self.measured["epochs"]:
            return
        begin = time.perf_counter()
        try:
            self.restore()
            for stop in sorted({epochs, min(epochs, self.switch)}):
                self._fit(stop)
            self.record["measured"] = {"epochs": epochs, **self._measure(epochs)}
        except Exception as error:  # of one space, which ends neither the others nor the backbone
            if files.is_full(error) or self.candidate.to is None:
                raise
            self.record["failed"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self.model = self.search = None
        self.record["seconds"] += time.perf_counter() - begin
        self.folder.write(self.name, self.record)

    def restore(self):
        """Make the model as it was at the last epoch that was reached."""
        if self.model is not None:
            return
        keras.utils.set_random_seed(self._seed(0))
        options = self.setup.compiled(self.candidate.factor)
        if self.candidate.to is None:
            self.model = LayerReplacer(lambda layer: False, lambda layer: layer)(self.setup.model)
            self.model.compile(**options)
            # Or Keras traces the first step twice.
            self.model.optimizer.build(self.model.trainable_variables)
        else:
            self.model = self.search = self._compiled_search(options)
        trained = self.record["trained"]
        for stop in trained:
            if stop in (self.switch, trained[-1]):
                self._become_plain(stop - 1)
                self.folder.load(self.model, f"{self.name}-{stop}")

    def result(self):
        """Return the plain model, compiled, the search and its history."""
        history = keras.callbacks.History()
        history.history = self.record["history"]
        history.epoch = list(range(len(next(iter(history.history.values()), ()))))
        return self._plain(), self.search, history

    def _compiled_search(self, options):
        """Return the `SearchModel` of the candidate."""
        rate, steps = self.candidate.rate, self.setup.steps()
        if steps is not None:
            moving = steps * self.candidate.searched(self.setup.epochs)
            rate = keras.optimizers.schedules.CosineDecay(rate, moving)
        search = SearchModel(self.candidate.rewrite(self.setup.model))
        scale = options["optimizer"].loss_scale_factor
        optimizer = keras.optimizers.Adam(rate, loss_scale_factor=scale)
        search.compile(architecture_optimizer=optimizer, **options)
        return search

    def _fit(self, stop):
        """Train from the last epoch to another one."""
        begin = max(self.record["trained"], default=0)
        if stop <= begin:
            return
        self._become_plain(begin)
        keras.utils.set_random_seed(self._seed(begin))
        for number, state in enumerate(generator_states(self.model)):
            state.assign([self._seed(begin), number])
        self.progress.cost = self.candidate.cost if self.model is self.search else 1.0
        history = self.model.fit(
            initial_epoch=begin,
            epochs=stop,
            verbose=0,
            callbacks=[*self.setup.callbacks, RaiseOnNonFinite(), self.progress],
            **self.setup.samples(self._seed(begin)),
        )
        for name, values in history.history.items():
            self.record["history"].setdefault(name, []).extend(map(float, values))
        self.record["trained"].append(stop)
        self.folder.save(self.model, f"{self.name}-{stop}")

    def _become_plain(self, epoch):
        """Put the finalized model in place of a mixture, whose search has ended."""
        if epoch >= self.switch:
            self.model = self._plain()

    def _plain(self):
        """Return the model as a plain one, compiled."""
        if self.model is not self.search:
            return self.model
        plain = finalize(self.search, **self.setup.finalize_options)
        one_call.compile_plain(plain, self.search, self.setup.compiled())
        return plain

    def _measure(self, epochs):
        """Return what is to be known of the plain model; in the end also errors and latency."""
        plain, data = self._plain(), self.setup.data
        row = one_call.report_row(self.candidate.name, plain, plain, data)
        measured = {name: getattr(row, name) for name in ("parameters", "multiply_adds", "metrics")}
        if epochs < self.setup.epochs:
            return measured
        blocks: dict[str, list[float]] = {}
        for x, y, sample_weight in _blocks(data):
            plain.reset_metrics()
            logs = plain.test_on_batch(x, y, sample_weight, return_dict=True)
            for name in row.metrics:
                blocks.setdefault(name, []).append(float(logs[name]))
        x, times = one_call.mapped(lambda value: value[:1], next(_blocks(data))[0]), []
        for _ in range(1 + CALLS):
            begin = time.perf_counter()
            plain.predict_on_batch(x)
            times.append(1e3 * (time.perf_counter() - begin))
        # The first call makes the graph.
        return {**measured, "blocks": blocks, "milliseconds": statistics.median(times[1:])}

    def _seed(self, epoch):
        return (self.setup.seed + 1009 * self.number + 7919 * epoch) % 2**32


def select(
    setup: Setup, budget: float, folder: str | os.PathLike | None, verbose: str | int
) -> tuple[keras.Model, SearchModel | None, keras.callbacks.History, SearchReport]:
    """Try the backbone and search spaces; return what is kept, as `search` returns it."""
    epochs, candidates = setup.epochs, candidates_for(setup.model)
    plan = schedule(candidates, epochs, budget)
    candidates = candidates[: plan.spaces]
    names = [candidate.name for candidate in candidates]
    store = Folder(folder, _settings(setup, budget, names))
    progress = Progress(plan.trainings * epochs, verbose)
    first = f" for {plan.first} epochs each, the best one to the end" if plan.spaces > 1 else ""
    repeats = f"; backbone and best space with {plan.seeds} seeds" if plan.seeds > 1 else ""
    if verbose:
        print(
            f"keras_xd.search trains the backbone for {epochs} epochs and the search spaces "
            f"{'; '.join(names)}{first}{repeats}: {plan.trainings:.2g} plain trainings of the "
            f"backbone, budget {budget:g}.",
            flush=True,
        )
    make = functools.partial(Run, setup, folder=store, progress=progress)
    backbones = [make(Candidate(BACKBONE), number) for number in range(plan.seeds)]
    runs = [make(candidate, 0) for candidate in candidates]
    backbones[0].train(epochs)
    for run in runs:
        run.train(plan.first)
    # After few epochs a loss is less noisy than an accuracy.
    best = [min(runs, key=LOSS.error)]
    for run in runs:
        if run is not best[0]:
            run.model = run.search = None
    best += [make(best[0].candidate, number) for number in range(1, plan.seeds)]
    for run in [*backbones[1:], *best]:
        run.train(epochs)
    objective, gain, error = decided(backbones, best)
    wins = gain > 2 * error
    chosen = min(best if wins else backbones, key=objective.error)
    chosen.restore()
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

    def error(self, run: Run) -> float:
        """Return how bad a run is at its last epoch; infinite if it failed."""
        if run.failed:
            return math.inf
        value = self.sign * run.measured["metrics"][self.name]
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
        blocks = [[run.measured["blocks"][self.name] for run in pair] for pair in pairs]
        differences = np.mean([np.subtract(*pair) for pair in blocks], axis=0)
        error = math.hypot(standard_error(differences), standard_error(gains))
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


LOSS = Objective("loss", 1)


def decided(backbones: Sequence[Run], best: Sequence[Run]) -> tuple[Objective, float, float]:
    """Return what a space is judged by, by how much it is better, and the standard error.

    It is the first accuracy among the metrics, and the loss where there is none or it tells little.
    """
    names = backbones[0].measured["metrics"]
    accuracies = [Objective(name, -1) for name in names if name == "acc" or "accuracy" in name]
    for objective in (*accuracies[:1], LOSS):
        gain, error = objective.gain(backbones, best)
        if not 0 <= gain <= 2 * error:
            break
    return objective, gain, error


class Folder:
    """Records and weights of what is finished, in files; nothing without a path."""

    def __init__(self, path: str | os.PathLike | None, settings: dict[str, Any]):
        self.path = None if path is None else os.fspath(path)
        if self.path is None:
            return
        index = os.path.join(self.path, INDEX)
        if not os.path.exists(index):
            if os.path.exists(self.path) and os.listdir(self.path):
                raise ValueError(
                    "`folder` must be new, empty or that of an earlier search. "
                    f"Received: folder={self.path!r}, which has other files"
                )
            os.makedirs(self.path, exist_ok=True)
            files.write(index, json.dumps(settings, indent=1).encode())
        found = _content(index)
        wrong = [name for name in settings if found.get(name) != settings[name]]
        if wrong:
            raise ValueError(
                "A folder holds one search: use another folder for another model, other data or "
                f"other settings. Received: folder={self.path!r}, where these differ: {wrong}"
            )

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a record, or `None`."""
        path = None if self.path is None else os.path.join(self.path, f"{name}.json")
        return _content(path) if path is not None and os.path.exists(path) else None

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


class Progress(keras.callbacks.Callback):
    """A bar over all trainings, in epochs of the backbone, with the time that is left."""

    def __init__(self, units: float, verbose: str | int):
        super().__init__()
        self.bar = keras.utils.Progbar(math.ceil(units), unit_name="epoch") if verbose else None
        self.done, self.cost = 0.0, 1.0

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Move the bar by the cost of an epoch."""
        self.done += self.cost
        if self.bar is not None:
            self.bar.update(min(math.floor(self.done), self.bar.target - 1))

    def end(self) -> None:
        """Fill the bar."""
        if self.bar is not None:
            self.bar.update(self.bar.target, finalize=True)


def standard_error(values: Any) -> float:
    """Return the standard error of the mean of values; 0 of a single one."""
    values = list(values)
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


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
            part = one_call.mapped(lambda value, p=piece: value[p::pieces], batch)
            yield keras.utils.unpack_x_y_sample_weight(tuple(part))


def _row(runs):
    """Return the row of a candidate, the mean over its seeds."""
    name, seconds = runs[0].candidate.name, sum(run.record["seconds"] for run in runs)
    failed = next((run.failed for run in runs if run.failed), None)
    first, metrics, errors = runs[0].measured, {}, {}
    if not first:
        return SearchReportRow(name, 0, None, {}, seconds=seconds, failed=failed)
    whole = [run.measured for run in runs if not run.failed] or [first]
    for metric in first["metrics"]:
        values = [measured["metrics"][metric] for measured in whole]
        metrics[metric] = float(np.mean(values))
        if "blocks" in first:
            blocks = np.mean([measured["blocks"][metric] for measured in whole], axis=0)
            errors[metric] = math.hypot(standard_error(blocks), standard_error(values))
    same = {n: first.get(n) for n in ("parameters", "multiply_adds", "epochs", "milliseconds")}
    same |= {"seeds": len(runs), "seconds": seconds, "failed": failed}
    return SearchReportRow(name, metrics=metrics, standard_errors=errors, **same)


def _settings(setup, budget, names):
    """Return what tells a search from others, of plain values."""
    samples = setup.x, setup.y, setup.data.get("sample_weight"), setup.data.get("validation_data")
    options = {n: v for n, v in setup.data.items() if n not in ("validation_data", "sample_weight")}
    search = {"epochs": setup.epochs, "budget": budget, "seed": setup.seed, "spaces": names}
    return {
        "model": [[layer.name, type(layer).__name__] for layer in flatten_layers(setup.model)],
        "weights": _digest(setup.model.get_weights()),
        "data": _digest(samples),
        "search": search,
        "fit": _plain(options),
        "compile": _plain(setup.compiled()),
        "finalize": _plain(setup.finalize_options),
    }


def _content(path):
    """Return what a file of a folder holds."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _digest(values):
    """Return a digest of arrays; of data sets it is that of their form."""
    digest = hashlib.sha256()
    for value in keras.tree.flatten(values):
        array = np.ascontiguousarray(value) if hasattr(value, "shape") else None
        form = getattr(value, "element_spec", type(value)) if array is None else array.dtype
        digest.update(f"{form} {np.shape(array)}".encode())
        digest.update(b"" if array is None else array.tobytes())
    return digest.hexdigest()


def _plain(value):
    """Return a value as JSON has it, objects by their configurations or names."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if hasattr(value, "get_config"):
        return [type(value).__name__, str(value.get_config())]
    simple = value is None or isinstance(value, (bool, int, float, str, np.ndarray, np.generic))
    return repr(value) if simple else getattr(value, "__name__", type(value).__name__)
