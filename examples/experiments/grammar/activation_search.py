"""Search an activation function for a small convolutional network on handwritten digits.

    python examples/experiments/grammar/activation_search.py
    python examples/experiments/grammar/activation_search.py --trials 60 --strategy random

Activation functions are terms of `keras_xd.grammar.spaces.activation_functions`: unary and binary
functions of two levels, some with a trained coefficient for each channel. Every trial trains one
network with a new function in place of its activations, on scikit-learn's digits (no download), and
is scored by the loss on validation images. The learning rate is searched along with the function,
and in as many trials for ReLU and for Swish: their grammars have one term. Functions that diverge
are trials that fail. The best trials of each search are then trained from scratch with several
seeds; the best of these by validation loss are compared on test images, and the function is drawn.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import fitting
import keras
import keras_tuner as kt
import reporting
from datasets import digits
from parsing import positive
from reporting import plural, spread

from experiments.grammar import tuning
from keras_xd import grammar
from keras_xd.grammar import primitives, spaces

NAME = "activation_search"
RATES = (1e-3, 1e-1)
# Grammars of one term, which is a term of the whole space too.
KNOWN = {
    "ReLU": "L2 -> UnaryTopo L1\nL1 -> UnaryTopo UNARY\nUNARY -> relu",
    "Swish": "L2 -> UnaryTopo L1\nL1 -> BinaryTopo BINARY UNARY UNARY id id\n"
    "BINARY -> sigmoid_product\nUNARY -> identity",
}


def activation(term, shape, name):
    """Return the function of a term as a model that is used as a layer."""
    table = primitives.activation_functions()
    return grammar.build(term, keras.Input(shape), table, name=name)


def network(term, filters, rate):
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
    return fitting.compiled(
        model, keras.optimizers.Adam(rate), loss=loss, metrics=[fitting.accuracy_metric()]
    )


def trained(values, seed, data, options):
    """Train from scratch with the values of a trial; return validation and test figures."""
    keras.utils.set_random_seed(100 + seed)
    model = network(found(values), options.filters, values["rate"])
    model.fit(*data[0], batch_size=options.batch_size, epochs=options.epochs, verbose=0)
    score, _ = model.evaluate(*data[1], batch_size=250, verbose=0)
    loss, accuracy = model.evaluate(*data[2], batch_size=250, verbose=0)
    return {"score": float(score), "test_loss": float(loss), "test_accuracy": float(accuracy)}


def found(values):
    """Return the term of a trial."""
    return spaces.activation_functions().parse(values["activation"])


def parse(arguments):
    parser = reporting.parser(__doc__)
    parser.add_argument("--subset", type=positive, help="images of each split at most")
    defaults = {"trials": 60, "epochs": 10, "seeds": 10, "batch_size": 32, "filters": 8}
    tuning.add_search_arguments(parser, **defaults)
    options = parser.parse_args(arguments)
    tuning.check(parser, options, NAME)
    return options, [(x[: options.subset], y[: options.subset]) for x, y in digits.load()]


def searched(functions, name, data, options):
    """Search a function of a grammar and its learning rate; return the tuner."""
    return tuning.searched(
        name,
        {"activation": functions},
        kt.Objective("val_loss", "min"),
        network,
        RATES,
        data,
        options,
        seed_of_trial=lambda number: 1,  # the same initial weights and batches
        fold_levels=(0, 1, 2),
    )


def comparison(best, runs, data, options):
    """Return the parts of the page that compare the functions."""
    columns = tuning.columns(runs)
    rows = [
        [name, f"{best[name]['rate']:.2g}"]
        + [spread(column[figure], 4) for figure in ("score", "test_accuracy", "test_loss")]
        for name, column in columns.items()
    ]
    gains = tuning.differences("found", columns, len(data[2][0]))
    return [
        tuning.table(["activation", "rate", "validation loss", "test accuracy", "test loss"], rows),
        f"Of each activation the learning rate was searched in {plural(options.trials, 'trial')}, "
        f"of the found one along with the function. The {options.finalists} best trials of each "
        f"were trained from scratch with {plural(options.seeds, 'seed')}, mean ± standard "
        "deviation; in the table is the one of these that has the lowest mean validation loss.",
        f"The found function has {gains}. It is",
        f"`{found(best['found']).formula()}`",
    ]


def main(arguments=None):
    """Run the searches and write their results; return the tuner of the found function."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, data = parse(arguments)
    functions = spaces.activation_functions()
    grammars = {"found": functions, **{name: grammar.Grammar(text) for name, text in KNOWN.items()}}
    tuners, best, runs = {}, {}, {}
    for name, terms in grammars.items():
        project = NAME if name == "found" else f"{NAME}_{name.lower()}"
        tuners[name] = searched(terms, project, data, options)
        best[name], runs[name] = tuning.best_again(
            tuners[name],
            options.finalists,
            options.seeds,
            lambda values, seed: trained(values, seed, data, options),
        )
    parts = comparison(best, runs, data, options)
    settings = tuning.settings(
        NAME,
        arguments,
        options,
        space=f"{functions.count():,} functions",
        strategy=options.strategy,
        images="{} for training, {} to score, {} to test".format(*(len(x) for x, _ in data)),
        training=f"Adam, rate from {RATES[0]:g} to {RATES[1]:g}, batches of {options.batch_size}, "
        f"{options.epochs} epochs",
        network=f"two 3 × 3 convolutions of {options.filters} filters, a dense layer",
        seed=options.seed,
    )
    title = "Digits: an activation function from a grammar"
    found = tuners["found"], options.output, best["found"], runs
    return tuning.write(NAME, title, parts, settings, *found)


if __name__ == "__main__":
    main()
