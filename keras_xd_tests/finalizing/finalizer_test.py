"""Finalized models: plain, equal in outputs, and served where keras_xd does not exist."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import layers

from keras_xd.core.searchable import (
    architecture_variables,
    named_layers,
    reset_weights,
    searchable_layers,
)
from keras_xd.finalizing import FinalizedModel, finalize
from keras_xd.layers import StaticXD, XDConv2D
from keras_xd.rewriting import rewrite
from keras_xd.search import SearchModel
from keras_xd_tests import sample_models

RELATIVE_ERROR = 1e-5
BATCHES = (1, 3, 7)
SERVING = """
import importlib.abc, importlib.machinery, json, sys

class Blocked(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    # TensorFlow asks where Keras lies, without importing it; so the refusal is in the loading.
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("keras_xd", "keras"):
            return importlib.machinery.ModuleSpec(name, self, origin="blocked")

    def create_module(self, spec):
        raise ImportError(f"{spec.name} is blocked")

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Blocked())
for name in ("keras_xd", "keras"):
    try:
        __import__(name)
    except ImportError as error:
        assert "blocked" in str(error)
    else:
        sys.exit(f"{name} can be imported")

import numpy as np
import tensorflow as tf

folder = sys.argv[1]
loaded = tf.saved_model.load(f"{folder}/exported")
signature = loaded.signatures["serving_default"]
_, keys = signature.structured_input_signature
data = np.load(f"{folder}/inputs.npz")
results = {}
for batch in json.loads(sys.argv[2]):
    arguments = {key: tf.constant(data[f"{key}_{batch}"]) for key in keys}
    for name, value in signature(**arguments).items():
        results[f"{name}_{batch}"] = value.numpy()
