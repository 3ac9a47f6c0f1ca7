"""The candidates that mixtures become, so that the model keeps to a budget."""

import contextlib
from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from keras_xd.core.mixtures import SMALLEST_PROBABILITY, CandidateMixture, chosen_candidates
from keras_xd.core.searchable import flatten_layers
from keras_xd.core.type_aliases import Tensor
from keras_xd.training import budget

_STEPS = 1024  # for each layer, into which the budget is divided
_NO_SHARE = -1e4  # a logit, compared with 0


def mixtures(model: keras.layers.Layer) -> list[CandidateMixture]:
    """Return the layers of a model that mix candidates by probabilities."""
    return [layer for layer in flatten_layers(model) if isinstance(layer, CandidateMixture)]


def choosing(
    model: keras.Model,
    target: float | None,
    measure: str | Callable[[keras.Model], float | Tensor] = "multiply_adds",
) -> contextlib.AbstractContextManager[None]:
    """Return a context manager in which mixtures are finalized to what a budget allows."""
    if target is None:
        return contextlib.nullcontext()
    return chosen_candidates(mixtures(model), within_budget(model, target, measure))


def within_budget(
    model: keras.Model,
    target: float,
    measure: str | Callable[[keras.Model], float | Tensor] = "multiply_adds",
) -> list[str]:
    """Return the candidate of each mixture that is most likely, of those within a budget.

    With the probabilities `p` and the costs `c` of the candidates these are the choices `k` of the
    largest `Σ_l log p_l[k_l]` of which the model costs at most `target`: the candidates of the
    largest probabilities, if the budget allows. A cost is what the model costs more with the whole
    probability on that candidate, so it must be a sum over the layers.
    """
    budget.check_arguments(target, 0.0, measure)
    layers = mixtures(model)
    if not layers:
        raise ValueError(
            "`complexity_target` chooses between the candidates of mixtures, such as those of "
            '`rewrite(to="structured")` with several families. Received: model '
            f"'{model.name}', which has none, complexity_target={target!r}"
        )
    probabilities = [
        np.asarray(ops.convert_to_numpy(layer.probabilities), "float64") for layer in layers
    ]
    least, extra = _costs(model, layers, measure)
    # The costs are sums of float32 numbers.
    spare = target * (1 + 1e-6) - least
    if spare < 0:
        raise ValueError(
            "`complexity_target`, by default that of the `SearchModel`, must be at least what the "
            f"model costs with the cheapest candidates, {least:.6g}. "
            f"Received: complexity_target={target!r}"
        )
    values = [
        np.log(np.maximum(probability, SMALLEST_PROBABILITY)) for probability in probabilities
    ]
    chosen = _best(values, extra, spare)
    return [layer.operation_names[k] for layer, k in zip(layers, chosen, strict=True)]


def _costs(model, layers, measure):
    """Return the least cost of a model, and what each candidate of each layer adds to it."""
    before = [ops.copy(ops.convert_to_tensor(layer.logits)) for layer in layers]
    first = [_logits(layer, 0) for layer in layers]
    try:
        for layer, logits in zip(layers, first, strict=True):
            layer.logits.assign(logits)
        base, counts = budget.measured_number(model, measure), []
        for layer, logits in zip(layers, first, strict=True):
            costs = [base]
            for number in range(1, len(layer.operation_names)):
                layer.logits.assign(_logits(layer, number))
                costs.append(budget.measured_number(model, measure))
            layer.logits.assign(logits)
            counts.append(np.array(costs) - base)
    finally:
        for layer, logits in zip(layers, before, strict=True):
            layer.logits.assign(logits)
    least = base + sum(one.min() for one in counts)
    return least, [one - one.min() for one in counts]


def _logits(layer, number):
    """Return the logits of a layer with the whole probability on one candidate."""
    logits = np.full(len(layer.operation_names), _NO_SHARE, "float32")
    logits[number] = 0
    return logits


def _best(values: Sequence[np.ndarray], costs: Sequence[np.ndarray], spare: float) -> list[int]:
    """Return the choice for each layer of the largest sum of values, of costs up to `spare`."""
    largest = [int(np.argmax(value)) for value in values]
    if sum(cost[k] for cost, k in zip(costs, largest, strict=True)) <= spare:
        return largest
    unit = _unit(costs, spare)
    needed = [np.ceil(cost / unit - 1e-6).astype("int64") for cost in costs]
    steps = int(spare / unit + 1e-6)
    found, taken = np.zeros(steps + 1), []  # the largest sum of values with so many units left
    for value, need in zip(values, needed, strict=True):
        options = np.full((len(value), steps + 1), -np.inf)
        for number, (gain, step) in enumerate(zip(value, need, strict=True)):
            if step <= steps:
                options[number, step:] = found[: steps + 1 - step] + gain
        taken.append(options.argmax(axis=0).astype("int16"))
        found = options.max(axis=0)
    left, chosen = steps, []
    for best, need in zip(reversed(taken), reversed(needed), strict=True):
        chosen.append(int(best[left]))
        left -= int(need[chosen[-1]])
    return chosen[::-1]


def _unit(costs, spare):
    """Return the common divisor of the costs, or the part of a budget that replaces a small one."""
    part = (spare or 1.0) / (_STEPS * len(costs))
    counts = np.concatenate(costs)
    if np.abs(counts - np.round(counts)).max() > 1e-3:
        return part
    return max(float(np.gcd.reduce(np.round(counts).astype("int64"))), part)
