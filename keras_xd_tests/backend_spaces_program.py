"""Searches of sizes under a budget and of cells, one with a teacher; self-calibration.

`backend_results_program` does the same on each backend.
"""

import keras
import numpy as np

import keras_xd
from keras_xd import layers
from keras_xd.core.searchable import architecture_variables
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd_tests.backend_program import FIT, numbers

RELAXATIONS = ("sampled", "partial")
OPERATIONS = ("dilated_3", "channel_attention")


def same_start(model, architecture=None):
    """Give weights values that do not depend on the backend, and architecture if a scale is set."""
    generator = np.random.default_rng(1)
    chosen = {id(variable) for variable in architecture_variables(model)}
    for layer in model._flatten_layers():
        for variable in layer._trainable_variables + layer._non_trainable_variables:
            if variable.name in ("moving_mean", "moving_variance") or "seed" in variable.path:
                continue
            values = generator.normal(size=variable.shape)
            if id(variable) not in chosen:
                variable.assign(values / np.sqrt(max(1, np.prod(variable.shape[:-1]))))
            elif architecture:
                variable.assign(architecture * values)
    return model


def data(size):
    x = np.random.default_rng(2).normal(size=(16, size, size, 1)).astype("float32")
    return x, np.argmax(x[:, :3].mean((2, 3)), axis=1)


def outcome(search, history, x):
    searched = search.predict(x, verbose=0)
    finalized = keras_xd.finalize(search).predict(x, verbose=0)
    return {
        "history": history,
        "architecture": [numbers(v) for v in architecture_variables(search)],
        "searched": numbers(searched),
        "finalized": numbers(finalized),
    }


def sizes():
    """Masks on kernels, resolutions, widths and depth, under a budget."""
    x, y = data(8)
    network = layers.KernelNetwork(units=4, hidden_layers=1, features=2, frequency=1.0)
    arguments = {"input_shape": (8, 8, 1), "classes": 3, "network": network}
    space = same_start(keras_xd.models.ccnn(2, 8, learn="KRWD", **arguments))
    base = keras_xd.models.ccnn(1, 3, learn="", **arguments)
    search = keras_xd.SearchModel(space)
    search.compile(
        keras.optimizers.SGD(0.05),
        # Sizes are counted in whole channels, so that the masks have to move by some of them.
        keras.optimizers.SGD(0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        complexity_target=keras_xd.complexity(base),
        complexity_weight=1.0,
    )
    return outcome(search, search.fit(x, y, epochs=3, **FIT).history, x)


def cell():
    """A relaxed heterogeneous cell, with a teacher's attention on both levels."""
    x, y = data(6)
    inputs = keras.Input((6, 6, 1))
    architecture = ArchitectureLogits(operations=OPERATIONS)
    stem = keras.layers.Conv2D(2, 3, padding="same")(inputs)
    outputs = layers.HeterogeneousCell(2, architecture, name="cell")([stem, stem])
    pooled = keras.layers.GlobalAveragePooling2D()(outputs)
    space = keras.Model(inputs, keras.layers.Dense(3)(pooled))
    features = keras.layers.Conv2D(2, 3, padding="same", name="features")(inputs)
    pooled = keras.layers.GlobalAveragePooling2D()(features)
    teacher = same_start(keras.Model(inputs, keras.layers.Dense(3)(pooled)))
    search = keras_xd.SearchModel(same_start(space, architecture=0.1))
    search.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        keras.optimizers.SGD(0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        mode="alternating",
        guidance=keras_xd.training.AttentionTransfer(teacher, ["features"], ["cell"], weight=10.0),
    )
    history = search.fit(x, y, architecture_validation_split=0.5, epochs=2, **FIT).history
    return {**outcome(search, history, x), "genotype": str(architecture.genotype)}


def dynamic():
    """What a cell of dynamic kernels computes."""
    x, _ = data(4)
    architecture = ArchitectureLogits(operations=("dilated_3", "dynamic_3"))
    inputs = keras.Input((4, 4, 1))
    outputs = layers.HeterogeneousCell(2, architecture)([inputs, inputs])
    model = same_start(keras.Model(inputs, outputs), architecture=1.0)
    return numbers(model(x, training=True))  # normalized by the batch, so not small


def relaxed(relaxation):
    """A cell that draws operations, or has shares of edges; what is drawn is the same anywhere."""
    x, y = data(4)
    inputs = keras.Input((4, 4, 1))
    operations = ("identity", "average_pooling_3")
    architecture = ArchitectureLogits(operations=operations, relaxation=relaxation)
    outputs = layers.HeterogeneousCell(4, architecture)([inputs, inputs])
    pooled = keras.layers.GlobalAveragePooling2D()(outputs)
    model = same_start(keras.Model(inputs, keras.layers.Dense(3)(pooled)), architecture=1.0)
    search = keras_xd.SearchModel(model)
    search.compile(
        keras.optimizers.SGD(0.05),
        keras.optimizers.SGD(0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        mode="joint",
    )
    return outcome(search, search.fit(x, y, epochs=1, **FIT).history, x)


def calibration():
    """A plain model with self-calibrations, with a gate and in the paper's form."""
    x, y = data(6)
    kinds = (("dynamic_3", "zero"), ("spatial_attention", None), ("channel_attention", "zero"))
    calibrations = [layers.SelfCalibration(operation, gate) for operation, gate in kinds]
    pooled = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3)]
    model = keras.Sequential(
        [keras.Input((6, 6, 1)), keras.layers.Conv2D(2, 3), *calibrations, *pooled]
    )
    same_start(model).compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(x, y, epochs=2, **FIT).history
    return {"history": history, "outputs": numbers(model.predict(x, verbose=0))}


def results():
    found = {"sizes": sizes(), "cell": cell(), "calibration": calibration()}
    if keras.backend.backend() == "jax":  # which takes a minute to compile the others
        return found
    return {**found, "dynamic": dynamic(), **{name: relaxed(name) for name in RELAXATIONS}}
