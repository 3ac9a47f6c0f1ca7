"""Operations searched from convolutions, on Burgers' equation, beside a Fourier operator.

    python examples/gallery/fourier_operator.py

A network of four convolutions, a Fourier neural operator of the same widths and the search of the
former's operations train on the same data, those of KERAS_XD_DATA_DIR where it is set. Drawn are
the errors by epoch, and what the last operation of seed 0 makes of the 32 lowest frequencies: mean
over channels of the absolute values of the matrix in the Fourier basis.
"""

import common
import fitting
import keras
import numpy as np
from datasets import pde
from datasets.batches import Batches
from experiments.xd import pde_experiment
from permuted_images import at_start

import keras_xd
from keras_xd.visualization import style
from keras_xd.visualization.operators import operator_matrix

METHODS = {"CNN": "convolutions", "XD": "searched", "FNO": "Fourier"}
NAMED = {"fourier_operator": "Fourier", "convolution": "convolution"}


def train(method, data, epochs, setting, seed):
    """Return the model and its error on the test samples after each epoch."""
    keras.utils.set_random_seed(seed)
    model = pde_experiment.make_model(method, data[0][0].shape[1:], setting)
    batches = Batches(*data[0], batch_size=20, seed=seed)
    steps = epochs * len(batches)
    loss = keras_xd.losses.RelativeL2(reduction="sum")
    optimizers = [fitting.adam(3e-3, steps)]
    if method == "XD":
        # Fast, to move far; the decay removes frequencies of which the loss says nothing.
        optimizers.append(fitting.adam(1.2e-2, steps, weight_decay=0.2))
    model = fitting.compiled(model, *optimizers, loss=loss, jit_compile=False)

    def error(model):
        return pde_experiment.mean_error(model, *data[1])

    log = pde_experiment.ErrorPerEpoch(error, lambda *_: None)
    model.fit(batches, epochs=epochs, shuffle=False, verbose=0, callbacks=[log])
    return model, log.errors


def by_frequency(layer, pairs):
    """Return the mean absolute values of the map between the lowest frequencies, from 0 up."""
    found = []
    for channel, filter in pairs:
        matrix = operator_matrix(layer, channel, filter)
        found.append(np.fft.fft(np.fft.ifft(matrix, axis=1), axis=0))
    shown = min(32, len(matrix) // 2)
    return np.mean(np.abs(found), axis=0)[:shown, :shown]


def searched_layers(model):
    return [layer for layer in model.model.layers if keras_xd.architecture_variables(layer)]


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments, ending="png")
    points, number, epochs, seeds, width, modes = 256, 300, 16, 2, 16, 8
    if options.small:
        points, number, epochs, seeds, width, modes = 16, 20, 1, 1, 2, 4
    setting = type("Setting", (), {"width": width, "modes": (modes,)})
    data = pde.burgers(points, train=number, test=max(2, number // 5))
    runs = {m: [train(m, data, epochs, setting, seed) for seed in range(seeds)] for m in METHODS}
    distances = {name: [] for name in NAMED.values()}
    for model, _ in runs["XD"]:
        found = [keras_xd.nearest_operation(layer).distances for layer in searched_layers(model)]
        for operation, name in NAMED.items():
            distances[name].append([layer[operation] for layer in found])
    layer = searched_layers(runs["XD"][0][0])[-1]
    fourier = [x for x in runs["FNO"][0][0].layers if x.name.startswith("spectral")][-1]
    pairs = [(i, i) for i in range(width)]
    maps = [by_frequency(x, pairs) for x in (at_start(layer), layer, fourier)]
    with style.context():
        figure = common.figure(7.1, 2.6)
        left, right = figure.subfigures(1, 2, width_ratios=(1.0, 1.9))
        axes = left.subplots()
        for index, (method, results) in enumerate(runs.items()):
            errors = np.array([errors for _, errors in results])
            label = f"{METHODS[method]}: {errors[:, -1].mean():.3f}"
            at, look = np.arange(1, 1 + errors.shape[1]), style.curve(index)
            axes.plot(at, errors.mean(axis=0), label=label, **look)
            band = errors.min(axis=0), errors.max(axis=0)
            axes.fill_between(at, *band, color=look["color"], alpha=0.15, linewidth=0)
        axes.set(xlabel="epoch", ylabel="relative error on test samples", yscale="log")
        title = f"a  Burgers, {points} points, {common.count(seeds, 'seed')}"
        axes.set_title(title, loc="left")
        style.label_lines(axes)
        panels = right.subplots(1, 3)
        titles = "its start", "searched", "Fourier network"
        for place, values, title in zip(panels, maps, titles, strict=True):
            look = {"cmap": style.POSITIVE, "vmin": 0.0, "vmax": 1.0, "origin": "lower"}
            drawn = common.plain_image(place, values / values.max(), **look)
            place.set(title=title, xlabel="frequency in")
        panels[0].set_ylabel("frequency out")
        right.colorbar(drawn, ax=panels, shrink=0.5).outline.set_visible(False)
        last = ", ".join(f"{name} {values[0][-1]:.2f}" for name, values in distances.items())
        title = f"b  last operation; searched, from {last}"
        right.suptitle(title, x=0.02, ha="left", fontsize=8)
    common.save(figure, options)
    errors = {METHODS[m]: [run[1][-1] for run in results] for m, results in runs.items()}
    for name, values in (*errors.items(), *distances.items()):
        print(name, np.round(values, 3).tolist())
    return {"errors": errors, "distances": distances}


if __name__ == "__main__":
    main()
