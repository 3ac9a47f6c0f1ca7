"""Two optimizers for one model: one for its weights, one for its architecture."""

import contextlib
import re
import warnings
from collections.abc import Callable, Sequence

import keras

from keras_xd.core.argument_types import check_types
from keras_xd.core.compile_config import end_watch
from keras_xd.core.scoped import Scoped
from keras_xd.core.searchable import architecture_variables, searchable_layers
from keras_xd.core.type_aliases import Config, Tensor
from keras_xd.core.validation import one_of
from keras_xd.core.warning_location import stacklevel
from keras_xd.training import rates
from keras_xd.training.weight_groups import check_shapes, found_shapes, group_optimizer, parted

__all__ = [
    "ArchitectureOptimizer",
    "architecture_optimizer",
]

# Replicas of one model are traced in threads that take turns, each with its own value.
_STEPPED_ALONE = Scoped(None)


@keras.saving.register_keras_serializable(package="keras_xd")
class ArchitectureOptimizer(keras.optimizers.MultiOptimizer):
    """Keras' `MultiOptimizer` with one group for the weights and one for the architecture.

    Make it with `architecture_optimizer`, which finds the pattern and checks it. Beside what
    `MultiOptimizer` does, it refuses to be built on variables that do not divide into the
    groups it was made for, and it can leave the architecture alone (`architecture_fixed`).

    Args:
        optimizer_map: a `keras.optimizers.OptimizerMap` with the optimizer of the weights as its
            default. Its first pattern is the architecture's; others are groups of weights.
        architecture_shapes: the shapes of the variables the first pattern has to find.
        loss_scale_factor: as in `keras.optimizers.MultiOptimizer`.
        name: the optimizer's name.
        rate_ratio: list of the learning rates of all patterns divided by the default's, for the
            time when all are zero; by default that of the optimizers.
        weight_shapes: for each pattern but the first, the shapes of the variables it has to find.

    Attributes:
        weights_optimizer: the optimizer of the model weights, of those that no pattern finds
            where they have several. Its name becomes "weights".
        weights_optimizers: list of all optimizers of weights. Those behind the first one have the
            names "weights_1", "weights_2", … in the order of their patterns.
        architecture_optimizer: the optimizer of the architecture variables, whose name becomes
            "architecture".
        as_one: while `True`, there is no `optimizers`, by which Keras' callbacks tell whether to
            take `learning_rate` or the rates of several optimizers.
        epochs: a variable, saved with the optimizer, for the number of epochs trained.
            `keras_xd.SearchModel` counts in it; plain `model.fit` does not.
        built_paths: the paths of the variables it was built on.
        architecture_fixed: while `True`, `apply` steps the weights only. The architecture
            variables, their slots and the iteration count of their optimizer keep their values.
            It is read while the train step is traced, not while it runs.
    """

    def __init__(
        self,
        optimizer_map: Callable[[keras.Variable], keras.optimizers.Optimizer],
        architecture_shapes: Sequence[Sequence[int]],
        loss_scale_factor: float | None = None,
        name: str | None = None,
        rate_ratio: float | Sequence[float] | None = None,
        weight_shapes: Sequence[Sequence[Sequence[int]]] = (),
    ):
        super().__init__(optimizer_map, loss_scale_factor=loss_scale_factor, name=name)
        self.as_one = False
        self.optimizer_map = optimizer_map
        self.architecture_shapes = tuple(tuple(shape) for shape in architecture_shapes)
        self.weights_optimizer = optimizer_map.default_optimizer
        self.weight_shapes = tuple(tuple(map(tuple, shapes)) for shapes in weight_shapes)
        self.architecture_optimizer, *others = optimizer_map.values()
        self.weights_optimizers = [self.weights_optimizer, *others]
        # Keras' callbacks log by these; it numbers its own names on and on in one process.
        self.weights_optimizer.name = "weights"
        self.architecture_optimizer.name = "architecture"
        for number, optimizer in enumerate(others, 1):
            optimizer.name = f"weights_{number}"
        self.rate_ratio = rates.as_list(rate_ratio) or rates.ratios(rates.groups(self))
        self.architecture_fixed = False
        self.built_paths = ()
        self.epochs = self.add_variable(
            shape=(), dtype="int32", aggregation="only_first_replica", name="epochs"
        )

    @property
    def learning_rate(self) -> keras.Variable:
        """The learning rate of the weights; to set it scales the architecture's with it.

        The rates of the architecture, and of other groups of weights, keep their ratios to it.
        None may follow a schedule then; a `ValueError` leaves all as they were. The rates by
        themselves are those of `weights_optimizers` and `architecture_optimizer`.
        """
        return self.weights_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate):
        self.rate_ratio = rates.set_all(rates.groups(self), rate, self.rate_ratio)

    @property
    def optimizers(self) -> list[keras.optimizers.Optimizer]:
        """All optimizers, except while `as_one` is set."""
        if self.as_one:
            raise AttributeError("There is one learning rate at present: see `learning_rate`.")
        return super().optimizers

    def build(self, var_list: list[keras.Variable]) -> None:
        if self.built:
            return
        shapes = [self.architecture_shapes, *self.weight_shapes]
        check_shapes(self.optimizer_map, shapes, var_list)
        super().build(var_list)
        self.built_paths = tuple(variable.path for variable in var_list)
        self.built_groups = tuple(self.optimizer_map(variable).name for variable in var_list)

    def apply(
        self, grads: list[Tensor], trainable_variables: list[keras.Variable] | None = None
    ) -> None:
        """Apply the gradients of all variables, each by the optimizer of its group."""
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            if not self.built:
                self.build(trainable_variables)
        if self.built and len(grads) != len(self.built_paths):
            raise ValueError(
                "An architecture optimizer must be applied to all variables it was built on. "
                "Compile the model again, with a new optimizer, after freezing or unfreezing "
                f"layers. Received: {len(grads)} gradients, built on {len(self.built_paths)} "
                "variables"
            )
        group = _STEPPED_ALONE.value or ("weights" if self.architecture_fixed else None)
        if not self.built or group is None:
            super().apply(grads, trainable_variables)
        else:
            self._apply_to_one_group(grads, trainable_variables, group == "architecture")

    def only(self, group: str) -> contextlib.AbstractContextManager[None]:
        """Return a context manager in which `apply` updates one of the groups only.

        The step of the weights is the one that `iterations` counts.

        Args:
            group: `"weights"` or `"architecture"`.
        """
        one_of(group, ("weights", "architecture"), "group")
        return _STEPPED_ALONE.set_to(group)

    def finalize_variable_values(self, var_list: list[keras.Variable]) -> None:
        """Set the final values of all optimizers, such as moving averages, after `fit`."""
        averaged = self.architecture_optimizer.use_ema
        if averaged and self.architecture_optimizer.iterations == 0:
            # The moving average of an optimizer that has made no step is still zero.
            var_list = [variable for variable in var_list if not self.is_architecture(variable)]
        super().finalize_variable_values(var_list)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "architecture_shapes": [list(shape) for shape in self.architecture_shapes],
            "rate_ratio": self.rate_ratio,
            "weight_shapes": [[list(shape) for shape in shapes] for shapes in self.weight_shapes],
        }

    def _apply_to_one_group(self, grads, trainable_variables, architecture):
        groups = self.built_groups
        if trainable_variables is not None:
            groups = [self.optimizer_map(variable).name for variable in trainable_variables]
        for optimizer in [self.architecture_optimizer] if architecture else self.weights_optimizers:
            own = [place for place, group in enumerate(groups) if group == optimizer.name]
            variables = None
            if trainable_variables is not None:
                variables = [trainable_variables[place] for place in own]
            if own:
                optimizer.apply([grads[place] for place in own], variables)
        if not architecture:
            self.iterations.assign_add(1)

    def weight_groups(self) -> dict[str, keras.optimizers.Optimizer]:
        """Return the optimizers of weights that have a pattern, by their patterns."""
        return {
            pattern: optimizer
            for pattern, optimizer in self.optimizer_map.items()
            if optimizer is not self.architecture_optimizer
        }

    def is_architecture(self, variable: keras.Variable) -> bool:
        """Return whether a variable belongs to the group of the architecture."""
        return self.optimizer_map(variable) is self.architecture_optimizer


