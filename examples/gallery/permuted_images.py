"""What a searched operation does to permuted images.

    python examples/gallery/permuted_images.py

Scikit-learn's digits, rows and columns permuted in one way for all images. Drawn is the map between
one channel and one filter of the first layer, with the trained kernel, as the convolution that the
search began with and as it ended, in the order before the permutation.
"""

import common
import fitting
import keras
import numpy as np
from datasets import digits, permutation
from datasets.batches import Batches

import keras_xd
from keras_xd.visualization import plot_operators
from keras_xd.visualization.operators import operator_matrix

SEED = 0


def backbone(filters, shape=(8, 8, 1), kernel_size=3, classes=10, convolutions=2):
    """Return a CNN of a few convolutions over one or two axes."""
    rank, layers = len(shape) - 1, [keras.Input(shape)]
    convolution = getattr(keras.layers, f"Conv{rank}D")
    pooling = getattr(keras.layers, f"GlobalAveragePooling{rank}D")
    for number in range(1, convolutions + 1):
        layers += [
            convolution(filters, kernel_size, padding="same", name=f"conv{number}"),
            keras.layers.BatchNormalization(momentum=0.8),
            keras.layers.ReLU(),
        ]
    return keras.Sequential([*layers, pooling(), keras.layers.Dense(classes)])


def trained(model, train, epochs, seed=SEED):
    """Train a network, or search the operations of a rewritten one."""
    batches = Batches(*train, batch_size=64, seed=seed)
    steps = epochs * len(batches)
    rates = (3e-2, 3e-3) if keras_xd.architecture_variables(model) else (3e-2,)
    optimizers = [fitting.adam(rate, steps) for rate in rates]
    model = fitting.compiled(model, *optimizers, loss=common.LOSS)
    model.fit(batches, epochs=epochs, shuffle=False, verbose=0)
    return model


def at_start(layer):
    """Return a layer of the same kernel whose architecture is where the search began."""
    start = type(layer).from_config(layer.get_config())
    start.build(layer.get_build_config()["input_shape"])
    start.kernel.assign(layer.kernel)
    return start


def not_convolution(matrix, size=8):
    """Return the part of a map's energy that the nearest convolution leaves, padded by zeros.

    A convolution has one value for all pairs of places that are equally far apart in the same
    direction, so the nearest one has the mean over these pairs.
    """
    places = np.array(list(np.ndindex(size, size)))
    steps = places[:, None] - places + size
    index = (steps[..., 0] * 2 * size + steps[..., 1]).ravel()
    sums = np.bincount(index, matrix.ravel())
    nearest = (sums / np.maximum(np.bincount(index), 1))[index].reshape(matrix.shape)
    return float(np.sum((matrix - nearest) ** 2) / np.sum(matrix**2))


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments, ending="png")
    epochs, filters, images = (1, 2, 64) if options.small else (40, 8, None)
    parts = digits.load()
    train, test = (
        (permutation.permute(x[:images], SEED), y[:images]) for x, y in (parts[0], parts[2])
    )
    rng = np.random.default_rng(SEED)
    order = [rng.permutation(8), rng.permutation(8)]  # the one of `permute`, rows then columns

    keras.utils.set_random_seed(SEED)
    plain = backbone(filters)
    searched = trained(keras_xd.rewrite(plain), train, epochs)
    plain = trained(plain, train, epochs)
    scores = [fitting.accuracy(model, *test) for model in (plain, searched)]

    found = searched.model.get_layer("conv1")
    start = at_start(found)
    shares = [
        not_convolution(operator_matrix(layer, filter=f))
        for layer in (start, found)
        for f in range(filters)
    ]
    before, after = np.mean(shares[:filters]), np.mean(shares[filters:])
    drawn = plot_operators(start, found, order=order)
    drawn.suptitle(
        f"Permuted digits, test accuracy: convolutions {scores[0]:.3f}, searched {scores[1]:.3f}.\n"
        f"Energy of the map that no convolution explains, mean of {filters} filters: {before:.2f} "
        f"before, {after:.2f} after",
        fontsize=8,
    )
    common.save(drawn, options)
    return {"accuracy": scores, "not convolution": [before, after]}


if __name__ == "__main__":
    main()
