"""Choose the settings of a training on validation data by short trials, then train from scratch."""

import dataclasses
import itertools
import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from keras_xd.core import files, validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.tables import aligned


@dataclasses.dataclass(frozen=True)
class SettingTrial:
    """One short training.

    Attributes:
        setting: dictionary of what was tried.
        value: what `evaluate` returned; `nan` if the trial failed.
        seconds: how long it took.
        error: `None`, or what it failed with.
    """

    setting: dict[str, Any]
    value: float
    seconds: float
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class SettingsChoice:
    """What `choose_settings` returns; `str()` of it is a table.

    Attributes:
        setting: dictionary of the best setting.
        trials: a `SettingTrial` for each setting, in the order in which they were tried.
    """

    setting: dict[str, Any]
    trials: tuple[SettingTrial, ...]

    def __str__(self) -> str:
        table = [(*self.setting, "value", "seconds", "")]
        for trial in self.trials:
            chosen = "chosen" if trial.setting == self.setting else ""
            cells = [str(value) for value in trial.setting.values()]
            numbers_of_trial = f"{trial.value:.4g}", f"{trial.seconds:.1f}"
            table.append((*cells, *numbers_of_trial, trial.error or chosen))
        return "\n".join(aligned(table))


@check_types
def choose_settings(
    build: Callable[[], keras.Model],
    fit: Callable[..., Any],
    evaluate: Callable[[keras.Model], Any],
    settings: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
    *,
    fraction: float = 0.2,
    maximize: bool = False,
    seed: int = 0,
    verbose: int = 0,
) -> SettingsChoice:
    """Try settings of a training by short trainings; return the best on validation data.

    Every trial begins with `keras.utils.set_random_seed(seed)`, so all have the same first weights
    and, if `fit` draws them by that seed, the same batches. A trial that fails or whose value is
    not finite, as with too high a rate, loses; of equal values the first wins.

    Args:
        build: takes nothing and returns a model with fresh weights, such as
            `lambda: keras.models.clone_model(found)` of the model `found` by `finalize`.
        fit: called as `fit(model, fraction, **setting)`; compiles and fits the model for that
            fraction of the whole training. If it returns a `keras.Model`, such as the finalized
            model of a search, that one is evaluated. A setting `dropout` may be set there as `rate`
            of the model's dropout layers.
        evaluate: takes a trained model; returns a number that tells on validation data how good
            it is.
        settings: a dictionary from names to lists of values, of which every combination is tried,
            or a list of dictionaries, each a setting with the same names.
        fraction: length of a trial, above 0 and at most 1; `fit` gets it.
        maximize: whether the largest value is the best, such as of an accuracy.
        seed: an integer that every trial begins with.
        verbose: 0, or 1 for a line after each trial.

    Raises:
        OSError: if the disk is full.
        Exception: that of the last trial that failed, if no trial has a finite value.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> x, y = np.ones((8, 2)), np.full((8, 1), 3.0)
    >>> def build():
    ...     return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> def fit(model, fraction, learning_rate):
    ...     model.compile(keras.optimizers.SGD(learning_rate), "mse")
    ...     model.fit(x, y, epochs=round(8 * fraction), verbose=0)
    >>> def evaluate(model):
    ...     return np.mean((model(x) - y) ** 2)
    >>> grid = {"learning_rate": (100.0, 0.1, 0.0001)}
    >>> keras_xd.evaluation.choose_settings(
    ...     build, fit, evaluate, grid, fraction=0.25
    ... ).setting
    {'learning_rate': 0.1}

    Reference:
        Shen, Khodak, Talwalkar, "Efficient Architecture Search for Diverse Tasks", 2022: rates and
        regularization of the found network are tuned so before it is trained from scratch.
    """
    settings = _listed(settings)
    if not 0 < validation.real_number(fraction, "fraction") <= 1:
        raise ValueError(
            f"`fraction` must be above 0 and at most 1. Received: fraction={fraction!r}"
        )
    seed = _seed(seed)
    for name, value in (("maximize", maximize), ("verbose", verbose)):
        validation.one_of(value, (False, True), name)
    trials, error = [], None
    for setting in settings:
        trial, failed = _trial(build, fit, evaluate, setting, fraction, seed)
        error = failed or error
        trials.append(trial)
        if verbose:
            named = ", ".join(f"{name} {value}" for name, value in setting.items())
            print(f"{named}: {trial.error or format(trial.value, '.4g')} ({trial.seconds:.1f} s)")
    sound = [trial for trial in trials if math.isfinite(trial.value)]
    if not sound:
        raise error or ValueError(
            "`evaluate` must return a finite number for one setting at least. "
            f"Received: {[trial.value for trial in trials]}"
        )
    best = (max if maximize else min)(sound, key=lambda trial: trial.value)
    return SettingsChoice(dict(best.setting), tuple(trials))


