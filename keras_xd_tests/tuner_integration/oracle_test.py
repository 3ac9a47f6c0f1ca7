"""The oracle in a real KerasTuner search with an objective that costs nothing."""

import itertools
import json
import math

import keras_tuner as kt
import numpy as np
import pytest

from keras_xd.grammar import Connected, Grammar, spaces
from keras_xd.grammar.graphs import network_digest
from tuner_integration import GrammarOracle

pytestmark = pytest.mark.usefixtures("few_trees")
CELLS = spaces.nas_bench_201_cell()
SMALL = Grammar("S -> Linear2 A A | Linear1 A\nA -> conv | pool")  # 6 terms
STRATEGIES = ["bayesian", "evolution", "random"]


@pytest.fixture(autouse=True)
def short_searches_but_one(request):
    """How good the points are matters where a search is to beat another."""
    if "beats" not in request.node.name:
        request.getfixturevalue("short_searches")


def loss(values):
    """Lowest for a cell of six conv3x3 and a rate of 0.01."""
    wrong = 6 - values["cell"].count("conv3x3")
    return 0.05 + 0.1 * wrong + 0.1 * abs(math.log10(values.get("rate", 0.01)) + 2)


class Tuner(kt.Tuner):
    """Computes a function of the values instead of training."""

    function = staticmethod(loss)
    declare = True

    def run_trial(self, trial, **options):
        if self.declare:
            trial.hyperparameters.Float("rate", 1e-4, 1e-1, sampling="log")
            trial.hyperparameters.Choice("optimizer", ["adam", "sgd"])
        return {"loss": self.function(trial.hyperparameters.values)}


def search(folder, oracle, function=loss, declare=True, name="search"):
    tuner = Tuner(oracle=oracle, directory=folder, project_name=name)
    tuner.function, tuner.declare = function, declare
    tuner.search(verbose=0)
    return tuner


def cell_oracle(trials, seed=3, **options):
    options = {"initial_trials": 5, "num_candidates": 9, "fold_levels": (0,), **options}
    return GrammarOracle({"cell": CELLS}, kt.Objective("loss", "min"), trials, seed=seed, **options)


