"""Models of one step, applied again and again."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types


@check_types
def rollout(
    model: keras.Model, state: Any, steps: int, fixed: int = 0, batch_size: int = 32
) -> np.ndarray:
    """Return what a model of one step predicts over many: each answer is the next state.

    A state of more channels than the model has outputs holds the last times, the oldest first: the
    newest answer is put behind them and the oldest channels are dropped. The last `fixed` channels,
    such as coordinates, stay as they are.

    Args:
        model: a model from `(batch, *sizes, channels)` to `(batch, *sizes, outputs)`, where
            `channels - fixed` is a multiple of `outputs`.
        state: the first states, an array `(number, *sizes, channels)`.
        steps: how many steps.
        fixed: how many channels, the last ones, stay.
        batch_size: how many states the model gets at once.

    Returns:
        An array `(number, steps, *sizes, outputs)`; the first states are not part of it.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> halves = keras.Sequential([keras.Input((4, 1)), keras.layers.Rescaling(0.5)])
    >>> keras_xd.rollout(halves, np.full((1, 4, 1), 8.0), steps=3)[0, :, 0, 0].tolist()
    [4.0, 2.0, 1.0]
    """
    steps = validation.positive_integer(steps, "steps")
    batch_size = validation.positive_integer(batch_size, "batch_size")
    state = ops.convert_to_numpy(state)
    _check(model, state.shape, fixed)
    if not len(state):
        raise ValueError(f"`state` must hold states. Received: state of shape {state.shape}")
    validation.check_finite_data(state, "state")
    trajectories = []
    for first in range(0, len(state), batch_size):
        now, answers = state[first : first + batch_size], []
        for step in range(1, steps + 1):
            answer = ops.convert_to_numpy(model.predict_on_batch(now))
            finite = np.isfinite(answer.reshape(len(answer), -1)).all(axis=1)
            if not finite.all():
                raise ValueError(
                    f"The rollout of sample {first + int(np.argmin(finite))} is not finite from "
                    f"step {step} on: the model is not stable over so many steps. "
                    f"Received: steps={steps}"
                )
            answers.append(answer)
            now = np.concatenate(_parts(now, answer, fixed), axis=-1)
        trajectories.append(np.stack(answers, axis=1))
    return np.concatenate(trajectories)


@check_types
def unrolled(model: keras.Model, steps: int, fixed: int = 0, name: str = "unrolled") -> keras.Model:
    """Return the model of several steps: what `keras_xd.rollout` computes, with gradients.

    Its weights are those of the model, which is trained with it, so that errors that grow from step
    to step are part of the loss. Its targets are trajectories.

    Args:
        model: a model of one step, as for `keras_xd.rollout`.
        steps: how many steps.
        fixed: how many channels, the last ones, stay.

    Returns:
        A `keras.Model` from `(batch, *sizes, channels)` to `(batch, steps, *sizes, outputs)`.

    Example:

    >>> import numpy as np
    >>> import keras_xd
    >>> step = keras_xd.models.fno((16, 1), width=4, modes=4, blocks=1)
    >>> model = keras_xd.models.unrolled(step, 3)
    >>> model.compile("adam", keras_xd.losses.RelativeL2())
    >>> model.output_shape
    (None, 3, 16, 1)
    """
    steps = validation.positive_integer(steps, "steps")
    _check(model, model.input_shape, fixed)
    inputs = keras.Input(model.input_shape[1:], name="state")
    now, answers = inputs, []
    for _ in range(steps):
        answer = model(now)
        answers.append(answer)
        now = ops.concatenate(_parts(now, answer, fixed), axis=-1)
    return keras.Model(inputs, ops.stack(answers, axis=1), name=name)


def _parts(state, answer, fixed):
    """Return the parts of the next state: times that are kept, the answer, what is fixed."""
    end = state.shape[-1] - fixed
    parts = [state[..., answer.shape[-1] : end], answer, state[..., end:]]
    return [part for part in parts if part.shape[-1]]


def _check(model, shape, fixed):
    """Raise `ValueError` unless the outputs of a model fit behind a state of a shape."""
    given, answer = model.input_shape, model.output_shape
    several = isinstance(given, (list, dict)) or isinstance(answer, (list, dict))
    fixed = validation.nonnegative_integer(fixed, "fixed")
    changing = 0 if several else given[-1] - fixed
    if changing < 1 or given[1:-1] != answer[1:-1] or changing % answer[-1]:
        raise ValueError(
            "A model of one step has one input (batch, *sizes, channels) and one output (batch, "
            "*sizes, outputs), where the channels except for the fixed ones are a multiple of the "
            f"outputs. Received: input {given}, output {answer}, fixed={fixed}"
        )
    pairs = zip(shape[1:], given[1:], strict=False)
    if len(shape) != len(given) or any(None not in pair and len({*pair}) > 1 for pair in pairs):
        raise ValueError(
            "`state` must have the shape of the model's input. "
            f"Received: state of shape {tuple(shape)}, input {given}"
        )
