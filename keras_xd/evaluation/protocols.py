"""Evaluation protocols of a search and its controls, over seeds, in one table."""

import contextlib
import dataclasses
import gc
import math
import os
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras

from keras_xd.core import files, validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.locking import LockedError
from keras_xd.core.searchable import freeze_architecture, reset_weights, searchable_layers
from keras_xd.evaluation.retraining import measured_number
from keras_xd.evaluation.store import Store, check_name
from keras_xd.finalizing.finalizer import finalize as finalize_model
from keras_xd.training.architecture_files import layout, pack, unpack
from keras_xd.training.random_architecture import randomize_architecture

CONTROLS = ("random", "start")


@check_types
@dataclasses.dataclass(frozen=True)
class Task:
    """A data set, as functions that make a model for it, train the model and evaluate it.

    Attributes:
        build: takes nothing and returns a built search space, such as that of
            `keras_xd.rewrite`, always the same except for random weights.
        fit: takes a search space whose architecture is frozen and whose weights are fresh;
            compiles and fits it. If it returns a `keras.Model`, that one is evaluated.
        evaluate: takes a trained model, which is not compiled for it; returns one number or a
            dictionary of numbers by name, as `model.evaluate(…, return_dict=True)` does.
    """

    build: Callable[[], keras.Model]
    fit: Callable[[keras.Model], Any]
    evaluate: Callable[[keras.Model], Any]