def values_of(oracle):
    return [oracle.trials[name].hyperparameters.values for name in sorted(oracle.trials)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_search_is_deterministic_tries_nothing_twice_and_obeys_the_grammar(tmp_path, strategy):
    runs = [
        search(tmp_path, cell_oracle(8, seed, strategy=strategy), name=str(index)).oracle
        for index, seed in enumerate((0, 0, 1))
    ]
    first, again, other = map(values_of, runs)
    assert first == again
    assert first != other
    assert len({json.dumps(values, sort_keys=True) for values in first}) == 8
    for values in first:
        CELLS.check(CELLS.parse(values["cell"]))
        assert type(values["rate"]) is float
        assert values["optimizer"] in ("adam", "sgd")


def test_bayesian_search_beats_random_search(tmp_path):
    best = {}
    for strategy in ("bayesian", "random"):
        scores = []
        for seed in (1,):
            oracle = cell_oracle(20, seed, strategy=strategy, num_candidates=20)
            tuner = search(tmp_path, oracle, declare=False, name=f"{strategy}{seed}")
            scores.append(tuner.oracle.get_best_trials()[0].score)
        best[strategy] = np.mean(scores)
    assert best["bayesian"] < 0.06  # the optimum is 0.05
    assert best["random"] > 0.15


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_search_goes_on_where_it_was_stopped(tmp_path, strategy):
    whole = search(tmp_path, cell_oracle(11, strategy=strategy, population=4), name="whole")

    class Killed(BaseException):
        pass

    calls = []

    def killed(values):
        calls.append(values)
        if len(calls) == 8:
            raise Killed
        return loss(values)

    with pytest.raises(Killed):
        search(tmp_path, cell_oracle(11, strategy=strategy, population=4), killed)
    resumed = search(tmp_path, cell_oracle(11, strategy=strategy, population=4), killed)
    assert values_of(resumed.oracle) == values_of(whole.oracle)
    assert len(calls) == 12  # only the one that was killed ran again
    assert [t.score for t in resumed.oracle.trials.values()] == [
        t.score for t in whole.oracle.trials.values()
    ]


def test_a_search_does_not_go_on_with_another_grammar(tmp_path):
    search(tmp_path, cell_oracle(2))
    other = GrammarOracle({"cell": SMALL}, kt.Objective("loss", "min"), 3)
    with pytest.raises(ValueError, match="goes on with the grammars"):
        search(tmp_path, other)


@pytest.mark.parametrize("objective", [("loss", "max"), ("seconds", "min")])
def test_a_search_does_not_go_on_with_another_objective(tmp_path, objective):
    search(tmp_path, cell_oracle(2))
    other = GrammarOracle({"cell": CELLS}, kt.Objective(*objective), 3)
    with pytest.raises(ValueError, match="goes on with the objective"):
        search(tmp_path, other)
    assert len(search(tmp_path, cell_oracle(3)).oracle.trials) == 3


def test_what_varies_satisfies_the_constraints(tmp_path):
    """Trials of a grammar that had none are observed, but no parents."""
    dead = "(CELL Cell" + 6 * " (OPS zero)" + ")"
    for strategy in ("bayesian", "evolution"):
        oracle = cell_oracle(9, strategy=strategy, initial_trials=2)
        assert oracle.import_trials([(dead, 0.0), (str(CELLS.first()), 1.0)]) == 2
        for text in oracle.ask(2):
            CELLS.check(CELLS.parse(text["cell"] if isinstance(text, dict) else text))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_network_is_tried_twice(tmp_path, strategy):
    """22 of 27 terms of a residual block connect, and build 8 different networks."""
    grammar = Grammar("S -> Residual2 A A A\nA -> conv | id | zero", constraints=[Connected()])
    oracle = GrammarOracle(
        {"s": grammar},
        kt.Objective("loss", "min"),
        50,
        strategy,
        initial_trials=4,
        fold_levels=(0,),
        seed=0,
        num_candidates=9,
    )
    search(tmp_path, oracle, lambda values: values["s"].count("conv"), declare=False)
    terms = {
        grammar.parse(f"(S Residual2 (A {a}) (A {b}) (A {c}))")
        for a, b, c in itertools.product(["conv", "id", "zero"], repeat=3)
        if b != "zero" or "zero" not in (a, c)
    }
    assert len(terms) == grammar.count(constrained=True) == 22
    tried = [network_digest(grammar.parse(values["s"])) for values in values_of(oracle)]
    assert len(tried) == len(set(tried))
    assert set(tried) == {network_digest(term) for term in terms} and len(tried) == 8


# KerasTuner looks for the best of no epochs.
@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")
@pytest.mark.parametrize(
    ("wrong", "strategy"),
    [("nan", "bayesian"), ("infinite", "bayesian"), ("error", "evolution"), ("all", "random")],
)
def test_failures_are_survived(tmp_path, strategy, wrong):
    calls = []

    def function(values):
        calls.append(values)
        if wrong == "all" or len(calls) % 3 == 0:
            if wrong == "error":
                raise RuntimeError("no memory")
            return math.inf if wrong == "infinite" else math.nan
        return loss(values)

    oracle = search(tmp_path, cell_oracle(9, strategy=strategy), function).oracle
    assert len(calls) == 9
    statuses = [trial.status for trial in oracle.trials.values()]
    failed = 0 if wrong == "infinite" else 9 if wrong == "all" else 3
    assert statuses.count("FAILED") == failed
    assert len({json.dumps(values) for values in values_of(oracle)}) == 9


def test_two_terms_and_conditional_hyperparameters(tmp_path):
    hyperparameters = kt.HyperParameters()
    kind = hyperparameters.Choice("kind", ["plain", "momentum"])
    with hyperparameters.conditional_scope("kind", ["momentum"]):
        hyperparameters.Float("momentum", 0.0, 0.99)
    hyperparameters.Int("width", 8, 64, step=8)
    hyperparameters.Fixed("classes", 10)
    assert kind == "plain"
    oracle = GrammarOracle(
        {"normal": CELLS, "reduce": SMALL},
        kt.Objective("accuracy", "max"),
        14,
        hyperparameters=hyperparameters,
        initial_trials=6,
        fold_levels=(0,),
        num_candidates=9,
        seed=2,
    )

    class Accuracy(kt.Tuner):
        def run_trial(self, trial, **options):
            values = trial.hyperparameters.values
            assert ("momentum" in values) == (values["kind"] == "momentum")
            assert values["width"] in range(8, 65, 8) and values["classes"] == 10
            SMALL.parse(values["reduce"])
            return {"accuracy": values["normal"].count("conv") / 8 + values["width"] / 640}

    tuner = Accuracy(oracle=oracle, directory=tmp_path, project_name="two")
    tuner.search(verbose=0)
    kinds = {values["kind"] for values in values_of(oracle)}
    assert kinds == {"plain", "momentum"}
    assert len(oracle.trials) == 14


def test_a_term_with_another_name_is_refused(tmp_path):
    def build(hp):
        hp.Fixed("sell", str(CELLS.first()))

    with pytest.raises(ValueError, match="must have the name of its grammar"):
        Tuner(cell_oracle(3), build, directory=tmp_path, project_name="typo")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grammars": {}}, "must be a dictionary"),
        ({"grammars": CELLS}, "must be a dictionary"),
        ({"grammars": {"cell": str(CELLS)}}, "must be a dictionary"),
        ({"strategy": "grid"}, "`strategy` must be one of"),
        ({"seed": -1}, "`seed` must be"),
        ({"population": 0}, "population"),
        ({"initial_trials": 0}, "initial_trials"),
        ({"fold_levels": (-1,)}, "`level` must be an integer"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        GrammarOracle(**{"grammars": {"cell": CELLS}, **options})


def test_a_hyperparameter_with_the_name_of_a_grammar_is_refused():
    hyperparameters = kt.HyperParameters()
    hyperparameters.Choice("cell", ["a", "b"])
    with pytest.raises(ValueError):
        cell_oracle(3, hyperparameters=hyperparameters)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_trial_has_random_numbers_of_its_own(strategy):
    """Else the second trial would be the first one of a search that has nothing to begin with."""

    def oracle(**options):
        return cell_oracle(5, strategy=strategy, **options)

    given = oracle(initial_terms=[str(CELLS.first())])
    assert given.ask() == [str(CELLS.first())]
    assert given.ask() != oracle().ask()


def oracle_with_rate(grammar, trials, initial):
    hyperparameters = kt.HyperParameters()
    hyperparameters.Float("rate", 0.0, 1.0)
    return GrammarOracle(
        {"net": grammar},
        kt.Objective("loss", "min"),
        trials,
        initial_trials=initial,
        num_candidates=9,
        seed=0,
        hyperparameters=hyperparameters,
    )


def test_a_network_rests_before_other_hyperparameters_are_tried():
    """Where the rate decides alone, the search neither stays at one network nor leaves the best."""
    oracle = oracle_with_rate(SMALL, 16, 4)
    networks = []
    while asked := oracle.ask():
        (values,) = asked
        networks.append(values["net"])
        oracle.tell(values, abs(values["rate"] - 0.3) + 0.01 * values["net"].count("pool"))
    assert len(networks) == 16
    for number in range(4, 16):
        assert networks[number] not in networks[number - 2 : number]
    assert len(set(networks[4:])) < 12  # and are tried again after that
