"""Storage of the finished runs of an evaluation."""

import json
import os
import re

from keras_xd.core import files, locking, saving, validation

FORMAT = "keras_xd.evaluation"
VERSION = 1
INDEX = "evaluation.json"


def check_name(name):
    """Return a name, or raise `ValueError` if it cannot be part of a file's name."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(
            "The name of a task must be of letters, digits, '_', '-' and '.', beginning with one "
            f"of the first two. Received: {name!r}"
        )
    return name


class Store:
    """A folder of finished runs, one file each, with the settings they were made by."""

    def __init__(self, path, settings):
        self.path = os.fspath(path)
        try:
            self.settings = json.loads(json.dumps(settings))
        except (TypeError, ValueError) as error:
            raise ValueError(
                "`settings` must be a dictionary of what JSON knows: texts, numbers, booleans, "
                f"lists and dictionaries. Received: {settings!r}"
            ) from error
        if not os.path.exists(self.path) or (
            os.path.isdir(self.path) and not os.listdir(self.path)
        ):
            return
        index = os.path.join(self.path, INDEX)
        if not os.path.exists(index):
            raise ValueError(
                "`path` must be a new or empty folder or one of an earlier evaluation. "
                f"Received: path={self.path!r}, which is something else"
            )
        self._check_settings()

    def open(self):
        """Make the folder and note the settings."""
        os.makedirs(self.path, exist_ok=True)
        index = os.path.join(self.path, INDEX)
        try:
            _write(index, {"settings": self.settings})
        except ValueError:  # it exists, perhaps since a moment ago
            self._check_settings()

    def locked(self, seed):
        """Return a context in which no other process runs a seed, or raise `LockedError`."""
        path = os.path.join(self.path, f"seed_{seed}", "lock")
        return locking.locked(path, f"seed {seed} of an evaluation")

    def read(self, protocol, seed):
        """Return the record of a finished run, or `None`."""
        path = self._file(protocol, seed)
        return _read(path, ("values", "seconds", "model")) if os.path.exists(path) else None

    def check_model(self, record, model):
        """Raise `ValueError` if a record is that of another model."""
        if record["model"] != json.loads(json.dumps(model)):
            raise ValueError(
                "The runs in a folder must be those of the models that the tasks build now: use "
                f"another folder. Received: path={self.path!r} with a run of the model "
                f"{record['model']}, now {model}"
            )

    def write(self, protocol, seed, record):
        """Keep the record of a finished run."""
        _write(self._file(protocol, seed), record)

    def has_search(self, seed):
        """Return whether the search of a seed is finished."""
        return os.path.exists(self._file("architecture", seed, "npz"))

    def write_search(self, model, architecture, seed):
        """Keep what a search found: the searched model and its packed architecture."""
        path = self._file("architecture", seed, "npz")
        weights = self._file("searched", seed, "weights.h5")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        saving.write_weights(model, weights)
        files.write(path, architecture)  # last: it tells that the search is finished

    def load_weights(self, model, seed):
        """Load the weights of the searched model."""
        model.load_weights(self._file("searched", seed, "weights.h5"))

    def architecture(self, seed):
        """Return the packed architecture that was found."""
        with open(self._file("architecture", seed, "npz"), "rb") as file:
            return file.read()

    def _check_settings(self):
        saved = _read(os.path.join(self.path, INDEX), ("settings",))["settings"]
        if saved != self.settings:
            raise ValueError(
                "A folder holds runs of one kind: use another folder for other settings. Received: "
                f"path={self.path!r} with {saved}, now {self.settings}"
            )

    def _file(self, name, seed, ending="json"):
        """Return the path of a file, which is always under the folder."""
        folder = f"seed_{validation.seed(seed)}"
        return os.path.join(self.path, folder, f"{check_name(name.replace(' ', '_'))}.{ending}")


# Whether the value of a key is as it is written.
_FITS = {
    "settings": lambda value: isinstance(value, dict),
    "values": lambda value: (
        isinstance(value, dict) and all(map(validation.is_number, value.values()))
    ),
    "seconds": validation.is_number,
    "model": lambda value: isinstance(value, dict),
}


def _write(path, content):
    """Write a dictionary as JSON, with numbers that are not finite as Python writes them."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    content = {"format": FORMAT, "version": VERSION, **content}
    files.write(path, (json.dumps(content, indent=1) + "\n").encode())


def _read(path, keys):
    """Return a dictionary that `_write` wrote, with some keys, or raise `ValueError`."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        form = content["format"], content["version"]
        if form != (FORMAT, VERSION):
            raise ValueError(f"it is of format {form[0]!r}, version {form[1]!r}")
        for key in keys:
            if not _FITS[key](content[key]):
                raise ValueError(f"{key} is {content[key]!r}"[:200])
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            "A folder of an evaluation must hold whole files of `evaluate_search`. "
            f"Received: {path!r}, which cannot be read as one: {type(error).__name__}: {error}"
        ) from error
    return content
