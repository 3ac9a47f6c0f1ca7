"""What a search makes of a convolution that is too short for an echo.

    python examples/gallery/sensor_echo.py

Noise with an echo of itself 12 steps later; the class is whether the echo has the same sign. Two
convolutions of 5 steps and a mean see no two steps that are 12 apart, the search of the same
network does. Drawn is the map between the input and one filter of the first layer, with the trained
kernel, as the convolution that the search began with and as it ended.
"""

import common
import fitting
import keras
import numpy as np

import keras_xd
from keras_xd.visualization import plot_operators
from keras_xd.visualization.operators import operator_matrix

STEPS, LAG, STRENGTH = 32, 12, 0.7
SEED = 0


def echoes(number, seed):
    """Return series `(number, STEPS, 1)` of variance 1, and whether their echo has their sign."""
    rng = np.random.default_rng(seed)
    noise, same = rng.normal(size=(number, STEPS + LAG)), rng.integers(2, size=number)
    strength = STRENGTH * (2 * same[:, None] - 1)
    heard = (noise[:, LAG:] + strength * noise[:, :-LAG]) / np.hypot(1, STRENGTH)
    return heard[..., None].astype("float32"), same


def by_distance(matrix):
    """Return the mean absolute value of a map between steps so far apart, from 0 on."""
    values = np.abs(matrix)
    return [
        np.concatenate([values.diagonal(d), values.diagonal(-d)]).mean() for d in range(STEPS // 2)
    ]


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments, ending="png")
    epochs, filters, number = (1, 2, 32) if options.small else (30, 8, 600)
    train, test = echoes(number, SEED), echoes(1000, SEED + 1)
    keras.utils.set_random_seed(SEED)
    plain = common.backbone(filters, (STEPS, 1), kernel_size=5, classes=2)
    searched = common.trained(keras_xd.rewrite(plain), train, epochs)
    plain = common.trained(plain, train, epochs)
    scores = [fitting.accuracy(model, *test) for model in (plain, searched)]

    found = searched.model.get_layer("conv1")
    maps = [operator_matrix(found, filter=f) for f in range(filters)]
    means = [by_distance(matrix) for matrix in maps]
    shown = int(np.argmax([mean[LAG] for mean in means]))
    # Over as many distances as the kernel has steps.
    mean = np.convolve(np.mean(means, axis=0), np.ones(5) / 5, mode="same")
    drawn = plot_operators(common.at_start(found), found, filter=shown)
    farthest = int(np.argmax(mean[5:]) + 5)
    drawn.suptitle(
        f"Echoes {LAG} steps later, test accuracy: convolutions {scores[0]:.3f}, searched "
        f"{scores[1]:.3f}.\nBeyond the kernel the map is largest between steps that are "
        f"{farthest - 2} to {farthest + 2} apart",
        fontsize=8,
    )
    common.save(drawn, options)
    return {"accuracy": scores, "distance": farthest}


if __name__ == "__main__":
    main()
