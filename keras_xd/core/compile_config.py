"""The compile configuration that a search takes over from a model."""

import dataclasses
import logging
import warnings
import weakref
from typing import Any

import keras

from keras_xd.core.searchable import architecture_variables
from keras_xd.core.warning_location import stacklevel

logger = logging.getLogger("keras_xd.rewriting")

TRAINING_METHODS = ("train_step", "test_step", "compute_loss", "compute_metrics")

_noted: weakref.WeakKeyDictionary[keras.Model, "Compilation"] = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True)
class Compilation:
    """How a model was compiled.

    Attributes:
        loss: the loss as `compile` got it.
        config: the model's `get_compile_config()`; empty if it cannot be serialized.
    """

    loss: Any
    config: dict

    def restored(self, name):
        """Return a new copy of what `compile` got under a name, or `None`."""
        if self.config.get(name) is None:
            return None
        try:
            return keras.saving.deserialize_keras_object(self.config[name])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"What the model was compiled with can be taken over only where Keras can make it "
                f"again from its configuration. Give `{name}` to `compile` of the search, or "
                "register it by `keras.saving.register_keras_serializable`. "
                f"Received: {name}={self.config[name]!r}, which fails with: {error}"
            ) from error


def compilation_of(model):
    """Return the `Compilation` of a model, or of the one it was rewritten from, or `None`."""
    if not model.compiled:
        return _noted.get(model)
    try:
        config = model.get_compile_config()
    except (TypeError, ValueError):  # an object that Keras cannot serialize
        config = {}
    return Compilation(getattr(model, "loss", None), config)


def note_compilation(model, copy):
    """Note for `compilation_of(copy)` how `model` was compiled, as long as `copy` exists."""
    compilation = compilation_of(model)
    if compilation is not None:
        _noted[copy] = compilation


def own_training_methods(model):
    """Return which of the `TRAINING_METHODS` the class of a model has of its own."""
    return [
        name
        for name in TRAINING_METHODS
        if getattr(type(model), name, None) is not getattr(keras.Model, name)
    ]


def warn_of_own_training(model, instead):
    """Warn if the class of a model trains in a way of its own, which a search does not do."""
    methods = own_training_methods(model)
    if methods:
        warnings.warn(
            f"{instead} trains by `fit` of Keras, not by the model's own methods. Override them "
            "in a subclass of `keras_xd.SearchModel`, where `super()` takes the steps of the "
            f"search. Received: model '{model.name}' of class {type(model).__name__}, which has "
            f"its own {', '.join(f'`{name}`' for name in methods)}",
            stacklevel=stacklevel(),
        )


class _PlainTraining(keras.constraints.Constraint):
    """Leaves a variable to the constraint it has, and tells once that an optimizer moves it."""

    def __init__(self, constraint):
        self.constraint, self.told = constraint, False

    def __call__(self, w):
        if isinstance(w, keras.Variable) and not self.told:  # optimizers give the variable itself
            self.told = True
            logger.warning(
                "keras_xd.rewrite: the architecture of the new model is trained at the rate of its "
                "weights and without a budget. Train it by keras_xd.SearchModel(model), or compile "
                "it with keras_xd.optimizers.architecture_optimizer."
            )
        return w if self.constraint is None else self.constraint(w)


def watch_training(model):
    """Let a rewritten model log once if an optimizer moves weights and architecture alike."""
    for variable in architecture_variables(model):
        if variable.trainable:
            variable.constraint = _PlainTraining(variable.constraint)
            break


def end_watch(model):
    """Undo `watch_training`: the architecture gets an optimizer of its own."""
    for variable in architecture_variables(model):
        if isinstance(variable.constraint, _PlainTraining):
            variable.constraint = variable.constraint.constraint


def refuse_loss(value, name):
    """Raise `ValueError` if what is given as an optimizer is a loss, or the name of one."""
    if isinstance(value, str):
        try:
            is_loss = keras.losses.get(value) is not None
        except ValueError:
            is_loss = False
    else:
        function = getattr(keras.losses, getattr(value, "__name__", ""), None)
        is_loss = isinstance(value, keras.losses.Loss) or (value is not None and function is value)
    if is_loss:
        raise ValueError(
            f"`{name}` must be an optimizer, not a loss. The first two arguments of "
            "`SearchModel.compile` are the optimizers of weights and architecture: give the loss "
            f"as `loss=…`. Received: {name}={value!r}"
        )
