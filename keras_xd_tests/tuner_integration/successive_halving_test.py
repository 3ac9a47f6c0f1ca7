import collections
import json
import os

import keras
import keras_tuner as kt
import numpy as np
import pytest

from keras_xd import grammar
from keras_xd.grammar import Grammar, spaces
from tuner_integration import GrammarTuner, HalvingOracle

pytestmark = pytest.mark.usefixtures("few_trees", "short_searches")
CELLS = spaces.nas_bench_201_cell()
SPACE = Grammar("S -> Linear2 OP OP | Residual2 OP OP OP\nOP -> dense | relu | tanh | id")
TABLE = {
    "dense": lambda shape, name: keras.layers.Dense(shape[-1], name=name),
    "relu": lambda shape, name: keras.layers.ReLU(name=name),
    "tanh": lambda shape, name: keras.layers.Activation("tanh", name=name),
}


def oracle(trials=18, space=None, **options):
    options = {"strategy": "random", "seed": 2, "fold_levels": (0,), "rungs": (1, 3, 9), **options}
    objective = kt.Objective(options.pop("objective", "loss"), options.pop("direction", "min"))
    return HalvingOracle({"cell": space or CELLS}, objective, trials, **options)


def loss(values):
    """Lower with more convolutions, and with more epochs for all alike."""
    return 6 - values["cell"].count("conv") + 1 / values["tuner/epochs"]


def searched(oracle):
    while asked := oracle.ask():
        oracle.tell(asked[0], loss(asked[0]))
    return oracle


def rows(oracle):
    return [
        (t.trial_id, t.hyperparameters.values["tuner/round"], t.score)
        for t in oracle.trials.values()
    ]


@pytest.mark.parametrize("direction", ["min", "max"])
def test_the_best_third_of_each_rung_is_continued(direction):
    found = oracle(40, direction=direction)
    sign = 1 if direction == "min" else -1
    while asked := found.ask():
        found.tell(asked[0], sign * loss(asked[0]))
    by_round = collections.defaultdict(list)
    for trial in found.trials.values():
        values = trial.hyperparameters.values
        by_round[values["tuner/round"]].append(trial)
        assert values["tuner/epochs"] == (1, 3, 9)[values["tuner/round"]]
        if values["tuner/round"]:
            parent = found.trials[values["tuner/trial_id"]]
            assert parent.hyperparameters.values["cell"] == values["cell"]
            assert parent.hyperparameters.values["tuner/epochs"] == values["tuner/initial_epoch"]
    counts = [len(by_round[number]) for number in range(3)]
    # A rung may hold one more than a third, if a better trial ends later.
    assert counts == [27, 9, 4]
    # The best of a rung has been continued, and nothing twice.
    for lower, upper in ((0, 1), (1, 2)):
        parents = [t.hyperparameters.values["tuner/trial_id"] for t in by_round[upper]]
        assert len(set(parents)) == len(parents)
        best = min(by_round[lower], key=lambda trial: sign * trial.score)
        assert best.trial_id in parents
    assert len({t.hyperparameters.values["cell"] for t in by_round[0]}) == 27


def test_a_search_goes_on_where_it_was_stopped(tmp_path):
    whole = searched(oracle(strategy="bayesian", initial_trials=4, num_candidates=6))
    first = oracle(strategy="bayesian", initial_trials=4, num_candidates=6)
    first.open_project(tmp_path, "halving")
    for _ in range(9):
        (values,) = first.ask()
        first.tell(values, loss(values))
    again = oracle(strategy="bayesian", initial_trials=4, num_candidates=6)
    again.open_project(tmp_path, "halving")
    assert rows(searched(again)) == rows(whole)
    with pytest.raises(ValueError, match="rungs that it began with"):
        oracle(rungs=(1, 9)).open_project(tmp_path, "halving")


def test_a_term_counts_once_by_its_last_rung():
    found = oracle(4)
    losses = iter([0.5, 0.3, 0.4, 9.0])  # the second is continued, and is worse afterwards
    while asked := found.ask():
        found.tell(asked[0], next(losses))
    assert [round_ for _, round_, _ in rows(found)] == [0, 0, 0, 1]
    space = found._space()
    points = {name: found._point(space, trial) for name, trial in found.trials.items()}
    observed, scores = found._observations(space, points)
    texts = [str(dict(point)["cell"]) for point in observed]
    assert len(set(texts)) == len(texts) == 3
    order = sorted(zip(scores, texts, strict=True))
    trials = [found.trials[name].hyperparameters.values["cell"] for name in ("0003", "0002")]
    assert [text for _, text in order[:2]] == trials


