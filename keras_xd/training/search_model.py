"""A Keras model whose architecture is trained together with its weights."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_xd.core import tracing
from keras_xd.core.compile_config import end_watch
from keras_xd.core.saving import AtomicSaving
from keras_xd.core.type_aliases import Config, Tensor
from keras_xd.core.validation import nonnegative_integer, nonnegative_number
from keras_xd.training import bilevel, budget, checks, defaults, distributed, rates, weight_groups
from keras_xd.training.architecture_drift import ArchitectureDrift
from keras_xd.training.attention_transfer import AttentionTransfer, Guide
from keras_xd.training.early_metrics import EarlyMetrics
from keras_xd.training.inner_model import InnerModel
from keras_xd.training.optimizers import ArchitectureOptimizer
from keras_xd.training.optimizers import architecture_optimizer as make_architecture_optimizer


@keras.saving.register_keras_serializable(package="keras_xd")
class SearchModel(AtomicSaving, EarlyMetrics, InnerModel):
    """Trains the weights and the architecture of a model with `compile` and `fit`.

    The model in it is the one that was given, not a copy: what `fit` finds is in
    `search_model.model`. Inputs, outputs, losses, metrics, callbacks, saving and loading are
    those of any Keras model.

    Warm-up: in the first `warmup_epochs` epochs only the weights move. The architecture variables
    and the whole state of their optimizer keep their values to the bit, its count of iterations
    too, so a learning-rate schedule of the architecture begins when warm-up ends. Epochs are
    counted over all calls of `fit` since `compile`, and the count is saved with the optimizer, so
    training resumed from a file or by `keras.callbacks.BackupAndRestore` warms up no longer than
    training in one piece. The train step is traced once with and once without the architecture.
    `train_on_batch` does not count epochs. The state of random generators, as of dropout, is saved
    too, which Keras leaves out.

    Cool-down: in the last `cooldown_epochs` epochs of every `fit` the architecture is fixed again
    in the same way, so that the weights settle to the operations found. These are the epochs from
    `epochs - cooldown_epochs` on, as Keras counts them, also where training is resumed by
    `BackupAndRestore` or with `initial_epoch`. A `keras.callbacks.EarlyStopping` does not act in
    warm-up, and later leads to the whole cool-down at once.

    Modes: `"joint"` minimizes one loss over weights and architecture together. The other three
    are bilevel: they minimize the loss of held-out samples, `architecture_validation_data`,
    over the architecture, and that of the training samples over the weights. Each step first moves
    the architecture by an architecture batch, then the weights by a training batch.

    - `"alternating"`: two ordinary training steps. The pass over the architecture batch moves the
      statistics of batch normalization and the random state as every training step does.
    - `"first_order"`: the same gradients, but that pass only measures: the model's state is
      moved by training batches alone. Without such state the two modes are one.
    - `"second_order"`: the architecture moves by the gradient of the held-out loss after the next
      step of the weights, whose dependence on the architecture is approximated by differences
      (see `keras_xd.training.bilevel.architecture_gradients`). The weights are left where they
      were, and the model's state too. In half precision the differences are mostly rounding.

    In them `loss` and the metrics are those of the training batches, and `architecture_loss` is
    that of the architecture batches before each step, in `"second_order"` after the step that is
    looked ahead to. In `train_on_batch` every other sample, from the second, is an architecture
    sample.

    Backends and devices: all modes run on TensorFlow, JAX and torch. On several devices they run
    as `fit` of Keras does, by `tf.distribute` or `keras.distribution.DataParallel`; see
    `keras_xd.distributed.fit`, also for training that is killed and goes on.

    A frozen architecture (see `keras_xd.freeze_architecture`) leaves a model whose weights alone
    are trained. Compile after freezing, as in Keras generally.

    Args:
        model: a built Keras model (Functional, Sequential or subclassed) with searchable layers.
        name: the name of the search model.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> backbone = keras.Sequential(
    ...     [
    ...         keras.Input((6, 6, 1)),
    ...         keras_xd.layers.XDConv2D(2, 3),
    ...         keras.layers.GlobalAveragePooling2D(),
    ...     ]
    ... )
    >>> search = keras_xd.SearchModel(backbone)
    >>> search.compile(
    ...     optimizer="adam", architecture_optimizer="sgd", loss="mse", warmup_epochs=1
    ... )
    >>> history = search.fit(
    ...     np.ones((4, 6, 6, 1)), np.zeros((4, 2)), epochs=2, verbose=0
    ... )
    """

    def __init__(self, model: keras.Model, *, name: str | None = None, **kwargs: Any):
        checks.check_model(model, SearchModel)
        end_watch(model)
        kwargs.setdefault("dtype", model.dtype_policy)
        # The layers inside convert their inputs themselves.
        super().__init__(name=name, autocast=False, **kwargs)
        self.model = model
        self.mode = None
        self.warmup_epochs = 0
        self.cooldown_epochs = 0
        self.cooldown_begins = None
        self.cooling_down = False
        self.complexity_target = None
        self.complexity_measure = "multiply_adds"
        self.complexity_metric = budget.ComplexityMetric()
        self.complexity_weight = 0.0
        self.weight_is_missing = False
        self.perturbation = 0.01
        self.architecture_loss = keras.metrics.Mean(name="architecture_loss")
        self.guide = None
        self.guidance_loss = keras.metrics.Mean(name="attention_transfer")
        self.fitting = False
        self.strategy_of_fit = None
        self.architecture_drift = ArchitectureDrift(model)
        self.generators = ()
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if self.guide is None or not training:
            return self.model(inputs, training=training)
        outputs, term = self.guide(inputs)
        self.add_loss(term)
        return outputs

    def compile(
        self,
        optimizer: str | Config | keras.optimizers.Optimizer | None = None,
        architecture_optimizer: str | Config | keras.optimizers.Optimizer | None = None,
        loss: Any = None,
        metrics: Any = None,
        *,
        mode: str = "joint",
        warmup_epochs: int = 0,
        cooldown_epochs: int = 0,
        complexity_target: float | None = None,
        complexity_weight: float | None = None,
        complexity_measure: str | Callable[[keras.Model], float | Tensor] = "multiply_adds",
        perturbation: float = 0.01,
        guidance: AttentionTransfer | None = None,
        **kwargs: Any,
    ) -> None:
        """Configure the search.

        What is not given is taken from the `compile` of the model inside or, where `rewrite` made
        that, of the model it was made from.

        Args:
            optimizer: that of the model weights, a Keras optimizer or its name, or groups in a
                `MultiOptimizer`, as in `architecture_optimizer`. `None`: a fresh one of the
                configuration that the model was compiled with, else `Adam()`.
            architecture_optimizer: that of the architecture variables. `None`: Adam with the rate
                of `keras_xd.recipes.recipe` for the search space: 1e-3 for XD- and K-operations.
                Without weight decay, which pulls matrices to zero, not to their start.
            loss: as in `keras.Model.compile`; `None`: that of the compiled model.
            metrics: likewise; `[]` for none.
            mode: `"joint"`, `"alternating"`, `"first_order"` or `"second_order"`; see the class.
            warmup_epochs: number of epochs, from the first, in which the architecture is fixed.
            cooldown_epochs: number of epochs, the last ones of every `fit`, in which it is too.
            complexity_target: the multiply–adds of one sample to aim at. Where it is given, the
                metric `complexity` is the model's multiply–adds divided by it.
            complexity_weight: factor of the term `(complexity / complexity_target - 1)**2`, which
                is added to the loss in training and evaluation; 0.0 only measures. Setting the
                attribute later changes it: see `keras_xd.callbacks.ComplexityWeight`.
            complexity_measure: what `complexity` counts: `"multiply_adds"`, `"parameters"`,
                `"activations"` (entries that one sample takes), or a function of the model.
            perturbation: for `"second_order"`, the Euclidean length of the change of all weights
                together by which the differences are taken. A smaller one is more exact, as far
                as rounding permits.
            guidance: a `keras_xd.training.AttentionTransfer` to add to the loss in training.
            **kwargs: the other arguments of `keras.Model.compile`, such as `jit_compile`,
                `steps_per_execution`, `weighted_metrics` or `loss_weights`.
        """
        optimizer, architecture_optimizer, loss, metrics, kwargs = defaults.completed(
            self.model, optimizer, architecture_optimizer, loss, metrics, kwargs
        )
        checks.check_mode(mode, perturbation)
        nonnegative_integer(warmup_epochs, "warmup_epochs")
        nonnegative_integer(cooldown_epochs, "cooldown_epochs")
        given = 0.0 if complexity_weight is None else complexity_weight
        budget.check_arguments(complexity_target, given, complexity_measure)
        budget.check_reachable(self.model, complexity_target, complexity_measure)
        checks.warn_of_logits(self.model, loss)
        grouped = make_architecture_optimizer(self.model, optimizer, architecture_optimizer)
        self.architecture_drift.forget()
        self.mode = mode
        self.warmup_epochs = int(warmup_epochs)
        self.cooldown_epochs = int(cooldown_epochs)
        self.complexity_target = complexity_target
        self.complexity_weight = given
        self.weight_is_missing = complexity_target is not None and complexity_weight is None
        self.complexity_measure = complexity_measure
        self.perturbation = float(perturbation)
        self.guide = None if guidance is None else Guide(guidance, self.model)
        super().compile(optimizer=grouped, loss=loss, metrics=metrics, **kwargs)

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        self.architecture_drift.store(store)

    def load_own_variables(self, store: Any) -> None:
        super().load_own_variables(store)
        self.architecture_drift.restore(store)

    def get_compile_config(self) -> Config:
        config = super().get_compile_config()
        if not config:
            return {}
        return {
            **config,
            **weight_groups.compile_config(self.search_optimizer),
            "mode": self.mode,
            "warmup_epochs": self.warmup_epochs,
            "cooldown_epochs": self.cooldown_epochs,
            "complexity_target": self.complexity_target,
            "complexity_weight": self.complexity_weight,
            "complexity_measure": keras.saving.serialize_keras_object(self.complexity_measure),
            "perturbation": self.perturbation,
            "guided": self.guide is not None,
        }

    def compile_from_config(self, config: Config) -> None:
        config = keras.saving.deserialize_keras_object(config)
        budget.check_saved_measure(config.get("complexity_measure", "multiply_adds"))
        guided, ratio = config.pop("guided", False), config.pop("rate_ratio", None)
        self.compile(**config)
        if ratio:
            self.search_optimizer.rate_ratio = rates.as_list(ratio)
        self.guide = Guide(None, None) if guided else None

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: int | str = "auto",
        callbacks: keras.callbacks.CallbackList | list[keras.callbacks.Callback] | None = None,
        *,
        architecture_validation_data: Any = None,
        architecture_validation_split: float | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Train weights and architecture.

        In the bilevel modes an epoch is one pass over the longer of training and architecture
        data, in batches; the shorter starts again, and both have the same batch size.

        The logs of an epoch get `architecture_change`: the Euclidean distance of the trainable
        architecture variables from their values before the first epoch since `compile` (saved with
        the weights), relative to the length of these values. 0: nothing has moved.

        Args:
            x, y, batch_size, epochs, verbose, callbacks: as in `keras.Model.fit`.
            architecture_validation_data: for the bilevel modes, the samples that the
                architecture is moved by: a `tf.data.Dataset` of batches, a `keras.utils.PyDataset`,
                a generator of batches, or a tuple of arrays `(x, y)` or `(x, y, sample_weight)`;
                not necessarily of the same kind as the training data. A generator of training
                data needs `steps_per_epoch`, and training ends with a generator.
            architecture_validation_split: instead of it, for arrays, the share of the samples,
                from the last, that is taken out of the training data. `validation_split` comes
                first.
            **kwargs: the other arguments of `keras.Model.fit`. A `class_weight` weighs
                architecture samples too.
        """
        distributed.check_order(
            self, (x, architecture_validation_data), kwargs.get("shuffle", True)
        )
        kwargs["batch_size"] = batch_size
        given, callbacks = callbacks, checks.with_own_callbacks(callbacks, self)
        if self.compiled:
            checks.warn_of_missing_weight(self, given)
            checks.warn_of_unadapted(self)
            x, y, kwargs = checks.prepare_fit(
                self,
                x,
                y,
                epochs,
                architecture_validation_data,
                architecture_validation_split,
                kwargs,
            )
        with distributed.fitting(self):
            return super().fit(
                x=x,
                y=y,
                epochs=epochs,
                verbose=verbose,
                callbacks=callbacks,
                **kwargs,
            )

    def evaluate(self, *args: Any, **kwargs: Any) -> float | list[float] | dict[str, float]:
        before, self.fitting = self.fitting, False
        try:
            return super().evaluate(*args, **kwargs)
        finally:
            self.fitting = before

    def make_train_function(self, force: bool = False) -> Any:
        """Make the train function, again when warm-up or cool-down has begun or ended."""
        optimizer = self.search_optimizer
        fixed = self.cooling_down or bool(optimizer.epochs < self.warmup_epochs)
        force = force or fixed != optimizer.architecture_fixed
        optimizer.architecture_fixed = fixed
        return super().make_train_function(force=force)

    def train_step(self, *args: Any) -> Any:
        with tracing.calls_kept():
            if self.mode == "joint":
                return super().train_step(*args)
            return bilevel.train_step(self, args, super().train_step)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """Return the loss of Keras plus the complexity term."""
        loss = super().compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
        )
        if self.guide is not None and training:
            self.guidance_loss.update_state(self.losses[0])  # its own come before its layers'
        if self.complexity_target is None:
            return loss
        return loss + ops.cast(budget.complexity_term(self), loss.dtype)

    @property
    def complexity_weight(self) -> float:
        """The factor of the complexity term, which may be set at any time."""
        return self._weight_of_complexity

    @complexity_weight.setter
    def complexity_weight(self, weight):
        self._weight_of_complexity = nonnegative_number(weight, "complexity_weight")
        self.complexity_metric.weight.assign(weight)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        # Evaluation has neither a loss of architecture samples nor guidance.
        reported = (
            (self.architecture_loss, self.fitting and self.mode != "joint"),
            (self.guidance_loss, self.fitting and self.guide is not None),
            (self.complexity_metric, self.complexity_target is not None),
        )
        hidden = {id(metric) for metric, shown in reported if not shown}
        return [metric for metric in super().metrics if id(metric) not in hidden]

    def reset_metrics(self) -> None:
        super().reset_metrics()
        self.architecture_loss.reset_state()
        self.guidance_loss.reset_state()

    @property
    def distribute_strategy(self) -> Any:
        return self.strategy_of_fit or getattr(super(), "distribute_strategy", None)

    @property
    def search_optimizer(self) -> ArchitectureOptimizer:
        """The `ArchitectureOptimizer` made by `compile`, without loss scaling around it."""
        return getattr(self.optimizer, "inner_optimizer", self.optimizer)
