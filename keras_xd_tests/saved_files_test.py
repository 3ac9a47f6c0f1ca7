"""Files of earlier versions, kept in `data`: the package loads them to the same outputs."""

import functools
import json
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd_tests.data import saved_files as written

DATA = pathlib.Path(written.__file__).parent
VERSIONS = ("version_0_1_0", "version_0_2_0")
SEARCHES = [(VERSIONS[0], "search"), *((VERSIONS[1], name) for name in written.SEARCHES)]
SAVED = sorted(
    (path.parent.name, path.stem)
    for path in DATA.glob("version_*/*.keras")
    if path.stem not in written.SEARCHES
)
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@functools.cache
def outputs(version):
    with np.load(DATA / version / written.OUTPUTS) as file:
        return dict(file)


@functools.cache
def inputs_of(name):
    """Return the samples of a space, which its finalized models get too."""
    name = written.FORMS.get(name, name.removesuffix("_finalized"))
    return written.inputs_of(keras.saving.load_model(DATA / VERSIONS[1] / f"{name}.keras"))


@pytest.mark.parametrize(("version", "name"), SAVED)
def test_a_model_loads_to_the_same_outputs(version, name):
    model = keras.saving.load_model(DATA / version / f"{name}.keras")
    computed = written.outputs_of(model, inputs_of(name))
    np.testing.assert_allclose(computed, outputs(version)[name], **TOLERANCE)


@pytest.mark.parametrize("name", written.WITH_WEIGHTS_FILE)
def test_a_file_of_weights_is_read(name):
    model = written.SPACES[name]()
    model.load_weights(DATA / VERSIONS[1] / f"{name}.weights.h5")
    np.testing.assert_allclose(written.outputs_of(model), outputs(VERSIONS[1])[name], **TOLERANCE)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["xd", "k", "mixture", "rewritten"])
def test_a_loaded_model_is_still_a_space(version, name):
    model = keras.saving.load_model(DATA / version / f"{name}.keras")
    finalized = keras_xd.finalize(model)
    computed = written.outputs_of(finalized, inputs_of(name))
    np.testing.assert_allclose(computed, outputs(version)[f"{name}_finalized"], **TOLERANCE)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frozen_architecture_is_still_frozen(version):
    model = keras.saving.load_model(DATA / version / "xd.keras")
    frozen = [not v.trainable for v in keras_xd.architecture_variables(model)]
    free = len(keras_xd.architecture_variables(model.get_layer("conv")))
    assert frozen == [False] * free + [True] * (len(frozen) - free)
    assert free < len(frozen)


@pytest.mark.parametrize(("version", "name"), SEARCHES)
def test_a_search_goes_on_with_the_moments_of_both_optimizers(version, name):
    search = keras.saving.load_model(DATA / version / f"{name}.keras")
    fresh, x, y = written.SEARCHES[name]()
    assert type(search) is type(fresh)
    expected = outputs(version)
    np.testing.assert_allclose(written.outputs_of(search, x), expected[name], **TOLERANCE)
    search.run_eagerly = True
    losses = search.fit(x, y, epochs=2, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, expected[f"{name}_losses"], rtol=1e-5)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_exported_model_is_served(version):
    artifact = tf.saved_model.load(DATA / version / "xd_exported")
    served = artifact.serve(inputs_of("xd"))
    np.testing.assert_allclose(served, outputs(version)["xd_exported"], **TOLERANCE)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_architecture_file_is_taken_over(version):
    loaded = keras.saving.load_model(DATA / version / "xd.keras")
    model = keras_xd.load_architecture(written.xd(), DATA / version / "xd_architecture.npz")
    found, kept = (
        {
            (layer.name, v.name): v.numpy()
            for layer in m.layers
            for v in keras_xd.architecture_variables(layer)
        }
        for m in (model, loaded)
    )
    assert kept.keys() < found.keys()  # these versions had b and C only where asked for
    for key, value in found.items():
        neutral = np.full(value.shape, float(key[1] == "channel_gates"))
        np.testing.assert_array_equal(value, kept.get(key, neutral))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_evaluation_is_read_and_not_run_again(tmp_path, version):
    shutil.copytree(DATA / version / "evaluation", tmp_path / "evaluation")
    task, _, settings = written.task()

    def search(model):
        raise ValueError("The search has been run already.")

    result = keras_xd.evaluation.evaluate_search(
        task, search, seeds=1, settings=settings, path=tmp_path / "evaluation"
    )
    assert not result.failures
    for protocol in ("supernet", "offline", "random"):
        assert result.mean(protocol, "loss") == outputs(version)[f"evaluation_{protocol}"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tuner_goes_on_where_it_was(tmp_path, version):
    """The trials stay as they are; what is proposed next follows from them alone."""
    data, found = DATA / version / "tuner", []
    for folder in (tmp_path / "one", tmp_path / "other"):
        shutil.copytree(data, folder / "tuner")
        resumed = written.tuner(folder, 6)
        before = trials_of(resumed)
        assert [int(name) for name in before] == [0, 1, 2, 3]
        for name, (values, score) in before.items():
            kept = json.loads((data / f"trial_{name}" / "trial.json").read_text())
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
