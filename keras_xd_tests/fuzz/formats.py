"""Formats that are read from files and texts of others: valid inputs, damage, readers."""

import io
import json
import os
import pathlib
import shutil
import warnings
import zipfile
import zlib

import keras
import keras_tuner
import numpy as np

import keras_xd
from keras_xd import genotypes
from keras_xd.core.searchable import architecture_variables, flatten_layers
from keras_xd.evaluation.store import Store
from keras_xd.grammar import Grammar, parse, spaces
from keras_xd_tests import saved_files_test
from keras_xd_tests.data import write_saved_files as written
from keras_xd_tests.fuzz import mutations
from keras_xd_tests.fuzz.mutations import pick
from tuner_integration import GrammarOracle

DATA = saved_files_test.DATA / "version_0_1_0"
# Those of Keras, h5py and the standard library for files of Keras' own format.
OF_KERAS = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, OSError, RuntimeError),
    *(NotImplementedError, EOFError, ImportError, ArithmeticError, LookupError, AssertionError),
)
SPACES = (spaces.nas_bench_201_cell, spaces.activation_functions, spaces.darts_cell)


class Format:
    """One format.

    Attributes:
        seconds: the longest that reading an input may take.
        errors: what reading may raise; whatever the package itself raises is a `ValueError`.
    """

    seconds, errors = 0.05, (ValueError,)

    def valid(self, rng):
        """Return a valid input, bytes."""

    def damaged(self, rng):
        """Return a damaged one, bytes."""

    def read(self, content, folder):
        """Read an input, with what files it takes in a folder; raise what reading raises."""

    def longest(self, content):
        """Return how long reading an input may take that took longer than `seconds`."""
        return self.seconds


