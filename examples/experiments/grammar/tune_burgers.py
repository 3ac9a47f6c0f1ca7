"""Tune the search of an operation for Burgers' equation by Hyperband.

    python examples/experiments/grammar/tune_burgers.py

The backbone is the convolutional network of `experiments/xd/burgers.py`. `keras_tuner.Hyperband`
chooses the depth of the K-matrices, the learning rates of weights and architecture, the epochs of
warm-up and the mode of `SearchHyperModel`: many short searches, of which the best go on. Another
Hyperband with as many trials chooses the rate of the plain convolutional network. All are scored by
their relative error on the last tenth of the training samples. The best trials of both are trained
again with several seeds and, finalized, evaluated on test samples.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import fitting
import keras
import keras_tuner as kt
import parsing
import reporting
from datasets import pde
from parsing import positive
from reporting import plural, spread

import keras_xd
from experiments.grammar import tuning
from experiments.xd import pde_experiment
from tuner_integration import SearchHyperModel

NAME = "tune_burgers"
RATES = (3e-4, 3e-2)


def backbone(options):
    """Return the convolutional network."""
    return keras_xd.models.fno(
        (options.resolution, 2),
        width=options.width,
        modes=options.modes,
        operation="convolution",
        padding="same",
    )


def optimizer(hp):
    """Return the optimizer of the weights, of both networks."""
    return keras.optimizers.Adam(hp.Float("rate", *RATES, sampling="log", default=1e-3))


def loss():
    """Return the relative error, summed over a batch."""
    return keras_xd.losses.RelativeL2(reduction="sum")


class Plain(kt.HyperModel):
    """The backbone without a search."""

    def __init__(self, options):
        super().__init__()
        self.options = options

    def build(self, hp):
        model = backbone(self.options)
        return fitting.compiled(model, optimizer(hp), loss=loss(), jit_compile=False)

    def fit(self, hp, model, *arguments, architecture_validation_split=None, **options):
        return model.fit(*arguments, **options)


def hypermodels(options):
    """Return the hypermodels of the searches and of the plain network."""
    search = SearchHyperModel(
        lambda hp: backbone(options),
        loss(),
        optimizer=optimizer,
        depth=[1, 3],
        architecture_rate=(1e-4, 1e-1),
        warmup_epochs=[0, 1],
        mode=["joint", "first_order"],
        rewrite_options={"padding": "circular", "only": "convolution.*"},
        compile_options={"jit_compile": False},
    )
    return {"search": search, "convolution": Plain(options)}


def tuned(hypermodel, name, parts, options):
    """Tune a hypermodel by Hyperband; return the tuner."""
    keras.utils.set_random_seed(options.seed)
    tuner = kt.Hyperband(
        hypermodel,
        kt.Objective("val_loss", "min"),
        max_epochs=options.max_epochs,
        factor=options.factor,
        seed=options.seed,
        directory=options.searches,
        project_name=name,
        overwrite=options.overwrite,
    )
    tuner.search(
        *parts[0],
        validation_data=parts[1],
        architecture_validation_split=0.5,
        batch_size=options.batch_size,
        verbose=0,
    )
    return tuner


def trained(hypermodel, values, seed, parts, test, options):
    """Train from scratch with the values of a trial; return its errors."""
    keras.utils.set_random_seed(100 + seed)
    hp = kt.HyperParameters()
    hp.values = dict(values)
    model = hypermodel.build(hp)
    hypermodel.fit(
        hp,
        model,
        *parts[0],
        architecture_validation_split=0.5,
        batch_size=options.batch_size,
        epochs=options.max_epochs,
        verbose=0,
    )
    plain = keras_xd.finalize(model) if isinstance(model, keras_xd.SearchModel) else model
    return {
        "score": pde_experiment.mean_error(plain, *parts[1]),
        "test_error": pde_experiment.mean_error(plain, *test),
    }


def parse(arguments):
    parser = reporting.parser(__doc__)
    parsing.add(parser, positive, max_epochs=9, factor=3, resolution=128, train=500, test=100)
    parsing.add(parser, positive, batch_size=20, width=32, modes=16, seeds=(5, "to compare by"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data-dir", help="folder of the data; KERAS_XD_DATA_DIR by default")
    tuning.add_arguments(parser)
    options = parser.parse_args(arguments)
    tuning.check(parser, options, NAME)
    with reporting.refusing(parser):
        data = pde.burgers(options.resolution, options.data_dir, options.train, options.test)
    return options, data


def comparison(best, runs, oracle, options):
    """Return the parts of the page that compare the networks, and the best trials."""
    rows = [
        [name, f"{best[name]['rate']:.2g}"]
        + [spread([run[error] for run in of_seeds], 4) for error in ("score", "test_error")]
        for name, of_seeds in runs.items()
    ]
    pairs = zip(runs["search"], runs["convolution"], strict=True)
    ratios = [found["test_error"] / plain["test_error"] for found, plain in pairs]
    names = ["depth", "rate", "architecture_rate", "warmup_epochs", "mode", "tuner/epochs"]
    trials = []
    for trial in oracle.get_best_trials(5):
        values = trial.hyperparameters.values
        cells = [f"{v:.2g}" if isinstance(v, float) else v for v in map(values.get, names)]
        trials.append([*cells, "failed" if trial.score is None else f"{trial.score:.4f}"])
    return [
        tuning.table(["network", "rate", "validation error", "test error"], rows),
        "Relative L2 error of the finalized search and of the convolutional backbone, both tuned "
        f"by a Hyperband of {plural(len(oracle.trials), 'trial')}. The {options.finalists} best "
        f"trials of each were trained from scratch for {options.max_epochs} epochs with "
        f"{plural(options.seeds, 'seed')}, mean ± standard deviation; in the table is the one of "
        "these with the lowest mean validation error.",
        f"The test error of the search is {spread(ratios, 3)} of that of the convolution, seed by "
        "seed. The best trials, scored by the sum of the errors of a batch of validation samples:",
        tuning.table(
            ["depth", "rate", "architecture's", "warm-up", "mode", "epochs", "score"], trials
        ),
    ]


def main(arguments=None):
    """Tune the search and the plain network and write the results; return the search's tuner."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, (train, test) = parse(arguments)
    border = options.train - max(1, options.train // 10)
    parts = tuple(x[:border] for x in train), tuple(x[border:] for x in train)
    tuners, best, runs = {}, {}, {}
    for name, hypermodel in hypermodels(options).items():
        project = NAME if name == "search" else f"{NAME}_{name}"
        tuners[name] = tuned(hypermodel, project, parts, options)

        def train_again(values, seed, hypermodel=hypermodel):
            return trained(hypermodel, values, seed, parts, test, options)

        best[name], runs[name] = tuning.best_again(
            tuners[name], options.finalists, options.seeds, train_again
        )
    tuner = tuners["search"]
    settings = tuning.settings(
        NAME,
        arguments,
        options,
        samples=f"{border} for training, {options.train - border} to score, {options.test} to test",
        resolution=options.resolution,
        tuner=f"Hyperband, at most {options.max_epochs} epochs, factor {options.factor}",
        weights=f"Adam, rate from {RATES[0]:g} to {RATES[1]:g}, batches of {options.batch_size}",
        network=f"4 blocks, width {options.width}, modes {options.modes}",
        seed=options.seed,
    )
    title = "Burgers' equation: a search whose settings are tuned"
    parts = comparison(best, runs, tuner.oracle, options)
    return tuning.write(NAME, title, parts, settings, tuner, options.output, best["search"], runs)


if __name__ == "__main__":
    main()
