"""Bilevel steps on PyTorch."""

import contextlib

import keras
import torch


def loss_and_gradients(function, values):
    """Return a loss, its gradients and whatever else a function computes on the way."""
    values = [keras.ops.convert_to_tensor(value).detach().requires_grad_() for value in values]
    with torch.enable_grad():
        loss, others = function(values)
    gradients = [None] * len(values)
    if values and loss.requires_grad:
        gradients = list(torch.autograd.grad(loss, values, allow_unused=True))
    return loss.detach(), [None if o is None else o.detach() for o in others], gradients


def with_state(search, function):
    """Call a function that updates variables."""
    with torch.no_grad():
        return [function()]


def apply(optimizer, gradients, variables):
    """Update variables by their gradients."""
    optimizer.apply(gradients, variables)


def after(variables):
    """Return a context that does nothing: PyTorch computes in the order of its calls."""
    return contextlib.nullcontext()


def replicas():
    """Return 1: Keras does not divide a batch among devices on torch."""
    return 1


def sum_of_replicas(values):
    """Return `values`, which are those of the whole batch already."""
    return values
