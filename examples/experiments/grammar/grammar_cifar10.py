"""Search the architecture of a small network for CIFAR-10 by Bayesian optimisation over a grammar.

    python examples/experiments/grammar/grammar_cifar10.py

Networks are terms of the grammar below. Every trial trains one for a few epochs on a few images,
with a learning rate that is searched too, and is scored by its accuracy on others. First the rate
of a network that was written by hand is searched, in as many trials; at its best rate that is the
first trial of the search of networks. The best trials of both searches are then trained from
scratch with several seeds, and what is best on the images that score is evaluated on test images.
"""

import os
import pathlib
import statistics
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import fitting
import keras
import keras_tuner as kt
import parsing
import reporting
from datasets import images
from parsing import positive
from reporting import plural, spread

from experiments.grammar import tuning
from keras_xd import grammar
from keras_xd.grammar import primitives

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
# The grammar of one term, which builds the same network.
HAND_SPACE = """
NET   -> Linear3 BLOCK resBlock BLOCK
BLOCK -> Residual2 OP id OP
OP    -> Linear1 CONVBLOCK
CONVBLOCK -> Linear3 ACT CONV NORM
ACT   -> relu
CONV  -> conv3x3o
NORM  -> batch
"""
RATES = (1e-3, 3e-2)


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
    return fitting.compiled(
        model, keras.optimizers.Adam(rate), loss=loss, metrics=[fitting.accuracy_metric()]
    )


def trained(values, seed, data, options):
    """Train from scratch with the values of a trial; return parameters and accuracies."""
    train, validation, test = data
    keras.utils.set_random_seed(100 + seed)
    model = network(grammar.parse(values["network"]), options.filters, rate=values["rate"])
    model.fit(*train, batch_size=options.batch_size, epochs=options.final_epochs, verbose=0)
    score, accuracy = (
        model.evaluate(*part, batch_size=250, verbose=0)[1] for part in (validation, test)
    )
    return {
        "score": float(score),
        "test_accuracy": float(accuracy),
        "parameters": model.count_params(),
    }


def searched(networks, name, initial_terms, data, options):
    """Search a network of a grammar and its learning rate; return the tuner."""
    return tuning.searched(
        name,
        {"network": networks},
        kt.Objective("val_accuracy", "max"),
        network,
        RATES,
        data,
        options,
        seed_of_trial=lambda number: number + 1,
        initial_terms=initial_terms,
    )


def parse(arguments):
    parser = reporting.parser(__doc__)
    parsing.add(parser, positive, images=(2000, "of each split"), final_epochs=10)
    parsing.add_data_folder(parser)
    defaults = {"trials": 40, "epochs": 5, "seeds": 5, "batch_size": 64, "filters": 8}
    tuning.add_search_arguments(parser, **defaults)
    options = parser.parse_args(arguments)
    tuning.check(parser, options, NAME)
    with reporting.refusing(parser):
        return options, images.load("cifar10", options.data_dir, options.images)


def mean_score(runs):
    return statistics.mean(run["score"] for run in runs)


def comparison(best, runs, data, options):
    """Return the parts of the page that compare the networks."""
    columns = tuning.columns(runs)
    rows = [
        [name, f"{column['parameters'][0]:,}", f"{best[name]['rate']:.2g}"]
        + [spread(column[figure], 4) for figure in ("score", "test_accuracy")]
        for name, column in columns.items()
    ]
    gains = tuning.differences("found", columns, len(data[2][0]))
    head = ["network", "parameters", "rate", "validation accuracy", "test accuracy"]
    return [
        tuning.table(head, rows),
        "By hand: a residual block of two convolutions on each resolution; its rate was searched "
        f"in {plural(options.trials, 'trial')}. The {options.finalists} best trials of that search "
        "and of the search of networks were trained from scratch for "
        f"{options.final_epochs} epochs with {plural(options.seeds, 'seed')}, mean ± standard "
        "deviation. Found is the one of all these with the highest mean validation accuracy.",
        f"The found network has {gains}. It is",
        f"`{grammar.parse(best['found']['network']).formula()}`",
    ]


def main(arguments=None):
    """Run the searches and write their results; return the tuner of the networks."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, data = parse(arguments)
    networks = space()

    def again(tuner):
        def train(values, seed):
            return trained(values, seed, data, options)

        return tuning.best_again(tuner, options.finalists, options.seeds, train)

    hand = searched(grammar.Grammar(HAND_SPACE), f"{NAME}_by_hand", [], data, options)
    best, runs = {}, {}
    best["by hand"], runs["by hand"] = again(hand)
    first = {**best["by hand"], "network": BY_HAND}
    tuner = searched(networks, NAME, [first], data, options)
    best["found"], runs["found"] = again(tuner)
    if mean_score(runs["found"]) < mean_score(runs["by hand"]):
        best["found"], runs["found"] = best["by hand"], runs["by hand"]
    parts = comparison(best, runs, data, options)
    settings = tuning.settings(
        NAME,
        arguments,
        options,
        space=f"{networks.count(constrained=True):.3g} networks",
        strategy=options.strategy,
        first_trial="the network by hand at its best rate",
        images="{} for training, {} to score, {} to test".format(*(len(x) for x, _ in data)),
        training=f"Adam, rate from {RATES[0]:g} to {RATES[1]:g}, batches of {options.batch_size}, "
        f"{options.epochs} epochs",
        filters=options.filters,
        seed=options.seed,
    )
    title = "CIFAR-10: an architecture from a grammar"
    return tuning.write(NAME, title, parts, settings, tuner, options.output, best["found"], runs)


if __name__ == "__main__":
    main()
