"""A cosine transform as a K-matrix: made of sparse factors exactly, and learned.

    python examples/gallery/dct_factors.py

The discrete cosine transform II of 16 points is the real part of a K-matrix of depth 4, whose
butterflies the upper row shows. Below, K-matrices of depth 1 to 4 that begin at random are fitted
to it by gradient descent, 2 random starts each.
"""

import common
import keras
import numpy as np
import reporting
from keras import ops

from keras_xd import kmatrix
from keras_xd.visualization import style


def transform(n):
    """Return the orthonormal cosine transform II by its definition."""
    k, t = np.arange(n)[:, None], np.arange(n)
    matrix = np.sqrt(2 / n) * np.cos(np.pi * k * (2 * t + 1) / (2 * n))
    matrix[0] /= np.sqrt(2)
    return matrix


def relative_error(matrix, target):
    return float(np.linalg.norm(matrix - target) / np.linalg.norm(target))


class Learned(keras.layers.Layer):
    """The real part of a K-matrix that begins at random."""

    def __init__(self, n, depth, seed):
        super().__init__()
        self.plan = kmatrix.plan(n, depth=depth)
        values = kmatrix.KMatrix.random_unitary(n, depth=depth, seed=seed).weights
        self.matrix = self.add_weight(shape=values.shape, name="matrix")
        self.matrix.assign(values)

    def call(self, inputs):
        return kmatrix.KMatrix(self.matrix, self.plan).apply(inputs, axis=-1)[0]


def learned(target, depth, seed, steps, every):
    """Return the relative error after every so many steps of a fit."""
    n = len(target)
    layer = Learned(n, depth, seed)
    model = keras.Sequential([keras.Input((n,)), layer])
    model.compile(common.adam(0.03, steps), "mse")
    inputs = np.tile(np.eye(n, dtype="float32"), (every, 1))
    outputs = np.tile(target.T.astype("float32"), (every, 1))

    def error():
        return relative_error(ops.convert_to_numpy(layer(np.eye(n, dtype="float32"))).T, target)

    errors = [error()]
    for _ in range(steps // every):
        model.fit(inputs, outputs, batch_size=n, shuffle=False, verbose=0)
        errors.append(error())
    return errors


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments, ending="png")
    n, steps, seeds, every = (8, 2, 1, 2) if options.small else (16, 500, 2, 25)
    target = transform(n)
    cosine = kmatrix.KMatrix.dct(n, norm="ortho")
    product = cosine.numpy()
    exact = relative_error(product, target)
    curves = {
        depth: np.array([learned(target, depth, seed, steps, every) for seed in range(seeds)])
        for depth in (1, 2, 3, 4)
    }
    with style.context():
        figure = common.figure(7.1, 3.6)
        upper, lower = figure.subfigures(2, 1, height_ratios=(1.0, 1.25))
        axes = upper.subplots(1, cosine.depth + 1)
        for number, place in enumerate(axes[:-1]):
            weights, transposed = cosine.weights[number : number + 1], number % 2 == 1
            butterfly = kmatrix.KMatrix(weights, cosine.plan, transposed=transposed)
            dense = np.abs(butterfly.numpy())
            common.plain_image(place, dense, cmap="Greys", vmin=0.0, vmax=max(1.0, dense.max()))
            place.set_title(f"|butterfly {number + 1}|")
            share = np.mean(np.abs(dense) > 1e-9)
            place.set_xlabel(f"{share:.0%} not zero", fontsize=7)
        largest = np.abs(product).max()
        scale = {"cmap": style.SIGNED, "vmin": -largest, "vmax": largest}
        bar = upper.colorbar(common.plain_image(axes[-1], product, **scale), ax=axes[-1])
        bar.outline.set_visible(False)
        axes[-1].set_title("real part of\nthe product")
        axes[-1].set_xlabel(f"relative error {exact:.0e}", fontsize=7)
        place = lower.subplots()
        for number, (depth, errors) in enumerate(curves.items()):
            at, look = every * np.arange(errors.shape[1]), style.curve(number)
            label = f"depth {depth}: {reporting.spread(errors[:, -1], 2)}"
            place.plot(at, errors.mean(axis=0), label=label, **look)
            band = errors.min(axis=0), errors.max(axis=0)
            place.fill_between(at, *band, color=look["color"], alpha=0.15, linewidth=0)
        place.set(xlabel="step of gradient descent", ylabel="relative error", ylim=(0, 1.5))
        place.set_title(
            f"learned from {common.count(seeds, 'random start')}: mean and range, final error"
        )
        place.margins(x=0)
        style.label_lines(place)
    common.save(figure, options)
    return {"exact": exact, "learned": {d: errors[:, -1].tolist() for d, errors in curves.items()}}


if __name__ == "__main__":
    main()
