"""Points that are given from outside: terms as text, values, trials of another search."""

import json
import numbers
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import keras_tuner
from keras_tuner.engine.trial import Trial

from keras_xd.grammar import Grammar
from keras_xd.grammar.terms import Term
from tuner_integration.fidelity import PREFIX
from tuner_integration.objectives import Score, directions_of, score_of_trial
from tuner_integration.points import Point, PointSpace
from tuner_integration.resumable_oracle import DAMAGED, ENDED, described_objective

# A term, if there is one grammar, otherwise values by their names.
Given = str | Term | Mapping[str, Any]


def given_values(given: Given, grammars: Mapping[str, Grammar]) -> dict[str, Any]:
    """Return the values of a given point, terms as the text of their trees."""
    names = list(grammars)
    if isinstance(given, (str, Term)) and len(names) == 1:
        given = {names[0]: given}
    if not isinstance(given, Mapping) or not set(names) <= set(given):
        one = "a term as text, or " if len(names) == 1 else ""
        raise ValueError(
            f"A point must be {one}a dictionary with the terms {names}. "
            f"Received: {repr(given)[:200]}"
        )
    values = {name: str(v) if isinstance(v, Term) else v for name, v in given.items()}
    return {**values, **{name: str(g.parse(values[name])) for name, g in grammars.items()}}


def given_point(space: PointSpace, given: Given, constrained: bool = True) -> Point:
    """Return a given point of a space; hyperparameters that it does not name have their default."""
    values = given_values(given, space.grammars)
    if constrained:
        for name, grammar in space.grammars.items():
            grammar.check(grammar.parse(values[name]))
    known = {hp.name: hp for hp in space.ordinary}
    for name, value in values.items():
        if name.startswith(PREFIX):
            continue  # what `ask` says of how to try the point
        if name not in space.grammars and (name not in known or not _admits(known[name], value)):
            raise ValueError(
                "A value must be one of its hyperparameter. "
                f"Received: {name}={value!r}, known are {list(known)}"
            )
    return space.point(values)


def _admits(hp, value):
    if hasattr(hp, "min_value"):
        right = isinstance(value, numbers.Real) and not isinstance(value, bool)
        return right and hp.min_value <= value <= hp.max_value
    return value in getattr(hp, "values", [getattr(hp, "value", value)])


def project_rows(
    folder: str | os.PathLike, objective: keras_tuner.Objective
) -> list[tuple[dict[str, Any], Score]]:
    """Return values and scores of the trials of a project that have ended, in their order."""
    folder = pathlib.Path(folder)
    paths = sorted(folder.glob("trial_*/trial.json"), key=lambda path: int(path.parent.name[6:]))
    if not paths:
        raise ValueError(
            f"A project has trials in its folder. Received: {str(folder)!r}, without trials"
        )
    saved = folder / "oracle.json"
    try:
        return _ended_rows(paths, saved, objective)
    except DAMAGED as error:
        if isinstance(error, ValueError) and "Received: " in str(error):
            raise
        raise ValueError(
            "Trials are imported from whole files of a project. "
            f"Received: {str(folder)!r}, which cannot be read: {type(error).__name__}: {error}"
        ) from error


def _ended_rows(paths, saved, objective):
    state = json.loads(saved.read_text(encoding="utf-8")) if saved.exists() else {}
    own = described_objective(objective)
    trials = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    trials = [trial for trial in trials if trial["status"] in ENDED]
    # Of a trial that was continued the last rung counts.
    parents = {trial["hyperparameters"]["values"].get(f"{PREFIX}trial_id") for trial in trials}
    trials = [trial for trial in trials if trial["trial_id"] not in parents]
    reported = [t for t in trials if t["score"] is not None]
    names = list(directions_of(objective))
    known = all(set(names) <= set(trial["metrics"]["metrics"]) for trial in reported)
    if state.get("objective", own) != own or not known:
        raise ValueError(
            "Trials can be imported if they have the same objective. "
            f"Received: {own}, the project has {state.get('objective', 'another one')}"
        )

    return [
        (t["hyperparameters"]["values"], score_of_trial(Trial.from_state(t), objective))
        for t in trials
    ]
