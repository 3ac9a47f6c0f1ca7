"""What belongs to the saved files in the folders beside this one.

Those in `version_0_1_0` and `version_0_2_0` were written by these versions and stay as they are:
whatever the package becomes, it has to read them. 0.1 wrote the first eight models only.
"""

import keras
import keras_tuner
import numpy as np

import keras_xd
from keras_xd import layers
from keras_xd.grammar import Grammar
from keras_xd.layers.structured.recurrent import StructuredGRUCell, StructuredLSTMCell
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


def causal():
    """Causal, separable, transposed and resized XD-operations of sequences."""
    ring = (np.roll(np.eye(8), 1, axis=1) + np.roll(np.eye(8), -1, axis=1)) / 2
    graph = layers.warm_starts.GraphConvolution(ring)
    near = layers.warm_starts.Perturbed("convolution", 0.1)
    shuffled = layers.warm_starts.Composed("convolution", input=np.arange(8)[::-1].copy())
    return keras.Sequential(
        [
            keras.Input((8, 2)),
            layers.XDCausalConv1D(2, 3, dilation_rate=2, depth=2, name="causal"),
            layers.XDCausalConv1D(2, 3, warm_start="zero", name="causal_zero"),
            layers.XDSeparableConv1D(2, 3, padding="same", name="separable"),
            layers.XDConv1D(2, 1, padding="circular", warm_start=graph, radix=8, name="graph"),
            layers.XDCausalConv1D(2, 3, warm_start="random_triangular", seed=1, name="random"),
            layers.XDConv1D(2, 3, padding="same", warm_start=near, seed=1, name="near"),
            layers.XDConv1D(2, 3, depth=(1, 1, 3), warm_start=shuffled, name="shuffled"),
            layers.XDConv1DTranspose(2, 3, strides=2, name="transposed"),
        ],
        name="causal",
    )


def structured():
    """Structured layers of all kinds and families."""
    inputs = keras.Input((4,), dtype="int32")
    x = layers.StructuredEmbedding(8, 4, density=1.0, name="embedding")(inputs)
    x = layers.StructuredLSTM(4, density=1.0, return_sequences=True, name="lstm")(x)
    for cell in (StructuredLSTMCell, StructuredGRUCell):
        x = keras.layers.RNN(cell(4, density=1.0), return_sequences=True, name=cell.__name__)(x)
    x = layers.StructuredGRU(4, "low_rank", density=1.0, return_sequences=True, name="gru")(x)
    x = layers.StructuredEinsumDense("abc,cd->abd", (None, 4), density=1.0, name="einsum")(x)
    for family in ("block_tensor_train", "monarch", "blast", "low_rank", "kaleidoscope"):
        x = layers.StructuredDense(8, family, density=1.0, name=family)(x)
    return keras.Model(inputs, x, name="structured")


# Other finalized forms, by the names of their files: the space.
FORMS = {
    "xd_kernel": "xd",
    "images_kernel": "images",
    "xd_low_rank": "xd",
    "images_snapped": "images",
}
# The models that are made again, for files of their weights and of an architecture.
SPACES = {"xd": xd, "causal": causal, "structured": structured}
WITH_WEIGHTS_FILE = ("causal", "structured")


def inputs_of(model):
    """Return two fixed samples in the structure of the inputs."""
    generator = np.random.default_rng(7)

    def samples(shape):
        if model.name.endswith("structured"):
            return generator.integers(0, 8, size=(2, *shape[1:]))
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


def penalized_search():
    """Return a model with one optimizer of two parts, a penalty and a loss of this package."""
    penalty = keras_xd.regularizers.NearPermutation(0.01)
    conv = layers.XDConv1D(2, 3, padding="same", architecture_regularizer=penalty, name="conv")
    model = keras.Sequential([keras.Input((8, 2)), conv], name="penalized_search")
    optimizer = keras_xd.optimizers.architecture_optimizer(
        model, keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.1, momentum=0.9)
    )
    model.compile(optimizer, keras_xd.losses.RelativeL2())
    x = inputs_of(model)
    return model, x, x[..., ::-1].copy()


SEARCHES = {"search": search_model, "penalized_search": penalized_search}


def task():
    """Return the task, the search and the settings of the kept evaluation."""
    x = np.random.default_rng(5).normal(size=(4, 8, 1)).astype("float32")

    def build():
        extras = {"frequency_bias": False, "channel_gates": False}  # as in these versions
        conv = layers.XDConv1D(1, 3, padding="circular", name="conv", **extras)
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

    return keras_xd.evaluation.Task(build, fit, evaluate), search, {"epochs": 1}


class Tuner(keras_tuner.Tuner):
    """Computes a score instead of training."""

    def run_trial(self, trial, **options):
        rate = trial.hyperparameters.Float("rate", 1e-4, 1e-1, sampling="log")
        return {"loss": rate + len(trial.hyperparameters.get("cell"))}


def tuner(folder, trials):
    """Return a tuner whose project is in the folder `tuner`."""
    objective = keras_tuner.Objective("loss", "min")
    oracle = GrammarOracle(
        {"cell": CELLS}, objective, trials, seed=3, initial_trials=2, num_candidates=3
    )
    return Tuner(oracle=oracle, directory=folder, project_name="tuner")
