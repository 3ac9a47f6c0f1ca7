"""A cell found: operations on features, attention and dynamic convolutions, beside random cells.

    python examples/gallery/cell_found.py

Two cells of five operations are searched on scikit-learn's digits in a network of three. The cells
found are trained from scratch, and so are two pairs of random cells, for as many epochs.
"""

import common
import keras
import numpy as np
from datasets import digits

import keras_xd
from keras_xd import genotypes, models, visualization
from keras_xd.visualization import style

OPERATIONS = ("separable_3", "average_pooling_3", "identity", "channel_attention", "dynamic_3")
SHAPE = (8, 8, 1)


def search(train, operations, channels, epochs, steps):
    """Return the genotype found and, by kind of cell, the entropy after each epoch."""
    keras.utils.set_random_seed(0)
    network = models.nos_search_network(3, channels, SHAPE, operations=operations, seed=0)
    model = keras_xd.SearchModel(network)
    rates = common.adam(1e-2, steps), keras.optimizers.Adam(2e-2, beta_1=0.5)
    model.compile(*rates, common.LOSS, jit_compile=False)
    logger = keras_xd.callbacks.GenotypeLogger()
    history = model.fit(*train, batch_size=64, epochs=epochs, verbose=0, callbacks=[logger])
    entropy = {kind: history.history[f"{kind}_entropy"] for kind in ("normal", "reduction")}
    return keras_xd.layers.derived_genotype(model), entropy


def trained(genotype, train, test, channels, epochs, steps):
    """Train a network of cells from scratch; return its accuracy."""
    keras.utils.set_random_seed(1)
    model = models.nos_network(genotype, 3, channels, SHAPE, auxiliary=False, drop_path=0.0)
    model.compile(common.adam(1e-2, steps), common.LOSS, jit_compile=False)
    model.fit(*train, batch_size=64, epochs=epochs, verbose=0)
    return common.accuracy(model, test)


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments)
    channels, epochs, controls, count = (2, 1, 1, 32) if options.small else (4, 7, 2, None)
    operations = OPERATIONS[1:3] if options.small else OPERATIONS
    train, test = ((x[:count], y[:count]) for x, y in digits.load()[::2])
    steps = epochs * -(-len(train[0]) // 64)
    found, entropy = search(train, operations, channels, epochs, steps)
    rng = np.random.default_rng(0)
    random = [genotypes.random_genotype(rng, operations) for _ in range(controls)]
    setting = (train, test, channels, epochs, steps)
    score, others = trained(found, *setting), [trained(each, *setting) for each in random]
    with style.context():
        figure = common.figure(7.1, 5.0)
        upper, lower = figure.subfigures(2, 1, height_ratios=(1.7, 1.0))
        visualization.plot_cell(found.normal, axes=upper.subplots())
        upper.suptitle("a  the normal cell found", x=0.02, ha="left", fontsize=8)
        left, right = lower.subplots(1, 2)
        for number, (kind, values) in enumerate(entropy.items()):
            label = f"{kind}: {values[-1]:.3f}"
            left.plot(range(1, 1 + len(values)), values, label=label, **style.curve(number))
        left.set(xlabel="epoch of the search", ylabel="entropy of the shares", ylim=(0, 1.02))
        left.set_title("b  what is decided (0: all)", loc="left")
        style.label_lines(left)
        names = ["found", *(f"random {i + 1}" for i in range(controls))]
        lowest = min(0.9, np.floor(10 * min(score, *others)) / 10)
        for place, value in enumerate([score, *others]):
            colour = style.COLOURS[1 if place == 0 else 5]
            right.plot(value, place, "o", color=colour)
            right.annotate(f"{value:.3f}", (value, place), (5, 0), textcoords="offset points",
                           va="center", fontsize=7, color=colour)  # fmt: skip
        right.set_yticks(range(len(names)), names)
        right.set(xlim=(lowest, 1.0), ylim=(len(names) - 0.5, -0.5))
        right.set_xlabel(f"test accuracy; the axis begins at {lowest:.1f}")
        ahead = "ahead of" if score > max(others) else "not ahead of"
        right.set_title(f"c  from scratch: {ahead} all random cells", loc="left")
    common.save(figure, options)
    return {"found": score, "random": others, "entropy": entropy}


if __name__ == "__main__":
    main()