@check_types
def architecture_optimizer(
    model: keras.Model,
    weights: str | keras.optimizers.Optimizer,
    architecture: str | keras.optimizers.Optimizer,
) -> ArchitectureOptimizer:
    """Return one optimizer that trains weights and architecture by an optimizer each.

    The result is a `keras.optimizers.MultiOptimizer`, for `compile` of any Keras model with
    searchable layers. It saves and loads with the model.

    The two learning rates are those of `optimizer.weights_optimizer` and
    `optimizer.architecture_optimizer`; each may be a `LearningRateSchedule`.
    `optimizer.learning_rate` is that of the weights, and to set it scales all others by the same
    factor. In `SearchModel.fit` Keras' `ReduceLROnPlateau` and `LearningRateScheduler` act on
    it, so the ratio of the rates stays. In `fit` of other models they act on it under loss
    scaling only; else they treat the rates one after the other, as in any `MultiOptimizer`: a
    function `(epoch, rate)` that returns a constant makes them equal. Neither callback works on a
    `LearningRateSchedule`.
    `clipnorm`, `global_clipnorm`, `weight_decay`, `use_ema` and `gradient_accumulation_steps` of
    each optimizer act within its own group.

    Weights may have several groups, each with a learning rate and a weight decay of its own:
    `keras.optimizers.MultiOptimizer(groups)`, where `groups` is a `keras.optimizers.OptimizerMap`
    of an optimizer by default and one for each pattern, as in the second example. A pattern has to
    fit the whole `path` of a variable. Let it begin with `.*`: what stands before the names of
    layers may change when a file is loaded.

    For dynamic loss scaling wrap the result, `keras.optimizers.LossScaleOptimizer(optimizer)`;
    `compile` does so by itself under the policy `"mixed_float16"`.

    Args:
        model: a built Keras model with architecture variables.
        weights: the optimizer of the model weights: an object, or a name such as `"adam"`, or a
            `keras.optimizers.MultiOptimizer` that goes by a `keras.optimizers.OptimizerMap`.
        architecture: the optimizer of the architecture variables, an object or a name.

    Returns:
        An `ArchitectureOptimizer`, not yet built.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((6, 6, 1)),
    ...         keras_xd.layers.XDConv2D(2, 3),
    ...         keras.layers.GlobalAveragePooling2D(),
    ...     ]
    ... )
    >>> optimizer = keras_xd.optimizers.architecture_optimizer(
    ...     model, weights="sgd", architecture=keras.optimizers.SGD(0.1)
    ... )
    >>> model.compile(optimizer=optimizer, loss="mse")
    >>> history = model.fit(np.ones((4, 6, 6, 1)), np.zeros((4, 2)), verbose=0)

    Biases without weight decay:

    >>> groups = keras.optimizers.OptimizerMap(
    ...     keras.optimizers.AdamW(0.01, weight_decay=0.01)
    ... )
    >>> groups[".*/bias"] = keras.optimizers.AdamW(0.01, weight_decay=0.0)
    >>> optimizer = keras_xd.optimizers.architecture_optimizer(
    ...     model, weights=keras.optimizers.MultiOptimizer(groups), architecture="adam"
    ... )
    >>> [group.weight_decay for group in optimizer.weights_optimizers]
    [0.01, 0.0]
    """
    if not model.built:
        raise ValueError(
            "`model` must be a built Keras model: give it an Input or call it on data first. "
            f"Received: model={model!r}"
        )
    weights = group_optimizer(weights, "weights")
    architecture = group_optimizer(architecture, "architecture")
    default, groups = parted(weights)
    if any(optimizer is architecture for optimizer in (default, *groups.values())):
        raise ValueError(
            "`weights` and `architecture` must be two optimizers, because each keeps its own "
            f"state. Received the same object twice: {architecture!r}"
        )
    if weights.loss_scale_factor != architecture.loss_scale_factor:
        raise ValueError(
            "`weights` and `architecture` must have the same `loss_scale_factor`, because both "
            "groups share one loss. Received: "
            f"{weights.loss_scale_factor} and {architecture.loss_scale_factor}"
        )
    pattern = _architecture_pattern(model)
    if not any(layer.trainable for layer in searchable_layers(model)):
        warnings.warn(
            "Nothing is searched: all searchable layers are frozen by `trainable=False`, and their "
            "architecture with them. Set `trainable = True` on these layers before; to train "
            "weights at a fixed architecture use `keras_xd.freeze_architecture`. "
            f"Received: model '{model.name}' of {len(searchable_layers(model))} frozen layers",
            stacklevel=stacklevel(),
        )
    end_watch(model)
    return ArchitectureOptimizer(
        keras.optimizers.OptimizerMap(default, {pattern: architecture, **groups}),
        [v.shape for v in architecture_variables(model) if v.trainable],
        loss_scale_factor=weights.loss_scale_factor,
        name="architecture_optimizer",
        weight_shapes=found_shapes(model, groups),
    )


