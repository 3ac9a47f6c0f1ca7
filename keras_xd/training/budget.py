"""The budget of a search: what is measured, what it aims at, and how much that weighs."""

import logging
import numbers

import keras
from keras import ops

from keras_xd.core.searchable import architecture_variables
from keras_xd.core.validation import nonnegative_number, one_of
from keras_xd.graph.cost import complexity, counted_multiply_adds, warn_of_uncounted
from keras_xd.graph.size_counts import count_activations, count_parameters
from keras_xd.layers.masked.differentiable_mask import AdmissibleRange

logger = logging.getLogger("keras_xd.training")

MEASURES = {
    "multiply_adds": counted_multiply_adds,
    "parameters": count_parameters,
    "activations": count_activations,
}


class ComplexityMetric(keras.metrics.Mean):
    """The mean of complexity over target, and the weight of the complexity term."""

    def __init__(self, name="complexity", **kwargs):
        super().__init__(name=name, **kwargs)
        self.weight = self.add_variable(
            shape=(), initializer="zeros", aggregation="only_first_replica", name="weight"
        )


def check_arguments(target, weight, measure):
    """Raise `ValueError` unless `target`, `weight` and `measure` define a complexity term
    or none.
    """
    if target is not None and (not isinstance(target, numbers.Real) or not target > 0):
        raise ValueError(
            "`complexity_target` must be a positive number of multiply–adds, or of what "
            f"`complexity_measure` counts. Received: complexity_target={target!r}"
        )
    nonnegative_number(weight, "complexity_weight")
    if weight and target is None:
        raise ValueError(
            "`complexity_weight` needs a `complexity_target`. "
            f"Received: complexity_weight={weight!r}, complexity_target=None"
        )
    if not callable(measure):
        one_of(measure, tuple(MEASURES), "complexity_measure")


def check_saved_measure(measure):
    """Raise `ValueError` if the measure of a file is neither the package's nor registered."""
    if isinstance(measure, str) or measure in (complexity, *MEASURES.values()):
        return  # `check_arguments` knows the names
    kind = measure if hasattr(measure, "__name__") else type(measure)
    names = keras.saving.get_registered_name(kind), kind.__name__
    if not any(keras.saving.get_registered_object(name) is kind for name in names):
        raise ValueError(
            f"`complexity_measure` in a file must be one of {', '.join(MEASURES)} or registered by "
            f"`keras.saving`. Received: complexity_measure={measure!r}"
        )


def check_reachable(model, target, measure):
    """Raise `ValueError` if even the smallest masks cost more than the target."""
    if target is not None and _known_measure(measure) == "multiply_adds":
        warn_of_uncounted(model)  # here, because a step is traced several times
    variables = architecture_variables(model)
    if target is None or not all(isinstance(v.constraint, AdmissibleRange) for v in variables):
        return
    values = [ops.copy(ops.convert_to_tensor(variable)) for variable in variables]
    try:
        for variable in variables:
            variable.assign(ops.convert_to_tensor(variable.constraint.low, variable.dtype))
        smallest = measured_number(model, measure)
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
    # Both are sums of float32 numbers.
    if target < smallest * (1 - 1e-5):
        raise ValueError(
            "`complexity_target` must be at least what the model costs with the smallest masks "
            f"that are allowed, {smallest:.6g}: let higher temperatures or lower minimum sizes "
            "allow smaller ones, learn more of the model, or choose a smaller model. "
            f"Received: complexity_target={target}"
        )


def measured(model, measure):
    """Return what a model costs."""
    return MEASURES.get(_known_measure(measure), measure)(model)


def measured_number(model, measure):
    """Return what a model costs, as `measured` does, as a number of Python."""
    return float(ops.convert_to_numpy(measured(model, measure)))


def log_excess(search, finalized):
    """Log by how much a finalized search costs more than it was to."""
    target, measure = search.complexity_target, _known_measure(search.complexity_measure)
    if target is None or not search.complexity_weight:
        return
    cost = measured_number(search.model if callable(measure) else finalized, measure)
    if cost > 1.02 * target:
        logger.warning(
            "keras_xd.finalize: the model misses its complexity_target by %.1f %%: it costs %.6g, "
            "the target is %.6g (%s). Raise complexity_weight (%.4g), the rate of the architecture "
            "or the epochs.",
            100 * (cost / target - 1),
            cost,
            target,
            measure if isinstance(measure, str) else "a measure of yours",
            search.complexity_weight,
        )


def _known_measure(measure):
    return "multiply_adds" if measure is complexity else measure


def complexity_term(search):
    """Return `complexity_weight · (complexity / complexity_target - 1)²` of a compiled search."""
    cost = measured(search.model, search.complexity_measure)
    ratio = ops.convert_to_tensor(cost, "float32") / search.complexity_target
    search.complexity_metric.update_state(ratio)
    # A Keras loss divides by the number of replicas where the model is distributed.
    squared_error = keras.losses.MeanSquaredError(dtype="float32")
    excess = squared_error(ops.ones((1, 1)), ops.reshape(ratio, (1, 1)))
    return ops.convert_to_tensor(search.complexity_metric.weight) * excess
