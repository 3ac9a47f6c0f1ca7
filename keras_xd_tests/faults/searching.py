"""Jobs of many parts: evaluations, tuners and exports."""

import json
import tempfile

import keras
import keras_tuner as kt
import numpy as np

# What each copy of this process would import when it writes a summary.
from tensorboard.plugins.hparams import summary_v2  # noqa: F401
from tensorboard.plugins.scalar import summary_v2 as scalars  # noqa: F401
from tensorboard.summary.writer import event_file_writer  # noqa: F401

import keras_xd
from keras_xd import grammar
from keras_xd.evaluation.store import Store
from keras_xd_tests.faults import checks
from keras_xd_tests.faults.training import search_model
from keras_xd_tests.training.gated_dense import GatedDense, classification_data
from tuner_integration import GrammarOracle, GrammarTuner

TRIALS = 3
SPACE = grammar.Grammar("S -> Linear2 OP OP | Residual2 OP OP OP\nOP -> dense | drop | relu | id")
TABLE = {
    "dense": lambda shape, name: keras.layers.Dense(shape[-1], name=name),
    "drop": lambda shape, name: keras.layers.Dropout(0.5, name=name),
    "relu": lambda shape, name: keras.layers.ReLU(name=name),
}


class Evaluation:
    """`evaluate_search` of a search with dropout, with a transfer, over two seeds."""

    name = "evaluation"
    settings = {"finalize": False, "settings": {"epochs": 1}}

    def task(self, classes):
        x, y = classification_data(12)

        def build():
            layers = [keras.Input((4,)), GatedDense(5), keras.layers.Dropout(0.5)]
            return keras.Sequential([*layers, keras.layers.Dense(classes, activation="softmax")])

        def fit(model):
            loss = "sparse_categorical_crossentropy"
            model.compile(keras.optimizers.Adam(0.05), loss, run_eagerly=True)
            model.fit(x, y, batch_size=12, verbose=0)

        def evaluate(model):
            outputs = keras.ops.convert_to_numpy(model(x))
            return {"mean": float(outputs.mean(axis=0)[0]), "least": float(outputs.min())}

        return keras_xd.evaluation.Task(build, fit, evaluate)

    def search(self, model):
        x, y = classification_data(12)
        search = keras_xd.SearchModel(model)
        search.compile("adam", "sgd", "sparse_categorical_crossentropy", run_eagerly=True)
        search.fit(x, y, batch_size=12, verbose=0)

    def run(self, folder):
        """Evaluate, or go on; return what came of it."""
        print("start", flush=True)
        evaluation = keras_xd.evaluation.evaluate_search(
            self.task(3),
            self.search,
            transfer={"other": self.task(4)},
            seeds=2,
            controls=(),
            finalize=False,
            settings=self.settings["settings"],
            path=folder / "runs",
            verbose=1,  # a line for each run that is finished
        )
        values = {
            f"{run.protocol}, seed {run.seed}": {k: v.hex() for k, v in run.values.items()}
            for run in evaluation.runs
        }
        files = sorted((folder / "runs").glob("seed_*/*.*"))
        weights = [checks.weights_in(path) for path in files if path.suffix == ".h5"]
        found = [path for path in files if path.suffix == ".npz"]
        architectures = [checks.architecture_in(path) for path in found]
        return {"values": values, "weights": weights, "architectures": architectures}

    def check(self, folder, before, reference):
        """Return what is wrong on the disk after a kill."""
        findings, finished = [], [line.partition(":")[0] for line in before if "seed" in line]
        if not finished:
            return findings
        store = Store(folder / "runs", self.settings)
        for run in finished:
            protocol, _, seed = run.partition(", seed ")
            if store.read(protocol, int(seed)) is None:
                findings.append(f"{run} was finished and is not on the disk")
        return findings


class Tuner(GrammarTuner):
    """Prints which trials begin and which are finished."""

    def on_trial_begin(self, trial):
        super().on_trial_begin(trial)
        print("begin", trial.trial_id)

    def on_trial_end(self, trial):
        super().on_trial_end(trial)
        print("done", trial.trial_id)


