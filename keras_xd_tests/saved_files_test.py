"""Files of version 0.1.0, kept in `data`: the package loads them to the same outputs.

`data/write_saved_files.py` tells how they were made.
"""

import json
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd_tests.data import write_saved_files as written

DATA = pathlib.Path(written.__file__).parent / "version_0_1_0"
SAVED = sorted(path.stem for path in DATA.glob("*.keras") if path.stem != "search")
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def outputs():
    with np.load(DATA / written.OUTPUTS) as file:
        return dict(file)


def inputs_of(name):
    """Return the samples of a space, which its finalized model gets too."""
    return written.inputs_of(written.SPACES[name.removesuffix("_finalized")]())


def test_every_space_has_its_files():
    spaces = [name for name in written.SPACES if name != "fourier"]
    assert set(SAVED) == {*written.SPACES, *(f"{name}_finalized" for name in spaces)}
    sizes = [path.stat().st_size for path in DATA.rglob("*") if path.is_file()]
    assert max(sizes) < 60_000
    assert sum(sizes) < 600_000


@pytest.mark.parametrize("name", SAVED)
def test_a_model_loads_to_the_same_outputs(name, outputs):
    model = keras.saving.load_model(DATA / f"{name}.keras")
    computed = written.outputs_of(model, inputs_of(name))
    np.testing.assert_allclose(computed, outputs[name], **TOLERANCE)


@pytest.mark.parametrize("name", ["xd", "k", "mixture", "rewritten"])
def test_a_loaded_model_is_still_a_space(name, outputs):
    model = keras.saving.load_model(DATA / f"{name}.keras")
    finalized = keras_xd.finalize(model)
    computed = written.outputs_of(finalized, inputs_of(name))
    np.testing.assert_allclose(computed, outputs[f"{name}_finalized"], **TOLERANCE)


def test_a_frozen_architecture_is_still_frozen():
    model = keras.saving.load_model(DATA / "xd.keras")
    frozen = [not v.trainable for v in keras_xd.architecture_variables(model)]
    free = len(keras_xd.architecture_variables(model.get_layer("conv")))
    assert frozen == [False] * free + [True] * (len(frozen) - free)
    assert free < len(frozen)


def test_a_search_goes_on_with_the_moments_of_both_optimizers(outputs):
    search = keras.saving.load_model(DATA / "search.keras")
    assert isinstance(search, keras_xd.SearchModel)
    _, x, y = written.search_model()
    np.testing.assert_allclose(written.outputs_of(search, x), outputs["search"], **TOLERANCE)
    search.run_eagerly = True
    losses = search.fit(x, y, epochs=2, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, outputs["search_losses"], rtol=1e-5)


def test_an_exported_model_is_served(outputs):
    artifact = tf.saved_model.load(DATA / "xd_exported")
    served = artifact.serve(inputs_of("xd"))
    np.testing.assert_allclose(served, outputs["xd_exported"], **TOLERANCE)


def test_an_architecture_file_is_taken_over():
    loaded = keras.saving.load_model(DATA / "xd.keras")
    model = keras_xd.load_architecture(written.xd(), DATA / "xd_architecture.npz")
    pairs = zip(*map(keras_xd.architecture_variables, (model, loaded)), strict=True)
    for new, old in pairs:
        np.testing.assert_array_equal(new.numpy(), old.numpy())


def test_an_evaluation_is_read_and_not_run_again(tmp_path, outputs):
    shutil.copytree(DATA / "evaluation", tmp_path / "evaluation")
    task, _, settings = written.task()

    def search(model):
        raise ValueError("The search has been run already.")

    result = keras_xd.evaluate_search(
        task, search, seeds=1, settings=settings, path=tmp_path / "evaluation"
    )
    assert not result.failures
    for protocol in ("supernet", "offline", "random"):
        assert result.mean(protocol, "loss") == outputs[f"evaluation_{protocol}"]


def test_a_tuner_goes_on_where_it_was(tmp_path):
    """The trials stay as they are; what is proposed next follows from them alone."""
    found = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        shutil.copytree(DATA / "tuner", folder / "tuner")
        resumed = written.tuner(folder, 6)
        before = trials_of(resumed)
        assert list(before) == ["0", "1", "2", "3"]
        for name, (values, score) in before.items():
            kept = json.loads((DATA / "tuner" / f"trial_{name}" / "trial.json").read_text())
            assert (values, score) == (kept["hyperparameters"]["values"], kept["score"])
        resumed.search(verbose=0)
        after = trials_of(resumed)
        assert {name: after[name] for name in before} == before
        assert len(after) == 6 == len({json.dumps(values) for values, _ in after.values()})
        found.append(after)
    assert found[0] == found[1]


def trials_of(tuner):
    """Return the hyperparameters and the score of each trial by its id."""
    return {
        name: (trial.hyperparameters.values, trial.score)
        for name, trial in tuner.oracle.trials.items()
    }
