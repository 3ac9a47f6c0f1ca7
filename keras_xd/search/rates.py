"""The two learning rates of a search as one."""

import math

import keras

RATE_CALLBACKS = (keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler)


def ratio(weights: keras.optimizers.Optimizer, architecture: keras.optimizers.Optimizer):
    """Return the architecture's learning rate divided by that of the weights.

    Args:
        weights: the optimizer of the weights.
        architecture: the optimizer of the architecture.

    Returns:
        A number, or `None` if one of them follows a schedule or the weights' rate is zero.

    Example:

    >>> import keras
    >>> from keras_xd.search import rates
    >>> rates.ratio(keras.optimizers.SGD(0.5), keras.optimizers.Adam(0.25))
    0.5
    """
    if scheduled(weights, architecture) or not value(weights):
        return None
    return value(architecture) / value(weights)


def value(optimizer: keras.optimizers.Optimizer) -> float:
    """Return the present learning rate of an optimizer as a number."""
    rate = keras.ops.convert_to_tensor(optimizer.learning_rate)
    return float(keras.ops.convert_to_numpy(rate))


def scheduled(weights, architecture):
    """Return the names of the optimizers of two whose learning rate cannot be set."""
    groups = {"optimizer": weights, "architecture_optimizer": architecture}
    return [
        name
        for name, optimizer in groups.items()
        if not isinstance(optimizer.learning_rate, keras.Variable)
    ]


def set_both(weights, architecture, rate, last_ratio):
    """Set the weights' learning rate, and the architecture's so that their ratio stays.

    Args:
        weights, architecture: the two optimizers.
        rate: the new rate of the weights.
        last_ratio: their ratio if the weights' rate is zero at present, or `None`.

    Returns:
        Their ratio.

    Raises:
        ValueError: if `rate` is no number, if one of them follows a schedule, or if the ratio is
            not known. Neither rate is changed then.
    """
    fixed = scheduled(weights, architecture)
    if fixed:
        raise ValueError(
            "The learning rate of a search can be set only if neither optimizer follows a "
            f"`LearningRateSchedule` or function. Received: one in {fixed}"
        )
    try:
        rate = float(keras.ops.convert_to_numpy(rate))
    except (TypeError, ValueError) as error:
        raise ValueError(f"`learning_rate` must be a number. Received: {rate!r}") from error
    present = ratio(weights, architecture)
    present = last_ratio if present is None else present
    if present is None or not math.isfinite(present):
        raise ValueError(
            "The learning rate of a search is set in proportion, which two rates of zero do not "
            "have: set that of `weights_optimizer` and of `architecture_optimizer`. "
            f"Received: learning_rate={rate!r}"
        )
    weights.learning_rate = rate
    architecture.learning_rate = rate * present
    return present


def check_callbacks(optimizer, callbacks) -> None:
    """Raise `ValueError` if callbacks are to set a learning rate that cannot be set.

    Args:
        optimizer: the `ArchitectureOptimizer`.
        callbacks: list of callbacks.
    """
    setting = [type(c).__name__ for c in callbacks if isinstance(c, RATE_CALLBACKS)]
    fixed = scheduled(optimizer.weights_optimizer, optimizer.architecture_optimizer)
    if setting and fixed:
        raise ValueError(
            "Callbacks can set the learning rate of a search only if neither optimizer follows a "
            "`LearningRateSchedule` or function; to set that of one group alone take "
            f"`keras_xd.callbacks.WarmRestarts`. Received: {setting[0]}, a schedule in {fixed}"
        )
