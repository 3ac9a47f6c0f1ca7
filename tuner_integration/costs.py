"""Costs of networks (multiply–adds, parameters, latency) and limits of them."""

import statistics
import time
import warnings
from collections.abc import Iterable, Mapping

import keras
import numpy as np

from keras_xd.core.argument_types import check_types
from keras_xd.graph.cost import complexity

COSTS = ("multiply_adds", "parameters", "latency")
_CALLS, _FIRST_CALLS = 7, 2


@check_types
def model_costs(model: keras.Model, names: Iterable[str] = COSTS[:2]) -> dict[str, float]:
    """Return what a built model costs."""
    functions = {
        "multiply_adds": _multiply_adds,
        "parameters": lambda model: model.count_params(),
        "latency": _latency,
    }
    names = list(names)
    if not set(names) <= set(COSTS):
        raise ValueError(f"A cost must be one of {', '.join(COSTS)}. Received: {names}")
    return {name: float(functions[name](model)) for name in names}


def check_limits(limits: Mapping[str, float]) -> dict[str, float]:
    """Return limits of costs as they are."""
    limits = dict(limits)
    for name, value in limits.items():
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if name not in COSTS or not number or not value > 0:
            raise ValueError(
                f"`limits` must be positive numbers for {', '.join(COSTS)}. "
                f"Received: limits={limits!r}"
            )
    return limits


def exceeded(model: keras.Model, limits: Mapping[str, float]) -> str | None:
    """Return which limit a model exceeds and by what, `None` if none; cheap costs come first."""
    for name in COSTS:
        if name in limits:
            value = model_costs(model, [name])[name]
            if value > limits[name]:
                return f"{name} {value:.4g} exceeds the limit {limits[name]:.4g}"
    return None


def _multiply_adds(model):
    with warnings.catch_warnings():
        # It names layers without a count; hundreds of trials would say the same.
        warnings.simplefilter("ignore", UserWarning)
        count = complexity(model)
    return keras.ops.convert_to_numpy(count)


def _latency(model):
    shapes = [tuple(tensor.shape[1:]) for tensor in model.inputs]
    if any(size is None for shape in shapes for size in shape):
        raise ValueError(
            "The latency is measured of inputs of known shape. Received: "
            f"{[(None, *shape) for shape in shapes]}"
        )
    inputs = [
        np.zeros((1, *shape), keras.backend.standardize_dtype(tensor.dtype))
        for shape, tensor in zip(shapes, model.inputs, strict=True)
    ]
    seconds = []
    for _ in range(_FIRST_CALLS + _CALLS):
        started = time.perf_counter()
        model.predict_on_batch(inputs if len(inputs) > 1 else inputs[0])
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[_FIRST_CALLS:])
