"""The tuner: terms to trained models, checkpoints, costs and refusals.

Searches that are killed are those of `faults_test`.
"""

import os
import time

import keras
import keras_tuner as kt
import pytest

from keras_xd import grammar
from keras_xd.grammar import Grammar
from keras_xd.grammar.terms import Term
from keras_xd_tests import programs
from tuner_integration import GrammarOracle, GrammarTuner

pytestmark = pytest.mark.usefixtures("few_trees", "short_searches")
SPACE = Grammar("S -> Linear2 OP OP | Residual2 OP OP OP\nOP -> dense | relu | id")
SECOND = Grammar("A -> tanh | elu")
TABLE = {
    "dense": lambda shape, name: keras.layers.Dense(shape[-1], name=name),
    "relu": lambda shape, name: keras.layers.ReLU(name=name),
}


def compiled(hp, term, activation):
    head = keras.layers.Dense(1, activation=activation.operator, name="head")
    model = grammar.build(term, keras.Input((3,)), TABLE, head=head)
    rate = hp.Float("rate", 1e-3, 1e-1, sampling="log")
    model.compile(keras.optimizers.Adam(rate), "mse", run_eagerly=True)
    return model


def oracle(trials, **options):
    grammars = {"network": SPACE, "activation": SECOND}
    options = {"initial_trials": 3, "num_candidates": 6, "fold_levels": (0,), "seed": 4, **options}
    return GrammarOracle(grammars, kt.Objective("val_loss", "min"), trials, **options)


def data(rng):
    x = rng.normal(size=(12, 3)).astype("float32")
    return x, x[:, :1] - x[:, 1:2]


def checkpoints(tuner):
    found = os.listdir(tuner.project_dir)
    names = [name for name in found if os.path.exists(tuner._get_checkpoint_fname(name[6:]))]
    return {name.removeprefix("trial_") for name in names if name.startswith("trial_")}


def test_terms_are_built_trained_and_the_best_weights_kept(tmp_path, rng):
    x, y = data(rng)
    kept = []

    class Tuner(GrammarTuner):
        def on_trial_end(self, trial):
            super().on_trial_end(trial)
            best = self.oracle.get_best_trials(2)
            kept.append((checkpoints(self), {t.trial_id for t in best if t.score is not None}))

    tuner = Tuner(oracle(4), compiled, max_checkpoints=2, directory=tmp_path, project_name="p")
    tuner.search(x, y, validation_data=(x, y), epochs=2, batch_size=12, verbose=0)
    assert len(kept) == 4 and all(found == best for found, best in kept)
    assert len(kept[-1][0]) == 2
    best = tuner.oracle.get_best_trials(4)
    assert [trial.status for trial in best] == ["COMPLETED"] * 4
    for trial, model in zip(best, tuner.get_best_models(2), strict=False):
        # The model is that of the term, with the weights of the best epoch.
        assert model.evaluate(x, y, verbose=0) == pytest.approx(trial.score, rel=1e-5)
        assert float(model.optimizer.learning_rate) == pytest.approx(
            trial.hyperparameters.get("rate")
        )
        operations = trial.hyperparameters.get("network").count("dense")
        assert sum("dense" in layer.name for layer in model.layers) <= operations
    with pytest.raises(ValueError, match=f"trial {best[2].trial_id}, max_checkpoints=2"):
        tuner.get_best_models(3)
    terms = tuner.get_best_terms(3)
    assert [str(t["network"]) for t in terms] == [
        t.hyperparameters.get("network") for t in best[:3]
    ]
    assert {type(term) for term in terms[0].values()} == {Term}

    again = GrammarTuner(oracle(4), compiled, directory=tmp_path, project_name="p")
    again.search(x, y, validation_data=(x, y), verbose=0)
    assert again.get_best_terms(4) == tuner.get_best_terms(4)


def test_a_hypermodel_has_its_own_fit_and_hyperparameters(tmp_path):
    class Model(kt.HyperModel):
        def declare_hyperparameters(self, hp):
            hp.Boolean("declared")

        def build(self, hp, term, activation):
            assert isinstance(term, Term) and isinstance(activation, Term)
            return keras.Sequential([keras.Input((1,)), keras.layers.Dense(term.size)])

        def fit(self, hp, model, *args, **kwargs):
            return {"val_loss": model.layers[0].units + hp.get("declared")}

    tuner = GrammarTuner(oracle(3), Model(), directory=tmp_path, max_checkpoints=None)
    tuner.search(verbose=0)
    for trial in tuner.oracle.trials.values():
        values = trial.hyperparameters.values
        assert trial.score == SPACE.parse(values["network"]).size + values["declared"]


