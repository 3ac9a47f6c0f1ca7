"""A program that uses the public names as their type hints tell, for mypy; it is not run.

`typing_face_test.py` checks that mypy passes it, and that mypy finds what is wrong in it once the
lines after `# wrong:` are no longer comments.
"""

from typing import assert_type

import keras
import numpy as np

import keras_xd
from keras_xd import callbacks, grammar, kmatrix, layers, models, regularizers, visualization
from keras_xd.finalizing.report import SearchReport
from keras_xd.grammar import spaces
from keras_xd.kmatrix.radix import Plan, factorise
from keras_xd.layers import warm_starts
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.layers.masked.depth_mask import DepthMask
from keras_xd.layers.masked.relative_mask import RelativeMask
from keras_xd.searching import SearchResult
from tuner_integration.points import PointSpace


def searchable_layers() -> list[keras.layers.Layer]:
    shared = layers.KOperation(depth=(1, 2, 1), warm_start=warm_starts.Convolution())
    penalty = regularizers.NearStart(0.1)
    width = RelativeMask(temperature=8.0, architecture_regularizer=penalty)
    architecture = ArchitectureLogits(operations=("identity", "dynamic_3"))
    convolution = layers.XDConv2D(
        8,
        (3, 5),
        strides=2,
        padding="same",
        activation="relu",
        kernel_initializer=keras.initializers.HeNormal(),
        bias_initializer="ones",
        kernel_regularizer={"class_name": "L2", "config": {"l2": 0.1}},
        bias_constraint=keras.constraints.NonNeg(),
        depth=(1, 1, 2),
        radix=(4, 4, 2),
        warm_start=warm_starts.Perturbed("identity", 0.1),
        channel_gates=True,
        architecture_regularizer=regularizers.NearStart(0.5),
        seed=1,
        name="conv",
    )
    assert_type(convolution, layers.XDConv2D)
    assert_type(convolution.plans, tuple[Plan, ...])
    assert_type(convolution.kmatrices, dict[str, list[kmatrix.KMatrix]])
    assert_type(convolution.compute_output_shape((None, 8, 8, 3)), tuple[int | None, ...])
    # wrong: layers.XDConv2D(8, "three")
    # wrong: layers.XDConv2D(8, 3, channel_gates="yes")
    # wrong: layers.XDConv2D(8, 3, kernel_initializer=0.5)
    # wrong: layers.XDConv2D(8)
    # wrong: convolution.compute_output_shape(8)
    return [
        convolution,
        layers.XDConv3D(4, 3, padding="circular"),
        layers.XDConv2DTranspose(4, [3, 3], output_padding=None),
        layers.XDDepthwiseConv1D(5, depth_multiplier=2, activation=keras.activations.relu),
        layers.XDSeparableConv2D(4, 3, search_pointwise=True),
        layers.XDCausalConv1D(4, 3, dilation_rate=(2,)),
        layers.StructuredDense(10, "blast", density=0.5, sizes=None),
        layers.KOpConv2D(4, 3, strides=2, operation=shared, name="shared", dtype="float32"),
        layers.MixedOperation2D(4, 3, candidates=("convolution_3", "skip"), other_weight=None),
        layers.DiscreteOperation(1, 4, "skip"),
        layers.MaskedConv2D(4, 3, input_width=width, mask_kernel=True),
        layers.MaskedDense(4, depth_mask=width, block=(0, 2)),
        DepthMask(4, initial_size=2),
        layers.DifferentiableMask((1, 2), "gaussian", initial_size="half", minimum_size=1.5),
        layers.CKConv1D(layers.KernelNetwork("magnet"), kernel_size=9, padding="causal"),
        layers.FlexConv2D(alias_penalty=0.1),
        layers.CCNNBlock(depth=DepthMask(3), index=1, learn="KR"),
        layers.SpectralConv2D(4, (3, 3), data_format="channels_first"),
        layers.FourierResampling(sizes=16),
        layers.Resampled(convolution, (8, 8)),
        layers.HeterogeneousCell(4, architecture, reduction=True, partial_channels=2),
        layers.SelfCalibration("dynamic_3", gate=None, reduction=4),
        layers.Cutout(8, seed=1),
        # wrong: layers.XDConv2D(4, 3, channel_gate=True),
        # wrong: layers.XDConv1D(4, 3, depth="two"),
        # wrong: layers.XDConv2D(4, 3, named="conv"),
        # wrong: layers.KOpConv2D(4, 3, operations=shared),
        # wrong: layers.MixedOperation2D(4, 3, pertub=0.1),
        # wrong: layers.MaskedConv2D(4, 3, mask_kernels=True),
        # wrong: layers.CKConv2D(kernal_size=9),
        # wrong: layers.StructuredDense("ten"),
        # wrong: DepthMask([4]),
        # wrong: layers.HeterogeneousCell(4, "identity"),
    ]


class Gate(layers.SearchableLayer):
    """A layer of a user, with the hints of the protocol."""

    def describe(self) -> dict[str, float]:
        return {"gate": 1.0}


def search(images: np.ndarray, labels: np.ndarray) -> keras.Model:
    model = models.lenet((28, 28, 1), classes=10)
    space = keras_xd.rewrite(model, to="xd", depth=(1, 1, 1), only="conv1", seed=1)
    trained = keras_xd.SearchModel(space, name="search")
    trained.compile(
        "sgd",
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        mode="joint",
        warmup_epochs=1,
        complexity_target=1e6,
        complexity_measure=keras_xd.complexity,
        jit_compile=False,
    )
    schedule = callbacks.ComplexityWeight(lambda epoch: 0.1 * epoch)
    restarts = callbacks.WarmRestarts(2, learning_rate=0.1, annealing=lambda share: 1 - share)
    trained.fit(images, labels, epochs=4, callbacks=[schedule, restarts], verbose=0)
    assert_type(trained.complexity_weight, float)
    assert_type(trained.search_optimizer, keras_xd.optimizers.ArchitectureOptimizer)
    # wrong: trained.compile(warmup_epochs="one")
    # wrong: trained.fit(images, labels, epochs=[4])
    # wrong: callbacks.ComplexityWeight(0.1)
    # wrong: callbacks.WarmRestarts("two")
    keras_xd.save_architecture(trained, "found.json")
    result = keras_xd.search(model, images, labels, epochs=3, budget=4.0, seed=1)
    assert_type(result, SearchResult)
    assert_type(result.search, keras_xd.SearchModel | None)
    assert_type(result.report, SearchReport)
    # wrong: keras_xd.search(model, images, labels, epochs="three")
    # wrong: keras_xd.rewritten(model)
    print(keras_xd.compare(model, space, images).output_error)
    visualization.plot_operators(trained)
    return keras_xd.finalize(trained)


def matrices() -> list[kmatrix.KMatrix]:
    matrix = kmatrix.KMatrix.dft(16, radix=4, inverse=True)
    assert_type(matrix, kmatrix.KMatrix)
    assert_type(matrix.plan, Plan)
    assert_type(factorise(12), tuple[int, ...])
    # wrong: kmatrix.KMatrix.dft("16")
    return [matrix, kmatrix.KMatrix.random_unitary(8, depth=2)]


def terms() -> PointSpace:
    space = spaces.nas_bench_201_cell()
    assert_type(space, grammar.Grammar)
    # wrong: grammar.parse(1)
    # wrong: tuner_integration.PointsSpace
    return PointSpace({"cell": space}, None)
