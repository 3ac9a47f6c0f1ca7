"""The learning rates of the groups of a search as one."""

import math

import keras

RATE_CALLBACKS = (keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler)
ROUNDING = 1e-6  # of the ratio of two rates in single precision


def groups(optimizer, architecture=True):
    """Return the optimizers in an `ArchitectureOptimizer`, by names for messages."""
    found = {"optimizer": optimizer.weights_optimizer}
    if architecture:
        found["architecture_optimizer"] = optimizer.architecture_optimizer
    others = optimizer.weight_groups().items()
    return {**found, **{f"optimizer[{pattern!r}]": group for pattern, group in others}}


def ratios(optimizers):
    """Return the learning rates of optimizers divided by that of the first."""
    (name, first), *others = optimizers.items()
    fixed = scheduled(optimizers)
    if not others:
        return []
    if name in fixed or not value(first):
        return None
    return [None if name in fixed else value(other) / value(first) for name, other in others]


def value(optimizer: keras.optimizers.Optimizer) -> float:
    """Return the present learning rate of an optimizer as a number."""
    rate = keras.ops.convert_to_tensor(optimizer.learning_rate)
    return float(keras.ops.convert_to_numpy(rate))


def scheduled(optimizers):
    """Return the names of those of the optimizers whose learning rate cannot be set."""
    return [
        name
        for name, optimizer in optimizers.items()
        if not isinstance(optimizer.learning_rate, keras.Variable)
    ]


def set_all(optimizers, rate, last_ratios):
    """Set the learning rate of the first optimizer, and the others' so that their ratios stay."""
    fixed = scheduled(optimizers)
    if fixed:
        raise ValueError(
            "The learning rate of a search can be set only if no optimizer follows a "
            f"`LearningRateSchedule` or function. Received: one in {fixed}"
        )
    try:
        rate = float(keras.ops.convert_to_numpy(rate))
    except (TypeError, ValueError) as error:
        raise ValueError(f"`learning_rate` must be a number. Received: {rate!r}") from error
    first, *others = optimizers.values()
    last = last_ratios or [None] * len(others)
    pairs = zip(ratios(optimizers) or last, last, strict=True)
    present = [old if _is_rounded(new, old) else new for new, old in pairs]
    if any(ratio is None or not math.isfinite(ratio) for ratio in present):
        raise ValueError(
            "The learning rate of a search is set in proportion, which two rates of zero do not "
            "have: set that of each optimizer in `optimizers`. "
            f"Received: learning_rate={rate!r}"
        )
    first.learning_rate = rate
    for other, ratio in zip(others, present, strict=True):
        other.learning_rate = rate * ratio
    return present


def as_list(ratio):
    """Return the ratios of an `ArchitectureOptimizer` as a list, or `None`."""
    if ratio is None:
        return None
    return [ratio] if isinstance(ratio, float) else list(ratio)


def check_callbacks(optimizer, callbacks) -> None:
    """Raise `ValueError` if callbacks are to set a learning rate that cannot be set."""
    setting = [type(c).__name__ for c in callbacks if isinstance(c, RATE_CALLBACKS)]
    fixed = scheduled(groups(optimizer))
    if setting and fixed:
        raise ValueError(
            "Callbacks can set the learning rate of a search only if no optimizer follows a "
            "`LearningRateSchedule` or function; to set that of one group alone take "
            f"`keras_xd.callbacks.WarmRestarts`. Received: {setting[0]}, a schedule in {fixed}"
        )


def _is_rounded(ratio, last):
    """Return whether a ratio differs from the last one by rounding only."""
    return None not in (ratio, last) and math.isclose(ratio, last, rel_tol=ROUNDING)