def test_failed_trials_leave_no_weights(tmp_path, rng):
    x, y = data(rng)

    class Failing(GrammarTuner):
        def run_trial(self, trial, *args, **kwargs):
            super().run_trial(trial, *args, **kwargs)
            raise RuntimeError("no memory")

    tuner = Failing(oracle(2), compiled, max_checkpoints=3, directory=tmp_path)
    with pytest.raises(RuntimeError, match="2 failed trials, the last with: RuntimeError: no mem"):
        tuner.search(x, y, validation_data=(x, y), verbose=0)
    assert [trial.status for trial in tuner.oracle.trials.values()] == ["FAILED"] * 2
    assert not checkpoints(tuner)
    for best in (tuner.get_best_models, tuner.get_best_terms, tuner.get_best_hyperparameters):
        with pytest.raises(ValueError, match="No trial has completed. Received: 2 failed .*no mem"):
            best()


class Computing(GrammarTuner):
    """Computes a function of the trial's number instead of training."""

    function = staticmethod(float)

    def run_trial(self, trial, **options):
        return {"val_loss": self.function(int(trial.trial_id))}


def computing(folder, trials, function=float, **options):
    tuner = Computing(oracle(trials, **options), directory=folder, project_name="computed")
    tuner.function = function
    return tuner


def test_a_search_in_which_nothing_works_stops(tmp_path):
    ran = []

    def failing(number):
        ran.append(number)
        raise RuntimeError("wrong data")

    with pytest.raises(RuntimeError, match="10 failed trials, the last with: .*wrong data"):
        computing(tmp_path, 25, failing).search(verbose=0)
    assert ran == list(range(10))
    with pytest.raises(RuntimeError, match="No trial has completed"):
        computing(tmp_path, 25, failing).search(verbose=0)
    assert len(ran) == 10

    def failing_after_the_first(number):
        return 1.0 if number == 0 else failing(number)

    tuner = computing(tmp_path / "later", 15, failing_after_the_first)
    tuner.search(verbose=0)
    assert len(tuner.oracle.trials) == 15 and len(tuner.get_best_terms(5)) == 1


def test_a_hypermodel_without_terms_is_refused(tmp_path):
    def build(hp):
        return None

    class Model(kt.HyperModel):
        def build(self, hp, term):
            return None

    for hypermodel, given in ((build, r"build\(hp\)"), (Model(), r"build\(self, hp, term\)")):
        with pytest.raises(ValueError, match=rf"build\(hp, network, activation\). .*{given}"):
            GrammarTuner(oracle(3), hypermodel, directory=tmp_path)


def test_arguments_are_checked(tmp_path):
    random = kt.oracles.RandomSearchOracle(kt.Objective("val_loss", "min"), 3)
    with pytest.raises(ValueError, match="must be a GrammarOracle"):
        GrammarTuner(random, compiled, directory=tmp_path)
    for number in (-1, 1.5, "all"):
        with pytest.raises(ValueError, match="max_checkpoints=.*"):
            GrammarTuner(oracle(3), compiled, max_checkpoints=number, directory=tmp_path)


def test_costs_are_objectives_and_limits(tmp_path, rng):
    x, y = data(rng)
    objectives = [kt.Objective("val_loss", "min"), kt.Objective("parameters", "min")]
    grammars = {"network": SPACE, "activation": SECOND}
    searching = GrammarOracle(grammars, objectives, 4, initial_trials=3, fold_levels=(0,), seed=4)
    tuner = GrammarTuner(
        searching,
        compiled,
        max_checkpoints=0,
        limits={"parameters": 20},
        directory=tmp_path,
        project_name="p",
    )
    tuner.search(x, y, validation_data=(x, y), epochs=1, batch_size=12, verbose=0)
    counts = {
        trial.trial_id: 4 + 12 * trial.hyperparameters.get("network").count("dense")
        for trial in searching.trials.values()
    }
    assert len(counts) == 4 and set(counts.values()) == {4, 16}
    for trial in searching.trials.values():
        assert trial.metrics.get_best_value("parameters") == counts[trial.trial_id]
    assert searching.refused and all("exceeds" in reason for _, reason in searching.refused)
    # No weights but those of the front are kept.
    assert checkpoints(tuner) == {trial.trial_id for trial in searching.pareto()}


