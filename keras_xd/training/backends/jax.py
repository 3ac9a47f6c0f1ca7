"""Bilevel steps on JAX."""

import contextlib

import jax
import keras


def loss_and_gradients(function, values):
    """Return a loss, its gradients and whatever else a function computes on the way."""
    values = [keras.ops.convert_to_tensor(value) for value in values]
    (loss, others), gradients = jax.value_and_grad(function, has_aux=True)(values)
    return loss, others, gradients


def with_state(search, function, state):
    """Call a function that updates variables, on values that are not in the variables."""
    groups = (
        search.trainable_variables,
        search.non_trainable_variables,
        search.optimizer.variables,
        search.metrics_variables,
    )
    mapping = [
        pair
        for variables, values in zip(groups, state, strict=True)
        for pair in zip(variables, values, strict=True)
    ]
    with keras.StatelessScope(mapping) as scope:
        result = function()
    return [result, tuple([scope.get_current_value(v) for v in group] for group in groups)]


def apply(optimizer, gradients, variables):
    """Update variables by their gradients."""
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer.apply(gradients, variables)
        return
    groups = (variables, optimizer.variables)
    values, state = ([v.value for v in group] for group in groups)
    updated = optimizer.stateless_apply(state, gradients, values)
    for group, new in zip(groups, updated, strict=True):
        for variable, value in zip(group, new, strict=True):
            variable.assign(value)


def after(variables):
    """Return a context that does nothing: XLA finds the order of its operations itself."""
    return contextlib.nullcontext()


def replicas():
    """Return 1: JAX computes with whole batches, however they lie on devices."""
    return 1


def sum_of_replicas(values):
    """Return `values`, which are those of the whole batch already."""
    return values
