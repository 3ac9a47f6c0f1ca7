"""A Keras model whose architecture is trained together with its weights."""

import json
import numbers
import re

import keras
import numpy as np
from keras import ops

from keras_xd.layers.complexity import complexity
from keras_xd.layers.searchable import architecture_variables, searchable_layers
from keras_xd.search.callbacks import EpochCounter
from keras_xd.search.optimizers import architecture_optimizer as make_architecture_optimizer
from keras_xd.validation import check_export_path, is_integer, one_of

MODES = ("joint",)


@keras.saving.register_keras_serializable(package="keras_xd")
class SearchModel(keras.Model):
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
    `train_on_batch` does not count epochs.

    A frozen architecture (see `keras_xd.freeze_architecture`) leaves a model whose weights alone
    are trained. Compile after freezing, as in Keras generally.

    Args:
        model: a built Keras model (Functional, Sequential or subclassed) with searchable layers.
        name: the name of the search model.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> backbone = keras.Sequential([
    ...     keras.Input((6, 6, 1)),
    ...     keras_xd.layers.XDConv2D(2, 3),
    ...     keras.layers.GlobalAveragePooling2D(),
    ... ])
    >>> search = keras_xd.SearchModel(backbone)
    >>> search.compile(
    ...     optimizer="adam", architecture_optimizer="sgd", loss="mse", warmup_epochs=1
    ... )
    >>> history = search.fit(np.ones((4, 6, 6, 1)), np.zeros((4, 2)), epochs=2, verbose=0)
    """

    def __init__(self, model, *, name=None, **kwargs):
        if not isinstance(model, keras.Model) or not model.built:
            raise ValueError(
                "`model` must be a built Keras model: give it an Input or call it on data first. "
                f"Received: model={model!r}"
            )
        if isinstance(model, SearchModel):
            raise ValueError(f"`model` must not be a SearchModel itself. Received: model={model!r}")
        if not architecture_variables(model):
            raise ValueError(
                "`model` must have searchable layers: see `keras_xd.rewrite`. "
                f"Received: model={model!r}"
            )
        kwargs.setdefault("dtype", model.dtype_policy)
        # The layers inside convert their inputs themselves.
        super().__init__(name=name, autocast=False, **kwargs)
        self.model = model
        self.mode = None
        self.warmup_epochs = 0
        self.complexity_target = None
        self.complexity_weight = 0.0
        self.complexity_metric = keras.metrics.Mean(name="complexity")
        self.built = True

    def call(self, inputs, training=None):
        return self.model(inputs)

    def compile(
        self,
        optimizer=None,
        architecture_optimizer=None,
        loss=None,
        metrics=None,
        *,
        mode="joint",
        warmup_epochs=0,
        complexity_target=None,
        complexity_weight=0.0,
        **kwargs,
    ):
        """Configure the search.

        Args:
            optimizer: the optimizer of the model weights, a Keras optimizer or its name.
            architecture_optimizer: the optimizer of the architecture variables, likewise.
            loss: as in `keras.Model.compile`, but required.
            metrics: as in `keras.Model.compile`.
            mode: `"joint"`, where each step moves weights and architecture by the gradient of
                the same training batch.
            warmup_epochs: number of epochs, from the first, in which the architecture is fixed.
            complexity_target: the multiply–adds of one sample to aim at. Where it is given, the
                metric `complexity` is the model's multiply–adds divided by it.
            complexity_weight: factor of the term `(complexity / complexity_target - 1)**2`, which
                is added to the loss in training and evaluation.
            **kwargs: the other arguments of `keras.Model.compile`, such as `jit_compile`,
                `steps_per_execution`, `weighted_metrics` or `loss_weights`.

        Raises:
            ValueError: if an optimizer or the loss is missing, or an argument is out of range.
        """
        required = {
            "optimizer": optimizer,
            "architecture_optimizer": architecture_optimizer,
            "loss": loss,
        }
        for name, value in required.items():
            if value is None:
                raise ValueError(f"`compile` needs `{name}`. Received: {name}=None")
        one_of(mode, MODES, "mode")
        if not is_integer(warmup_epochs) or warmup_epochs < 0:
            raise ValueError(
                "`warmup_epochs` must be an integer of at least 0. "
                f"Received: warmup_epochs={warmup_epochs!r}"
            )
        _check_complexity_arguments(complexity_target, complexity_weight)
        grouped = make_architecture_optimizer(self.model, optimizer, architecture_optimizer)
        self.mode = mode
        self.warmup_epochs = int(warmup_epochs)
        self.complexity_target = complexity_target
        self.complexity_weight = float(complexity_weight)
        super().compile(optimizer=grouped, loss=loss, metrics=metrics, **kwargs)
        # The model is built, so its optimizer can be: `load_weights` then restores its state too.
        self.optimizer.build(self.trainable_variables)

    def get_compile_config(self):
        config = super().get_compile_config()
        if not config:
            return {}
        serialize = keras.saving.serialize_keras_object
        return {
            **config,
            "optimizer": serialize(self.search_optimizer.weights_optimizer),
            "architecture_optimizer": serialize(self.search_optimizer.architecture_optimizer),
            "mode": self.mode,
            "warmup_epochs": self.warmup_epochs,
            "complexity_target": self.complexity_target,
            "complexity_weight": self.complexity_weight,
        }

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        **kwargs,
    ):
        """Train weights and architecture; the arguments are those of `keras.Model.fit`."""
        if self.compiled:
            self._check_trainable_variables()
        if isinstance(callbacks, keras.callbacks.CallbackList):
            if not any(isinstance(callback, EpochCounter) for callback in callbacks.callbacks):
                counter = EpochCounter()
                counter.set_model(self)
                callbacks.callbacks.insert(0, counter)
        else:
            given = keras.tree.flatten(callbacks) if callbacks else []
            callbacks = [EpochCounter(), *given]
        return super().fit(
            x=x,
            y=y,
            batch_size=batch_size,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            **kwargs,
        )

    def make_train_function(self, force=False):
        """Make the compiled train step, anew when warm-up has begun or ended."""
        optimizer = self.search_optimizer
        fixed = bool(optimizer.epochs < self.warmup_epochs)
        force = force or fixed != optimizer.architecture_fixed
        optimizer.architecture_fixed = fixed
        return super().make_train_function(force=force)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Return the loss of Keras plus the complexity term."""
        loss = super().compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
        )
        if self.complexity_target is None:
            return loss
        ratio = ops.convert_to_tensor(complexity(self.model), "float32") / self.complexity_target
        self.complexity_metric.update_state(ratio)
        if not self.complexity_weight:
            return loss
        # A Keras loss divides by the number of replicas where the model is distributed.
        squared_error = keras.losses.MeanSquaredError(dtype="float32")
        excess = squared_error(ops.ones((1, 1)), ops.reshape(ratio, (1, 1)))
        return loss + ops.cast(self.complexity_weight * excess, loss.dtype)

    @property
    def metrics(self):
        found = super().metrics
        if self.complexity_target is None:
            found = [metric for metric in found if metric is not self.complexity_metric]
        return found

    @property
    def output_names(self):
        """The names of the model's outputs, for a dictionary of losses or metrics."""
        return self.model.output_names

    @property
    def search_optimizer(self):
        """The `ArchitectureOptimizer` made by `compile`, without loss scaling around it."""
        return getattr(self.optimizer, "inner_optimizer", self.optimizer)

    def export(self, filepath, *args, overwrite=False, **kwargs):
        """Export the model in it as it is; for serving export `keras_xd.finalize(self)` instead.

        Args:
            filepath: where to write.
            overwrite: whether to write where there is something already.
            *args, **kwargs: as in `keras.Model.export`.

        Raises:
            ValueError: if there is something at `filepath` and `overwrite` is not set.
        """
        check_export_path(filepath, overwrite)
        self.model.export(filepath, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        config["model"] = keras.saving.deserialize_keras_object(
            config["model"], custom_objects=custom_objects
        )
        return cls(**config)

    def save_own_variables(self, store):
        super().save_own_variables(store)
        text = json.dumps(_signature(self.model))
        store["architecture"] = np.frombuffer(text.encode(), dtype="uint8")

    def load_own_variables(self, store):
        """Check that a file's searchable layers are those of the model.

        Keras checks the shapes of the layers that the model has, but not whether the file has
        more of them.
        """
        if "architecture" not in store.keys():
            raise ValueError(
                "The file must be one of a SearchModel; load a file of the model in it by "
                "`search_model.model.load_weights`. Received: a file with no record of a search"
            )
        saved = json.loads(bytes(bytearray(store["architecture"])).decode())
        current = _signature(self.model)
        if len(saved) != len(current):
            raise ValueError(
                "The architecture in a file must match the model's. Received: a file of "
                f"{len(saved)} searchable layers, model {len(current)}"
            )
        for number, (old, new) in enumerate(zip(saved, current, strict=True)):
            if old != new:
                raise ValueError(
                    "The architecture in a file must match the model's. Received: for searchable "
                    f"layer {number}, '{searchable_layers(self.model)[number].name}', "
                    f"file {[v for v in old if v not in new]}, "
                    f"model {[v for v in new if v not in old]}"
                )

    def _check_trainable_variables(self):
        """Raise `ValueError` if variables were frozen or unfrozen since `compile`."""
        built_on = sorted(self.search_optimizer.built_paths)
        now = sorted(variable.path for variable in self.trainable_variables)
        if built_on != now:
            raise ValueError(
                "The trainable variables must be those of `compile`. Compile the model again "
                "after freezing or unfreezing the architecture or layers. Received: variables "
                f"{sorted(set(built_on) ^ set(now))}, trainable either then or now"
            )


def _signature(model):
    """Return the numbers in the configuration and the weights of every searchable layer, as text.

    Numbers, such as those of a depth or a radix, tell apart architectures whose weights have the
    same shapes.
    """

    def describe(variable):
        # An automatic name ends in a number that differs from one process to the next.
        return f"{re.sub(r'_[0-9]+$', '', variable.name)}: {tuple(variable.shape)}"

    def numbers_in(config):
        config = {name: _numbers(value) for name, value in config.items()}
        for name in ("trainable", "seed"):
            config.pop(name, None)
        return [f"{name}={value}" for name, value in config.items() if value is not None]

    return [
        [type(layer).__name__, *numbers_in(layer.get_config()), *map(describe, layer.weights)]
        for layer in searchable_layers(model)
    ]


def _numbers(value):
    """Return `value`, lists as tuples, if it is made of whole numbers or booleans, else `None`."""
    if is_integer(value) or isinstance(value, bool):
        return value
    if isinstance(value, (list, tuple)):
        items = tuple(_numbers(item) for item in value)
        return None if None in items else items
    return None


def _check_complexity_arguments(target, weight):
    """Raise `ValueError` unless `target` and `weight` define a complexity term or none."""
    if target is not None and (not isinstance(target, numbers.Real) or not target > 0):
        raise ValueError(
            "`complexity_target` must be a positive number of multiply–adds. "
            f"Received: complexity_target={target!r}"
        )
    if not isinstance(weight, numbers.Real) or not weight >= 0:
        raise ValueError(
            "`complexity_weight` must be a number of at least 0. "
            f"Received: complexity_weight={weight!r}"
        )
    if weight and target is None:
        raise ValueError(
            "`complexity_weight` needs a `complexity_target`. "
            f"Received: complexity_weight={weight!r}, complexity_target=None"
        )
