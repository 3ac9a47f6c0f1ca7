"""The folder of an evaluation: whole records of one kind of runs."""

import json

import pytest

from keras_xd.evaluation.store import Store

SETTINGS = {"finalize": True, "settings": {"epochs": 3, "rates": (0.1, 0.2)}}
RECORD = {"values": {"loss": float("inf")}, "seconds": 1.5, "model": {"layers": [], "shape": (1,)}}


class Model:
    """Stands for a model that has been searched."""

    def save_weights(self, path, overwrite):
        with open(path, "w", encoding="utf-8") as file:
            file.write("weights")


def record(**changes):
    """Return the text of a record with other values."""
    return json.dumps({"format": "keras_xd.evaluation", "version": 1, **RECORD, **changes})


def opened(path, settings=SETTINGS):
    store = Store(path, settings)
    store.open()
    return store


def test_records_are_read_back(tmp_path):
    store = opened(tmp_path / "a" / "runs")
    store.write("transfer to other", 7, RECORD)
    again = opened(tmp_path / "a" / "runs")
    found = again.read("transfer to other", 7)
    assert found["values"] == RECORD["values"] and found["seconds"] == 1.5
    again.check_model(found, RECORD["model"])
    assert again.read("transfer to other", 8) is None and again.read("offline", 7) is None
    with pytest.raises(ValueError, match="models that the tasks build now"):
        again.check_model(found, {"layers": [], "shape": (2,)})
    with pytest.raises(ValueError, match="overwrite"):
        again.write("transfer to other", 7, RECORD)


def test_a_search_is_finished_with_its_last_file(tmp_path):
    store = opened(tmp_path / "runs")
    assert not store.has_search(1)

    class Interrupted(Model):
        def save_weights(self, path, overwrite):
            super().save_weights(path, overwrite)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.write_search(Interrupted(), b"architecture", 1)
    # Weights get their name when they are complete, too.
    assert not store.has_search(1) and not list((tmp_path / "runs" / "seed_1").iterdir())
    store.write_search(Model(), b"architecture", 1)
    assert store.has_search(1) and store.architecture(1) == b"architecture"


def test_foreign_folders_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="new or empty folder.*something else"):
        Store(tmp_path, SETTINGS)
    with pytest.raises(ValueError, match="something else"):
        Store(tmp_path / "notes.txt", SETTINGS)
    (tmp_path / "empty").mkdir()
    opened(tmp_path / "empty")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cannot be read as one"),
        ('{"values": {}', "cannot be read as one"),
        ("[1]", "cannot be read as one"),
        ('{"values": {}}', "cannot be read as one: KeyError"),
        ('{"format": "other", "version": 1}', "of format 'other', version 1"),
        ('{"format": "keras_xd.evaluation", "version": 2}', "version 2"),
        ('{"format": "keras_xd.evaluation", "version": 1}', "KeyError: 'values'"),
        ('{"format": 3, "version": null}', "of format 3, version None"),
        ('{"format": "x"' + ", " + '"a": ' + "[" * 5000 + "]" * 5000 + "}", "RecursionError"),
        (record(values={"loss": "low"}), "values is {'loss': 'low'}"),
        (record(values=[0.5]), r"values is \[0.5\]"),
        (record(seconds=True), "seconds is True"),
        (record(model=None), "model is None"),
    ],
)
def test_damaged_records_are_refused(content, message, tmp_path):
    store = opened(tmp_path / "runs")
    store.write("offline", 0, RECORD)
    (tmp_path / "runs" / "seed_0" / "offline.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        store.read("offline", 0)


def test_settings_must_be_json(tmp_path):
    with pytest.raises(ValueError, match="must be a dictionary of what JSON knows"):
        Store(tmp_path / "runs", {"settings": {"optimizer": object()}})
    assert not (tmp_path / "runs").exists()
    opened(tmp_path / "runs")
    saved = json.loads((tmp_path / "runs" / "evaluation.json").read_text())
    assert saved["settings"]["settings"] == {"epochs": 3, "rates": [0.1, 0.2]}


@pytest.mark.parametrize(
    "name, seed", [("../../x", 0), ("..", 0), ("a/b", 0), ("offline", "/../x")]
)
def test_no_file_is_outside_of_the_folder(tmp_path, name, seed):
    store = opened(tmp_path / "a" / "runs")
    with pytest.raises(ValueError, match="Received: "):
        store.write(name, seed, RECORD)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
