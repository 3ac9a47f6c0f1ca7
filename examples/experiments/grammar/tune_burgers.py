"""Tune the search of an operation for Burgers' equation by Hyperband.

    python examples/experiments/grammar/tune_burgers.py
    python examples/experiments/grammar/tune_burgers.py --max-epochs 20 --resolution 128 \\
        --data-dir path/of/the/data

The backbone is the convolutional network of `experiments/xd/burgers.py`. `keras_tuner.Hyperband`
chooses the depth of the K-matrices, the learning rate of the architecture, the epochs of warm-up
and the mode of `SearchHyperModel`: many short searches, of which the best go on. They are scored by
their relative error on the last tenth of the training samples; the finalized best is evaluated on
test samples, beside the plain convolutional network after as many epochs.
"""

import argparse
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import keras_tuner as kt
from datasets import pde
from parsing import positive

import keras_xd
from experiments.grammar import tuning
from experiments.xd import pde_experiment
from tuner_integration import SearchHyperModel

NAME = "tune_burgers"
RATE = 1e-3


def backbone(options):
    """Return the convolutional network."""
    return keras_xd.models.fno(
        (options.resolution, 2),
        width=options.width,
        modes=options.modes,
        operation="convolution",
        padding="same",
    )


def hypermodel(options):
    """Return the hypermodel of its searches."""
    return SearchHyperModel(
        lambda hp: backbone(options),
        pde_experiment.RelativeError(lambda values: values),
        optimizer=lambda hp: keras.optimizers.Adam(RATE),
        depth=[1, 3],
        architecture_rate=(1e-4, 1e-1),
        warmup_epochs=[0, 1],
        mode=["joint", "first_order"],
        rewrite_options={"padding": "circular", "only": "convolution.*"},
        compile_options={"jit_compile": options.jit},
    )


def plain_error(train, test, options):
    """Train the backbone for as many epochs as the longest trial; return its test error."""
    keras.utils.set_random_seed(options.seed)
    model = backbone(options)
    loss = pde_experiment.RelativeError(lambda values: values)
    model.compile(keras.optimizers.Adam(RATE), loss, jit_compile=options.jit)
    model.fit(*train, batch_size=options.batch_size, epochs=options.max_epochs, verbose=0)
    return pde_experiment.mean_error(model, *test)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-epochs", type=positive, default=9)
    parser.add_argument("--factor", type=positive, default=3)
    parser.add_argument("--resolution", type=positive, default=128)
    parser.add_argument("--train", type=positive, default=500, help="training samples")
    parser.add_argument("--test", type=positive, default=100, help="test samples")
    parser.add_argument("--batch-size", type=positive, default=20)
    parser.add_argument("--width", type=positive, default=32)
    parser.add_argument("--modes", type=positive, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jit", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--data-dir", help="folder of the data; KERAS_XD_DATA_DIR by default")
    tuning.add_arguments(parser)
    options = parser.parse_args(arguments)
    tuning.check(parser, options, NAME)
    try:
        data = pde.burgers(options.resolution, options.data_dir, options.train, options.test)
    except ValueError as error:
        parser.error(str(error))
    return options, data


def main(arguments=None):
    """Tune the search and write the results; return the tuner."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, (train, test) = parse(arguments)
    border = options.train - max(1, options.train // 10)
    parts = tuple(x[:border] for x in train), tuple(x[border:] for x in train)
    model = hypermodel(options)
    keras.utils.set_random_seed(options.seed)
    tuner = kt.Hyperband(
        model,
        kt.Objective("val_loss", "min"),
        max_epochs=options.max_epochs,
        factor=options.factor,
        seed=options.seed,
        directory=options.searches,
        project_name=NAME,
        overwrite=options.overwrite,
    )
    tuner.search(
        *parts[0],
        validation_data=parts[1],
        architecture_split=0.5,
        batch_size=options.batch_size,
        verbose=0,
    )
    names = ["depth", "architecture_rate", "warmup_epochs", "mode", "tuner/epochs"]
    rows = []
    for trial in tuner.oracle.get_best_trials(5):
        values = trial.hyperparameters.values
        cells = [f"{v:.2g}" if isinstance(v, float) else v for v in map(values.get, names)]
        rows.append([*cells, "failed" if trial.score is None else f"{trial.score:.4f}"])
    found = pde_experiment.mean_error(model.finalized(tuner)[0], *test)
    plain = plain_error(parts[0], test, options)
    parts = [
        tuning.table(
            ["network", "test error"], [["search", f"{found:.4f}"], ["convolution", f"{plain:.4f}"]]
        ),
        f"Relative L2 error on {options.test} test samples: of the finalized best search, and of "
        f"the convolutional backbone after {options.max_epochs} epochs. The best trials, scored by "
        "the sum of the errors of a batch of validation samples:",
        tuning.table(["depth", "rate", "warm-up", "mode", "epochs", "score"], rows),
    ]
    settings = tuning.settings(
        NAME,
        arguments,
        options,
        samples=f"{border} for training, {options.train - border} to score, {options.test} to test",
        resolution=options.resolution,
        tuner=f"Hyperband, at most {options.max_epochs} epochs, factor {options.factor}",
        weights=f"Adam, rate {RATE:g}, batches of {options.batch_size}",
        network=f"4 blocks, width {options.width}, modes {options.modes}",
        seed=options.seed,
    )
    title = "Burgers' equation: a search whose settings are tuned"
    tuning.write(NAME, title, parts, settings, tuner.oracle, options.output)
    print(parts[0])
    return tuner


if __name__ == "__main__":
    main()
