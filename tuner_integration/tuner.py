"""A KerasTuner tuner whose trials are architectures."""

import contextlib
import importlib.util
import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import keras
import keras_tuner
from keras_tuner import errors
from keras_tuner.engine.trial import Trial
from keras_tuner.engine.tuner import maybe_distribute

from keras_xd.core import files, locking, validation
from keras_xd.grammar.topologies import UnknownOperatorError
from keras_xd.training.callbacks.hparams import write_run
from tuner_integration import checkpoints
from tuner_integration.costs import COSTS, check_limits, exceeded, model_costs
from tuner_integration.fidelity import fit_arguments, resumed_from
from tuner_integration.median_stopping import MedianStopping
from tuner_integration.objectives import directions_of
from tuner_integration.oracle import GrammarOracle
from tuner_integration.summaries import last_failure, shown_values, summary_of_results
from tuner_integration.term_hypermodel import TermHyperModel
from tuner_integration.zero_cost_filter import ZeroCostFilter

_RUNNING = ("RUNNING", "IDLE")
_ALL_TRIALS = 1_000_000


class GrammarTuner(keras_tuner.Tuner):
    """Builds, trains and keeps the networks of the terms that a `GrammarOracle` proposes.

    It is a `keras_tuner.Tuner`: `search` takes the arguments of `fit`, and all methods for the
    best trials are there. Beside that

    - the hypermodel gets the terms themselves, parsed, after the hyperparameters;
    - weights are kept of the best `max_checkpoints` trials only, with several objectives also those
      of their Pareto front, with a `HalvingOracle` those that it may continue; others are deleted
      as soon as a trial ends;
    - costs of networks are objectives and limits: `"multiply_adds"`, `"parameters"` and `"latency"`
      (see `tuner_integration.costs.model_costs`);
    - values and scores of the trials are written for TensorBoard's HParams, to the folder
      `tensorboard` of the project;
    - a search that is killed goes on when the program is started again, from its first trial on.
      A trial that has reported its results is never run again. A full disk ends the search with
      an `OSError` and counts no trial as failed.

    A subclass with a `run_trial` of its own tunes anything, then without a hypermodel.

    Args:
        oracle: a `GrammarOracle`.
        hypermodel: function `(hp, *terms)` that returns a compiled model, with one
            `keras_xd.grammar.terms.Term` for each grammar of the oracle, in their order; or a
            `keras_tuner.HyperModel` with such a `build`. `keras_xd.grammar.build` makes a model of
            a term.
        max_checkpoints: number of trials whose weights are kept, 0 for none and `None` for all.
        limits: dictionary from names of costs to the largest allowed, such as
            `{"parameters": 1e5}`. Networks that exceed one are refused before training and cost no
            trial, see `refuse` of `GrammarOracle`.
        median_stopping: number of ended trials from which on a trial is stopped after an epoch if
            its best value is worse than the median of the mean values of those trials up to this
            epoch; `None` for never.
        zero_cost: function of an untrained model to a number, larger is better, such as
            `keras_xd.training.synflow`. Proposals whose networks have a low one are skipped; which
            they are depends on the random initial weights.
        zero_cost_share: about which share of the proposals is skipped.
        **kwargs: of `keras_tuner.Tuner`, such as `directory`, `project_name`, `overwrite`,
            `executions_per_trial` and `max_model_size`.

    Example:

    ```python
    import keras
    import keras_tuner as kt
    import numpy as np
    from keras_xd import grammar
    from tuner_integration import GrammarOracle, GrammarTuner

    space = grammar.Grammar(
        "S -> Linear2 OP OP | Residual2 OP OP OP \\n OP -> dense | relu | id"
    )
    table = {
        "dense": lambda shape, name: keras.layers.Dense(shape[-1], name=name),
        "relu": lambda shape, name: keras.layers.ReLU(name=name),
    }


    def compiled(hp, term):
        model = grammar.build(
            term, keras.Input((4,)), table, head=keras.layers.Dense(1)
        )
        rate = hp.Float("rate", 1e-3, 1e-1, sampling="log")
        model.compile(keras.optimizers.Adam(rate), "mse", run_eagerly=True)
        return model


    oracle = GrammarOracle(
        {"network": space}, kt.Objective("val_loss", "min"), 2, seed=1
    )
    tuner = GrammarTuner(
        oracle, compiled, directory="searches", project_name="dense"
    )
    x = np.random.default_rng(0).normal(size=(16, 4))
    tuner.search(x, x[:, :1], validation_split=0.5, epochs=1, verbose=0)
    print(tuner.get_best_terms()[0]["network"].formula())
    model = tuner.get_best_models()[0]
    ```

    Reference:
        Schrodi et al., "Towards discovering neural architectures from scratch", 2022.
    """

    def __init__(
        self,
        oracle: GrammarOracle,
        hypermodel: keras_tuner.HyperModel | Callable | None = None,
        *,
        max_checkpoints: int | None = 5,
        limits: Mapping[str, float] | None = None,
        median_stopping: int | None = None,
        zero_cost: Callable[[keras.Model], float] | None = None,
        zero_cost_share: float = 0.5,
        **kwargs: Any,
    ):
        if not isinstance(oracle, GrammarOracle):
            raise ValueError(f"`oracle` must be a GrammarOracle. Received: oracle={oracle!r}")
        if max_checkpoints is not None:
            validation.positive_integer(max_checkpoints, "max_checkpoints", least=0)
        self.max_checkpoints = max_checkpoints
        self.limits = check_limits(limits or {})
        self._costs = {}
        self.grammars = dict(oracle.grammars)  # a worker's oracle is KerasTuner's client of it
        own_fit = isinstance(hypermodel, keras_tuner.HyperModel) and (
            type(hypermodel).fit is not keras_tuner.HyperModel.fit
        )
        own_run = type(self).run_trial is not GrammarTuner.run_trial
        self._calls_fit = hypermodel is not None and not own_fit and not own_run
        if hypermodel is not None:
            hypermodel = TermHyperModel(hypermodel, self.grammars)
        self._own_oracle, self._built, self._resumed = oracle, (None, None), None
        self._filter = None if zero_cost is None else ZeroCostFilter(zero_cost, zero_cost_share)
        self._stopping = None
        if median_stopping is not None:
            direction = oracle.objective.direction
            self._stopping = MedianStopping(
                lambda: os.path.join(self.project_dir, "curves"), direction, median_stopping
            )
        if (self.limits or self._filter) and hypermodel is None:
            raise ValueError(
                "`limits` and `zero_cost` need a hypermodel whose networks they judge. "
                f"Received: limits={limits!r}, zero_cost={zero_cost!r}"
            )
        # Of this process; where workers train, the chief proposes and refuses.
        if self.limits:
            oracle.refuse = _one_of(oracle.refuse, self._refusal)
        if self._filter:
            oracle.skip = self._skips
        folder = os.path.join(
            kwargs.get("directory") or ".", kwargs.get("project_name") or "untitled_project"
        )
        if kwargs.get("overwrite") and os.path.isdir(folder):
            with self._held_lock(folder):
                pass
        super().__init__(oracle, hypermodel, **kwargs)

    def search(self, *fit_args: Any, **fit_kwargs: Any) -> None:
        """Search, see `keras_tuner.Tuner.search`.

        Raises:
            RuntimeError: no trial has completed.
        """
        self._check_validation(fit_args, fit_kwargs)
        with self._held_lock(self.project_dir):
            if not self._is_worker() and self.oracle.is_outdated():
                self.oracle.reload()  # what another process has done since
            super().search(*fit_args, **fit_kwargs)
        if not self._is_worker() and self.oracle.trials and not self.oracle.get_best_trials():
            raise RuntimeError(
                "No trial has completed. Mend what made them fail, then search again with "
                f"`overwrite=True`. Received: {last_failure(self.oracle.trials.values())}"
            )

    def _held_lock(self, folder):
        """Hold the project, which a worker shares with the chief and the other workers."""
        name = os.environ.get("KERASTUNER_TUNER_ID") if self._is_worker() else "oracle"
        return locking.locked(os.path.join(folder, f"{name}.lock"), "this search")

    def _check_validation(self, args, kwargs):
        """Raise `ValueError` if no trial could report a validation value."""
        names = [n for n in directions_of(self.oracle.objective) if n.startswith("val_")]
        given = len(args) > 6 or kwargs.get("validation_split") or kwargs.get("callbacks")
        if names and self._calls_fit and not given and kwargs.get("validation_data") is None:
            raise ValueError(
                "An objective of validation needs `validation_data` or `validation_split` in "
                f"`search`. Received: objective {names}, neither"
            )

    def _check_reported(self, reported, wait=False):
        """End the search if the objective is not among what training reports."""
        names = [n for n in directions_of(self.oracle.objective) if n not in COSTS]
        missing = [
            name
            for name in names
            if name not in reported
            and name != "default_objective"
            and not (wait and name.startswith("val_"))
        ]
        if missing:
            raise errors.FatalValueError(
                "The objective must be what training reports, and values of validation need "
                "`validation_data` or `validation_split` in `search`. "
                f"Received: objective {missing}, reported are {sorted(reported)}"
            )

    def get_best_hyperparameters(self, num_trials: int = 1) -> list:
        """Return the hyperparameters of the best trials that have completed, the best first."""
        self._check_completed()
        return super().get_best_hyperparameters(num_trials)

    def get_best_models(self, num_models: int = 1) -> list:
        """Return the models of the best trials that have completed, the best first."""
        self._check_completed()
        return super().get_best_models(num_models)

    def _check_completed(self):
        if not self.oracle.get_best_trials():
            trials = () if self._is_worker() else self.oracle.trials.values()
            raise ValueError(f"No trial has completed. Received: {last_failure(trials)}")

    def results_summary(self, num_trials: int = 10) -> None:
        """Print the best trials that have completed, with an outline of each term."""
        trials = self.oracle.get_best_trials(num_trials)
        head = ["Results summary", f"Results in {self.project_dir}"]
        head += [f"Showing {num_trials} best trials", str(self.oracle.objective)]
        print("\n".join([*head, *summary_of_results(trials, self.grammars)]))

    def get_best_terms(self, num_trials: int = 1) -> list:
        """Return the terms of the best trials that have completed, the best first.

        Each entry is a dictionary from names to terms.
        """
        return [
            {name: grammar.parse(hp.get(name)) for name, grammar in self.grammars.items()}
            for hp in self.get_best_hyperparameters(num_trials)
        ]

    def load_model(self, trial: Trial) -> keras.Model:
        """Return the model of a trial with the weights of its best epoch."""
        if not os.path.exists(self._get_checkpoint_fname(trial.trial_id)):
            raise ValueError(
                "The weights of the best `max_checkpoints` trials alone are kept. Received: trial "
                f"{trial.trial_id}, max_checkpoints={self.max_checkpoints}"
            )
        return super().load_model(trial)

    def on_search_begin(self) -> None:
        """Write the state, so that also what is killed in its first trial goes on."""
        super().on_search_begin()
        self.save()
        if not self._is_worker():
            for trial in self.oracle.trials.values():
                if not os.path.exists(self._board_folder(trial)):
                    self._write_hparams(trial)

    def on_trial_end(self, trial: Trial) -> None:
        """End the trial, then delete the weights that are not to be kept."""
        if self._stopping:
            self._stopping.end(trial.trial_id)
        self._built = None, None
        super().on_trial_end(trial)
        self._write_hparams(self.oracle.get_trial(trial.trial_id))
        if self.max_checkpoints is not None:
            self._delete_checkpoints()

    def on_epoch_end(
        self, trial: Trial, model: keras.Model, epoch: int, logs: dict | None = None
    ) -> None:
        """Add the costs that are objectives to the logs of an epoch; stop by the median curve."""
        super().on_epoch_end(trial, model, epoch, logs=logs)
        names = [name for name in directions_of(self.oracle.objective) if name in COSTS]
        if names and logs is not None:
            if trial.trial_id not in self._costs:
                self._costs = {trial.trial_id: model_costs(model, names)}
            logs.update(self._costs[trial.trial_id])
        if self._stopping and logs and self.oracle.objective.has_value(logs):
            value = self.oracle.objective.get_value(logs)
            if self._stopping.stops(trial.trial_id, epoch, value):
                model.stop_training = True

    def run_trial(self, trial: Trial, *fit_args: Any, **fit_kwargs: Any) -> Any:
        """Build and train the network of a trial, see `keras_tuner.Tuner.run_trial`."""
        values = trial.hyperparameters.values
        fit_kwargs["callbacks"] = keras.tree.flatten(fit_kwargs.get("callbacks") or [])
        fit_args, fit_kwargs = fit_arguments(values, fit_args, fit_kwargs)
        self._resumed = resumed_from(values)
        try:
            return super().run_trial(trial, *fit_args, **fit_kwargs)
        finally:
            self._resumed = None

    def _build_and_fit_model(self, trial, *args, **kwargs):
        callbacks = kwargs.get("callbacks", [])
        checkpoints.write_whole(callbacks)
        if self._calls_fit:
            wait = kwargs.get("validation_freq", 1) != 1
            kwargs["callbacks"] = [
                *callbacks,
                keras.callbacks.LambdaCallback(
                    on_epoch_end=lambda epoch, logs: self._check_reported(logs, wait)
                ),
            ]
        results = super()._build_and_fit_model(trial, *args, **kwargs)
        if isinstance(results, keras.callbacks.History):
            self._check_reported(results.history)
        return results

    def _run_and_update_trial(self, trial, *fit_args, **fit_kwargs):
        """Let a full disk end the search, where KerasTuner would count the trial as failed."""
        try:
            super()._run_and_update_trial(trial, *fit_args, **fit_kwargs)
        except Exception as error:
            if isinstance(error, UnknownOperatorError):  # the grammar's fault, not the trial's
                raise errors.FatalValueError(str(error)) from error
            if files.is_full(error):
                raise checkpoints.FullDiskError(trial.trial_id, error) from error
            raise

    def _network(self, values):
        """The untrained network of values, `None` if they give none; the last one is kept."""
        if self._built[0] != values:
            hp = self.oracle.get_space()
            hp.values = dict(values)
            keras.utils.clear_session()
            try:
                self._built = values, self.hypermodel.build(hp)
            except Exception:  # noqa: BLE001 - as a trial it fails with its own message
                self._built = values, None
        return self._built[1]

    def _refusal(self, values):
        """Why the network of these values is not trained, `None` if it may be."""
        model = self._network(values)
        return None if model is None else exceeded(model, self.limits)

    def _skips(self, values):
        model = self._network(values)
        return model is not None and self._filter.skips(model)

    def get_state(self) -> dict[str, Any]:
        """Return the state, plain enough for JSON."""
        state = super().get_state()
        return {**state, "zero_cost": self._filter.get_state()} if self._filter else state

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over a state."""
        super().set_state(state)
        if self._filter and "zero_cost" in state:
            self._filter.set_state(state["zero_cost"])

    def save(self) -> None:
        """Save the state so that its files are never there in part."""
        if not self._is_worker():
            self.oracle.save()
        content = json.dumps(self.get_state())
        files.write(self._get_tuner_fname(), content.encode(), overwrite=True)

    def _board_folder(self, trial):
        return os.path.join(self.project_dir, "tensorboard", trial.trial_id)

    def _write_hparams(self, trial):
        """Write values and score of a completed trial for TensorBoard, if it is installed."""
        if trial.status != "COMPLETED" or importlib.util.find_spec("tensorboard") is None:
            return
        values = shown_values(trial.hyperparameters.values, self.grammars)
        scores = {self.oracle.objective.name: trial.score} if math.isfinite(trial.score) else {}
        write_run(self._board_folder(trial), values, scores)

    def _build_hypermodel(self, hp):
        model = super()._build_hypermodel(hp)
        optimizer = getattr(model, "optimizer", None)
        if optimizer is not None and model.built and not optimizer.built:
            # So that weights are loaded with the state of the optimizer.
            with maybe_distribute(self.distribution_strategy):
                optimizer.build(model.trainable_variables)
        if self._resumed is not None:
            model.load_weights(self._get_checkpoint_fname(self._resumed))
        return model

    def _delete_checkpoints(self):
        """Delete the weights of all ended trials but the best; other workers may do so, too."""
        trials = self.oracle.get_best_trials(self.max_checkpoints)
        kept = {trial.trial_id for trial in trials if trial.status == "COMPLETED"}
        kept |= self._own_oracle.needed_checkpoints(self.oracle.get_best_trials(_ALL_TRIALS))
        for name in os.listdir(self.project_dir):
            trial_id = name.removeprefix("trial_")
            if trial_id == name or trial_id in kept:
                continue
            path = self._get_checkpoint_fname(trial_id)
            if os.path.exists(path) and self.oracle.get_trial(trial_id).status not in _RUNNING:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)


def _one_of(first, second):
    """The function that gives what the first says, or the second."""
    return second if first is None else lambda values: first(values) or second(values)
