"""The picture at the top of the README: data, what a convolution and a search make of it, accuracy.

    python examples/gallery/hero.py --output docs/images --overwrite

Scikit-learn's digits, as they are and with rows and columns permuted in one way for each seed. A
convolutional network and the search of its operations start from the same weights and train for 40
epochs each; so does a dense network of about as many parameters as the search; 3 seeds. The
responses are those of one channel to impulses at three places.
"""

import common
import fitting
import keras
import numpy as np
import quickstart
from datasets import digits, permutation

import keras_xd
from keras_xd.visualization import style
from keras_xd.visualization.operators import impulse_responses

KINDS = ("plain", "permuted")
NAMES = ("convolutions", "searched", "dense layers")
PLACES = (9, 28, 53)  # of 64, in row-major order


def measured(kind, seed, epochs, filters, count):
    """Train all three; return the accuracies, the responses and two test images."""
    train, _, test = ((x[:count], y[:count]) for x, y in digits.load())
    image = test[0][0]
    if kind == "permuted":
        train, test = ((permutation.permute(x, seed), y) for x, y in (train, test))
    keras.utils.set_random_seed(seed)
    plain = common.backbone(filters)
    searched = common.trained(keras_xd.rewrite(plain), train, epochs, seed)
    plain = common.trained(plain, train, epochs, seed)
    dense = quickstart.make_dense(train[0].shape[1:], filters)
    dense = common.trained(dense, train, epochs, seed)
    layer = searched.model.get_layer("conv1")
    start = common.at_start(layer)
    # The filter of the largest kernel, chosen before anything is looked at.
    norms = np.sum(np.asarray(layer.kernel) ** 2, axis=(0, 1, 2))
    responses = [impulse_responses(x, PLACES, filter=int(norms.argmax())) for x in (start, layer)]
    scores = [fitting.accuracy(model, *test) for model in (plain, searched, dense)]
    return scores, responses, (image[..., 0], test[0][0][..., 0])


def draw(scores, responses, images):
    """Return the figure; `scores[kind]` has a row for each seed."""
    with style.context():
        figure = common.figure(7.1, 2.75)
        data, middle, right = figure.subfigures(1, 3, width_ratios=(1.0, 3.1, 2.5))
        axes = data.subplots(2, 1)
        for place, image, title in zip(axes, images, KINDS, strict=True):
            common.plain_image(place, image, cmap="Greys")
            place.set_ylabel(title)
            place.set_xlabel(" \n ", fontsize=7)  # as high as the labels beside
        grid = middle.subplots(2, len(PLACES))
        largest = max(np.abs(found).max() for found in responses)
        scale = {"cmap": style.SIGNED, "vmin": -largest, "vmax": largest}
        for row, found, title in zip(grid, responses, ("convolution", "searched"), strict=True):
            row[0].set_ylabel(title)
            for place, response, position in zip(row, found, PLACES, strict=True):
                drawn = common.plain_image(place, response, **scale)
                y, x = divmod(position, 8)
                place.plot(x, y, "+", color="0.3", markersize=4, markeredgewidth=0.6)
        for place, position in zip(grid[1], PLACES, strict=True):
            place.set_xlabel("impulse at\n{}, {}".format(*divmod(position, 8)), fontsize=7)
        bar = middle.colorbar(drawn, ax=grid, shrink=0.8, aspect=30)
        bar.outline.set_visible(False)
        draw_accuracy(right.subplots(), scores)
        titles = ("a  digits", "b  response of the first layer", "c  test accuracy")
        for part, title in zip((data, middle, right), titles, strict=True):
            part.suptitle(title, x=0.02, ha="left", fontsize=8)
    return figure


def draw_accuracy(axes, scores):
    """Draw every seed as a dot and the means as lines; say what the means are."""
    for number, name in enumerate(NAMES):
        found = [np.array(scores[kind])[:, number] for kind in KINDS]
        x = np.arange(len(KINDS)) + 0.2 * (number - 1)
        look = style.curve(number)
        for place, values in zip(x, found, strict=True):
            axes.plot(np.full(len(values), place), values, "o", color=look["color"], alpha=0.5)
            axes.annotate(
                f"{values.mean():.3f}",
                (place, values.max() if number == 1 else values.min()),
                (0, 6 if number == 1 else -6),
                textcoords="offset points",
                ha="center",
                va="bottom" if number == 1 else "top",
                fontsize=7,
                color=look["color"],
            )
        axes.plot(x, [v.mean() for v in found], label=name, **{**look, "linewidth": 0.9})
    lowest = min(0.85, np.floor(20 * min(map(np.min, scores.values()))) / 20)
    axes.set(xticks=range(len(KINDS)), xlim=(-0.4, 1.35), ylim=(lowest, 1.0))
    axes.set_xticklabels(KINDS)
    axes.set_xlabel(
        f"dots: {common.count(len(scores['plain']), 'seed')}; the axis begins at {lowest:.2f}"
    )
    style.label_lines(axes)


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments, ending="png")
    setting = (1, 2, 64) if options.small else (40, 8, None)
    scores = {kind: [] for kind in KINDS}
    for seed in range(1 if options.small else 3):
        for kind in KINDS:
            found, kept, pair = measured(kind, seed, *setting)
            scores[kind].append(found)
            if kind == "permuted" and seed == 0:
                responses, images = kept, pair
            print(f"{kind}, seed {seed}: {dict(zip(NAMES, found, strict=True))}", flush=True)
    common.save(draw(scores, responses, images), options)
    return scores


if __name__ == "__main__":
    main()
