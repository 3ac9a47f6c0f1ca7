"""The networks that `chrysalis.py` compares: backbones, fixed operations, search spaces."""

import functools

import fitting
import keras
import numpy as np

import keras_xd
from experiments.k.spherical_expert import spherical_expert
from experiments.xd.cifar10 import MOMENTUM, WEIGHT_DECAY, schedule, without_convolutions
from keras_xd.layers.k.k_dense import KDense, KLayer

PAPER = keras_xd.recipes.paper("chrysalis")
RATES = {
    "sgd": PAPER["supernet_sgd"]["learning_rate"],
    "adam": PAPER["spherical"]["learning_rate"],
    "adadelta": 1.0,  # the paper does not say
}
DARTS_RATE = PAPER["darts_first_order"]["architecture_rate"]
PERIODS, PATIENCE = PAPER["supernet_sgdr"]["cycles"], PAPER["text"]["patience"]
MODES = {"sgd": "joint", "sgdr": "joint", "darts1": "first_order", "darts2": "second_order"}


def fit(model, data, recipe, epochs, seed, search=None, xla=False, published=False):
    """Compile and fit a model; return it, or the `SearchModel` of it.

    A published search by SGDR has as many epochs in each of its periods, else it has in all.
    """
    if published and search == "sgdr":
        epochs *= PERIODS
    train, others = [data.train], {}
    if search in ("darts1", "darts2"):
        train = halves(*data.train, seed)
    batches = [data.batches(*part, seed=seed) for part in train]
    if len(batches) > 1:
        others["architecture_validation_data"] = batches[1]
    steps = epochs * len(batches[0])
    arguments = {
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "metrics": [fitting.accuracy_metric()],
        "jit_compile": xla,
    }
    callbacks = [keras_xd.callbacks.TerminateOnNonFinite()]
    rate = schedule(RATES["sgd"], steps) if recipe == "sgd" else RATES[recipe]
    if search is not None:
        model = keras_xd.SearchModel(model)
        arguments["mode"] = MODES[search]
        if search == "sgdr":
            rate = RATES["sgd"]
            callbacks.append(
                keras_xd.callbacks.WarmRestarts(
                    epochs // PERIODS,
                    learning_rate=rate,
                    architecture_learning_rate=rate,
                    annealing=falling,
                    seed=seed,
                )
            )
        if search.startswith("darts"):
            arguments["architecture_optimizer"] = keras.optimizers.Adam(DARTS_RATE)
        else:
            arguments["architecture_optimizer"] = optimizer(recipe, rate, decay=False)
    if recipe == "adadelta":
        callbacks.append(
            keras.callbacks.EarlyStopping(
                "val_accuracy", mode="max", patience=PATIENCE, restore_best_weights=True
            )
        )
        inputs, labels = data.validation
        others |= {"validation_data": (data.scaled(inputs), labels), "validation_batch_size": 250}
    fitting.compiled(model, optimizer(recipe, rate), **arguments)
    model.fit(batches[0], epochs=epochs, callbacks=callbacks, verbose=0, **others)
    return model


def optimizer(recipe, rate, decay=True):
    """Return an optimizer of weights, or without decay one of an architecture."""
    if recipe == "adam":
        return keras.optimizers.Adam(rate)
    if recipe == "adadelta":
        return keras.optimizers.Adadelta(rate, rho=0.95, epsilon=1e-6)
    # Keras' weight decay passes by the momentum, which multiplies by 1 / (1 - momentum).
    decay = WEIGHT_DECAY / (1 - MOMENTUM) if decay else None
    return keras.optimizers.SGD(rate, momentum=MOMENTUM, weight_decay=decay)


def falling(progress):
    """Return the factor of the rate in a period of SGDR: that of `cifar10.schedule`."""
    return 1.0 if progress < 0.5 else 0.5 if progress < 0.75 else 0.1


def halves(inputs, labels, seed):
    """Return two halves of the samples, drawn by the seed; one that is left over is left out."""
    order = np.random.default_rng(seed).permutation(len(inputs))
    half = len(inputs) // 2
    return [(inputs[chosen], labels[chosen]) for chosen in (order[:half], order[half : 2 * half])]


