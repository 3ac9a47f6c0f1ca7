"""The protocols of evaluation: what each of them trains and measures, and what is kept.

"Training" here sets weights to numbers that tell where they came from, so that every value in a
result can be computed by hand; one test trains for real.
"""

import contextlib
import statistics
import time
import warnings

import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.core.searchable import architecture_variables, searchable_layers
from keras_xd.evaluation import Evaluation, Task, evaluate_search, protocols
from keras_xd.evaluation.protocols import Run
from keras_xd.evaluation.store import Store
from keras_xd.training.random_architecture import randomize_architecture
from keras_xd.training.search_model import SearchModel
from keras_xd_tests import programs
from keras_xd_tests.training.gated_dense import GatedDense


@contextlib.contextmanager
def recorded():
    """Give a list of the texts of all warnings of failed runs."""
    texts = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", category=RuntimeWarning)
        yield texts
    texts += [str(one.message) for one in caught if one.category is RuntimeWarning]


class Bench:
    """Tasks whose functions write down when they are called."""

    def __init__(self, outputs=3):
        self.calls = []
        self.outputs = outputs
        self.fail = None
        self.task = Task(self.build, self.fit, self.evaluate)

    def log(self, what):
        self.calls.append(what)
        if self.fail is not None and self.fail(what, len(self.calls)):
            raise self.error

    error = RuntimeError("out\nof memory")

    def build(self):
        return keras.Sequential([keras.Input((4,)), GatedDense(self.outputs)])

    def search(self, model):
        self.log("search")
        model.layers[0].gates.assign(np.random.normal(size=4))  # the search of a seed
        model.layers[0].bias.assign([10.0] * self.outputs)

    def fit(self, model):
        self.log("fit")
        assert not model.layers[0].gates.trainable
        self.kernel = model.layers[0].kernel.numpy()
        model.layers[0].bias.assign([20.0] * self.outputs)

    def evaluate(self, model):
        self.log("evaluate")
        layer = model.layers[0]
        return {
            "gate": np.float32(layer.gates[0]),
            "bias": keras.ops.sum(layer.bias),
            "kernel": float(layer.kernel[0, 0]),
        }

    def run(self, **arguments):
        arguments = {"finalize": False, "seeds": 2, **arguments}
        return evaluate_search(self.task, self.search, **arguments)


def found_gate(seed):
    """Return what the search of `Bench` finds: the first number after the seed is set."""
    return float(np.float32(np.random.RandomState(seed).normal(size=4)[0]))


def random_gate(seed):
    model = randomize_architecture(Bench().build(), seed)
    return float(architecture_variables(model)[0][0])


def test_each_protocol_measures_its_architecture_with_its_weights():
    bench, other = Bench(), Bench(outputs=5)
    result = bench.run(transfer={"other": other.task}, seeds=[3, 1], controls=("start", "random"))
    assert result.protocols == ("supernet", "offline", "transfer to other", "start", "random")
    assert result.metrics == ("gate", "bias", "kernel") and not result.failures
    found = {3: found_gate(3), 1: found_gate(1)}
    for protocol in ("supernet", "offline", "transfer to other"):
        assert result.values(protocol, "gate") == found
    assert result.values("start", "gate") == {3: 1.0, 1: 1.0}
    assert result.values("random", "gate") == {3: random_gate(3), 1: random_gate(1)}
    expected = {"supernet": 30, "offline": 60, "transfer to other": 100, "start": 60, "random": 60}
    for protocol, bias in expected.items():
        assert result.values(protocol, "bias") == {3: bias, 1: bias}
    # All that is trained from scratch begins with the same weights, others for each seed.
    offline = result.values("offline", "kernel")
    assert offline == result.values("random", "kernel") == result.values("start", "kernel")
    assert offline[3] != offline[1]
    assert bench.calls.count("search") == 2 and other.calls == ["fit", "evaluate"] * 2


