"""Kernel sizes learned by a mask, from one start, for data of three sizes.

    python examples/gallery/kernel_sizes.py

White noise is convolved with a fixed kernel of 5, 17 or 41 taps; a continuous convolution whose
mask begins at 19 learns the same map. A weight on the width of the mask and a decay of the kernel's
values before the mask, the same for all data, make the size count.
"""

import common
import fitting
import keras
import numpy as np
from keras import ops

import keras_xd
from keras_xd.visualization import style

LARGEST, START, POINTS, WIDTH_WEIGHT, DECAY = 63, 19, 128, 0.025, 0.001


class DecayedConvolution(keras_xd.layers.CKConv1D):
    """A continuous convolution with a decay of its kernel's values before the mask."""

    def call(self, inputs):
        values = ops.divide_no_nan(self.kernel[:, 0], self.kernel_mask.values[0])
        self.add_loss(DECAY * ops.sum(ops.square(values)))
        return super().call(inputs)


def true_kernel(taps):
    """Return 1.5 periods of a cosine under a Gaussian window that is 0.1 at the last tap."""
    at = (np.arange(taps) - taps // 2) / (taps // 2)
    kernel = np.exp(-np.log(10) * at**2) * np.cos(1.5 * np.pi * at + 0.5)
    return kernel / np.linalg.norm(kernel)


def data(kernel, count, seed):
    noise = np.random.default_rng(seed).normal(size=(count, POINTS))
    flipped = kernel[::-1]  # Keras' convolutions do not flip kernels
    outputs = [np.convolve(row, flipped, "same") for row in noise]
    return noise[..., None].astype("float32"), np.array(outputs, "float32")[..., None]


class Taps(keras.callbacks.Callback):
    """Notes the taps under the mask."""

    def on_train_begin(self, logs=None):
        self.found = [self.taps()]

    def on_epoch_end(self, epoch, logs=None):
        self.found.append(self.taps())

    def taps(self):
        return keras_xd.describe(self.model)["kernel"]["taps/0"]


def search(taps, epochs, count):
    """Learn one kernel; return the taps by epoch, both kernels and the error."""
    keras.utils.set_random_seed(0)
    kernel = true_kernel(taps)
    train, test = data(kernel, count, 1), data(kernel, 50, 2)
    layer = DecayedConvolution(
        keras_xd.layers.KernelNetwork("fourier", 128, frequency=8.0),
        LARGEST,
        kernel_scaling="taps",  # the decay acts on the size of the values, which "mask" divides out
        use_bias=False,
        initial_kernel_size=START,
        architecture_regularizer=keras.regularizers.L1(WIDTH_WEIGHT),
        name="kernel",
    )
    model = keras_xd.SearchModel(keras.Sequential([keras.Input((POINTS, 1)), layer]))
    steps = epochs * -(-count // 32)
    model.compile(fitting.adam(0.01, steps), fitting.adam(0.02, steps), "mse")
    log = Taps()
    model.fit(*train, batch_size=32, epochs=epochs, verbose=0, callbacks=[log])
    predicted = model.predict(test[0], verbose=0)
    error = float(np.linalg.norm(predicted - test[1]) / np.linalg.norm(test[1]))
    return log.found, kernel, keras_xd.describe(model)["kernel"]["kernel"], error


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments)
    sizes, epochs, count = ((5,), 1, 32) if options.small else ((5, 17, 41), 80, 640)
    found = {taps: search(taps, epochs, count) for taps in sizes}
    with style.context():
        figure = common.figure(7.1, 2.8)
        left, right = figure.subfigures(1, 2, width_ratios=(1.0, 1.35))
        axes = left.subplots()
        for number, (taps, (history, *_)) in enumerate(found.items()):
            look = style.curve(number)
            label = f"data of {taps}: {history[-1]:.0f}"
            axes.plot(history, label=label, drawstyle="steps-post", **look)
            axes.axhline(taps, color=look["color"], linewidth=0.6, alpha=0.6)
        axes.set(xlabel="epoch", ylabel="taps under the mask", ylim=(0, LARGEST + 1))
        axes.set_title("a  learned size; thin: that of the data", loc="left")
        axes.margins(x=0)
        style.label_lines(axes)
        panels = right.subplots(len(found), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for number, (axes, (taps, (_, kernel, learned, error))) in enumerate(
            zip(panels, found.items(), strict=True)
        ):
            learned = np.ravel(learned)
            axes.plot(np.arange(taps) - taps // 2, kernel, color="0.6", linewidth=3, label="true")
            at = np.arange(len(learned)) - len(learned) // 2
            axes.plot(at, learned, color=style.COLOURS[number], linewidth=1, label="learned")
            title = f"{taps} taps: relative error {error:.3f} on held-out noise"
            axes.set_title(("b  " if number == 0 else "") + title, loc="left")
            axes.set(xlim=(-LARGEST // 2, LARGEST // 2), yticks=[0])
        panels[-1].set_xlabel("tap; grey: the kernel of the data, colour: the learned one")
    common.save(figure, options)
    return {taps: (history[-1], error) for taps, (history, *_, error) in found.items()}


if __name__ == "__main__":
    main()