def _architecture_pattern(model):
    """Return a pattern of variable paths that finds the architecture variables of `model` only."""
    architecture = architecture_variables(model)
    if not architecture:
        raise ValueError(
            "`model` must have architecture variables, that is, searchable layers: see "
            f"`keras_xd.rewrite`. Received: model={model!r}, of "
            f"{len(model.variables)} variables"
        )
    identities = {id(variable) for variable in architecture}
    others = [variable for variable in model.variables if id(variable) not in identities]
    missing = identities - {id(variable) for variable in model.variables}
    if missing:
        raise ValueError(
            "Every architecture variable must be a weight that the model tracks. Received: "
            f"{[variable.path for variable in architecture if id(variable) in missing]}"
        )
    for open_numbers in (True, False):
        endings = sorted({_path_ending(variable.path, open_numbers) for variable in architecture})
        pattern = f"(?:.*/)?(?:{'|'.join(endings)})"
        wrong = [variable.path for variable in others if re.fullmatch(pattern, variable.path)]
        if not wrong:
            return pattern
    raise ValueError(
        "Architecture variables must differ from all other variables in the name of their layer "
        "or in their own name, because Keras tells the two groups apart by these. Give the "
        f"layers different names. Received: variables {wrong}, which are not part of the "
        f"architecture, beside {[variable.path for variable in architecture]}"
    )


def _path_ending(path, open_numbers):
    """Return a pattern of the last two parts of a variable's path."""
    *layer, name = path.split("/")[-2:]
    if not layer:
        return re.escape(name)
    if open_numbers:
        return rf"{re.escape(re.sub(r'_[0-9]+$', '', layer[0]))}(?:_[0-9]+)?/{re.escape(name)}"
    return f"{re.escape(layer[0])}/{re.escape(name)}"