@dataclasses.dataclass(frozen=True)
class Run:
    """One protocol for one seed: an entry of `Evaluation.runs`."""

    protocol: str
    seed: int
    values: dict[str, float]
    seconds: float
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What `evaluate_search` returns; `str()` of it is a table in Markdown.

    Attributes:
        runs: for each seed and protocol, failed ones included, a record of `protocol`, `seed`,
            `values` (a dictionary from metrics to numbers, empty if it failed), `seconds` and
            `error` (`None`, or what it failed with).
    """

    runs: tuple[Run, ...]

    @property
    def protocols(self) -> tuple[str, ...]:
        """The names of the protocols, in the order of the table."""
        return tuple(dict.fromkeys(run.protocol for run in self.runs))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all metrics."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.values))

    @property
    def failures(self) -> tuple[Run, ...]:
        """The runs that failed."""
        return tuple(run for run in self.runs if run.error is not None)

    def values(self, protocol: str, metric: str) -> dict[int, float]:
        """Return the values of a metric by seed, of the runs that have it."""
        validation.one_of(protocol, self.protocols, "protocol")
        validation.one_of(metric, self.metrics, "metric")
        runs = [run for run in self.runs if run.protocol == protocol]
        return {run.seed: run.values[metric] for run in runs if metric in run.values}

    def mean(self, protocol: str, metric: str) -> float | None:
        """Return the mean over seeds, `None` without values."""
        values = list(self.values(protocol, metric).values())
        return math.fsum(values) / len(values) if values else None

    def standard_deviation(self, protocol: str, metric: str) -> float | None:
        """Return the standard deviation of a sample (divisor n - 1), `None` below two values."""
        values = list(self.values(protocol, metric).values())
        if len(values) < 2:
            return None
        if not all(map(math.isfinite, values)):
            return math.nan
        mean = math.fsum(values) / len(values)
        return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))

    def __str__(self) -> str:
        table = [("protocol", "seeds", *self.metrics)]
        for protocol in self.protocols:
            done = [r for r in self.runs if r.protocol == protocol and r.error is None]
            table.append(
                (protocol, str(len(done)), *[self._cell(protocol, name) for name in self.metrics])
            )
        lines = [f"| {' | '.join(row)} |" for row in table]
        lines.insert(1, f"|---|{'---:|' * (len(table[0]) - 1)}")
        if self.failures:
            lines += ["", "Failed, and not in the table:", ""]
            for run in self.failures:
                lines.append(f"- {run.protocol}, seed {run.seed}: {' '.join(run.error.split())}")
        return "\n".join(lines)

    def _cell(self, protocol, metric):
        mean = self.mean(protocol, metric)
        if mean is None:
            return "–"
        deviation = self.standard_deviation(protocol, metric)
        return f"{mean:.4g}" if deviation is None else f"{mean:.4g} ± {deviation:.2g}"


@check_types
def evaluate_search(
    task: Task,
    search: Callable[[keras.Model], Any],
    *,
    transfer: Mapping[str, Task] | None = None,
    seeds: int | Iterable[int] = 5,
    controls: Sequence[str] = ("random",),
    finalize: bool = True,
    settings: dict[str, Any] | None = None,
    path: str | os.PathLike | None = None,
    verbose: int = 0,
) -> Evaluation:
    """Search, and evaluate what was found by the protocols of the literature, over seeds.

    For each seed, after `keras.utils.set_random_seed`:

    - `"supernet"`: `task.build()`, `search` on it; the searched model is evaluated as trained.
    - `"offline"`: the found architecture frozen, all weights reinitialised and trained from
      scratch by `task.fit`.
    - `"transfer to NAME"`: the same with the model, training and evaluation of another task.
    - `"random"`: as offline, with a random architecture in place of the found one
      (`keras_xd.randomize_architecture`). Only what is better than this is due to the search.
    - `"start"`: as offline, with the architecture of `task.build()`, such as a convolution's.

    Offline, random and start of one seed begin with the same weights. Random numbers of Keras,
    NumPy and Python are seeded, and left so.

    A run that fails is reported by a `RuntimeWarning` and in the result, and the others go on;
    if all fail, the first error is raised. A full disk ends the evaluation, which goes on with the
    same `path` when there is room.

    Args:
        task: the `Task` that is searched on.
        search: function that takes the search space made by `task.build()`, compiles a search of
            it (such as a `SearchModel`) and fits it; weights and architecture move in place.
        transfer: other tasks by name: a dictionary of `Task`s, or `None`. Their `build` must make
            models with the same searchable layers: see `keras_xd.load_architecture`.
        seeds: how many, counted from 0, or a list of them.
        controls: of `"random"` and `"start"`.
        finalize: whether models are finalized before they are evaluated. This changes outputs only
            for mixtures of operations; `False` evaluates the mixtures themselves.
        settings: dictionary of whatever tells this evaluation apart, such as epochs and learning
            rates; kept at `path`.
        path: a folder for finished runs, or `None`. A later call with the same folder, as after
            an interruption or with more seeds, tasks or controls, runs only what is missing. It
            refuses a folder with other `settings`, another `finalize` or runs of another model;
            that functions and data are the same it cannot know. The architecture found for a seed
            is in `seed_0/architecture.npz`. Several processes may share a folder for different
            seeds.
        verbose: 0, or 1 for a line after each run.

    Returns:
        An `Evaluation`: the value of each metric for each seed and protocol, means and standard
        deviations. `print` shows a table in Markdown.

    Raises:
        OSError: if there is no room for a file.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> x, y = np.ones((4, 9, 1)), np.zeros((4, 9, 2))
    >>> def build():
    ...     return keras.Sequential(
    ...         [keras.Input((9, 1)), keras_xd.layers.XDConv1D(2, 1)]
    ...     )
    >>> def search(model):
    ...     searched = keras_xd.SearchModel(model)
    ...     searched.compile("sgd", "sgd", "mse")
    ...     searched.fit(x, y, verbose=0)
    >>> def fit(model):
    ...     model.compile("sgd", "mse")
    ...     model.fit(x, y, verbose=0)
    >>> def evaluate(model):
    ...     return {"mean squared error": np.mean((model(x) - y) ** 2)}
    >>> task = keras_xd.evaluation.Task(build, fit, evaluate)
    >>> result = keras_xd.evaluation.evaluate_search(task, search, seeds=1)
    >>> result.protocols, sorted(result.values("offline", "mean squared error"))
    (('supernet', 'offline', 'random'), [0])
    >>> print(result)
    | protocol | seeds | mean squared error |
    |---|---:|---:|
    | supernet | 1 | ... |
    | offline | 1 | ... |
    | random | 1 | ... |

    Reference:
        Roberts et al., "Searching for Convolutions and a More Ambitious NAS", 2020, section 4;
        Li and Talwalkar, "Random Search and Reproducibility for Neural Architecture Search", 2019.
    """
    plan = _plan(task, transfer, controls or ())
    seeds = _seeds(seeds)
    for name, value in (("finalize", finalize), ("verbose", verbose)):
        validation.one_of(value, (False, True), name)
    temporary = tempfile.TemporaryDirectory() if path is None else contextlib.nullcontext(path)
    with temporary as folder:
        store = Store(folder, {"finalize": bool(finalize), "settings": settings or {}})
        finished = _finished(store, plan, seeds)
        if transfer:  # before a long search
            architecture = pack(_built(task, seeds[0]))
            for name, other in transfer.items():
                unpack(_built(other, seeds[0]), architecture, f"the architecture for task '{name}'")
        store.open()
        runs, first_error = [], None
        with contextlib.closing(_in_turn(store, seeds)) as turns:
            for seed in turns:
                if any((protocol, seed) not in finished for protocol in plan):
                    finished |= _finished(store, plan, [seed])  # by another process meanwhile
                for protocol, own_task in plan.items():
                    run = finished.get((protocol, seed))
                    if run is None:
                        run, error = _run(protocol, own_task, search, seed, finalize, store)
                        _report(run, error, verbose)
                        first_error = first_error or error
                    runs.append(run)
                    if run.error is None:
                        first_error = None  # which would hold its model in memory
                    gc.collect()  # models are cycles of references that hold memory of the device
    if all(run.error is not None for run in runs):
        raise first_error
    order = {key: n for n, key in enumerate((p, seed) for p in plan for seed in seeds)}
    return Evaluation(tuple(sorted(runs, key=lambda run: order[run.protocol, run.seed])))


def _in_turn(store, seeds):
    """Yield seeds while no other process runs them; those that one runs now come later."""
    waiting = list(seeds)
    while waiting:
        for seed in list(waiting):
            with contextlib.ExitStack() as held:
                try:
                    held.enter_context(store.locked(seed))
                except LockedError:
                    continue
                waiting.remove(seed)
                yield seed
        if waiting:
            time.sleep(0.5)


def _plan(task, transfer, controls):
    """Return a dictionary from protocols to tasks, in the order they are run in."""
    transfer = {} if transfer is None else transfer
    for value in (task, *transfer.values()):
        if not isinstance(value, Task):
            raise ValueError(f"A task must be a `keras_xd.evaluation.Task`. Received: {value!r}")
    if not set(controls) <= set(CONTROLS):
        raise ValueError(f"`controls` must be some of {CONTROLS}. Received: controls={controls!r}")
    others = {f"transfer to {check_name(name)}": other for name, other in transfer.items()}
    return {"supernet": task, "offline": task, **others, **dict.fromkeys(controls, task)}


def _seeds(seeds):
    """Return a list of seeds."""
    seeds = (
        range(validation.positive_integer(seeds, "seeds")) if validation.is_number(seeds) else seeds
    )
    seeds = list(seeds)
    fits = all(validation.is_integer(seed) and 0 <= seed < 2**32 for seed in seeds)
    if not seeds or not fits or len(set(seeds)) < len(seeds):
        raise ValueError(
            "`seeds` must be a positive integer or different integers from 0 to 2**32 - 1. "
            f"Received: seeds={seeds!r}"
        )
    return [int(seed) for seed in seeds]


def _finished(store, plan, seeds):
    """Return the runs in a store by protocol and seed, if they are those of the same models."""
    finished, models = {}, {}
    for protocol, task in plan.items():
        for seed in seeds:
            record = store.read(protocol, seed)
            if record is None:
                continue
            if id(task) not in models:
                models[id(task)] = _fingerprint(_built(task, seed))
            store.check_model(record, models[id(task)])
            finished[protocol, seed] = Run(protocol, seed, record["values"], record["seconds"])
    return finished


def _run(protocol, task, search, seed, finalize, store):
    """Run one protocol for one seed; return the `Run` and the error it failed with, if any."""
    begin = time.perf_counter()
    try:
        model = _built(task, seed)
        fingerprint = _fingerprint(model)
        if protocol == "supernet":
            _search(model, search, seed, store)
        else:
            model = _retrained(model, protocol, task, seed, store)
        if finalize and searchable_layers(model):
            model = finalize_model(model)
        values = _numbers(task.evaluate(model))
    except Exception as error:  # of the user's functions: any
        if files.is_full(error):  # the others would fail too, after as long a time
            raise
        text = traceback.format_exception_only(error)[-1].strip()
        return Run(protocol, seed, {}, time.perf_counter() - begin, text), error
    run = Run(protocol, seed, values, time.perf_counter() - begin)
    store.write(protocol, seed, {"values": values, "seconds": run.seconds, "model": fingerprint})
    return run, None


def _search(model, search, seed, store):
    """Search, or take the result of a search that has been finished."""
    if store.has_search(seed):
        store.load_weights(model, seed)
        return
    search(model)
    store.write_search(model, pack(model), seed)


def _retrained(model, protocol, task, seed, store):
    """Return a model with a given architecture, trained from scratch."""
    if protocol == "random":
        randomize_architecture(model, seed)
    elif protocol != "start":
        if not store.has_search(seed):
            raise RuntimeError("there is no architecture, as the search of this seed failed")
        unpack(model, store.architecture(seed), f"the architecture found for seed {seed}")
    freeze_architecture(model)
    keras.utils.set_random_seed(seed)  # the same weights and samples, whatever the protocol
    reset_weights(model, seed)
    keras.utils.set_random_seed(seed)
    trained = task.fit(model)
    return trained if isinstance(trained, keras.Model) else model


def _built(task, seed):
    keras.utils.set_random_seed(seed)
    return task.build()


def _fingerprint(model):
    """Return what tells models apart, whatever numbers Keras gave their layers."""
    layers = [
        {name: value for name, value in layer.items() if name not in ("path", "layer")}
        for layer in layout(model)
    ]
    return {"layers": layers, "parameters": model.count_params()}


def _report(run, error, verbose):
    """Warn of a run that failed, or print a line."""
    if error is not None:
        warnings.warn(
            f"{run.protocol}, seed {run.seed} failed and is left out: {run.error}",
            RuntimeWarning,
            stacklevel=3,
        )
    elif verbose:
        values = ", ".join(f"{name} {value:.4g}" for name, value in run.values.items())
        print(f"{run.protocol}, seed {run.seed}: {values} ({run.seconds:.1f} s)")


def _numbers(result):
    """Return what `evaluate` returned as a dictionary of floats."""
    values = result if isinstance(result, Mapping) else {"value": result}
    try:
        return {str(name): measured_number(value) for name, value in values.items()}
    except ValueError as error:
        raise ValueError(
            "`evaluate` must return a number or a dictionary of numbers, as "
            f"`model.evaluate(…, return_dict=True)` does. Received: {result!r}"
        ) from error