STARTS = {"warm": "convolution", "scratch": "random_unitary"}
DEPTHS = {"warm": 1, "scratch": 9}
EMBEDDING = 100  # numbers that stand for a word
BACKBONES = {
    "lenet": functools.partial(keras_xd.models.lenet, padding="same", pooling="average"),
    "wide": keras_xd.models.wide_lenet,
    "spherical": keras_xd.models.spherical_cnn,
}
SEARCHES = {
    "sgd": "supernet SGD",
    "sgdr": "supernet SGDR",
    "darts1": "DARTS, first order",
    "darts2": "DARTS, second order",
}
FIXED = {
    "convolution": "convolution",
    "linear": "linear layers",
    "k_layer": "K-layers",
    "spherical": "spherical convolutions, the expert",
    "random": "random K-operations, depth 9",
}


def parts(method):
    """Return search, start and depth of a method; the search is `None` for fixed operations."""
    if method in FIXED:
        return None, "scratch" if method == "random" else None, None
    search, start = method.split("_", 1)
    return ("sgd", "scratch", int(start)) if search == "depth" else (search, start, None)


def title(method):
    """Return the name of a method in tables."""
    if method in FIXED:
        return FIXED[method]
    search, start, depth = parts(method)
    begin = {"warm": "warm", "scratch": "from scratch", "first_warm": "first warm, then scratch"}
    return f"{SEARCHES[search]}, {begin[start]}" + (f", depth {depth}" if depth else "")


def network(backbone, method, data, published=False):
    """Return the model of a method for a data set; that of a search is its search space."""
    shape = data.train[0].shape[1:]
    if method == "spherical":
        return spherical_expert(shape, data.classes)
    if method == "k_layer" and published:
        return k_layers(BACKBONES[backbone](shape, data.classes))
    if method in ("linear", "k_layer"):
        layer = keras.layers.Dense if method == "linear" else KDense
        if backbone == "text":
            return with_vectors(linear_text(shape[0], data.vocabulary, data.classes), data)
        sizes = [n * (shape[0] // 2**i) * (shape[1] // 2**i) for i, n in ((1, 6), (2, 16))]
        return without_convolutions(layer, shape, data.classes, sizes)
    if backbone == "text":
        model = keras_xd.models.kim_cnn(shape[0], data.vocabulary, data.classes, EMBEDDING)
        model = with_vectors(model, data)
    else:
        model = BACKBONES[backbone](shape, data.classes)
    _, start, depth = parts(method)
    return model if start is None else k_operations(model, start, depth)


def with_vectors(model, data):
    """Return a network for text whose embedding is that of the data, frozen, if they have one."""
    if data.vectors is not None:
        embedding = model.get_layer("embedding")
        embedding.set_weights([data.vectors])
        embedding.trainable = False
    return model


def k_operations(model, start, depth=None):
    """Return a network with K-operations in place of its convolutions.

    In the wide LeNet the second and the third are one operation.
    """
    names = [layer.name for layer in model.layers if layer.name.startswith("conv")]
    groups = [(names, start)]
    if start == "first_warm":
        groups = [(names[:1], "warm"), (names[1:], "scratch")]
    if model.name == "wide_lenet":
        groups = [(names[:1], start), (names[1:], start)]
    for group, begin in groups:
        options = {"depth": depth or DEPTHS[begin], "warm_start": STARTS[begin]}
        if model.name == "wide_lenet" and len(group) > 1:
            options = {"operation": keras_xd.layers.KOperation(**options)}
        model = keras_xd.rewrite(model, to="k_operation", only=group, **options)
    return model


def k_layers(model):
    """Return a network with two K-matrices for each pair of channels in place of a convolution."""

    def twin(layer):
        if not isinstance(layer, keras.layers.Conv2D):
            return type(layer).from_config(layer.get_config())
        return KLayer(
            layer.filters,
            data_format=layer.data_format,
            activation=layer.activation,
            name=layer.name,
        )

    return keras.models.clone_model(model, clone_function=twin)


def linear_text(length, vocabulary, classes):
    """Return Kim's network with one dense layer in place of all convolutions and maxima."""
    template = keras_xd.models.kim_cnn(length, vocabulary, classes, EMBEDDING)
    x = template.get_layer("embedding").output
    x = keras.layers.Flatten(name="flatten")(x)
    x = keras.layers.Dense(300, activation="relu", name="units")(x)
    x = keras.layers.Dropout(0.5, name="dropout")(x)
    return keras.Model(template.input, keras.layers.Dense(classes, name="classifier")(x))
