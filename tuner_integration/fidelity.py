"""Fidelities of trials: epochs, data or channels."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras_tuner.engine.trial import Trial

# Values with this prefix are no hyperparameters of a point, as in KerasTuner's Hyperband.
PREFIX = "tuner/"
FIDELITIES = ("epochs", "data", "channels")
_DEFAULTS = {"epochs": (1, 3, 9), "data": (1 / 9, 1 / 3, 1.0)}


def check_rungs(fidelity: str, rungs: Sequence[float] | None) -> tuple[float, ...]:
    """Return the fidelities of the rungs, from the lowest to the highest."""
    if rungs is None and fidelity in _DEFAULTS:
        return _DEFAULTS[fidelity]
    rungs = tuple(rungs or ())
    kind = (int, float) if fidelity == "data" else int
    right = len(rungs) >= 2 and all(isinstance(r, kind) and r > 0 for r in rungs)
    if (
        not right
        or any(a >= b for a, b in zip(rungs[:-1], rungs[1:], strict=True))
        or (fidelity == "data" and rungs[-1] > 1)
    ):
        numbers = "shares in (0, 1]" if fidelity == "data" else "positive integers"
        raise ValueError(
            f"`rungs` must be at least two ascending {numbers}. Received: rungs={rungs}"
        )
    return rungs


def fidelity_values(fidelity: str, rungs: Sequence[float], rung: int) -> dict[str, Any]:
    """Return the values that say on which rung a trial is, named as KerasTuner's Hyperband does."""
    values = {f"{PREFIX}{fidelity}": rungs[rung], f"{PREFIX}round": rung}
    if fidelity == "epochs":
        values[f"{PREFIX}initial_epoch"] = rungs[rung - 1] if rung else 0
    return values


def rung_of(trial: Trial) -> int:
    """Return the rung of a trial, from 0."""
    return trial.hyperparameters.values.get(f"{PREFIX}round", 0)


def resumed_from(values: Mapping[str, Any]) -> str | None:
    """Return the id of the trial whose weights a trial begins with, `None` if it begins again."""
    return None if f"{PREFIX}channels" in values else values.get(f"{PREFIX}trial_id")


def fit_arguments(
    values: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple, dict]:
    """Return the arguments of `fit` for the fidelity of a trial."""
    kwargs = dict(kwargs)
    if f"{PREFIX}epochs" in values:
        kwargs["epochs"] = values[f"{PREFIX}epochs"]
        kwargs["initial_epoch"] = values[f"{PREFIX}initial_epoch"]
    share = values.get(f"{PREFIX}data", 1.0)
    if share >= 1.0:
        return tuple(args), kwargs
    if kwargs.get("validation_split"):
        raise ValueError(
            "Shares of the data are compared by the same `validation_data`. "
            f"Received: validation_split={kwargs['validation_split']}"
        )
    # The first positional arguments of `fit` are the inputs and the targets.
    args = [_part(value, share) if place < 2 else value for place, value in enumerate(args)]
    for name in ("x", "y", "sample_weight"):
        if name in kwargs:
            kwargs[name] = _part(kwargs[name], share)
    return tuple(args), kwargs


def _part(data, share):
    """The first share of samples, of arrays in any structure or of batches of a data set."""
    if data is None:
        return None
    if hasattr(data, "take") and hasattr(data, "cardinality"):
        batches = int(data.cardinality())
        if batches > 0:
            return data.take(max(1, math.ceil(share * batches)))
    elif isinstance(data, list) and data and np.isscalar(data[0]):
        return data[: max(1, math.ceil(share * len(data)))]
    elif isinstance(data, (dict, list, tuple)) or hasattr(data, "shape"):
        return keras.tree.map_structure(
            lambda array: array[: max(1, math.ceil(share * len(array)))], data
        )
    raise ValueError(
        "A share is taken of arrays, or of a data set of known size. "
        f"Received: {type(data).__name__}"
    )
