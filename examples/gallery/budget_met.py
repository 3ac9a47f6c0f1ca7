"""A budget met: the same network made smaller by learning, for three targets.

    python examples/gallery/budget_met.py

A residual network for scikit-learn's digits gets masks on kernels, widths and depth and trains with
a penalty on its multiply–adds, relative to a target; `finalize` cuts what the masks have left out,
mostly more than the target, as whole channels and taps go.
"""

import common
import keras
import numpy as np
from datasets import digits

import keras_xd
from keras_xd.visualization import style


def network(channels, blocks):
    def block(x):
        y = keras.layers.Conv2D(channels, 3, padding="same")(x)
        y = keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.8)(y))
        y = keras.layers.Conv2D(channels, 3, padding="same")(y)
        return x + keras.layers.BatchNormalization(momentum=0.8)(y)

    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(channels, 3, padding="same")(inputs)
    for _ in range(blocks):
        x = block(x)
    x = keras.layers.ReLU()(x)
    x = keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, x)


class Complexity(keras.callbacks.Callback):
    """Notes the multiply–adds of a search after every epoch."""

    def __init__(self, whole):
        super().__init__()
        self.whole, self.values = whole, [1.0]

    def on_epoch_end(self, epoch, logs=None):
        self.values.append(float(keras_xd.complexity(self.model)) / self.whole)


def result(model, whole, test):
    return {
        "multiply-adds": float(keras_xd.complexity(model)) / whole,
        "parameters": model.count_params(),
        "accuracy": common.accuracy(model, test),
    }


def main(arguments=None):
    options = common.parse(__file__, __doc__, arguments)
    targets, channels, blocks, epochs, count = (1.0, 0.5, 0.25), 24, 3, 30, None
    if options.small:
        targets, channels, blocks, epochs, count = (0.5,), 4, 1, 1, 32
    train, test = ((x[:count], y[:count]) for x, y in digits.load()[::2])
    keras.utils.set_random_seed(0)
    model = network(channels, blocks)
    whole = float(keras_xd.complexity(model))
    steps, fit = epochs * -(-len(train[0]) // 64), {"batch_size": 64, "epochs": epochs}
    curves, results = {}, {}
    for target in targets:
        search = keras_xd.SearchModel(keras_xd.rewrite(model, to="masked"))
        search.compile(
            common.adam(3e-3, steps),
            common.adam(3e-2, steps),
            common.LOSS,
            complexity_target=target * whole,
            complexity_weight=5.0,
            jit_compile=False,
        )
        log = Complexity(whole)
        search.fit(*train, verbose=0, callbacks=[log], **fit)
        curves[target] = log.values
        results[f"target {target:.0%}"] = result(keras_xd.finalize(search), whole, test)
    model.compile(common.adam(3e-3, steps), common.LOSS, jit_compile=False)
    model.fit(*train, verbose=0, **fit)
    results["as it is"] = result(model, whole, test)
    with style.context():
        figure = common.figure(7.1, 2.6)
        left, right = figure.subplots(1, 2, width_ratios=(1.2, 1.0))
        for number, (target, values) in enumerate(curves.items()):
            look = style.curve(number)
            left.plot(values, label=f"target {target:.0%}: {values[-1]:.0%}", **look)
            left.axhline(target, color=look["color"], linewidth=0.6, alpha=0.6)
        left.set(xlabel="epoch", ylabel="multiply–adds / those of the network")
        left.set_ylim(0, max(1.1, *map(max, curves.values())))
        left.margins(x=0)
        left.set_title("a  during the search; thin: targets", loc="left")
        style.label_lines(left)
        lowest = min(0.9, np.floor(20 * min(r["accuracy"] for r in results.values())) / 20)
        colours = [style.curve(number)["color"] for number in range(len(targets))] + ["0.4"]
        pairs = zip(results.items(), colours, strict=True)
        # From right to left and down, each text beside its line: points may lie on each other.
        pairs = sorted(pairs, key=lambda pair: -pair[0][1]["multiply-adds"])
        for place, ((name, found), colour) in enumerate(pairs):
            x, y = found["multiply-adds"], found["accuracy"]
            right.plot(x, y, "o", color=colour)
            text = f"{name}: {y:.3f},\n{found['parameters']:,} parameters"
            at = (x + 0.12, 0.82 - 0.18 * place)
            look = {"arrowstyle": "-", "color": colour, "linewidth": 0.4, "relpos": (0, 0.5)}
            right.annotate(text, (x, y), at, textcoords=("data", "axes fraction"), fontsize=6,
                           color=colour, va="center", arrowprops=look)  # fmt: skip
        right.set(xlim=(-0.2, 1.8), ylim=(lowest - 0.05, 1.0), ylabel="test accuracy")
        right.set(xlabel="multiply–adds / those of the network", xticks=(0, 0.5, 1))
        right.set_title(f"b  cut networks; axis from {lowest - 0.05:.2f}", loc="left")
    common.save(figure, options)
    return results


if __name__ == "__main__":
    main()
