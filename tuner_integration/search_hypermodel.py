"""A KerasTuner hypermodel whose models are searches."""

from collections.abc import Callable
from typing import Any

import keras
import keras_tuner

import keras_xd
from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Radix

_SETTINGS = ("depth", "radix", "warm_start", "warmup_epochs", "mode")


class SearchHyperModel(keras_tuner.HyperModel):
    """Makes the settings of a search of operations hyperparameters.

    Each trial rewrites a backbone and searches it by a `keras_xd.SearchModel`, with settings that
    the tuner chooses: any of KerasTuner's, such as `keras_tuner.Hyperband`. Trials are compared by
    what the search reports, `val_loss` or the validation value of a metric.

    A setting that is a list is a hyperparameter with these choices, the first of which is the
    default; anything else is the same in all trials.

    In the bilevel modes `tuner.search` needs `architecture_validation_split`, or
    `architecture_validation_data`, as `SearchModel.fit` does. In trials with `mode="joint"` both
    are left out: there all training samples move weights and architecture.

    Args:
        backbone: function `(hp)` that returns a new, built Keras model; it may use
            hyperparameters of its own.
        loss: of the search.
        metrics: of the search: names or a list of them.
        optimizer: of the weights: its name, or a function `(hp)` that returns it.
        architecture_optimizer: function of the learning rate that returns the optimizer of the
            architecture.
        depth: depth of the K-matrices, see `keras_xd.rewrite`.
        radix: block sizes of the K-matrices, likewise.
        warm_start: what the operations begin as; `None` for what they replace.
        architecture_rate: learning rate of the architecture: a number, a list of them, or a tuple
            `(lowest, highest)` for any between, drawn by their logarithms.
        warmup_epochs: number of epochs in which the architecture is fixed. `keras_tuner.Hyperband`
            runs short trials first, in which a long warm-up leaves nothing to search.
        mode: `"joint"`, `"alternating"`, `"first_order"` or `"second_order"`.
        rewrite_options: dictionary of further arguments of `keras_xd.rewrite`.
        compile_options: dictionary of further arguments of `SearchModel.compile`.
        **kwargs: `name` and `tunable` of `keras_tuner.HyperModel`.

    Example:

    ```python
    import keras
    import keras_tuner as kt
    import numpy as np
    from tuner_integration import SearchHyperModel


    def backbone(hp):
        return keras.Sequential(
            [
                keras.Input((8, 1)),
                keras.layers.Conv1D(2, 3, padding="same", activation="relu"),
                keras.layers.GlobalAveragePooling1D(),
                keras.layers.Dense(1),
            ]
        )


    hypermodel = SearchHyperModel(
        backbone, "mse", depth=[1, 3], compile_options={"run_eagerly": True}
    )
    tuner = kt.RandomSearch(
        hypermodel, "val_loss", max_trials=2, seed=1, directory="searches"
    )
    x = np.random.default_rng(0).normal(size=(8, 8, 1))
    tuner.search(x, x.mean(axis=1), validation_split=0.5, verbose=0)
    print(tuner.get_best_hyperparameters()[0].values)
    model = hypermodel.finalized(tuner)[0]  # plain Keras
    ```

    Reference:
        Li et al., "Hyperband: a novel bandit-based approach to hyperparameter optimization", 2018,
        which the XD paper tunes its searches with.
    """

    @check_types
    def __init__(
        self,
        backbone: Callable[[keras_tuner.HyperParameters], keras.Model],
        loss: Any,
        *,
        metrics: Any = None,
        optimizer: str | Callable = "adam",
        architecture_optimizer: Callable = keras.optimizers.Adam,
        depth: int | tuple[int, int, int] | list | None = [1, 2, 3],  # noqa: B006 - never changed
        radix: Radix | list = None,
        warm_start: str | list[str | None] | None = None,
        architecture_rate: float | tuple[float, float] | list[float] = (1e-5, 1e-1),
        warmup_epochs: int | list[int] = 0,
        mode: str | list[str] = "joint",
        rewrite_options: dict | None = None,
        compile_options: dict | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.backbone = backbone
        self.loss = loss
        self.metrics = metrics
        self.optimizer = optimizer
        self.architecture_optimizer = architecture_optimizer
        self.depth = depth
        self.radix = radix
        self.warm_start = warm_start
        self.architecture_rate = architecture_rate
        self.warmup_epochs = warmup_epochs
        self.mode = mode
        self.rewrite_options = dict(rewrite_options or {})
        self.compile_options = dict(compile_options or {})
        for name in (*_SETTINGS, "architecture_rate"):
            if getattr(self, name) == []:
                raise ValueError(f"A list of choices must not be empty. Received: {name}=[]")
        if isinstance(architecture_rate, tuple) and (
            len(architecture_rate) != 2 or not 0 < architecture_rate[0] < architecture_rate[1]
        ):
            raise ValueError(
                "A range of `architecture_rate` must be two positive numbers, the lower first. "
                f"Received: architecture_rate={architecture_rate!r}"
            )

    def build(self, hp: keras_tuner.HyperParameters) -> keras.Model:
        """Return the compiled `keras_xd.SearchModel` of the hyperparameters."""
        chosen = {name: _choice(hp, name, getattr(self, name)) for name in _SETTINGS}
        if isinstance(self.architecture_rate, tuple):
            rate = hp.Float("architecture_rate", *self.architecture_rate, sampling="log")
        else:
            rate = _choice(hp, "architecture_rate", self.architecture_rate)
        options = {name: chosen[name] for name in ("depth", "radix", "warm_start")}
        options = {name: value for name, value in options.items() if value is not None}
        space = keras_xd.rewrite(self.backbone(hp), **options, **self.rewrite_options)
        search = keras_xd.SearchModel(space)
        search.compile(
            self.optimizer(hp) if callable(self.optimizer) else self.optimizer,
            self.architecture_optimizer(rate),
            loss=self.loss,
            metrics=self.metrics,
            mode=chosen["mode"],
            warmup_epochs=chosen["warmup_epochs"],
            **self.compile_options,
        )
        return search

    def fit(
        self, hp: keras_tuner.HyperParameters, model: keras.Model, *args: Any, **kwargs: Any
    ) -> keras.callbacks.History:
        """Run one search; returns its history."""
        if model.mode == "joint":
            kwargs = {
                name: value
                for name, value in kwargs.items()
                if name not in ("architecture_validation_split", "architecture_validation_data")
            }
        return model.fit(*args, **kwargs)

    def finalized(self, tuner: keras_tuner.Tuner, num_models: int = 1) -> list:
        """Return what the best trials found, as plain models, the best first.

        Args:
            tuner: the tuner that ran the trials, or that was loaded again.
            num_models: number of models.

        Returns:
            List of `keras_xd.finalize(…)` of the searches, with the weights of their best epochs.
        """
        return [keras_xd.finalize(search) for search in tuner.get_best_models(num_models)]


def _choice(hp, name, setting):
    """The value of a setting; KerasTuner stores choices as integers or texts."""
    if not isinstance(setting, list):
        return setting
    plain = all(type(value) is int for value in setting)
    labels = setting if plain else [str(value) for value in setting]
    return setting[labels.index(hp.Choice(name, labels))]
