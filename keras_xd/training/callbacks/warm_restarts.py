"""Warm restarts of the learning rate and of the weights (SGDR)."""

import math
from collections.abc import Callable

import keras
import numpy as np

from keras_xd.core import validation
from keras_xd.core.searchable import model_variables, reset_weights
from keras_xd.core.type_aliases import Logs
from keras_xd.training import rates
from keras_xd.training.callbacks import training_state
from keras_xd.training.optimizers import ArchitectureOptimizer


class WarmRestarts(keras.callbacks.Callback):
    """Restarts the learning rate periodically, and the weights with it, but not the architecture.

    A search of period `T` epochs sets, `t` epochs after a restart, the rates

        η(t) = minimum + (rate - minimum) · annealing(t / T),   annealing(p) = (1 + cos πp) / 2

    and multiplies `T` by `period_factor` at each restart. As long as `reset_weights` is set, the
    weights are reinitialised at each restart, with the slots of their optimizer and its count
    of iterations; see `keras_xd.reset_weights`. The architecture, its optimizer's slots and count
    are left as they are. So every period searches on from the operations found with weights that
    know nothing of the earlier ones: *Supernet SGDR* of the Chrysalis. Without it the weights stay
    too, and the rates alone restart: SGDR.

    Epochs are counted over all calls of `fit` since `compile`, warm-up and cool-down included, and
    the count is saved with the optimizer. What the callback does depends on that count alone, so
    training resumed from a file or by `keras.callbacks.BackupAndRestore` restarts when training in
    one piece does; with an integer `seed` also to the same weights. A restart happens at the begin
    of the first epoch of a period: after the last epoch of a period the weights are the trained
    ones. Callbacks may be used again; they keep no state.

    A weights' optimizer whose rate is a `LearningRateSchedule` restarts its schedule with the
    count of iterations; then `learning_rate` has to be `None`.

    The logs get `restarts`, the number of restarts so far, and the rates at the end of the epoch
    under the names of the arguments.

    Args:
        first_period: integer, the epochs of the first period (T₀).
        period_factor: integer, the ratio of a period to the one before (the papers' T_mult).
        learning_rate: the rate of the weights at the begin of a period. `None`: their rate is not
            touched. Further groups of weights keep their ratios to it.
        architecture_learning_rate: likewise for the architecture. `None`: its rate is not touched.
        minimum: the rate at the end of a period, of both groups.
        annealing: `"cosine"`, or a function from the share of the period that is over, from 0 to
            below 1, to a factor.
        granularity: `"epoch"`: rates change at the begin of an epoch, and `t` is an integer.
            `"batch"`: at the begin of every call of the compiled train step, that is, of
            `steps_per_execution` batches, and `t` counts parts of epochs; the number of batches
            has to be known.
        reset_weights: whether to reinitialise the weights.
        seed: an integer makes the fresh weights reproducible, different ones at each restart.
            `None` draws them as Keras does.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> model = keras.Sequential([keras.Input((9, 1)), keras_xd.layers.XDConv1D(2, 3)])
    >>> search = keras_xd.SearchModel(model)
    >>> search.compile("sgd", "sgd", "mse")
    >>> restarts = keras_xd.callbacks.WarmRestarts(2, learning_rate=0.1, seed=1)
    >>> history = search.fit(
    ...     np.ones((4, 9, 1)),
    ...     np.zeros((4, 7, 2)),
    ...     epochs=4,
    ...     callbacks=[restarts],
    ...     verbose=0,
    ... )
    >>> [round(rate, 4) for rate in history.history["learning_rate"]]
    [0.1, 0.05, 0.1, 0.05]
    >>> history.history["restarts"]
    [0, 0, 1, 1]

    Reference:

    - Loshchilov, Hutter. SGDR: Stochastic Gradient Descent with Warm Restarts. 2017. Equation 5.
    - Roberts, Khodak, Dao, Li, Ré, Talwalkar. Searching for Convolutions and a More Ambitious NAS
      (K-operations, the Chrysalis). Section 4, *Supernet SGDR*.
    """

    def __init__(
        self,
        first_period: int,
        period_factor: int = 1,
        *,
        learning_rate: float | None = None,
        architecture_learning_rate: float | None = None,
        minimum: float = 0.0,
        annealing: str | Callable[[float], float] = "cosine",
        granularity: str = "epoch",
        reset_weights: bool = True,
        seed: int | None = None,
    ):
        super().__init__()
        self.first_period = validation.positive_integer(first_period, "first_period")
        self.period_factor = validation.positive_integer(period_factor, "period_factor")
        given = {
            "learning_rate": learning_rate,
            "architecture_learning_rate": architecture_learning_rate,
        }
        self.rates = {name: rate for name, rate in given.items() if rate is not None}
        for name, value in {**self.rates, "minimum": minimum}.items():
            validation.nonnegative_number(value, name)
        if any(rate < minimum for rate in self.rates.values()):
            raise ValueError(
                f"No rate may be below `minimum`. Received: {self.rates}, minimum={minimum!r}"
            )
        self.minimum = minimum
        if not callable(annealing):
            validation.one_of(annealing, ("cosine",), "annealing")
        self.annealing = annealing if callable(annealing) else cosine
        self.granularity = validation.one_of(granularity, ("epoch", "batch"), "granularity")
        self.reset_weights = validation.one_of(reset_weights, (True, False), "reset_weights")
        if not self.rates and not reset_weights:
            raise ValueError(
                "`WarmRestarts` needs a rate to anneal or weights to reset. Received: "
                "learning_rate=None, architecture_learning_rate=None, reset_weights=False"
            )
        self.seed = validation.seed(seed)

    def on_train_begin(self, logs: Logs = None) -> None:
        optimizer = getattr(self.model, "search_optimizer", None)
        if not isinstance(optimizer, ArchitectureOptimizer):
            raise ValueError(
                "`WarmRestarts` is for a compiled `keras_xd.SearchModel`. "
                f"Received: model={self.model!r}"
            )
        for name in self.rates:
            fixed = rates.scheduled(self._optimizers(name))
            if fixed:
                raise ValueError(
                    f"`{name}` must be None where the optimizer's rate is a "
                    "`LearningRateSchedule`, which sets it by itself. "
                    f"Received: {name}={self.rates[name]!r}, a schedule in {fixed}"
                )
        if self.granularity == "batch" and not self.params.get("steps"):
            raise ValueError(
                '`granularity="batch"` needs data of known length, or `steps_per_epoch`. '
                "Received: an unknown number of batches"
            )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        count = int(self.model.search_optimizer.epochs.numpy())
        restarts, epochs_over, period = place(count, self.first_period, self.period_factor)
        if self.reset_weights and restarts and not epochs_over:
            self._restart(restarts)
        self._epochs_over, self._period = epochs_over, period
        self._set_rates(epochs_over / period)

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        if self.granularity == "batch" and batch:
            training_state.synchronize(self.model)
            self._set_rates((self._epochs_over + batch / self.params["steps"]) / self._period)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            # The count is already that of the next epoch.
            count = int(self.model.search_optimizer.epochs.numpy()) - 1
            logs["restarts"] = place(count, self.first_period, self.period_factor)[0]
            for name in self.rates:
                logs[name] = rates.value(next(iter(self._optimizers(name).values())))

    def _optimizers(self, name):
        """Return the optimizers whose rate an argument anneals, by their names."""
        search = self.model.search_optimizer
        if name == "architecture_learning_rate":
            return {"architecture_optimizer": search.architecture_optimizer}
        return rates.groups(search, architecture=False)

    def _set_rates(self, progress):
        factor = float(self.annealing(progress))
        ratios = self.model.search_optimizer.rate_ratio
        for name, rate in self.rates.items():
            # Those of groups of weights come behind the architecture's.
            last = ratios[1:] if ratios and name == "learning_rate" else None
            annealed = self.minimum + (rate - self.minimum) * factor
            rates.set_all(self._optimizers(name), annealed, last)

    def _restart(self, number):
        """Initialise the weights and what their optimizer keeps of them."""
        seed = None
        if self.seed is not None:
            seed = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
        reset_weights(self.model, seed)
        reset_slots(self.model)


def reset_slots(search):
    """Set the state of the weights' optimizers, but a rate that is a number, to its start."""
    groups = search.search_optimizer
    for optimizer in groups.weights_optimizers:
        if not optimizer.built:
            continue  # as of a model without weights
        # Slots do not all start at zero; a new optimizer of the same kind knows.
        fresh = type(optimizer).from_config(optimizer.get_config())
        variables = model_variables(search)
        fresh.build([v for v in variables if groups.optimizer_map(v) is optimizer])
        for variable, start in zip(optimizer.variables, fresh.variables, strict=True):
            variable.assign(keras.ops.convert_to_tensor(start))


def place(count, first_period, period_factor):
    """Return where an epoch lies in the periods of warm restarts."""
    restarts, period = 0, first_period
    while count >= period:
        count -= period
        period *= period_factor
        restarts += 1
    return restarts, count, period


def cosine(progress):
    """Return the factor of cosine annealing: 1 at the begin of a period, 0 at its end."""
    return (1 + math.cos(math.pi * progress)) / 2
