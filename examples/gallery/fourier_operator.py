"""Operations searched from convolutions, on Burgers' equation, beside a Fourier operator.

    python examples/gallery/fourier_operator.py

From the state at time 0 to that at time 1: a network of four convolutions, a Fourier neural
operator of the same widths, and the search of the operations of the former, which begins as that
network exactly. All train on the same data for as many epochs; those are read from
KERAS_XD_DATA_DIR where it is set, and generated otherwise. Drawn are the errors by epoch, and what
the first operation makes of each frequency (the mean over channels and filters of the absolute
values of the matrix in the Fourier basis), as the convolution of the same kernel and as searched.
On the diagonal a frequency stays what it is, as in a convolution and in a Fourier operator; beside
it the operation is neither. Measured: the relative L2 error on test samples, the part of the energy
off the diagonal, and which operation `keras_xd.nearest` names, with its distance.
"""

import common
import keras
import numpy as np
from datasets import pde
from datasets.batches import Batches
from experiments.xd import pde_experiment
from permuted_images import at_start

import keras_xd
from keras_xd.visualization import operator_matrix, style

METHODS = {"CNN": "convolutions", "XD": "searched", "FNO": "Fourier"}


def train(method, data, epochs, setting):
    """Return the model and its error on the test samples after each epoch."""
    keras.utils.set_random_seed(0)
    model = pde_experiment.make_model(method, data[0][0].shape[1:], setting)
    batches = Batches(*data[0], batch_size=20, seed=0)
    steps = epochs * len(batches)
    loss = pde_experiment.RelativeError(lambda values: values)
    rates = [common.adam(3e-3, steps)]
    if method == "XD":
        model = keras_xd.SearchModel(model)
        rates.append(common.adam(3e-3, steps))
    model.compile(*rates, loss=loss, jit_compile=False)

    def error(model):
        return pde_experiment.mean_error(model, *data[1])

    log = pde_experiment.ErrorPerEpoch(error, lambda *_: None)
    model.fit(batches, epochs=epochs, shuffle=False, verbose=0, callbacks=[log])
    return model, log.errors


def by_frequency(layer, pairs):
    """Return the mean absolute values of the map between frequencies, from 0 up."""
    found = []
    for channel, filter in pairs:
        matrix = operator_matrix(layer, channel, filter)
        found.append(np.fft.fft(np.fft.ifft(matrix, axis=1), axis=0))
    half = len(matrix) // 2
    return np.mean(np.abs(found), axis=0)[:half, :half]


def off_diagonal(matrix):
    return float(1 - np.sum(np.diag(matrix) ** 2) / np.sum(matrix**2))


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments)
    setting = type("Setting", (), {"width": 16, "modes": 8})
    points, number, epochs = 64, 300, 24
    if options.small:
        setting, points, number, epochs = type("Setting", (), {"width": 2, "modes": 3}), 16, 20, 1
    data = pde.burgers(points, train=number, test=max(2, number // 10))
    runs = {method: train(method, data, epochs, setting) for method in METHODS}
    layer = next(x for x in runs["XD"][0].model.layers if keras_xd.architecture_variables(x))
    start = at_start(layer)
    pairs = [(i, i) for i in range(setting.width)]
    maps = [by_frequency(x, pairs) for x in (start, layer)]
    found = keras_xd.nearest(layer)
    distance = found.distances[found.operation]
    with style.context():
        figure = common.figure(7.1, 2.6)
        left, right = figure.subfigures(1, 2, width_ratios=(1.2, 1.6))
        axes = left.subplots()
        for index, (method, (_, errors)) in enumerate(runs.items()):
            label = f"{METHODS[method]}: {errors[-1]:.3f}"
            axes.plot(range(1, 1 + len(errors)), errors, label=label, **style.curve(index))
        axes.set(xlabel="epoch", ylabel="relative error on test samples", yscale="log")
        axes.set_title(f"a  Burgers, {points} points, 1 seed", loc="left")
        style.label_lines(axes)
        largest = max(values.max() for values in maps)
        panels = right.subplots(1, 2)
        for place, values, title in zip(panels, maps, ("its start", "searched"), strict=True):
            drawn = common.plain_image(
                place, values, cmap=style.POSITIVE, vmin=0.0, vmax=largest, origin="lower"
            )
            place.set(title=title, xlabel=f"frequency in\n{off_diagonal(values):.0%} off diagonal")
        panels[0].set_ylabel("frequency out")
        right.colorbar(drawn, ax=panels, shrink=0.7).outline.set_visible(False)
        title = f"b  first operation; nearest: {found.operation}, {distance:.2f}"
        right.suptitle(title, x=0.02, ha="left", fontsize=8)
    common.save(figure, options)
    return {METHODS[method]: errors for method, (_, errors) in runs.items()}


if __name__ == "__main__":
    main()
