"""Jobs that train or save a search: fit, distributed.fit, files of models and architectures."""

import json

import keras
import numpy as np

import keras_xd
from keras_xd.training import distributed
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.faults import checks
from keras_xd_tests.training.gated_dense import GatedDense, classification_data

EPOCHS = 8


def search_model(mode="joint", seed=4):
    """A compiled search of a small classifier with dropout and batch normalization."""
    keras.utils.set_random_seed(seed)
    layers = [
        keras.Input((4,)),
        GatedDense(5),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(3, activation="softmax"),
    ]
    search = SearchModel(keras.Sequential(layers))
    optimizers = keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.Adam(0.01)
    options = {"mode": mode, "warmup_epochs": 1, "run_eagerly": True}
    search.compile(*optimizers, "sparse_categorical_crossentropy", **options)
    return search


def state(search):
    """Return the digest of all that a search trains with: weights, optimizers, random state."""
    variables = [*search.variables, *search.optimizer.variables]
    return checks.digest([keras.ops.convert_to_numpy(variable) for variable in variables])


class Report(keras.callbacks.Callback):
    """Prints each epoch whose end is behind all callbacks, with the state it has led to."""

    def on_train_begin(self, logs=None):
        self.first = None

    def on_epoch_begin(self, epoch, logs=None):
        if self.first is None:
            self.first = epoch
            print("start", flush=True)
        else:
            print("done", epoch, state(self.model))


def reported(lines):
    """Return a dictionary from numbers to digests, as lines `done 3 0f…` have them."""
    words = [line.split() for line in lines if line.startswith("done ")]
    return {int(number): found for _, number, found in words}


def wrong_state(found, done, reference):
    """Return what is wrong with the number and digest that were read back, a list of texts.

    Args:
        found: the number and the digest on the disk; 0 and anything where there is nothing yet.
        done: dictionary of those that were reported as finished before the kill.
        reference: dictionary of those of the run in one piece.
    """
    number, content = found
    last = max(done, default=0)
    findings = [f"{n} was reported with another state" for n in done if done[n] != reference.get(n)]
    if not last <= number <= last + 1:
        findings.append(f"{last} was finished, {number} is on the disk")
    if number and content != reference[number]:
        findings.append(f"{number} reads back with another state")
    return findings


class Fit:
    """`SearchModel.fit` with a `ModelCheckpoint` to one name, resumed by `initial_epoch`."""

    name = "fit"

    def path(self, folder):
        return folder / "search.weights.h5"

    def restored(self, folder):
        """Return a search as it is on the disk, and its number of epochs."""
        search, path = search_model(), self.path(folder)
        if path.exists():
            search.load_weights(path)
        return search, int(search.search_optimizer.epochs)

    def fit(self, search, folder, begin):
        x, y = classification_data(16)
        callbacks = [
            keras.callbacks.ModelCheckpoint(self.path(folder), save_weights_only=True),
            Report(),
        ]
        options = {"batch_size": 8, "shuffle": False, "verbose": 0, "callbacks": callbacks}
        search.fit(x, y, epochs=EPOCHS, initial_epoch=begin, **options)

    def run(self, folder):
        """Train, or go on; return what came of it."""
        search, begin = self.restored(folder)
        self.fit(search, folder, begin)
        print("done", EPOCHS, state(search))
        return {"state": state(search)}

    def check(self, folder, before, reference):
        """Return what is wrong on the disk after a kill."""
        search, epochs = self.restored(folder)
        found = epochs, state(search)
        return wrong_state(found, reported(before), reported(reference))


class DistributedFit(Fit):
    """`distributed.fit` of a bilevel search with its backup; the history counts too."""

    name = "distributed.fit"

    def restored(self, folder):
        search, record = search_model("first_order"), folder / "backup" / "latest.json"
        if not record.exists():
            return search, 0
        found = json.loads(record.read_text())
        search.load_weights(record.with_name(found["weights"]))
        return search, found["next_epoch"]

    def run(self, folder):
        x, y = classification_data(16)
        search = search_model("first_order", seed=5)
        if not (folder / "backup" / "latest.json").exists():
            search = search_model("first_order")
        options = {
            "batch_size": 8,
            "shuffle": False,
            "verbose": 0,
            "architecture_validation_split": 0.5,
        }
        history = distributed.fit(
            search,
            x,
            y,
            backup_dir=folder / "backup",
            epochs=EPOCHS,
            callbacks=[Report()],
            **options,
        )
        print("done", EPOCHS, state(search))
        losses = [values for _, values in sorted(history.history.items())]
        return {"state": state(search), "history": checks.digest(np.array(losses))}


class Save:
    """`save` and `save_weights` to the same two names again and again."""

    name = "save"
    versions = 12

    def assign(self, search, number):
        """Give a search the state that belongs to a number."""
        generator = np.random.default_rng(number)
        for variable in search.model.trainable_variables:
            variable.assign(generator.normal(size=variable.shape))
        search.search_optimizer.epochs.assign(number)

    def on_disk(self, folder):
        """Return the digests of the two files by their number."""
        found = {}
        for name in ("model.keras", "search.weights.h5"):
            path, search = folder / name, None
            if path.exists() and name.endswith(".keras"):
                search = keras.saving.load_model(path)
            elif path.exists():
                search = search_model()
                search.load_weights(path)
            number = int(search.search_optimizer.epochs) if search else 0
            found[name] = number, state(search) if search else None
        return found

    def run(self, folder):
        begin = min(number for number, _ in self.on_disk(folder).values())
        search = search_model()
        print("start", flush=True)
        for number in range(begin + 1, self.versions + 1):
            self.assign(search, number)
            search.save(folder / "model.keras")
            search.save_weights(folder / "search.weights.h5")
            print("done", number, state(search))
        return {name: list(found) for name, found in self.on_disk(folder).items()}

    def check(self, folder, before, reference):
        findings = []
        for name, found in self.on_disk(folder).items():
            wrong = wrong_state(found, reported(before), reported(reference))
            findings += [f"{name}: {text}" for text in wrong]
        return findings


class SaveArchitecture:
    """`save_architecture` to one name again and again."""

    name = "save_architecture"
    versions = 60

    def values(self, number):
        return np.random.default_rng(number).normal(size=4).astype("float32")

    def on_disk(self, model, folder):
        """Return the number and the digest of the architecture on the disk."""
        if not (folder / "found.npz").exists():
            return 0, None
        keras_xd.load_architecture(model, folder / "found.npz")
        gates = keras.ops.convert_to_numpy(keras_xd.architecture_variables(model)[0])
        numbers = range(1, self.versions + 1)
        number = next((n for n in numbers if np.array_equal(gates, self.values(n))), -1)
        return number, checks.digest([gates])

    def run(self, folder):
        model = search_model().model
        begin, _ = self.on_disk(model, folder)
        print("start", flush=True)
        for number in range(begin + 1, self.versions + 1):
            keras_xd.architecture_variables(model)[0].assign(self.values(number))
            keras_xd.save_architecture(model, folder / "found.npz", overwrite=True)
            print("done", number, checks.digest([self.values(number)]))
        return {"found": list(self.on_disk(model, folder))}

    def check(self, folder, before, reference):
        found = self.on_disk(search_model().model, folder)
        return wrong_state(found, reported(before), reported(reference))
