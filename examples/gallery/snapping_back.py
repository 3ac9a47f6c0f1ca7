"""Snapping back: searched layers that are near a plain Keras layer become that layer.

    python examples/gallery/snapping_back.py

A network is searched on scikit-learn's digits, plain and permuted, with a penalty
(`regularizers.NearStart`) of several weights. `finalize(space, snap=…)` then replaces each searched
layer within the tolerance by the plain one, and the network is trained on for three epochs.
"""

import common
import keras
import numpy as np
from datasets import digits, permutation
from permuted_images import backbone

import keras_xd
from keras_xd.visualization import style

TOLERANCE, MORE_EPOCHS = 0.05, 3


def run(weight, train, test, epochs, filters):
    """Search with a penalty, snap, train on; return what was measured."""
    keras.utils.set_random_seed(0)
    penalty = keras_xd.regularizers.NearStart(weight)
    space = keras_xd.rewrite(backbone(filters), architecture_regularizer=penalty)
    search = keras_xd.SearchModel(space)
    steps = epochs * -(-len(train[0]) // 64)
    search.compile(common.adam(3e-2, steps), common.adam(3e-3, steps), common.LOSS)
    search.fit(*train, batch_size=64, epochs=epochs, verbose=0)
    plain = keras_xd.finalize(space, snap=TOLERANCE)
    found = {
        "distance": float(np.mean([row.distance for row in plain.report.rows])),
        "snapped": len(plain.report.snapped),
        "before": common.accuracy(space, test),
        "after": common.accuracy(plain, test),
    }
    if plain.report.snapped:
        plain.compile(keras.optimizers.Adam(3e-3), common.LOSS)
        plain.fit(*train, batch_size=64, epochs=MORE_EPOCHS, verbose=0)
    return {**found, "trained on": common.accuracy(plain, test)}


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments)
    weights, epochs, filters, count = (0.0, 1e-2, 1.3, 100.0), 20, 8, None
    if options.small:
        weights, epochs, filters, count = (100.0,), 1, 2, 64
    parts = digits.load()
    plain = [(x[:count], y[:count]) for x, y in (parts[0], parts[2])]
    kinds = {"plain": plain, "permuted": [(permutation.permute(x, 0), y) for x, y in plain]}
    results = {
        kind: {weight: run(weight, *data, epochs, filters) for weight in weights}
        for kind, data in kinds.items()
    }
    print(results)
    with style.context():
        figure = common.figure(7.1, 2.5)
        distances, *accuracies = figure.subplots(1, 3)
        at = range(len(weights))
        for number, (kind, found) in enumerate(results.items()):
            values = [row["distance"] for row in found.values()]
            distances.plot(at, values, marker="o", label=kind, **style.curve(number))
            axes = accuracies[number]
            for index, name in enumerate(("before", "after", "trained on")):
                values = [row[name] for row in found.values()]
                axes.plot(at, values, marker="o", label=name, **style.curve(index))
            for x, row in zip(at, found.values(), strict=True):
                axes.annotate(f"{row['snapped']} of 2", (x, 0.03), fontsize=6, ha="center")
            common.panel(axes, "bc"[number], f"{kind} digits: accuracy")
            axes.set(ylim=(0, 1.1), ylabel="test accuracy")
        distances.axhline(TOLERANCE, linestyle=":", color="black", linewidth=0.8)
        distances.set(yscale="log", ylabel="relative distance")
        common.panel(distances, "a", "from the nearest plain layer")
        for axes in (distances, *accuracies):
            axes.set_xticks(at, [f"{weight:g}" for weight in weights])
            axes.set(xlabel="weight of the penalty", xlim=(-0.4, len(weights) - 0.3))
            style.label_lines(axes)
    common.save(figure, options)
    return results


if __name__ == "__main__":
    main()
