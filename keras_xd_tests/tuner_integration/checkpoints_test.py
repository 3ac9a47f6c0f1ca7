"""Checkpoints of trials are complete or not there, and a full disk ends a search, not a trial."""

import errno
import json
import os

import keras
import keras_tuner as kt
import numpy as np
import pytest

from keras_xd import grammar
from tuner_integration import GrammarOracle, GrammarTuner

pytestmark = pytest.mark.usefixtures("few_trees")
SPACE = grammar.Grammar("S -> Linear2 OP OP\nOP -> dense | relu | id")
TABLE = {
    "dense": lambda shape, name: keras.layers.Dense(shape[-1], name=name),
    "relu": lambda shape, name: keras.layers.ReLU(name=name),
}
NAME = "checkpoint.weights.h5"


def compiled(hp, term):
    model = grammar.build(term, keras.Input((3,)), TABLE, head=keras.layers.Dense(1))
    model.compile("adam", "mse", run_eagerly=True)
    return model


def search(folder, epochs=2):
    objective = kt.Objective("val_loss", "min")
    oracle = GrammarOracle({"network": SPACE}, objective, 2, fold_levels=(0,), seed=4)
    tuner = GrammarTuner(oracle, compiled, directory=folder, project_name="p")
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    tuner.search(x, x[:, :1], validation_data=(x, x[:, :1]), epochs=epochs, verbose=0)
    return tuner


def test_a_checkpoint_gets_its_name_when_it_is_complete(tmp_path, monkeypatch):
    replace, names = os.replace, []

    def noted(source, target):
        names.append((os.path.basename(source), os.path.basename(target)))
        assert os.path.getsize(source) > 0
        replace(source, target)

    monkeypatch.setattr(os, "replace", noted)
    tuner = search(tmp_path)
    written = [source for source, target in names if target == NAME]
    assert len(written) >= 2 and all("unfinished" in source for source in written)
    assert len(tuner.get_best_models(2)) == 2


def test_a_full_disk_ends_the_search_which_goes_on_with_room(tmp_path, monkeypatch):
    replace, full = os.replace, True

    def without_room(source, target):
        if full and os.path.basename(target) == NAME and "trial_0001" in os.fspath(target):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", without_room)
    with pytest.raises(OSError, match="make space.*trial 0001 with OSError.*No space left"):
        search(tmp_path)
    trial = json.loads((tmp_path / "p" / "trial_0001" / "trial.json").read_text())
    assert trial["status"] == "RUNNING"
    assert not [path for path in tmp_path.rglob("*unfinished*")]
    full = False
    tuner = search(tmp_path)
    assert [t.status for t in tuner.oracle.trials.values()] == ["COMPLETED"] * 2
