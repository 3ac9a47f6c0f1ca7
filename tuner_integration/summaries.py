"""Short forms of terms, for tables that are read while a search goes on."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keras_tuner.engine.trial import Trial

from keras_xd.grammar import parse

_LONGEST_FORMULA = 60


def name_of_term(text: str) -> str:
    """Return a name for the text of a term: its digest, and its outermost operator."""
    term = parse(text)
    return f"#{term.digest()} {term.operator}"


def outline_of_term(text: str) -> str:
    """Return a line for the text of a term: its digest, its size, and how its formula begins."""
    term = parse(text)
    formula = term.formula()
    if len(formula) > _LONGEST_FORMULA:
        formula = f"{formula[:_LONGEST_FORMULA]}…"
    return f"#{term.digest()}, {term.size} nodes, {formula}"


def shown_values(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return values of hyperparameters with an outline in place of each term."""
    return {name: outline_of_term(v) if name in names else v for name, v in values.items()}


def short_values(format_value: Callable[[Any], str], width: int) -> Callable[[Any], str]:
    """Return a function that formats values for KerasTuner's live table, terms by their names."""

    def formatted(value):
        if isinstance(value, str) and value[:1] == "(":
            try:
                return name_of_term(value)[:width]
            except ValueError:
                pass
        return format_value(value)

    return formatted


def summary_of_results(trials: Iterable[Trial], names: Iterable[str]) -> list[str]:
    """Return the lines that summarise trials, as KerasTuner's, but with outlines of terms."""
    lines = []
    for trial in trials:
        lines += ["", f"Trial {trial.trial_id} summary", "Hyperparameters:"]
        values = shown_values(trial.hyperparameters.values, names)
        lines += [f"{name}: {value}" for name, value in values.items()]
        lines.append(f"Score: {trial.score}")
    return lines


def last_failure(trials: Iterable[Trial]) -> str:
    """Return why the last of the failed trials failed, as far as that is known."""
    failed = [trial for trial in trials if trial.status in ("FAILED", "INVALID")]
    messages = [trial.message.strip() for trial in failed if trial.message]
    reason = messages[-1].splitlines()[-1] if messages else "a score that is not a number"
    return f"{len(failed)} failed trials, the last with: {reason}"
