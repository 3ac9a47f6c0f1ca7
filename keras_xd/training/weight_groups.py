"""Groups among the weights of a search, each with an optimizer of its own."""

import re
import warnings

import keras

from keras_xd.core.compile_config import refuse_loss
from keras_xd.core.searchable import architecture_variables

MEANT = (
    "Several optimizers of the weights are given as `keras.optimizers.MultiOptimizer(groups)`, "
    "where `groups` is a `keras.optimizers.OptimizerMap` of patterns and plain optimizers"
)


def group_optimizer(optimizer, name):
    """Return what is given for a group as a Keras optimizer that can be part of one."""
    if optimizer is None:
        raise ValueError(f"An optimizer for `{name}` is missing. Received: {name}=None")
    refuse_loss(optimizer, name)
    try:
        optimizer = keras.optimizers.get(optimizer)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be a Keras optimizer or the name of one. Received: {name}={optimizer!r}"
        ) from error
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError(
            "A `LossScaleOptimizer` cannot be one of the two optimizers, because both share one "
            "loss. Wrap them together: `keras.optimizers.LossScaleOptimizer("
            "architecture_optimizer(model, weights, architecture))`; the policy 'mixed_float16' "
            f"does so without being asked. Received: {name}={optimizer!r}"
        )
    plain = type(optimizer) is keras.optimizers.MultiOptimizer
    if isinstance(optimizer, keras.optimizers.MultiOptimizer) and not (plain and name == "weights"):
        raise ValueError(
            "A `MultiOptimizer` cannot be one of the two optimizers, except a plain one with the "
            f"groups of the weights. Received: {name}={optimizer!r}"
        )
    return optimizer


def parted(weights):
    """Return the optimizers that an optimizer of the weights is made of."""
    if not isinstance(weights, keras.optimizers.MultiOptimizer):
        return weights, {}
    optimizers = list(weights.optimizers)  # none, as long as a function has not been called
    patterns = _patterns(weights) if optimizers else None
    if patterns is None:
        raise ValueError(f"{MEANT}, not of a function. Received: weights={weights!r}")
    around = (keras.optimizers.MultiOptimizer, keras.optimizers.LossScaleOptimizer)
    wrong = [type(optimizer).__name__ for optimizer in optimizers if isinstance(optimizer, around)]
    if wrong:
        raise ValueError(f"{MEANT}, not ones around others. Received: {wrong[0]} in `groups`")
    if len(optimizers) != len(patterns) + 1:
        raise ValueError(
            "Groups of weights must have an optimizer each, because each keeps its own state; "
            "join patterns by `|` for one group. Received: one object more than once, patterns "
            f"{patterns}"
        )
    # The default comes last in Keras' list.
    return optimizers[-1], dict(zip(patterns, optimizers, strict=False))


def found_shapes(model, patterns):
    """Return what each pattern of weights finds."""
    architecture = {id(variable) for variable in architecture_variables(model)}
    found = {pattern: [] for pattern in patterns}
    for variable in model.weights:
        finding = _finding(found, variable.path)
        if finding and id(variable) in architecture:
            raise ValueError(
                "A pattern of weights must not find variables of the architecture, which have an "
                f"optimizer of their own. Received: {finding[0]!r}, which finds '{variable.path}'"
            )
        if len(finding) > 1:
            raise ValueError(
                "A weight must be found by one pattern at most. "
                f"Received: {finding}, which find '{variable.path}'"
            )
        for pattern in finding:
            found[pattern].append(variable)
    for pattern, variables in found.items():
        if not variables:
            paths = [v.path for v in model.weights if id(v) not in architecture]
            shown = f"{paths[:8]}{f' and {len(paths) - 8} more' if len(paths) > 8 else ''}"
            raise ValueError(
                "A pattern of weights must find one at least, by its whole path: "
                "'.*name/.*' finds those of the layers called 'name'. "
                f"Received: {pattern!r}, weights {shown}"
            )
    return [[tuple(v.shape) for v in variables if v.trainable] for variables in found.values()]


def check_shapes(optimizer_map, shapes, variables):
    """Raise `ValueError` if patterns do not find the variables that an optimizer was made for."""
    if len(shapes) != len(optimizer_map):
        raise ValueError(
            "An architecture optimizer needs shapes for each of its patterns. "
            f"Received: shapes for {len(shapes)} of {len(optimizer_map)} patterns"
        )
    for number, (pattern, wanted) in enumerate(zip(optimizer_map, shapes, strict=True)):
        group = optimizer_map[pattern]
        found = [variable for variable in variables if optimizer_map(variable) is group]
        if sorted(tuple(variable.shape) for variable in found) != sorted(wanted):
            name = f"weights ({pattern!r})" if number else "architecture"
            raise ValueError(
                "An architecture optimizer must be used with the trainable variables it was made "
                f"for: {name} variables of shapes {list(wanted)}. Make a new one after freezing "
                "or changing layers; load a file with `compile=False` where layers were given "
                f"other names. Received: {name} variables "
                f"{[f'{variable.path} {tuple(variable.shape)}' for variable in found]}"
            )


def joined(optimizer, model=None):
    """Return the optimizers of the weights as one, as they are given to `compile`."""
    groups = optimizer.weight_groups()
    if model is not None:
        paths = [variable.path for variable in model.weights]
        groups = {
            pattern: group
            for pattern, group in groups.items()
            if any(_finding([pattern], path) for path in paths)
        }
    if not groups:
        return optimizer.weights_optimizer
    return keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(optimizer.weights_optimizer, groups),
        loss_scale_factor=optimizer.loss_scale_factor,
        name="weights",  # Keras numbers its own names on and on in one process
    )


def compile_config(optimizer):
    """Return the part of the configuration of `SearchModel.compile` that makes an optimizer."""
    serialize = keras.saving.serialize_keras_object
    return {
        "optimizer": serialize(joined(optimizer)),
        "architecture_optimizer": serialize(optimizer.architecture_optimizer),
        "rate_ratio": optimizer.rate_ratio,
    }


def _patterns(weights):
    """Return the patterns of a `MultiOptimizer`, or `None` if it does not go by an
    `OptimizerMap`.
    """
    with warnings.catch_warnings():
        # Keras warns of functions in a configuration, which nothing is made of here.
        warnings.simplefilter("ignore")
        config = weights.get_config()["optimizer_map"]
    kind = ("keras.optimizers", "OptimizerMap")
    if not isinstance(config, dict) or (config.get("module"), config.get("class_name")) != kind:
        return None
    return list(config["config"]["optimizer_map"])


def _finding(patterns, path):
    """Return those of the patterns that find a path, by the rule of Keras."""
    if path in patterns:
        return [path]
    try:
        return [pattern for pattern in patterns if re.fullmatch(pattern, path)]
    except re.error as error:
        raise ValueError(
            f"A pattern of weights must be a regular expression; {error}. "
            f"Received: {error.pattern!r}"
        ) from error
