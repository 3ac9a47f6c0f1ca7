"""Snapping back: searched layers replaced by the plain Keras layers that they are nearest to.

    python examples/gallery/snapping_back.py

A network of two convolutions is searched on scikit-learn's digits as they are, where convolutions
are right, with a penalty (`penalties.NearStart`) of four weights. Each searched layer is then
replaced by what `keras_xd.nearest` names, here `keras.layers.Conv2D` with the kernel of the search;
nothing is trained after that. Measured by the weight of the penalty: the distance of the layers
from the nearest operation, relative to its norm; the largest difference of the logits before and
after, relative to the largest logit; and the accuracy on the test images before and after.
"""

import common
import keras
import numpy as np
from datasets import digits
from permuted_images import backbone

import keras_xd
from keras_xd.visualization import style


def plain_layer(layer):
    """Return the Keras layer that a searched one is nearest to, its name and the distance."""
    found = keras_xd.nearest(layer)
    name, distance = found.operation, found.distances[found.operation]
    if name != "convolution":
        raise ValueError(f"`{layer.name}` is nearest to {name}, which is not replaced here.")
    convolution = keras.layers.Conv2D(
        layer.filters, layer.kernel_size, padding="same", name=layer.name
    )
    convolution.build(layer.get_build_config()["input_shape"])
    convolution.set_weights([layer.kernel, layer.bias])
    return convolution, distance


def snapped(space):
    """Return the network with plain layers, and the distances of the layers replaced."""
    distances = {}

    def clone(layer):
        if not keras_xd.architecture_variables(layer):
            return layer
        plain, distances[layer.name] = plain_layer(layer)
        return plain

    return keras.models.clone_model(space, clone_function=clone), distances


def run(weight, train, test, epochs, filters):
    """Search with a penalty, snap; return what was measured."""
    keras.utils.set_random_seed(0)
    penalty = keras_xd.penalties.NearStart(weight)
    space = keras_xd.rewrite(backbone(filters), architecture_regularizer=penalty)
    search = keras_xd.SearchModel(space)
    steps = epochs * -(-len(train[0]) // 64)
    search.compile(common.adam(3e-2, steps), common.adam(3e-3, steps), common.LOSS)
    search.fit(*train, batch_size=64, epochs=epochs, verbose=0)
    plain, distances = snapped(space)
    before, after = (model.predict(test[0], verbose=0) for model in (space, plain))
    return {
        "distance": float(np.mean(list(distances.values()))),
        "difference": float(np.abs(after - before).max() / np.abs(before).max()),
        "searched": common.accuracy(space, test),
        "snapped": common.accuracy(plain, test),
    }


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments)
    weights, epochs, filters, count = (0.0, 1e-2, 1.0, 100.0), 10, 8, None
    if options.small:
        weights, epochs, filters, count = (0.0, 1.0), 1, 2, 64
    parts = digits.load()
    train, test = ((x[:count], y[:count]) for x, y in (parts[0], parts[2]))
    results = {weight: run(weight, train, test, epochs, filters) for weight in weights}
    columns = {name: [found[name] for found in results.values()] for name in results[weights[0]]}
    with style.context():
        figure = common.figure(7.1, 2.5)
        left, right = figure.subplots(1, 2)
        at = range(len(weights))
        for number, (name, label) in enumerate(
            {
                "distance": "distance",
                "difference": "logits",
            }.items()
        ):
            left.plot(at, columns[name], marker="o", label=label, **style.curve(number))
        left.set(ylim=(0, None), ylabel="relative difference")
        left.set_title("a  from a convolution; logits after snapping", loc="left")
        for number, name in enumerate(("searched", "snapped")):
            right.plot(at, columns[name], marker="o", label=name, **style.curve(number + 2))
            for x, y in zip(at, columns[name], strict=True):
                # The last one of the lower curve beside it, as that rises steeply.
                beside = number and x == len(weights) - 1
                place = (6, -13) if beside else (0, -9 if number else 4)
                right.annotate(f"{y:.3f}", (x, y), place, fontsize=6, textcoords="offset points",
                               ha="left" if beside else "center")  # fmt: skip
        right.set(ylim=(0, 1.1), ylabel="test accuracy")
        right.set_title("b  before and after, nothing trained after", loc="left")
        for axes in (left, right):
            axes.set_xticks(at, [f"{weight:g}" for weight in weights])
            axes.set(xlabel="weight of the penalty", xlim=(-0.4, len(weights) - 0.6))
            style.label_lines(axes)
    common.save(figure, options)
    return results


if __name__ == "__main__":
    main()