def test_what_fails_is_not_continued_and_what_was_not_asked_for_begins_new():
    found = oracle(12)
    for number in range(3):
        found.tell(found.ask()[0], None if number else 0.4)
    # One of three is due to be continued, and this is not it.
    text = "(CELL Cell" + 6 * " (OPS conv1x1)" + ")"
    found.tell(text, 0.1)
    assert rows(found)[-1][1:] == (0, 0.1)
    (values,) = found.ask()
    assert values["tuner/round"] == 1 and values["cell"] == text


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="fidelity"):
        oracle(fidelity="depth")
    with pytest.raises(ValueError, match="`factor` must be an integer of at least 2"):
        oracle(factor=1)
    with pytest.raises(ValueError, match="one objective"):
        HalvingOracle({"cell": CELLS}, [kt.Objective("a", "min"), kt.Objective("b", "min")], 3)


def compiled(hp, term):
    keras.utils.set_random_seed(1)
    model = grammar.build(term, keras.Input((3,)), TABLE, head=keras.layers.Dense(1, name="head"))
    model.compile(keras.optimizers.Adam(1e-2), "mse", run_eagerly=True)
    return model


def data(rng):
    x = rng.normal(size=(12, 3)).astype("float32")
    return x, x[:, :1] - x[:, 1:2]


def test_continued_trials_are_those_that_were_never_stopped(tmp_path, rng):
    x, y = data(rng)
    seen = []

    class Tuner(GrammarTuner):
        def on_trial_end(self, trial):
            super().on_trial_end(trial)
            names = [n[6:] for n in os.listdir(self.project_dir) if n.startswith("trial_")]
            seen.append({n for n in names if os.path.exists(self._get_checkpoint_fname(n))})

    found = oracle(5, SPACE, rungs=(1, 2), objective="val_loss")
    tuner = Tuner(found, compiled, max_checkpoints=1, directory=tmp_path, project_name="p")
    options = {"validation_data": (x, y), "batch_size": 6, "shuffle": False, "verbose": 0}
    tuner.search(x, y, epochs=50, **options)
    assert [r[1] for r in rows(found)] == [0, 0, 0, 1, 0]
    continued = found.trials["0003"]
    term = SPACE.parse(continued.hyperparameters.values["cell"])
    model = compiled(None, term)
    expected = model.fit(x, y, epochs=2, **options).history["val_loss"]
    assert found.trials[continued.hyperparameters.values["tuner/trial_id"]].score == pytest.approx(
        expected[0], rel=1e-5
    )
    assert continued.score == pytest.approx(expected[1], rel=1e-5)
    # Kept are the best and what may be continued yet: one of five trials at most.
    assert seen[1] == {"0000"} | seen[1] and len(seen[1]) <= 2
    best = tuner.get_best_models()[0]
    assert best.evaluate(x, y, verbose=0) == pytest.approx(
        min(t.score for t in found.trials.values()), rel=1e-5
    )


def test_fewer_data_and_channels(tmp_path, rng):
    x, y = data(rng)
    sizes = []

    class Own(kt.HyperModel):
        def build(self, hp, term):
            return compiled(hp, term)

        def fit(self, hp, model, x, y, **options):
            sizes.append(len(x))
            return super().fit(hp, model, x, y, **options)

    found = oracle(3, SPACE, fidelity="data", rungs=(0.5, 1.0), factor=2, objective="val_loss")
    tuner = GrammarTuner(found, Own(), directory=tmp_path, project_name="p")
    tuner.search(x, y, validation_data=(x, y), epochs=1, verbose=0)
    assert sizes == [6, 6, 12]

    units = []

    def wider(hp, term):
        units.append(hp.get("tuner/channels"))
        return compiled(hp, term)

    options = {"fidelity": "channels", "rungs": (4, 8), "factor": 2, "objective": "val_loss"}
    found = oracle(3, SPACE, **options)
    GrammarTuner(found, wider, directory=tmp_path, project_name="c").search(
        x, y, validation_data=(x, y), epochs=1, verbose=0
    )
    assert units[:2] == [8, 4] and units[-1] == 8 and [r[1] for r in rows(found)] == [0, 0, 1]


def test_the_median_stops_and_low_scores_are_skipped(tmp_path, rng):
    x, y = data(rng)
    epochs = {}

    class Tuner(GrammarTuner):
        def on_epoch_end(self, trial, model, epoch, logs=None):
            # Every later trial is worse.
            logs["val_loss"] = float(trial.trial_id) + 1 / (1 + epoch)
            super().on_epoch_end(trial, model, epoch, logs)
            epochs[trial.trial_id] = epoch + 1

    oracle_ = oracle(6, SPACE, rungs=(3, 4), objective="val_loss", factor=9)
    judged = []

    def score(model):
        judged.append(len(model.layers))
        return judged[-1]

    tuner = Tuner(
        oracle_,
        compiled,
        median_stopping=3,
        zero_cost=score,
        directory=tmp_path,
        project_name="p",
    )
    tuner.search(x, y, validation_data=(x, y), verbose=0)
    assert list(epochs.values()) == [3, 3, 3, 1, 1, 1]
    assert len(os.listdir(os.path.join(tuner.project_dir, "curves"))) == 6
    state = json.loads((tmp_path / "p" / "tuner0.json").read_text())
    assert state["zero_cost"]["scores"] == judged and len(judged) == 6 + len(oracle_.skipped)
    assert np.isfinite(judged).all()
