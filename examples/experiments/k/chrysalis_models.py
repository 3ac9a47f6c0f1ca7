"""The networks that `chrysalis.py` compares: backbones, fixed operations, search spaces."""

import functools

import keras

import keras_xd

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
    "random": "random K-operations, depth 9",
}


def parts(method):
    """Return search, start and depth of a method; the search is `None` for fixed operations.

    Args:
        method: one of `FIXED`, or a search, `_` and a start, such as `"sgd_first_warm"`, or
            `"depth_3"` for `"sgd_scratch"` at another depth.
    """
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


def network(backbone, method, data):
    """Return the model of a method for a data set; that of a search is its search space.

    Args:
        backbone: `"lenet"`, `"wide"`, `"text"` or `"spherical"`.
        method: as of `parts`.
        data: what has `train`, `classes` and, for text, `vocabulary`.
    """
    shape = data.train[0].shape[1:]
    if method in ("linear", "k_layer"):
        layer = keras.layers.Dense if method == "linear" else keras_xd.layers.KDense
        if backbone == "text":
            return linear_text(shape[0], data.vocabulary, data.classes)
        return dense_lenet(shape, data.classes, layer)
    if backbone == "text":
        model = keras_xd.models.kim_cnn(shape[0], data.vocabulary, data.classes, EMBEDDING)
    else:
        model = BACKBONES[backbone](shape, data.classes)
    _, start, depth = parts(method)
    return model if start is None else k_operations(model, start, depth)


def k_operations(model, start, depth=None):
    """Return a network with K-operations in place of its convolutions.

    In the wide LeNet the second and the third are one operation.

    Args:
        model: the network.
        start: `"warm"`: operations begin as the convolutions, at depth 1. `"scratch"`: as random
            unitary ones, at depth 9. `"first_warm"`: `conv1` warm, the others from scratch.
        depth: another depth.
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


def dense_lenet(shape, classes, layer_class):
    """Return LeNet with a layer of as many units in place of each convolution with its pooling."""
    inputs = keras.Input(shape, name="image")
    x = keras.layers.Flatten(name="flatten")(inputs)
    for index, filters in enumerate((6, 16), start=1):
        units = filters * (shape[0] // 2**index) * (shape[1] // 2**index)
        x = layer_class(units, activation="relu", name=f"units{index}")(x)
    x = keras.layers.Dense(120, activation="relu", name="dense1")(x)
    x = keras.layers.Dense(84, activation="relu", name="dense2")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x))


def linear_text(length, vocabulary, classes):
    """Return Kim's network with one dense layer in place of all convolutions and maxima."""
    template = keras_xd.models.kim_cnn(length, vocabulary, classes, EMBEDDING)
    x = template.get_layer("embedding").output
    x = keras.layers.Flatten(name="flatten")(x)
    x = keras.layers.Dense(300, activation="relu", name="units")(x)
    x = keras.layers.Dropout(0.5, name="dropout")(x)
    return keras.Model(template.input, keras.layers.Dense(classes, name="classifier")(x))
