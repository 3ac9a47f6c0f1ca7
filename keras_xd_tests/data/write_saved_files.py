"""Write the saved files of `saved_files_test.py` into a new folder.

    python -m keras_xd_tests.data.write_saved_files FOLDER

Those in the folders `version_0_1_0` and `version_0_2_0` were written by these versions and stay as
they are: whatever the package becomes, it has to read them. 0.1 wrote the first eight models only.
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
from keras_xd.grammar.einspace_primitives import ImageColumns, PositionalEncoding
from keras_xd.grammar.pointwise import PointwiseFunction
from keras_xd.layers.cells.features import FactorizedReduce, FeatureOperation, ReLUConvBN
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
    return keras_xd.rewrite(model, to="darts", other_weight=0.3)


def ccnn():
    """A continuous network with every size learned."""
    network = layers.KernelNetwork(units=4, features=4, seed=2, name="kernel_network")
    return keras_xd.models.ccnn(2, 2, (8, 2), classes=2, learn="KRWD", network=network)


def cell():
    """A relaxed cell of a feature, an attention and a dynamic convolution."""
    operations = ("identity", "channel_attention", "dynamic_3")
    inputs = [keras.Input((4, 4, 2), name="before"), keras.Input((4, 4, 2), name="last")]
    architecture = layers.ArchitectureLogits(operations=operations, seed=3, name="architecture")
    outputs = layers.HeterogeneousCell(1, architecture, name="cell")(inputs)
    return keras.Model(inputs, outputs, name="cell")


def rewritten():
    """A subclassed model with an XD-operation in the place of its convolution."""
    model = Network(name="rewritten")
    model(np.zeros((1, 8, 2), "float32"))
    return keras_xd.rewrite(model)


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


def of_rank_one():
    """Layers of any number of axes, by their rank."""
    same = {"padding": "same"}
    trainable = layers.warm_starts.Convolution(trainable_dilation=True)
    return keras.Sequential(
        [
            keras.Input((8, 2)),
            layers.XDConv(1, 2, 3, depth=(1, 3, 1), warm_start=trainable, name="conv"),
            layers.XDConvTranspose(1, 2, 3, name="transposed"),
            layers.XDDepthwiseConv(1, 3, **same, name="depthwise"),
            layers.XDSeparableConv(1, 2, 3, **same, name="separable"),
            layers.KOpConv(1, 2, 3, padding="circular", name="k"),
            layers.MixedOperation(1, 2, 3, **same, name="mixed"),
            layers.DashConv(1, 2, 3, **same, kernel_sizes=(1,), dilations=(1, 2), name="dash"),
            layers.SpectralConv(1, 2, 3, name="spectral"),
            layers.CKConv(1, layers.KernelNetwork(units=4, features=4, seed=2), name="continuous"),
        ],
        name="of_rank_one",
    )


def images():
    """XD-operations of images, with penalties, gates and another sampling."""
    inner = layers.XDConv2D(2, 3, padding="circular", name="inner")
    return keras.Sequential(
        [
            keras.Input((4, 4, 2)),
            layers.XDConv2D(
                2,
                3,
                padding="circular",
                warm_start="fourier_operator",
                channel_gates=True,
                architecture_regularizer=keras_xd.regularizers.NearStart(0.1),
                name="conv",
            ),
            layers.XDDepthwiseConv2D(3, padding="same", use_bias=False, name="depthwise"),
            layers.XDSeparableConv2D(2, 3, search_pointwise=True, padding="same", name="separable"),
            layers.SearchableResampled(inner, (4, 4), activation="relu", name="resampled"),
            layers.XDConv2D(2, 2, strides=2, warm_start="average_pooling", name="pooling"),
            layers.XDConv2DTranspose(2, 3, strides=2, padding="same", name="transposed"),
            layers.XDConv2D(2, 3, padding="same", warm_start="identity", name="identity"),
            layers.XDConv2D(2, 3, depth=5, warm_start="random_unitary", seed=1, name="unitary"),
        ],
        name="images",
    )


def volumes():
    """Operations of volumes in several spaces."""
    return keras.Sequential(
        [
            keras.Input((2, 2, 2, 1)),
            layers.XDConv3D(1, 2, padding="same", name="conv"),
            layers.XDConv3DTranspose(1, 2, padding="same", name="transposed"),
            layers.KOpConv3D(1, 2, padding="circular", name="k"),
            layers.DashConv3D(
                1, 3, padding="same", kernel_sizes=(1,), dilations=(1, 2), name="dash"
            ),
            layers.SpectralConv3D(1, 1, name="spectral"),
        ],
        name="volumes",
    )


def spectral():
    """Spectral layers with all options, and those that change the sampling."""
    return keras.Sequential(
        [
            keras.Input((4, 4, 2)),
            layers.SpectralConv2D(
                2,
                (2, 1),
                activation="gelu",
                use_bias=True,
                bias_initializer="ones",
                kernel_regularizer="l2",
                name="spectral",
            ),
            layers.PointNormalization(name="normalization"),
            layers.FourierUpsampling((6, 6), name="upsampling"),
        ],
        name="spectral",
    )


def k_images():
    """Deeper K-operations of images."""
    conv = layers.KOpConv2D(2, 3, padding="circular", depth=2, radix=2, name="conv")
    return keras.Sequential([keras.Input((4, 4, 2)), conv], name="k_images")


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


def mixed_structured():
    """Mixtures of structured families."""
    options = {"families": ("low_rank", "monarch"), "densities": (1.0, 0.5)}
    inputs = keras.Input((4,), dtype="int32")
    x = layers.MixedEmbedding(8, 4, **options, name="embedding")(inputs)
    x = layers.MixedLSTM(4, **options, return_sequences=True, name="lstm")(x)
    x = layers.MixedGRU(4, **options, return_sequences=True, name="gru")(x)
    x = layers.MixedEinsumDense("abc,cd->abd", (None, 4), **options, name="einsum")(x)
    x = layers.MixedDense(4, **options, activation="relu", name="dense")(x)
    return keras.Model(inputs, x, name="mixed_structured")


def dash():
    """Mixtures of kernel sizes and dilations."""
    options = {"kernel_sizes": (1, 3), "dilations": (1, 2), "padding": "same"}
    x = inputs = keras.Input((8, 2))
    x = layers.DashConv1D(2, 3, **options, relaxation="gumbel", seed=1, name="gumbel")(x)
    x = layers.DashConv1D(2, 3, **options, update="exponentiated_gradient", name="plain")(x)
    return keras.Model(inputs, x, name="dash")


def mixture_images():
    """Mixtures of images."""
    return keras.Sequential(
        [
            keras.Input((4, 4, 2)),
            layers.DashConv2D(2, 3, padding="same", dilations=(1,), name="dash"),
            layers.MixedOperation2D(2, 3, padding="same", name="mixed"),
        ],
        name="mixture_images",
    )


def masked_images():
    """A network of images under masks, depthwise layers and a residual branch too."""
    inputs = keras.Input((4, 4, 2))
    x = keras.layers.Conv2D(4, 3, padding="same", name="stem")(inputs)
    y = keras.layers.DepthwiseConv2D(3, padding="same", activation="relu", name="depthwise")(x)
    x = x + keras.layers.Conv2D(4, 3, padding="same", name="second")(y)
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dense(4, activation="relu", name="hidden")(x)
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(x), name="masked_images")
    return keras_xd.rewrite(model, to="masked")


def masks():
    """Masks as layers, and sequences under masks."""
    depth = layers.RelativeMask(temperature=8.0, name="depth")
    blocks = layers.DepthMask(2, initial_size=1.5, name="blocks")
    x = inputs = keras.Input((8, 2))
    x = layers.DifferentiableMask(axis=1, profile="gaussian", name="gaussian")(x)
    x = layers.DifferentiableMask(initial_size=1.5, name="sigmoid")(x)
    x = layers.RelativeMask(axis=1, name="relative")(x)
    for block in range(2):
        branch = layers.MaskedDepthwiseConv1D(
            3, padding="same", mask_kernel=True, name=f"depthwise{block}"
        )(x)
        x = x + layers.MaskedBranch(depth, (block, 2), name=f"branch{block}")(branch)
        x = x + blocks(keras.layers.Dense(2, name=f"dense{block}")(x), index=block)
    return keras.Model(inputs, x, name="masks")


def continuous():
    """Continuous convolutions and a block that are used by themselves."""
    network = layers.KernelNetwork("siren", units=4, features=4, seed=2, name="kernel_network")
    small = {"units": 4, "features": 4, "seed": 3}
    x = inputs = keras.Input((8, 2))
    x = layers.CKConv1D(layers.KernelNetwork(**small), padding="causal", name="causal")(x)
    x = layers.FlexConv1D(layers.KernelNetwork(**small), kernel_size=5, name="flexible")(x)
    x = layers.BatchStatisticsNormalization(name="normalization")(x)
    x = layers.CCNNBlock(network, learn="KW", dropout=0.1, name="block")(x)
    x = layers.CKConv1D(network, learn_resolution=True, rendering="dynamic", name="dynamic")(x)
    return keras.Model(inputs, x, name="continuous")


def continuous_images():
    """Continuous convolutions of images."""
    small = {"units": 4, "features": 4, "seed": 3}
    x = inputs = keras.Input((4, 4, 2))
    x = layers.CKConv2D(layers.KernelNetwork(**small), kernel_size=3, name="plain")(x)
    x = layers.FlexConv2D(layers.KernelNetwork(**small), kernel_size=3, name="flexible")(x)
    return keras.Model(inputs, x, name="continuous_images")


def encoded():
    """A continuous network whose encoder has a mask of its channels."""
    network = layers.KernelNetwork(units=4, features=4, seed=2, name="kernel_network")
    return keras_xd.models.ccnn(1, 4, (8, 2), 2, learn="KWE", network=network, name="encoded")


def cell_search():
    """The network of the cell search with all operations, both kinds of cells and two inputs."""
    return keras_xd.models.nos_search_network(
        3, 4, (8, 8, 1), 2, partial_channels=2, calibration_gate="tanh", seed=3, name="cell_search"
    )


def operations():
    """Operations of cells that are used by themselves."""
    x = inputs = keras.Input((8, 8, 4))
    x = layers.Cutout(2, seed=1, name="cutout")(x)
    x = x * layers.ChannelAttention(reduction=2, name="channel")(x)
    x = layers.SpatialAttention(reduction=2, name="spatial")(x)
    x = layers.DynamicConv2D(3, reduction=2, name="dynamic")(x)
    x = FeatureOperation(4, "separable_3", name="feature")(x)
    x = layers.SelfCalibration("spatial_attention", reduction=2, name="calibration")(x)
    x = ReLUConvBN(4, name="pointwise")(x)
    x = FactorizedReduce(4, affine=False, name="reduction")(x)
    return keras.Model(inputs, x, name="operations")


def primitives():
    """Layers that grammars build networks of."""
    x = inputs = keras.Input((4, 4, 2))
    x = PositionalEncoding(name="encoding")(ImageColumns(2, name="columns")(x))
    x = PointwiseFunction("multiply", name="multiply")([x, x])
    return keras.Model(inputs, x, name="primitives")


OF_VERSION_0_1 = (xd, k, fourier, masked, mixture, ccnn, cell, rewritten)
SPACES = {
    function.__name__: function
    for function in (
        *OF_VERSION_0_1,
        *(
            causal,
            of_rank_one,
            images,
            volumes,
            spectral,
            k_images,
            structured,
            mixed_structured,
            dash,
        ),
        *(
            mixture_images,
            masked_images,
            masks,
            continuous,
            continuous_images,
            encoded,
            cell_search,
        ),
        *(operations, primitives),
    )
}
# Other finalized forms, by the names of their files: a space and the arguments of `finalize`.
FORMS = {
    "xd_kernel": ("xd", {"form": "kernel", "weight_dtype": "float16"}),
    "images_kernel": ("images", {"form": "kernel"}),
    "xd_low_rank": ("xd", {"form": "low_rank", "tolerance": 0.5}),
    "images_snapped": ("images", {"snap": 0.9, "fold_normalization": True}),
}
WITHOUT_ARCHITECTURE = {"fourier", "spectral", "structured", "operations", "primitives"}
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
            forms = {file: options for file, (space, options) in FORMS.items() if space == name}
            for file, options in {**forms, f"{name}_finalized": {}}.items():
                finalized = keras_xd.finalize(model, **options)
                save(finalized, folder / f"{file}.keras")
                outputs[file] = outputs_of(finalized, inputs)
        if name in WITH_WEIGHTS_FILE:
            model.save_weights(folder / f"{name}.weights.h5")
        if name == "xd":
            keras_xd.save_architecture(model, folder / "xd_architecture.npz")
            conv = keras.Sequential([keras.Input((8, 2)), finalized.get_layer("conv")])
            conv.export(folder / "xd_exported", verbose=False)
            outputs["xd_exported"] = outputs_of(conv)
    for name, make in SEARCHES.items():
        keras.utils.set_random_seed(20)
        search, x, y = make()
        search.fit(x, y, verbose=0)
        save(search, folder / f"{name}.keras")
        outputs[name] = outputs_of(search, x)
        history = search.fit(x, y, epochs=2, verbose=0).history
        outputs[f"{name}_losses"] = np.asarray(history["loss"])
    found, search, settings = task()
    kept = keras_xd.evaluation.evaluate_search(
        found, search, seeds=1, settings=settings, path=folder / "evaluation"
    )
    for protocol in kept.protocols:
        outputs[f"evaluation_{protocol}"] = np.asarray(kept.mean(protocol, "loss"))
    tuner(folder, 4).search(verbose=0)
    np.savez_compressed(folder / OUTPUTS, **outputs)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    write(sys.argv[1])