def test_trained_operations_are_finalized(rng):
    """The real thing: found by a `SearchModel`, retrained by Keras, finalized and measured."""
    x = rng.normal(size=(4, 6, 1)).astype("float32")
    y = np.roll(x, 1, axis=1)
    seen, errors = set(), []

    def build():
        layer = layers.XDConv1D(1, 3, padding="circular")
        return keras.Sequential([keras.Input((6, 1)), layer])

    def search(model):
        searched = SearchModel(model)
        sgd = keras.optimizers.SGD
        searched.compile(sgd(0.1), sgd(0.1), "mse", run_eagerly=True)
        searched.fit(x, y, epochs=2, verbose=0)
        errors.append(float(np.mean((model(x) - y) ** 2)))

    def fit(model):
        assert [v.name for v in model.trainable_variables] == ["kernel", "bias"]
        model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
        model.fit(x, y, epochs=2, verbose=0)
        errors.append(float(np.mean((model(x) - y) ** 2)))

    def evaluate(model):
        seen.update(type(layer).__name__ for layer in model.layers)
        assert not searchable_layers(model)
        return float(np.mean((model(x) - y) ** 2))

    result = evaluate_search(Task(build, fit, evaluate), search, seeds=1)
    assert any(name.startswith("Static") for name in seen)
    values = [result.values(protocol, "value")[0] for protocol in result.protocols]
    np.testing.assert_allclose(values, errors, rtol=1e-5)
    assert len(set(values)) == 3


def test_statistics_and_table():
    runs = [Run("offline", seed, {"accuracy": v, "loss": 2.0}, 1.0) for seed, v in enumerate(DATA)]
    runs += [Run("random", 0, {"accuracy": 0.25}, 2.0), Run("random", 1, {}, 0.5, "E: a\n  b")]
    result = Evaluation(tuple(runs))
    assert result.mean("offline", "accuracy") == pytest.approx(statistics.mean(DATA), rel=1e-12)
    assert result.standard_deviation("offline", "accuracy") == pytest.approx(
        statistics.stdev(DATA), rel=1e-12
    )
    assert result.mean("random", "loss") is None
    assert result.standard_deviation("random", "accuracy") is None
    assert [run.seed for run in result.failures] == [1]
    assert str(result).splitlines() == [
        "| protocol | seeds | accuracy | loss |",
        "|---|---:|---:|---:|",
        "| offline | 3 | 0.71 ± 0.036 | 2 ± 0 |",
        "| random | 1 | 0.25 | – |",
        "",
        "Failed, and not in the table:",
        "",
        "- random, seed 1: E: a b",
    ]
    for arguments in (("supernet", "loss"), ("offline", "time")):
        with pytest.raises(ValueError, match="must be one of"):
            result.values(*arguments)


DATA = [0.7, 0.75, 0.68]


def test_a_failed_run_leaves_the_others():
    bench = Bench()
    fits = []
    bench.fail = lambda what, _: what == "fit" and (fits.append(1), len(fits) == 2)[1]
    with recorded() as texts:
        result = bench.run()
    assert texts == ["random, seed 0 failed and is left out: RuntimeError: out\nof memory"]
    (failure,) = result.failures
    assert (failure.protocol, failure.seed) == ("random", 0)
    assert result.values("offline", "gate") == {0: found_gate(0), 1: found_gate(1)}
    assert result.values("random", "gate") == {1: random_gate(1)}
    assert "- random, seed 0: RuntimeError: out of memory" in str(result)


@pytest.mark.filterwarnings("ignore:.*failed and is left out:RuntimeWarning")
@pytest.mark.parametrize("value", [[1.0, 2.0], {"a": "b"}, None, {"a": True}])
def test_what_is_no_number_is_refused(value):
    bench = Bench()
    bench.task = Task(bench.build, bench.fit, lambda model: value)
    with pytest.raises(ValueError, match="return_dict=True"):
        bench.run(seeds=1)


