"""Search an activation function for a small convolutional network on handwritten digits.

    python examples/experiments/grammar/activation_search.py
    python examples/experiments/grammar/activation_search.py --trials 60 --strategy random

Activation functions are terms of `keras_xd.grammar.spaces.activation_functions`: unary and binary
functions of two levels, some with a trained coefficient for each channel. Every trial trains one
network with a new function in place of its activations, on scikit-learn's digits (no download), and
is scored by the loss on validation images. Functions that diverge are trials that fail. The best
function is then trained from scratch with several seeds, beside ReLU and Swish, and drawn.
"""

import argparse
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import keras_tuner as kt
import numpy as np
from datasets import digits
from matplotlib.figure import Figure
from parsing import positive
from reporting import plural, spread

from experiments.grammar import tuning
from keras_xd import grammar, visualization
from keras_xd.grammar import primitives, spaces
from keras_xd.visualization import style
from tuner_integration import GrammarOracle, GrammarTuner

NAME = "activation_search"
KNOWN = {
    "ReLU": "(L2 UnaryTopo (L1 UnaryTopo (UNARY relu)))",
    "Swish": "(L2 UnaryTopo (L1 BinaryTopo (BINARY sigmoid_product) (UNARY identity) "
    "(UNARY identity) id id))",
}


def activation(term, shape, name):
    """Return the function of a term as a model that is used as a layer."""
    table = primitives.activation_functions()
    return grammar.build(term, keras.Input(shape), table, name=name)


def network(term, filters):
    """Return the compiled network with the activation function of a term."""
    inputs = keras.Input((8, 8, 1))
    x = inputs
    for number in (1, 2):
        x = keras.layers.Conv2D(filters, 3, padding="same", name=f"conv{number}")(x)
        x = activation(term, x.shape[1:], f"activation{number}")(x)
        x = keras.layers.AveragePooling2D(2, name=f"pool{number}")(x)
    x = keras.layers.Dense(10, name="classifier")(keras.layers.Flatten(name="flatten")(x))
    model = keras.Model(inputs, x)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
    return model


class Tuner(GrammarTuner):
    """Gives each trial the same initial weights and batches."""

    def run_trial(self, trial, *arguments, **options):
        keras.utils.set_random_seed(1)
        return super().run_trial(trial, *arguments, **options)


def trained(term, data, seed, options):
    """Train from scratch; return test accuracy and test loss."""
    keras.utils.set_random_seed(100 + seed)
    model = network(term, options.filters)
    model.fit(*data[0], batch_size=options.batch_size, epochs=options.epochs, verbose=0)
    loss, accuracy = model.evaluate(*data[2], batch_size=250, verbose=0)
    return float(accuracy), float(loss)


def known():
    """Return the terms of the functions that everybody knows."""
    functions = spaces.activation_functions()
    return {name: functions.parse(text) for name, text in KNOWN.items()}


def found(values):
    """Return the term of a trial."""
    return spaces.activation_functions().parse(values["activation"])


def tree(values):
    """Draw the term of a trial."""
    return visualization.plot_tree(found(values))


@style.context()
def curves(values):
    """Draw the function of a trial beside known ones, with coefficients of 1."""
    figure = Figure(figsize=(3.6, 2.6), layout="constrained")
    axes = figure.subplots()
    x = np.linspace(-4, 4, 201, dtype="float32")[:, None]
    for number, (name, term) in enumerate({"found": found(values), **known()}.items()):
        y = activation(term, (1,), None).predict(x, verbose=0)[:, 0]
        axes.plot(x[:, 0], y, label=name, **style.curve(number))
    axes.set(xlabel="x", ylim=(-4, 4))
    axes.margins(x=0)
    style.label_lines(axes)
    return figure


PICTURES = {"_tree": tree, "_functions": curves}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=positive, default=60)
    parser.add_argument("--initial-trials", type=positive, default=10)
    parser.add_argument("--epochs", type=positive, default=10)
    parser.add_argument("--seeds", type=positive, default=3, help="of the comparison")
    parser.add_argument("--batch-size", type=positive, default=32)
    parser.add_argument("--filters", type=positive, default=8)
    parser.add_argument("--subset", type=positive, help="images of each split at most")
    parser.add_argument(
        "--strategy", choices=["bayesian", "evolution", "random"], default="bayesian"
    )
    parser.add_argument("--seed", type=int, default=0)
    tuning.add_arguments(parser)
    options = parser.parse_args(arguments)
    tuning.check(parser, options, NAME)
    return options, [(x[: options.subset], y[: options.subset]) for x, y in digits.load()]


def main(arguments=None):
    """Run the search and write its results; return the tuner."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, data = parse(arguments)
    functions = spaces.activation_functions()
    oracle = GrammarOracle(
        {"activation": functions},
        kt.Objective("val_loss", "min"),
        options.trials,
        options.strategy,
        initial_trials=options.initial_trials,
        levels=(0, 1, 2),
        seed=options.seed,
    )

    def build(hp, term):
        return network(term, options.filters)

    tuner = tuning.searched(Tuner, oracle, build, data, options, NAME)
    best = tuner.get_best_terms()[0]["activation"]
    rows = []
    for name, term in {"found": best, **known()}.items():
        runs = [trained(term, data, seed, options) for seed in range(options.seeds)]
        accuracies, losses = zip(*runs, strict=True)
        rows.append([name, spread(accuracies, 4), spread(losses, 4)])
    parts = [
        tuning.table(["activation", "test accuracy", "test loss"], rows),
        f"Trained from scratch, {plural(options.seeds, 'seed')}, mean ± standard deviation. Best "
        "function:",
        f"`{best.formula()}`",
    ]
    settings = tuning.settings(
        NAME,
        arguments,
        options,
        space=f"{functions.count():,} functions",
        strategy=options.strategy,
        images="{} for training, {} to score, {} to test".format(*(len(x) for x, _ in data)),
        training=f"Adam, rate 0.003, batches of {options.batch_size}, {options.epochs} epochs",
        network=f"two 3 × 3 convolutions of {options.filters} filters, a dense layer",
        seed=options.seed,
    )
    title = "Digits: an activation function from a grammar"
    tuning.write(NAME, title, parts, settings, tuner.oracle, options.output, PICTURES)
    print(parts[0])
    return tuner


if __name__ == "__main__":
    main()