def compiled(hp, network):
    """A model whose random numbers are the same whichever trials have run before."""
    keras.utils.set_random_seed(3)
    model = grammar.build(network, keras.Input((4,)), TABLE, head=keras.layers.Dense(1))
    rate = hp.Float("rate", 1e-3, 1e-1, sampling="log")
    model.compile(keras.optimizers.Adam(rate), "mse", run_eagerly=True)
    return model


def oracle(trials=TRIALS):
    options = {"initial_trials": 2, "num_candidates": 6, "fold_levels": (0,), "seed": 4}
    return GrammarOracle({"network": SPACE}, kt.Objective("val_loss", "min"), trials, **options)


def trials_in(folder):
    """Return the trials' files as dictionaries by their names."""
    found = [json.loads(path.read_text()) for path in folder.glob("search/trial_*/trial.json")]
    return {trial["trial_id"]: trial for trial in found}


def lost(folder, finished):
    """Return a text for each finished trial that is not on the disk as one."""
    trials = trials_in(folder)
    statuses = {name: trials.get(name, {}).get("status") for name in finished}
    return [
        f"trial {name} was finished and is {status or 'not'} on the disk"
        for name, status in statuses.items()
        if status != "COMPLETED"
    ]


def of_kind(lines, kind):
    """Return the trials that lines `begin 0001` or `done 0001` name."""
    return [line.split()[1] for line in lines if line.startswith(f"{kind} ")]


class Tune:
    """A `GrammarTuner` that trains networks with dropout."""

    name = "tuner"

    def run(self, folder):
        """Search, or go on; return what came of it."""
        x, _ = classification_data(12)
        y = x[:, :1] - x[:, 1:2]
        tuner = Tuner(oracle(), compiled, directory=folder, project_name="search")
        print("start", flush=True)
        tuner.search(x, y, validation_data=(x, y), epochs=2, batch_size=12, verbose=0)
        return self.found(folder)

    def found(self, folder):
        """Return values, scores and weights of all trials on the disk, and their order."""
        trials = sorted(trials_in(folder).items())
        kept = sorted((folder / "search").glob("trial_*/checkpoint.weights.h5"))
        return {
            "values": [trial["hyperparameters"]["values"] for _, trial in trials],
            "scores": [trial["score"].hex() for _, trial in trials],
            "statuses": [trial["status"] for _, trial in trials],
            "end_order": json.loads((folder / "search" / "oracle.json").read_text())["end_order"],
            "weights": {path.parent.name: checks.weights_in(path) for path in kept},
        }

    def check(self, folder, before, reference):
        """Return what is wrong on the disk after a kill."""
        return lost(folder, of_kind(before, "done"))

    def check_resumed(self, before, after):
        """Return what is wrong with the trials that ran after the kill."""
        twice = set(of_kind(before, "done")) & set(of_kind(after, "begin"))
        return [f"trial {name} was finished and ran again" for name in sorted(twice)]


class Export:
    """`export` to SavedModels and LiteRT files."""

    name = "export"
    files = (("saved_model", "tf_saved_model"), ("model.tflite", "litert"))

    def outputs(self, path):
        """Return the digest of what an exported model computes."""
        from keras_xd.graph import runtimes

        x = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
        run = runtimes.run_litert if path.suffix else runtimes.run_saved_model
        signature = [keras.InputSpec(shape=(None, 4), dtype="float32")]
        return checks.digest(run(str(path), [x], signature, None))

    def run(self, folder):
        """Export what is not there; return what the files compute."""
        tempfile.tempdir = str(folder / checks.TEMPORARY)
        (folder / checks.TEMPORARY).mkdir(exist_ok=True)
        search = search_model()
        print("start", flush=True)
        for name, kind in self.files:
            if not (folder / name).exists():
                search.export(folder / name, format=kind, verbose=False)
            print("done", name)
        return {name: self.outputs(folder / name) for name, _ in self.files}

    def check(self, folder, before, reference):
        """Return what is wrong on the disk after a kill."""
        findings = []
        for name in of_kind(before, "done"):
            if not (folder / name).exists():
                findings.append(f"{name} was finished and is not there")
        for name, _ in self.files:
            if (folder / name).exists():
                try:
                    self.outputs(folder / name)
                except Exception as error:  # of any runtime
                    findings.append(f"{name} is half-written: {type(error).__name__}: {error}")
        return findings