def test_an_interrupted_evaluation_goes_on(tmp_path, capsys):
    expected = Bench().run()
    bench = Bench()
    bench.error = KeyboardInterrupt()
    bench.fail = lambda what, count: count == 8  # the evaluation of the second search
    with pytest.raises(KeyboardInterrupt):
        bench.run(path=tmp_path / "runs")
    one_seed = ["search", "evaluate"] + ["fit", "evaluate"] * 2
    assert bench.calls == [*one_seed, "search", "evaluate"]
    again = Bench()
    result = again.run(path=tmp_path / "runs", verbose=1)
    assert again.calls == one_seed[1:]  # what was found has been kept
    for protocol in expected.protocols:
        for metric in expected.metrics:
            assert result.values(protocol, metric) == expected.values(protocol, metric)
    printed = capsys.readouterr().out
    assert "random, seed 1: gate " in printed and "random, seed 0" not in printed
    once_more = Bench()
    assert once_more.run(path=tmp_path / "runs") == result
    assert once_more.calls == []


def test_folders_of_something_else_are_left_alone(tmp_path):
    bench = Bench()
    bench.run(path=tmp_path, seeds=1, settings={"epochs": 3})
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(files) == 7  # with the lock of the seed
    for arguments, message in (
        ({"settings": {"epochs": 4}}, "other settings"),
        ({"settings": {"epochs": 3}, "finalize": True}, "other settings"),
        ({}, "other settings"),
    ):
        with pytest.raises(ValueError, match=message):
            bench.run(path=tmp_path, **arguments)
    with pytest.raises(ValueError, match="models that the tasks build now"):
        Bench(outputs=2).run(path=tmp_path, settings={"epochs": 3})
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": 0}, "`seeds` must be"),
        ({"seeds": []}, "`seeds` must be"),
        ({"seeds": [1, 1]}, "`seeds` must be"),
        ({"seeds": [-1]}, "`seeds` must be"),
        ({"seeds": [2**32]}, "`seeds` must be"),
        ({"seeds": 1.5}, "`seeds` must be"),
        ({"controls": "random"}, "`controls` must be a sequence"),
        ({"controls": ["other"]}, "`controls` must be some of"),
        ({"transfer": Bench().task}, "`transfer` must be a dictionary"),
        ({"transfer": {"other": 3}}, "A task must be a `keras_xd.evaluation.Task`"),
        ({"transfer": {"a/b": Bench().task}}, "name of a task"),
        ({"finalize": "no"}, "`finalize` must be True or False"),
        ({"verbose": 2}, "`verbose` must be one of"),
        ({"path": "runs", "settings": {"a": object()}}, "`settings` must be"),
    ],
)
def test_wrong_arguments(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bench = Bench()
    with pytest.raises(ValueError, match=message):
        bench.run(**arguments)
    assert bench.calls == [] and not list(tmp_path.iterdir())


def test_tasks_that_cannot_take_the_architecture_are_refused_at_once(tmp_path):
    bench = Bench()

    def build():
        return keras.Sequential([keras.Input((5,)), GatedDense(3)])

    other = Task(build, bench.fit, bench.evaluate)
    with pytest.raises(ValueError, match=r"for task 'wide'.*gates \(4,\) in the file"):
        bench.run(transfer={"wide": other}, path=tmp_path / "runs")
    assert bench.calls == [] and not (tmp_path / "runs").exists()


def hold_a_seed(path, ready, go):
    store = Store(path, {})
    with store.locked(0):
        ready.touch()
        while not go.exists():
            time.sleep(0.01)
        store.write("offline", 0, {"values": {}, "seconds": 1.0, "model": {}})


def test_processes_share_the_seeds_of_one_folder(tmp_path):
    store, ready, go = Store(tmp_path / "runs", {}), tmp_path / "ready", tmp_path / "go"
    store.open()
    process = programs.fork(hold_a_seed, store.path, ready, go)
    while not ready.exists():
        time.sleep(0.01)
    turns = protocols._in_turn(store, [0, 1])
    assert next(turns) == 1
    go.touch()
    assert next(turns) == 0 and store.read("offline", 0)["seconds"] == 1.0
    assert list(turns) == [] and programs.wait(process) == 0