class KerasFile(Format):
    """A `.keras` file, as Keras reads it with `safe_mode`, its default."""

    seconds, errors = 2.0, (*OF_KERAS, zipfile.BadZipFile, zlib.error)

    def __init__(self):
        self.contents = [path.read_bytes() for path in sorted(DATA.glob("*.keras"))]

    def valid(self, rng):
        return pick(rng, self.contents)

    def damaged(self, rng):
        return mutations.of_archive(self.valid(rng), rng)

    def read(self, content, folder):
        path = folder / "model.keras"
        path.write_bytes(content)
        keras.saving.load_model(path)

    def longest(self, content):
        """Allow 15 ms for each layer of a model that the file's configuration makes.

        A file that asks for a larger cell than its weights are for is refused once that is made.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                config = json.loads(archive.read("config.json"))
            model = keras.saving.deserialize_keras_object(config)
            return max(self.seconds, 0.015 * len(flatten_layers(model)))
        except Exception:  # then it did not take long to make the model
            return self.seconds


class ArchitectureFile(Format):
    """A file of `keras_xd.save_architecture`, read into a model; an error leaves it as it was."""

    def __init__(self):
        self.content = (DATA / "xd_architecture.npz").read_bytes()
        self.model = written.xd()

    def valid(self, rng):
        return self.content

    def damaged(self, rng):
        return mutations.of_arrays(self.content, rng, "header")

    def read(self, content, folder):
        path = folder / "architecture.npz"
        path.write_bytes(content)
        before = self._values()
        try:
            keras_xd.load_architecture(self.model, path)
        except ValueError:
            for then, now in zip(before, self._values(), strict=True):
                np.testing.assert_array_equal(now, then, "a refused file changed the model")
            raise

    def _values(self):
        return [keras.ops.convert_to_numpy(v) for v in architecture_variables(self.model)]


class GenotypeFile(Format):
    """The dictionary of a genotype, from JSON."""

    def valid(self, rng):
        return json.dumps(genotypes.random_genotype(rng).to_dict()).encode()

    def damaged(self, rng):
        return mutations.json_bytes(json.loads(self.valid(rng)), rng)

    def read(self, content, folder):
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):  # the reader of JSON is the caller's
            return
        found = genotypes.Genotype.from_dict(content)
        if genotypes.Genotype.from_dict(found.to_dict()) != found:
            raise AssertionError("another genotype after a round trip")


class GrammarText(Format):
    """The text of a grammar, from which terms are drawn."""

    def __init__(self):
        self.texts = [str(space()) for space in SPACES]
        self.texts += ["S -> Linear2 A A | Linear1 A [2]\nA -> conv | pool # a comment"]
        self.texts += ["S -> f S S | f A [0.5]\n | g\nA -> x | y"]

    def valid(self, rng):
        return pick(rng, self.texts).encode()

    def damaged(self, rng):
        return mutations.of_text(self.valid(rng).decode(), rng)

    def read(self, content, folder):
        grammar = Grammar(content.decode(errors="replace"), max_depth=6)
        term = grammar.sample(np.random.default_rng(0))
        if grammar.parse(str(term)) != term or Grammar(str(grammar)).start != grammar.start:
            raise AssertionError("another term or grammar after a round trip")


class TermText(Format):
    """The text of a term, with and without its grammar."""

    def __init__(self):
        self.grammars = [space() for space in SPACES]

    def valid(self, rng):
        grammar = pick(rng, self.grammars)
        return str(grammar.sample(rng)).encode()

    def damaged(self, rng):
        return mutations.of_text(self.valid(rng).decode(), rng)

    def read(self, content, folder):
        text, errors = content.decode(errors="replace"), 0
        for reader in (parse, *(grammar.parse for grammar in self.grammars)):
            try:
                term = reader(text)
            except ValueError as error:
                last, errors = error, errors + 1
                continue
            if parse(str(term)) != term:
                raise AssertionError("another term after a round trip")
        if errors == len(self.grammars) + 1:
            raise last


class Record(Format):
    """The folder of an evaluation: its settings, or a record of a run."""

    names = ("evaluation.json", "seed_0/offline.json")

    def __init__(self):
        self.contents = [(DATA / "evaluation" / name).read_bytes() for name in self.names]
        self.settings = {
            key: value
            for key, value in json.loads(self.contents[0]).items()
            if key not in ("format", "version")
        }["settings"]

    def valid(self, rng):
        return self._of(int(rng.integers(2)), None, rng)

    def _of(self, number, damage, rng):
        content = self.contents[number]
        return bytes([number]) + (content if damage is None else damage(json.loads(content), rng))

    def damaged(self, rng):
        return self._of(int(rng.integers(2)), mutations.json_bytes, rng)

    def read(self, content, folder):
        number, content = content[0] % 2, content[1:]
        os.makedirs(folder / "runs" / "seed_0", exist_ok=True)
        for index, name in enumerate(self.names):
            (folder / "runs" / name).write_bytes(
                content if index == number else self.contents[index]
            )
        store = Store(folder / "runs", self.settings)
        record = store.read("offline", 0)
        store.check_model(record, json.loads(self.contents[1])["model"])
        numbers = [record["seconds"], *record["values"].values()]
        if not all(type(value) in (int, float) for value in numbers):
            raise AssertionError(f"numbers {numbers}")


class OracleState(Format):
    """The folder of a search of KerasTuner: the state of a `GrammarOracle`, or a trial."""

    names = ("oracle.json", *(f"trial_{n}/trial.json" for n in range(4)))

    def __init__(self):
        self.contents = [(DATA / "tuner" / name).read_bytes() for name in self.names]
        self.objective = keras_tuner.Objective("loss", "min")

    def valid(self, rng):
        return bytes([0]) + self.contents[0]

    def damaged(self, rng):
        number = pick(rng, (0, 0, 1, 2))
        content = json.loads(self.contents[number])
        return bytes([number]) + mutations.json_bytes(content, rng)

    def read(self, content, folder):
        number, content = content[0] % len(self.names), content[1:]
        for index, name in enumerate(self.names):
            path = folder / "tuner" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if index == number else self.contents[index])
        oracle = GrammarOracle(
            {"cell": written.CELLS}, self.objective, 8, strategy="random", seed=3
        )
        oracle.verbose = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            oracle.open_project(folder, "tuner")
            oracle.ask()
            oracle.get_best_trials()


FORMATS = {
    ".keras": KerasFile,
    "architecture": ArchitectureFile,
    "genotype": GenotypeFile,
    "grammar": GrammarText,
    "term": TermText,
    "record": Record,
    "oracle": OracleState,
}
# Of twenty inputs one is a whole model, which takes as long as all others together.
TURNS = (".keras", *("architecture", "genotype", "grammar", "term", "record", "oracle") * 3, "term")


def clean(folder):
    """Empty a folder."""
    folder = pathlib.Path(folder)
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