def test_limits_and_zero_cost_need_a_hypermodel(tmp_path):
    class Tuner(GrammarTuner):
        def run_trial(self, trial, **options):
            return 0.0

    for options in ({"limits": {"parameters": 1}}, {"zero_cost": len}):
        with pytest.raises(ValueError, match="`limits` and `zero_cost` need a hypermodel"):
            Tuner(oracle(2), directory=tmp_path, **options)


def waiting_search(folder, ready, go):
    def function(number):
        ready.touch()
        while not go.exists():
            time.sleep(0.01)
        return number

    computing(folder, 2, function).search(verbose=0)


def test_of_two_processes_one_searches_and_the_other_runs_no_trial_again(tmp_path):
    ready, go = tmp_path / "ready", tmp_path / "go"
    process = programs.fork(waiting_search, tmp_path, ready, go)
    while not ready.exists():
        time.sleep(0.01)
    other = computing(tmp_path, 2, None)  # which cannot run a trial
    with pytest.raises(ValueError, match="Only one process at a time may run this search"):
        other.search(verbose=0)
    with pytest.raises(ValueError, match="Only one process"):
        Computing(oracle(2), directory=tmp_path, project_name="computed", overwrite=True)
    go.touch()
    assert programs.wait(process) == 0
    other.search(verbose=0)
    assert [trial.score for trial in other.oracle.get_best_trials(9)] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("objective", "arguments", "message", "trainings"),
    [
        ("val_loss", {}, r"needs `validation_data`.*\['val_loss'\]", 0),
        ("val_los", {"validation_split": 0.5}, r"\['val_los'\], reported are \['loss', 'val_l", 1),
        ("acc", {"callbacks": None}, r"\['acc'\], reported are \['loss'\]", 1),
        ("val_loss", {"callbacks": [keras.callbacks.Callback()]}, r"reported are \['loss'\]", 1),
    ],
)
def test_an_objective_that_is_never_reported_ends_the_search_at_once(
    tmp_path, rng, objective, arguments, message, trainings
):
    x, y = data(rng)
    searching = oracle(10)
    searching.objective = kt.Objective(objective, "min")
    epochs = []

    class Tuner(GrammarTuner):
        def on_epoch_end(self, trial, model, epoch, logs=None):
            epochs.append(epoch)
            super().on_epoch_end(trial, model, epoch, logs=logs)

    tuner = Tuner(searching, compiled, directory=tmp_path)
    with pytest.raises(ValueError, match=message):
        tuner.search(x, y, epochs=3, verbose=0, **arguments)
    assert len(epochs) == trainings


@pytest.mark.parametrize("strategy", ["bayesian", "evolution", "random"])
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("S -> Linear2 OP OP\nOP -> relu | dens", "no dens of OP -> dens, only dense, id, relu"),
        (
            "S -> Linear2 OP OP | clone2_concat OP OP\nOP -> relu",
            "no linear2to1 of S -> clone2_concat OP OP, only dense",
        ),
        (
            "S -> Linear2 OP OP | Lineer2 OP OP\nOP -> relu",
            "Received: S -> Lineer2 OP OP, topologies .*'Linear2'",
        ),
        (
            "S -> Linear2 BLOCK BLOKC\nBLOCK -> relu",
            r"'BLOKC' .* 'BLOCK' meant.*nonterminals \['S', 'BLOCK'\]",
        ),
    ],
)
def test_unknown_words_of_a_grammar_are_refused_before_the_first_trial(
    tmp_path, text, rule, strategy
):
    def network(hp, term):
        return grammar.build(term, keras.Input((3,)), TABLE)

    with pytest.raises(ValueError, match=rule):
        objective = kt.Objective("loss", "min")
        searching = GrammarOracle({"s": Grammar(text)}, objective, strategy=strategy)
        GrammarTuner(searching, network, directory=tmp_path)
