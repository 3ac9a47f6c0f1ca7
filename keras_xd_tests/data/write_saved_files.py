"""Write the saved files of `saved_files_test.py` into a new folder.

    python -m keras_xd_tests.data.write_saved_files FOLDER

Those in the folder `version_0_1_0` were written by that version, before its search spaces got
folders of their own. They stay as they are: whatever the package becomes, it has to read them. A
new kind of file gets a new entry here, and only its files are added.
"""

import os
import pathlib
import sys
import zipfile

import keras
import keras_tuner
import numpy as np

import keras_xd
from keras_xd import layers
from keras_xd.grammar import Grammar
from tuner_integration import GrammarOracle

CELLS = Grammar("S -> Linear2 A A | Linear1 A\nA -> conv | pool")
OUTPUTS = "outputs.npz"


@keras.saving.register_keras_serializable(package="keras_xd_tests_data")
class Network(keras.Model):
    """A subclassed model, whose rewritten form keeps layers by the places of attributes."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.blocks = [keras.layers.Conv1D(2, 3, padding="same", name="conv")]
        self.head = keras.layers.Dense(2, name="head")

    def call(self, inputs):
        return self.head(self.blocks[0](inputs))


def xd():
    """XD-operations of several kinds, one of them with a frozen architecture."""
    model = keras.Sequential(
        [
            keras.Input((8, 2)),
            layers.XDConv1D(2, 3, padding="same", frequency_bias=True, name="conv"),
            layers.XDDepthwiseConv1D(3, padding="same", name="depthwise"),
            keras.layers.Dense(2, name="head"),
        ],
        name="xd",
    )
    keras_xd.freeze_architecture(model.get_layer("depthwise"))
    return model


def k():
    """Two convolutions that share the K-matrices of one operation, and a dense layer."""
    inputs = keras.Input((8, 2))
    operation = layers.KOperation(warm_start="random_unitary", seed=1)
    x = layers.KOpConv1D(2, 3, padding="circular", operation=operation, name="first")(inputs)
    x = layers.KOpConv1D(2, 3, padding="circular", operation=operation, name="second")(x)
    outputs = layers.KDense(3, name="dense")(keras.layers.Flatten()(x))
    return keras.Model(inputs, outputs, name="k")


def fourier():
    """Spectral layers, which have no architecture."""
    return keras.Sequential(
        [
            keras.Input((8, 2)),
            layers.SpectralConv1D(2, 3, name="spectral"),
            layers.FourierResampling(12, name="resampling"),
        ],
        name="fourier",
    )


def masked():
    """A residual network with masks of kernels, widths and depth."""
    inputs = keras.Input((8, 2))
    x = keras.layers.Conv1D(4, 3, padding="same", name="stem")(inputs)
    y = keras.layers.Conv1D(4, 3, padding="same", activation="relu", name="first")(x)
    x = x + keras.layers.Conv1D(4, 3, padding="same", name="second")(y)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(x), name="masked")
    return keras_xd.rewrite(model, to="masked")


def mixture():
    """A mixture of the operations of DARTS."""
    model = keras.Sequential(
        [keras.Input((8, 2)), keras.layers.Conv1D(2, 3, padding="same", name="conv")],
        name="mixture",
    )
    return keras_xd.rewrite(model, to="darts", perturb=0.3)


def ccnn():
    """A continuous network with every size learned."""
    network = layers.KernelNetwork(units=4, features=4, seed=2, name="kernel_network")
    return keras_xd.models.ccnn(2, 2, (8, 2), classes=2, learn="KRWD", network=network)


def cell():
    """A relaxed cell of a feature, an attention and a dynamic convolution."""
    operations = ("identity", "channel_attention", "dynamic_3")
    inputs = [keras.Input((4, 4, 2), name="before"), keras.Input((4, 4, 2), name="last")]
    architecture = layers.CellArchitecture(operations=operations, seed=3, name="architecture")
    outputs = layers.HeterogeneousCell(1, architecture, name="cell")(inputs)
    return keras.Model(inputs, outputs, name="cell")


def rewritten():
    """A subclassed model with an XD-operation in the place of its convolution."""
    model = Network(name="rewritten")
    model(np.zeros((1, 8, 2), "float32"))
    return keras_xd.rewrite(model)


SPACES = {
    function.__name__: function
    for function in (xd, k, fourier, masked, mixture, ccnn, cell, rewritten)
}


def inputs_of(model):
    """Return two fixed samples in the structure of the inputs."""
    generator = np.random.default_rng(7)

    def samples(shape):
        return generator.normal(size=(2, *shape[1:])).astype("float32")

    if model.name == "rewritten":
        return samples((None, 8, 2))
    return (
        [samples(x.shape) for x in model.inputs]
        if len(model.inputs) > 1
        else samples(model.inputs[0].shape)
    )


def outputs_of(model, inputs=None):
    """Return the outputs for the fixed samples as a NumPy array."""
    inputs = inputs_of(model) if inputs is None else inputs
    return keras.ops.convert_to_numpy(model(inputs, training=False))


def search_model():
    """Return a search with two optimizers of moments, and its data."""
    model = keras.Sequential(
        [keras.Input((8, 2)), layers.XDConv1D(2, 3, padding="same", name="conv")], name="search"
    )
    search = keras_xd.SearchModel(model)
    search.compile(keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    x = inputs_of(model)
    return search, x, x[..., ::-1].copy()


def task():
    """Return the task, the search and the settings of the kept evaluation."""
    x = np.random.default_rng(5).normal(size=(4, 8, 1)).astype("float32")

    def build():
        conv = layers.XDConv1D(1, 3, padding="circular", name="conv")
        return keras.Sequential([keras.Input((8, 1)), conv])

    def fit(model):
        model.compile("adam", "mse")
        model.fit(x, x, verbose=0)

    def search(model):
        searched = keras_xd.SearchModel(model)
        searched.compile("adam", "sgd", "mse")
        searched.fit(x, x, verbose=0)

    def evaluate(model):
        return {"loss": float(np.mean((outputs_of(model, x) - x) ** 2))}

    return keras_xd.Task(build, fit, evaluate), search, {"epochs": 1}


class Tuner(keras_tuner.Tuner):
    """Computes a score instead of training."""

    def run_trial(self, trial, **options):
        rate = trial.hyperparameters.Float("rate", 1e-4, 1e-1, sampling="log")
        return {"loss": rate + len(trial.hyperparameters.get("cell"))}


def tuner(folder, trials):
    """Return a tuner whose project is in the folder `tuner`."""
    objective = keras_tuner.Objective("loss", "min")
    oracle = GrammarOracle(
        {"cell": CELLS}, objective, trials, seed=3, initial_trials=2, candidates=3
    )
    return Tuner(oracle=oracle, directory=folder, project_name="tuner")


def save(model, path):
    """Save a model, compressed: HDF5 files of small variables are mostly zeros."""
    model.save(path)
    with zipfile.ZipFile(path) as file:
        content = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, data in content.items():
            file.writestr(name, data)


def write(folder):
    """Write all files into a folder that does not exist."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    outputs = {}
    for name, make in SPACES.items():
        keras.utils.set_random_seed(20)
        model = make()
        if keras_xd.architecture_variables(model):
            keras_xd.randomize_architecture(model, seed=1)
        save(model, folder / f"{name}.keras")
        outputs[name] = outputs_of(model)
        if keras_xd.architecture_variables(model):
            inputs = inputs_of(model)
            finalized = keras_xd.finalize(model)
            save(finalized, folder / f"{name}_finalized.keras")
            outputs[f"{name}_finalized"] = outputs_of(finalized, inputs)
        if name == "xd":
            keras_xd.save_architecture(model, folder / "xd_architecture.npz")
            conv = keras.Sequential([keras.Input((8, 2)), finalized.get_layer("conv")])
            conv.export(folder / "xd_exported", verbose=False)
            outputs["xd_exported"] = outputs_of(conv)
    keras.utils.set_random_seed(20)
    search, x, y = search_model()
    search.fit(x, y, verbose=0)
    save(search, folder / "search.keras")
    outputs["search"] = outputs_of(search, x)
    outputs["search_losses"] = np.asarray(search.fit(x, y, epochs=2, verbose=0).history["loss"])
    found, search, settings = task()
    kept = keras_xd.evaluate_search(
        found, search, seeds=1, settings=settings, path=folder / "evaluation"
    )
    for protocol in kept.protocols:
        outputs[f"evaluation_{protocol}"] = np.asarray(kept.mean(protocol, "loss"))
    tuner(folder, 4).search(verbose=0)
    np.savez_compressed(folder / OUTPUTS, **outputs)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    write(sys.argv[1])