@check_types
def retrain(
    build: Callable[[], keras.Model],
    fit: Callable[..., Any],
    evaluate: Callable[[keras.Model], Any],
    settings: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
    *,
    fraction: float = 0.2,
    maximize: bool = False,
    seed: int = 0,
    verbose: int = 0,
) -> tuple[keras.Model, SettingsChoice]:
    """Choose the settings of a training, then train a fresh model with them from scratch.

    This is how DASH ends: the network that the search has found is tuned and trained again.

    Args:
        build, fit, evaluate, settings, fraction, maximize, seed, verbose: as of `choose_settings`.
            The last training has the fraction 1.

    Returns:
        The trained model, and the `SettingsChoice`.

    Raises:
        OSError, ValueError, Exception: as `choose_settings`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> x, y = np.ones((8, 2)), np.full((8, 1), 3.0)
    >>> def build():  # in DASH a copy of the network that the search has found
    ...     return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> def fit(model, fraction, learning_rate):
    ...     model.compile(keras.optimizers.SGD(learning_rate), "mse")
    ...     model.fit(x, y, epochs=round(8 * fraction), verbose=0)
    >>> def evaluate(model):
    ...     return np.mean((model(x) - y) ** 2)
    >>> grid = {"learning_rate": (100.0, 0.1)}
    >>> model, choice = keras_xd.evaluation.retrain(build, fit, evaluate, grid)
    >>> choice.setting, bool(evaluate(model) < 0.01)
    ({'learning_rate': 0.1}, True)
    """
    choice = choose_settings(
        build,
        fit,
        evaluate,
        settings,
        fraction=fraction,
        maximize=maximize,
        seed=seed,
        verbose=verbose,
    )
    return _trained(build, fit, choice.setting, 1.0, seed), choice


def _listed(settings):
    """Return a list of dictionaries, one for each setting."""
    if isinstance(settings, Mapping):
        values = [validation.collection(value, name) for name, value in settings.items()]
        found = [dict(zip(settings, chosen, strict=True)) for chosen in itertools.product(*values)]
    else:
        found = list(validation.collection(settings, "settings"))
        if not all(isinstance(setting, Mapping) for setting in found):
            raise ValueError(
                "`settings` must be a dictionary of lists, or a list of dictionaries. "
                f"Received: settings={settings!r}"
            )
        found = [dict(setting) for setting in found]
    names = set(found[0]) if found else set()
    if not names or any(set(setting) != names for setting in found):
        raise ValueError(
            "`settings` must have one setting at least, and all of them the same names. "
            f"Received: settings={settings!r}"
        )
    return found


def _seed(seed):
    if not validation.is_integer(seed) or not 0 <= seed < 2**32:
        raise ValueError(f"`seed` must be an integer from 0 to 2**32 - 1. Received: seed={seed!r}")
    return int(seed)


def _trial(build, fit, evaluate, setting, fraction, seed):
    """Return the `SettingTrial` of a setting, and the error that it failed with or `None`."""
    begin = time.perf_counter()
    try:
        value = measured_number(evaluate(_trained(build, fit, setting, fraction, seed)))
    except Exception as error:  # of the user's functions: any
        if files.is_full(error):  # the others would fail too, after as long a time
            raise
        text = traceback.format_exception_only(error)[-1].strip()
        return SettingTrial(setting, math.nan, time.perf_counter() - begin, text), error
    return SettingTrial(setting, value, time.perf_counter() - begin), None


def _trained(build, fit, setting, fraction, seed):
    keras.utils.set_random_seed(seed)
    model = build()
    trained = fit(model, fraction, **setting)
    return trained if isinstance(trained, keras.Model) else model


def measured_number(value):
    """Return a number that `evaluate` returned, which may be a tensor or an array, as a float."""
    if keras.ops.is_tensor(value):
        value = keras.ops.convert_to_numpy(value)
    if not validation.is_number(value):
        kind, shape = getattr(getattr(value, "dtype", None), "kind", ""), getattr(value, "shape", 1)
        if kind not in tuple("fiu") or shape != ():
            raise ValueError(f"`evaluate` must return a number. Received: {value!r}")
    return float(value)