np.savez(f"{folder}/outputs.npz", **results)
loaded_names = sorted(name for name in sys.modules if name.split(".")[0] in ("keras_xd", "keras"))
print(json.dumps({"keys": sorted(keys), "modules": loaded_names}))
"""


def searched(model, rng, **options):
    """A search space of a model whose weights and architecture have moved."""
    space = rewrite(sample_models.randomize(model, rng), **options)
    for variable in architecture_variables(space):
        scale = 0.05 * float(np.std(variable)) + 0.01
        variable.assign(variable + rng.normal(scale=scale, size=variable.shape))
    return space


def serve(model, folder, batches):
    """Export a model, load it in a process without keras_xd and Keras; return keys and outputs."""
    model.export(folder / "exported", verbose=False)
    np.savez(
        folder / "inputs.npz",
        **{f"{name}_{n}": x for n, xs in batches.items() for name, x in xs.items()},
    )
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", SERVING, folder, json.dumps([*batches])],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ""},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["modules"] == []
    return report["keys"], dict(np.load(folder / "outputs.npz"))


@pytest.mark.parametrize("make", sample_models.ALL)
def test_outputs_are_equal_and_the_search_space_is_untouched(make, rng):
    space = searched(make(), rng, frequency_bias=True, channel_gates=True)
    before = sample_models.fingerprint(space)
    plain = finalize(space)
    inputs = sample_models.inputs_of(space, rng)
    sample_models.assert_same_outputs(space, plain, inputs, RELATIVE_ERROR)
    assert type(plain) is FinalizedModel and not plain.compiled
    assert not searchable_layers(plain)
    spaces = dict(named_layers(space))
    static = {path for path, layer in named_layers(plain) if isinstance(layer, StaticXD)}
    assert static == {path for path, layer in spaces.items() if layer in searchable_layers(space)}
    for weight in plain.weights:
        weight.assign(weight * 0.0)
    assert sample_models.fingerprint(space) == before


def test_search_model_is_unwrapped(rng):
    space = searched(sample_models.nested(), rng)
    inputs = sample_models.inputs_of(space, rng)
    plain = finalize(SearchModel(space))
    sample_models.assert_same_outputs(space, plain, inputs, RELATIVE_ERROR)
    assert plain.name == "nested"


def test_trained_search_is_finalized(rng):
    search = SearchModel(rewrite(sample_models.residual()))
    search.compile("adam", "adam", "mse")
    x = sample_models.inputs_of(search.model, rng)
    search.fit(x, rng.normal(size=(3, 3)), epochs=2, verbose=0)
    plain = finalize(search)
    sample_models.assert_same_outputs(search, plain, x, RELATIVE_ERROR)


def test_export_is_served_without_the_package(tmp_path, rng):
    space = searched(sample_models.residual(), rng, depth=2)
    plain = finalize(space)
    batches = {n: {"image": sample_models.inputs_of(plain, rng, n)} for n in BATCHES}
    keys, outputs = serve(plain, tmp_path, batches)
    assert keys == ["image"]
    for n, inputs in batches.items():
        expected = space(inputs["image"], training=False)
        scale = np.max(np.abs(expected))
        (name,) = [name for name in outputs if name.endswith(f"_{n}")]
        np.testing.assert_allclose(outputs[name], expected, rtol=0, atol=RELATIVE_ERROR * scale)


def test_export_of_dictionaries_is_served(tmp_path, rng):
    space = searched(sample_models.shared(), rng)
    batches = {n: sample_models.inputs_of(space, rng, n) for n in BATCHES}
    keys, outputs = serve(finalize(space), tmp_path, batches)
    assert keys == ["left", "right"]
    for n, inputs in batches.items():
        for name, expected in space(inputs, training=False).items():
            scale = np.max(np.abs(expected))
            actual = outputs[f"{name}_{n}"]
            np.testing.assert_allclose(actual, expected, rtol=0, atol=RELATIVE_ERROR * scale)


def test_inputs_without_names_get_stable_ones():
    def inputs_of(*shapes):
        tensors = [keras.Input(shape) for shape in shapes]
        convolution = XDConv2D(2, 3)
        outputs = [convolution(tensor) for tensor in tensors]
        model = keras.Model(tensors[0] if len(tensors) == 1 else tensors, outputs)
        return [tensor.name for tensor in finalize(model).inputs]

    assert inputs_of((6, 6, 1)) == inputs_of((6, 6, 1)) == ["inputs"]
    assert inputs_of((6, 6, 1), (6, 6, 1)) == ["inputs_0", "inputs_1"]
    built = keras.Sequential([XDConv2D(2, 3)])
    built(np.ones((2, 6, 6, 1)))
    assert finalize(built).input_shape == (None, 6, 6, 1)
    assert finalize(sample_models_named("given")).inputs[0].name == "given"


def sample_models_named(name):
    return keras.Sequential([keras.Input((6, 6, 1), name=name), XDConv2D(2, 3)])


def test_existing_folders_and_files_are_not_overwritten(tmp_path):
    plain = finalize(sample_models_named("image"))
    plain.export(tmp_path / "new", verbose=False)
    (tmp_path / "empty").mkdir()
    plain.export(str(tmp_path / "empty"), verbose=False)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    for name in ("new", "empty", "file", "mine"):
        with pytest.raises(ValueError, match=f"overwrite=True.*Received: path='.*{name}'"):
            plain.export(tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"
    assert os.listdir(tmp_path / "mine") == ["notes"]
    plain.export(tmp_path / "mine", verbose=False, overwrite=True)
    assert (tmp_path / "mine" / "saved_model.pb").exists()


def test_arguments_of_export_reach_keras(tmp_path):
    plain = finalize(sample_models_named("image"))
    with pytest.raises(ValueError, match="[Ff]ormat"):
        plain.export(tmp_path / "a", "unknown")
    with pytest.raises(ValueError, match="[Ff]ormat"):
        plain.export(tmp_path / "a", format="unknown")
    signature = [keras.InputSpec(shape=(2, 6, 6, 1), dtype="float32", name="images")]
    plain.export(tmp_path / "a", verbose=False, input_signature=signature)
    import tensorflow as tf

    served = tf.saved_model.load(tmp_path / "a").signatures["serving_default"]
    assert served.structured_input_signature[1]["images"].shape == (2, 6, 6, 1)


@pytest.mark.parametrize("make", [sample_models.residual, sample_models.nested])
def test_saved_and_loaded(make, tmp_path, rng):
    space = searched(make(), rng)
    plain = finalize(space)
    plain.save(tmp_path / "plain.keras")
    loaded = keras.models.load_model(tmp_path / "plain.keras")
    inputs = sample_models.inputs_of(space, rng)
    sample_models.assert_same_outputs(space, loaded, inputs, RELATIVE_ERROR)
    assert type(loaded) is FinalizedModel
    loaded.export(tmp_path / "exported", verbose=False)
    with pytest.raises(ValueError, match="never overwrites"):
        loaded.export(tmp_path / "exported")


def test_weights_of_the_rest_are_carried_over(rng):
    space = searched(sample_models.residual(), rng)
    space.get_layer("classifier").trainable = False
    plain = finalize(space)
    for name in ("block0_norm", "classifier"):
        old, new = space.get_layer(name), plain.get_layer(name)
        for before, after in zip(old.get_weights(), new.get_weights(), strict=True):
            np.testing.assert_array_equal(before, after)
    assert not plain.get_layer("classifier").trainable_weights


def test_finalized_model_can_be_trained_further(rng):
    plain = finalize(searched(sample_models.residual(), rng))
    x, y = sample_models.inputs_of(plain, rng), rng.normal(size=(3, 3))
    plain.compile("adam", "mse")
    losses = plain.fit(x, y, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def test_models_that_cannot_be_finalized():
    with pytest.raises(ValueError, match="must have searchable layers.*'residual'"):
        finalize(sample_models.residual())
    inputs = keras.Input((6, 6, 1))
    x = layers.SpectralNormalization(XDConv2D(1, 3, name="inner"), name="outer")(inputs)
    x = layers.Flatten()(x)
    with pytest.raises(ValueError, match=r"can be finalized in graphs.*\['outer/inner'\]"):
        finalize(keras.Model(inputs, x))
    with pytest.raises(ValueError, match="must be built"):
        finalize(keras.Sequential([XDConv2D(1, 3)]))
    with pytest.raises(ValueError, match="model=3"):
        finalize(3)


def test_finalized_weights_are_not_reset(rng):
    with pytest.raises(ValueError, match="finalized layer"):
        reset_weights(finalize(searched(sample_models.residual(), rng)))
