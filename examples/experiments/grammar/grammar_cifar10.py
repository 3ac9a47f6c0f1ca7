"""Search the architecture of a small network for CIFAR-10 by Bayesian optimisation over a grammar.

    python examples/experiments/grammar/grammar_cifar10.py
    python examples/experiments/grammar/grammar_cifar10.py --trials 30 --images 2000 --epochs 5 \\
        --strategy random --from-scratch

Networks are terms of the grammar below: blocks on two resolutions, each of them two to four
operations in a row, beside a skip or in parallel; operations are the identity, pooling or a
convolution with an activation before and a normalization behind it. Every trial trains one network
for a few epochs on a few images, and is scored by its accuracy on others. The first trial is a
network that was written by hand, unless `--from-scratch` leaves it out. The best network is then
trained from scratch and evaluated on test images, like the one by hand, and drawn.
"""

import argparse
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import keras_tuner as kt
import parsing
from datasets import images
from parsing import positive

from experiments.grammar import tuning
from keras_xd import grammar, visualization
from keras_xd.grammar import primitives
from tuner_integration import GrammarOracle, GrammarTuner

NAME = "grammar_cifar10"
SPACE = """
NET   -> Linear3 BLOCK resBlock BLOCK
       | Linear4 BLOCK BLOCK resBlock BLOCK | Linear4 BLOCK resBlock BLOCK BLOCK
BLOCK -> Linear2 OP OP | Residual2 OP OP OP | Diamond2 OP OP OP OP
OP    -> id | zero | avg_pool | Linear1 CONVBLOCK [2]
CONVBLOCK -> Linear3 ACT CONV NORM
ACT   -> relu | hardswish | mish
CONV  -> conv3x3o | conv1x1o | dconv3x3o
NORM  -> batch | instance | layer
"""
CONVBLOCK = "(OP Linear1 (CONVBLOCK Linear3 (ACT relu) (CONV conv3x3o) (NORM batch)))"
RESIDUAL = f"(BLOCK Residual2 {CONVBLOCK} (OP id) {CONVBLOCK})"
BY_HAND = f"(NET Linear3 {RESIDUAL} resBlock {RESIDUAL})"


def space():
    """Return the grammar; every part of a term connects its input with its output."""
    return grammar.Grammar(SPACE, constraints=[grammar.Connected()])


def network(term, filters, shape=(32, 32, 3), classes=10, rate=3e-3):
    """Return the compiled network of a term."""
    model = grammar.build(
        term,
        keras.Input(shape),
        primitives.nas_bench_201(),
        stem=primitives.stem(filters),
        head=primitives.head(classes),
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    return model


def tree(values):
    """Draw the term of a trial."""
    return visualization.plot_tree(space().parse(values["network"]))


def picture(values):
    """Draw the network of a trial's term."""
    return visualization.plot_network(space().parse(values["network"]))


PICTURES = {"_tree": tree, "_network": picture}


class Tuner(GrammarTuner):
    """Gives each trial a seed of its own, so that a search that is resumed finds the same."""

    def run_trial(self, trial, *arguments, **options):
        keras.utils.set_random_seed(int(trial.trial_id) + 1)
        return super().run_trial(trial, *arguments, **options)


def trained(term, data, options):
    """Train the network of a term from scratch; return its parameters and its test accuracy."""
    train, _, test = data
    keras.utils.set_random_seed(options.seed)
    model = network(term, options.filters)
    model.fit(*train, batch_size=options.batch_size, epochs=options.final_epochs, verbose=0)
    accuracy = model.evaluate(*test, batch_size=250, verbose=0)[1]
    return model.count_params(), float(accuracy)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=positive, default=40)
    parser.add_argument("--initial-trials", type=positive, default=10)
    parser.add_argument("--images", type=positive, default=2000, help="of each split")
    parser.add_argument("--epochs", type=positive, default=5)
    parser.add_argument("--final-epochs", type=positive, default=10)
    parser.add_argument("--batch-size", type=positive, default=64)
    parser.add_argument("--filters", type=positive, default=8)
    parser.add_argument(
        "--strategy", choices=["bayesian", "evolution", "random"], default="bayesian"
    )
    parser.add_argument("--from-scratch", action="store_true", help="not from the one by hand")
    parser.add_argument("--seed", type=int, default=0)
    parsing.add_data_folder(parser)
    tuning.add_arguments(parser)
    options = parser.parse_args(arguments)
    tuning.check(parser, options, NAME)
    try:
        data = images.load("cifar10", options.data_dir, options.images)
    except ValueError as error:
        parser.error(str(error))
    return options, data


def main(arguments=None):
    """Run the search and write its results; return the tuner."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, data = parse(arguments)
    cells = space()
    oracle = GrammarOracle(
        {"network": cells},
        kt.Objective("val_accuracy", "max"),
        options.trials,
        options.strategy,
        initial_trials=options.initial_trials,
        seed=options.seed,
        initial_terms=[] if options.from_scratch else [BY_HAND],
    )

    def build(hp, term):
        return network(term, options.filters)

    tuner = tuning.searched(Tuner, oracle, build, data, options, NAME)
    best = tuner.get_best_terms()[0]["network"]
    rows = []
    for name, term in (("found", best), ("by hand", cells.parse(BY_HAND))):
        parameters, accuracy = trained(term, data, options)
        rows.append([name, f"{parameters:,}", f"{accuracy:.4f}"])
    parts = [
        tuning.table(["network", "parameters", "test accuracy"], rows),
        f"Both trained from scratch for {options.final_epochs} epochs on the images of the search; "
        "by hand: a residual block of two convolutions on each resolution. Best network:",
        f"`{best.formula()}`",
    ]
    settings = tuning.settings(
        NAME,
        arguments,
        options,
        space=f"{cells.count(constrained=True):.3g} networks",
        strategy=options.strategy,
        first_trial="drawn" if options.from_scratch else "the network by hand",
        images="{} for training, {} to score, {} to test".format(*(len(x) for x, _ in data)),
        training=f"Adam, rate 0.003, batches of {options.batch_size}, {options.epochs} epochs",
        filters=options.filters,
        seed=options.seed,
    )
    title = "CIFAR-10: an architecture from a grammar"
    tuning.write(NAME, title, parts, settings, tuner.oracle, options.output, PICTURES)
    print(parts[0])
    return tuner


if __name__ == "__main__":
    main()
