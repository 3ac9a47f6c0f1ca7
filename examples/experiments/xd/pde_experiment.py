"""Train a CNN, a Fourier neural operator and an XD search on one equation, and write the results.

`burgers.py`, `darcy.py` and `navier_stokes.py` say which equation and with which settings: few
samples and epochs, or with `--paper` those of the paper where no others are given. All methods get
the same data, epochs, batches and schedule. The loss is the relative L2 error, summed over the
batch. Weights are trained by Adam, the architecture by an optimizer of its own on the same batches.
The reported errors of the search are those of its finalized model.

`--recipe` says how. "paper": as the XD paper; the search starts as the CNN, a decay of 1e-4 of
weights and architecture is added to the gradient, and rates are halved each fifth of the epochs.
"operator": the search starts as the Fourier neural operator, nothing decays, rates fall along a
cosine, each batch is drawn anew from the equation's symmetries, and for Burgers' equation the
networks have no batch normalization. Further recipes change one part of the latter.

`--also-at` evaluates the networks at other sizes, too, after each of the last epochs: a copy made
by `keras_xd.resize`, which is not trained there. What normalizes each point of Darcy flow is
interpolated between the points. With `--resume` several processes may share the
work, each with some `--methods`: a page names them all.
"""

import dataclasses
import functools
import itertools
import json
import os
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import fitting
import keras
import numpy as np
import parsing
import reporting
from datasets.batches import Batches
from keras import ops
from parsing import positive
from reporting import select, spread

import keras_xd

METHODS = ("CNN", "FNO", "XD")
LAST = 10  # epochs that the second error is a mean of
COMMON = ("data", "samples", "batch_size", "network")  # settings of all runs of a page


def table(problem, records):
    """Return the lines of a table, one for each budget and method: means over the seeds."""
    head = ["size", "recipe", "epochs", "method", "seeds", "error", f"mean of last {LAST}"]
    head += ["lowest to highest of these", "published", "parameters", "architecture's rate"]
    rows = []
    for resolution, epochs, recipe in _budgets(records):
        published = problem.published.get(resolution, ["–"] * len(METHODS))
        for method, reference in zip(METHODS, published, strict=True):
            found = select(
                records, resolution=resolution, epochs=epochs, recipe=recipe, method=method
            )
            if found:
                rows.append(_row(resolution, found, reference))
                rows += [_row_elsewhere(size, found) for size in found[0].get("elsewhere", {})]
    return reporting.table([*head, "s / epoch"], rows)


def _row(resolution, found, reference):
    """The cells of one method and budget."""
    ends, means = ([record[key] for record in found] for key in ("error", "mean_of_last"))
    rate = found[0]["architecture_rate"]
    seconds = statistics.median(record["seconds_per_epoch"] for record in found)
    return [
        *_errors(resolution, found, ends, means, [record["errors"][-LAST:] for record in found]),
        reference,
        f"{found[0]['parameters']:,}",
        "–" if rate is None else f"{rate:g}",
        f"{seconds:.1f}",
    ]


def _row_elsewhere(size, found):
    """The cells of the same networks at another size."""
    errors = [record["elsewhere"][size] for record in found]
    ends, means = [one[-1] for one in errors], [statistics.mean(one) for one in errors]
    where = f"{size}, trained at {found[0]['resolution']}"
    return [*_errors(where, found, ends, means, errors), *["–"] * 4]


def _errors(size, found, ends, means, last):
    """The cells of what was trained, and of its errors: at the end, and the last ones."""
    last = [error for one in last for error in one]
    cells = [size, found[0]["recipe"], found[0]["epochs"], found[0]["method"], len(found)]
    return [*cells, spread(ends, 4), spread(means, 4), f"{min(last):.4f} to {max(last):.4f}"]


def _budgets(records):
    """The resolutions, epochs and recipes of records, those of the paper first."""
    found = {(record["resolution"], record["epochs"], record["recipe"]) for record in records}
    return sorted(found, key=lambda budget: (*budget[:2], budget[2] != "paper", budget[2]))


def page(problem, settings, records, written):
    """Return the results page."""
    return reporting.markdown(
        f"{problem.name.replace('_', '–').title()}: relative L2 error of CNN, FNO and XD",
        f"`{settings['command']}` wrote this page.",
        table(problem, records),
        f"Error on the test samples after the last epoch, and mean of those "
        f"after each of the last {LAST}; mean ± standard deviation over the seeds. XD is evaluated "
        "as its finalized model. All methods of a size, a recipe and a number of epochs have the "
        "same batches and the same schedule. The published figures are those of the XD paper after "
        "500 epochs on other data: compare methods with each other. Seconds are the median of the "
        "epochs' training by the clock on the wall.",
        reporting.points(
            f"recipe `{name}`: {problem.recipes[name].words()}"
            for name in reporting.present(records, "recipe", problem.recipes)
        ),
        reporting.points(f"{key.replace('_', ' ')}: {v}" for key, v in settings.items()),
    )


HALVINGS = 5
OPTIMIZERS = {"adam": "Adam", "sgd": "SGD with momentum 0.5"}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How the networks of one equation are trained."""

    architecture: str
    rate: float
    start: str = "convolution"
    decay: float = 1e-4
    cosine: bool = False
    symmetries: bool = False
    normalization: str | None = "batch"
    weights_rate: float = keras_xd.recipes.paper("xd", "burgers")["learning_rate"]

    def words(self):
        """Return what a page says of the recipe."""
        start = {"convolution": "the CNN", "fourier_operator": "a Fourier neural operator"}
        fall = "fall to zero along a cosine" if self.cosine else f"are halved {HALVINGS - 1} times"
        drawn = "of the equation's symmetries, anew each time" if self.symmetries else "as they are"
        decay = f"a decay of {self.decay:g} is added to the gradient" if self.decay else "no decay"
        layers = "" if self.normalization else "no batch normalization; "
        return (
            f"the search starts as {start[self.start]}; architecture by "
            f"{OPTIMIZERS[self.architecture]}, rate {self.rate:g}; rates {fall}; {decay}; "
            f"{layers}samples {drawn}"
        )


OPERATOR = Recipe("adam", 1e-3, "fourier_operator", 0.0, True, True)


def paper_recipe(experiment):
    """Return the recipe of an experiment of the paper."""
    settings = keras_xd.recipes.paper("xd", experiment)
    names = ("architecture_optimizer", "architecture_rate", "weight_decay", "learning_rate")
    optimizer, rate, decay, weights_rate = (settings[name] for name in names)
    return Recipe(optimizer.lower(), rate, decay=decay, weights_rate=weights_rate)


def paper_options(experiment, **more):
    """Return the options of an experiment of the paper, one network for all of its sizes."""
    settings = keras_xd.recipes.paper("xd", experiment)
    train, test = settings["samples"]
    size, *sizes = settings["sizes"]
    found = {name: settings[name] for name in ("width", "batch_size")}
    found |= {"resolution": [size], "also_at": sizes, "train": train, "test": test}
    return found | {"epochs": [settings["epochs"]], "modes": [settings["kernel_size"] - 1], **more}


def recipes(problem, operator):
    """Return the recipes by their names: that of the paper, another, and parts of it changed."""
    paper = paper_recipe(problem)
    changed = "no-normalization" if operator.normalization else "batch-normalization"
    normalization = None if operator.normalization else "batch"
    return {
        "paper": paper,
        "operator": operator,
        "from-convolution": dataclasses.replace(operator, start="convolution"),
        "no-symmetries": dataclasses.replace(operator, symmetries=False),
        changed: dataclasses.replace(operator, normalization=normalization),
    }


@dataclasses.dataclass(frozen=True)
class Problem:
    """What differs between the equations."""

    name: str
    load: object
    resolutions: tuple
    epochs: int
    width: int
    modes: int
    recipes: dict
    symmetry: object
    orbit: object
    normalize: bool
    jit_compile: bool
    published: dict
    paper: object  # from the options to those of the paper
    samples: tuple = (200, 100)  # to train and to evaluate on
    flags: dict = dataclasses.field(default_factory=dict)  # of the data, with what argparse takes
    between: object = None  # how what normalizes each point is had at other sizes


class AddedDecay:
    """Adds `decay` times each weight to its gradient; Keras' `weight_decay` acts on the weight."""

    def __init__(self, learning_rate, decay, **kwargs):
        super().__init__(learning_rate, **kwargs)
        self.decay = decay

    def update_step(self, gradient, variable, learning_rate):
        gradient = gradient + self.decay * ops.cast(variable, gradient.dtype)
        super().update_step(gradient, variable, learning_rate)

    def get_config(self):
        return {**super().get_config(), "decay": self.decay}


class Adam(AddedDecay, keras.optimizers.Adam):
    """Adam with the decay in its gradient."""


class SGD(AddedDecay, keras.optimizers.SGD):
    """Gradient descent with the decay in its gradient."""


class SymmetricBatches(Batches):
    """Batches of samples by random symmetries, which follow from seed, epoch and batch."""

    def __init__(self, symmetry, *arrays, **options):
        super().__init__(*arrays, **options)
        self.symmetry = symmetry

    def take(self, chosen, index):
        rng = np.random.default_rng((self.seed, self.epoch, index))
        return self.symmetry(*super().take(chosen, index), rng)


class ErrorPerEpoch(keras.callbacks.Callback):
    """Notes the error on the evaluation samples and the seconds of each epoch's training."""

    def __init__(self, error, report):
        super().__init__()
        self.error, self.report = error, report
        self.errors, self.seconds = [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.start)
        self.errors.append(self.error(self.model))
        self.report(epoch + 1, self.errors[-1], self.seconds[-1])


class ErrorsElsewhere(keras.callbacks.Callback):
    """Notes the errors of a network at other sizes after each of the last epochs.

    Of each size there are inputs and outputs, and what decodes the answers, or `None`.
    """

    def __init__(self, network, samples):
        super().__init__()
        self.network, self.resized = network, {}
        self.samples, self.errors = samples, {size: [] for size in samples}

    def on_epoch_end(self, epoch, logs=None):
        if epoch >= self.params["epochs"] - LAST:
            for size, (inputs, outputs, decoding) in self.samples.items():
                if size not in self.resized:  # made once, as tracing it takes longer than the rest
                    copy = keras_xd.resize(self.network, inputs.shape[1:])
                    self.resized[size] = copy, decoded(copy, decoding)
                copy, model = self.resized[size]
                copy.set_weights(self.network.get_weights())
                self.errors[size].append(mean_error(model, inputs, outputs))


def mean_error(model, inputs, outputs):
    """Return the relative L2 error of a model, the mean over the samples."""
    predicted = model.predict(inputs, batch_size=100, verbose=0)
    return float(keras_xd.losses.RelativeL2()(outputs, predicted))


def make_model(method, input_shape, options, start="convolution", normalization="batch"):
    """Return the network of a method; that of XD computes what its start does."""
    arguments = {
        "width": options.width,
        "modes": options.modes[0] if len(options.modes) == 1 else tuple(options.modes),
        "normalization": normalization,
    }
    if method == "XD" and start == "fourier_operator":
        return keras_xd.models.fno(input_shape, operation="xd", **arguments)
    if method == "FNO":
        return keras_xd.models.fno(input_shape, **arguments)
    if method == "CNN":
        return keras_xd.models.fno(input_shape, operation="convolution", **arguments)
    backbone = keras_xd.models.fno(
        input_shape, operation="convolution", padding="same", **arguments
    )
    options = {"depth": 1, "padding": "circular", "frequency_bias": False, "channel_gates": False}
    return keras_xd.rewrite(backbone, to="xd", only="convolution.*", **options)


def decoded(network, decoding):
    """Return the network whose answers are decoded, where there is something that decodes."""
    if decoding is None:
        return network
    return keras.Model(network.input, decoding(network.output))


def normalizations(inputs, outputs, orbit=None):
    """Return the layers that normalize functions and decode a network's answers.

    Statistics are those of the training samples at each point, `inputs` and `outputs`, and of what
    `orbit` makes of them: with all symmetries, normalized samples have them, too. The last channels
    of the inputs are coordinates, as many as axes, and are not normalized.
    """
    channels = inputs.shape[-1] - (inputs.ndim - 2)
    if orbit is not None:
        inputs, outputs = orbit(inputs), orbit(outputs)
    encoding = keras_xd.layers.PointNormalization(channels=channels)
    encoding.adapt(inputs)
    decoding = keras_xd.layers.PointNormalization(invert=True, name="decoding")
    decoding.adapt(outputs)
    return encoding, decoding


def at_other_size(layer, shape, between):
    """Return a layer for functions of another shape, whose statistics are had between points."""
    new = type(layer).from_config(layer.get_config())
    new.build((None, *shape))
    for name in ("mean", "deviation"):
        values = between(ops.convert_to_numpy(getattr(layer, name)), shape[:-1])
        getattr(new, name).assign(values)
    return new


def optimizers(recipe, steps_per_epoch, epochs):
    """Return the optimizers of the weights and of the architecture."""
    interval = steps_per_epoch * max(1, round(epochs / HALVINGS))

    def schedule(rate):
        if recipe.cosine:
            return keras.optimizers.schedules.CosineDecay(rate, steps_per_epoch * epochs)
        return keras.optimizers.schedules.ExponentialDecay(rate, interval, 0.5, staircase=True)

    rate = schedule(recipe.rate)
    if recipe.architecture == "adam":
        architecture = Adam(rate, recipe.decay, epsilon=1e-8)
    else:
        architecture = SGD(rate, recipe.decay, momentum=0.5)
    return Adam(schedule(recipe.weights_rate), recipe.decay, epsilon=1e-8), architecture


def run(method, problem, data, epochs, seed, options, elsewhere=()):
    """Train one network; return what was measured of it."""
    (inputs, outputs), (test_inputs, test_outputs) = data
    recipe, decoding = chosen_recipe(problem, options), None
    others = {size: (*pair, None) for size, pair in dict(elsewhere).items()}
    if problem.normalize:
        orbit = problem.orbit if recipe.symmetries else None
        encoding, decoding = normalizations(inputs, outputs, orbit)
        inputs, test_inputs = (ops.convert_to_numpy(encoding(x)) for x in (inputs, test_inputs))
        for size, (x, y, _) in others.items():
            encoder, decoder = (
                at_other_size(layer, values.shape[1:], problem.between)
                for layer, values in ((encoding, x), (decoding, y))
            )
            others[size] = ops.convert_to_numpy(encoder(x)), y, decoder

    def error(model):
        return mean_error(model, test_inputs, test_outputs)

    def report(epoch, value, seconds):
        if epoch % max(1, epochs // 20) == 0:
            size = inputs.shape[1]
            print(f"{method}, size {size}, seed {seed}, epoch {epoch}: {value:.4f}", end=" ")
            print(f"({seconds:.1f} s / epoch)", flush=True)

    keras.utils.set_random_seed(seed)
    network = make_model(method, inputs.shape[1:], options, recipe.start, recipe.normalization)
    model = decoded(network, decoding)
    drawn = functools.partial(SymmetricBatches, problem.symmetry) if recipe.symmetries else Batches
    batches = drawn(inputs, outputs, batch_size=options.batch_size, seed=seed)
    pair = optimizers(recipe, len(batches), epochs)[: 2 if method == "XD" else 1]
    loss = keras_xd.losses.RelativeL2(reduction="sum")
    model = fitting.compiled(model, *pair, loss=loss, jit_compile=problem.jit_compile)
    log = ErrorPerEpoch(error, report)
    others = ErrorsElsewhere(network, others)
    model.fit(batches, epochs=epochs, verbose=0, shuffle=False, callbacks=[log, others])
    final = keras_xd.finalize(model) if method == "XD" else model
    record = {
        "method": method,
        "resolution": int(inputs.shape[1]),
        "seed": seed,
        "epochs": epochs,
        "parameters": reporting.count(model.trainable_variables),
        "error": error(final),
        "errors": [round(value, 6) for value in log.errors],
        "mean_of_last": statistics.mean(log.errors[-LAST:]),
        "seconds_per_epoch": statistics.median(log.seconds),  # the first includes the tracing
        "jit_compile": problem.jit_compile,
        "architecture_rate": recipe.rate if method == "XD" else None,
        "recipe": options.recipe,
        "elsewhere": {str(size): errors for size, errors in others.errors.items()},
    }
    if abs(record["error"] - log.errors[-1]) > 1e-3 * log.errors[-1]:
        raise RuntimeError(
            f"The finalized {method} has the error {record['error']}, not {log.errors[-1]}."
        )
    return record


def chosen_recipe(problem, options):
    """Return the recipe of the options, with the architecture's rate where that is given."""
    recipe = problem.recipes[options.recipe]
    rate = options.architecture_rate
    return recipe if rate is None else dataclasses.replace(recipe, rate=rate)


def describe(problem, options, arguments):
    """Return the settings that the results depend on."""
    words = ["…" if word == options.data_dir else word for word in arguments]
    folder = options.data_dir or os.environ.get("KERAS_XD_DATA_DIR")
    variable = "KERAS_XD_DATA_DIR=… " if folder and not options.data_dir else ""
    script = f"examples/experiments/xd/{problem.name}.py"
    data = ["read from the data folder" if folder else "generated"]
    flags = {name: getattr(options, name) for name in problem.flags}
    data += [f"{name} {value}" for name, value in flags.items() if value is not None]
    return {
        "command": f"{variable}{' '.join(['python', script, *words])}",
        "data": ", ".join(data),
        "samples": f"{options.train} for training, {options.test} for evaluation",
        "batch_size": options.batch_size,
        "network": f"4 blocks, width {options.width}, modes {', '.join(map(str, options.modes))}; "
        "kernels of the CNN one larger, circular",
        "weights": f"Adam, rate {problem.recipes[options.recipe].weights_rate:g}",
        "operations": "depth 1, no bias of the spectrum, no gates",
        "normalization": "of each point, function and solution" if problem.normalize else "none",
        "versions": reporting.versions(),
        "threads": reporting.threads(),
    }


def parse(problem, arguments):
    """Return the options and, for each resolution, the data."""
    parser = reporting.parser(__doc__)
    several = {"type": positive, "nargs": "+"}
    parser.add_argument("--resolution", default=list(problem.resolutions), **several)
    parser.add_argument(
        "--epochs", default=[problem.epochs], help="one, or of each size", **several
    )
    parser.add_argument("--also-at", default=[], metavar="SIZE", **several)
    methods = METHODS
    parser.add_argument("--methods", choices=methods, nargs="+", default=list(methods))
    parser.add_argument("--data-dir", help="folder of the data; KERAS_XD_DATA_DIR by default")
    train, test = problem.samples
    parsing.add(parser, positive, seeds=(1, "number of repetitions"), train=train, test=test)
    parsing.add(parser, positive, batch_size=20, width=problem.width)
    parser.add_argument("--modes", default=[problem.modes], help="one, or of each axis", **several)
    for name, keywords in problem.flags.items():
        parser.add_argument(f"--{name}", **keywords)
    parser.add_argument("--recipe", choices=problem.recipes, default=next(iter(problem.recipes)))
    parsing.add(parser, parsing.rate, architecture_rate=(None, "instead of that of the recipe"))
    reporting.add_arguments(parser, resume=True)
    options = parsing.with_paper(parser, arguments, problem.paper)
    if len(options.epochs) == 1:
        options.epochs *= len(options.resolution)
    if options.also_at and problem.normalize and problem.between is None:
        parser.error("--also-at: networks that normalize each point work at one size only")
    if len(options.epochs) != len(options.resolution):
        parser.error("--epochs must have one number, or as many as --resolution")
    paths = [options.output / f"{problem.name}.{ending}" for ending in reporting.ENDINGS]
    reporting.check_output(parser, options, paths, options.output / f"{problem.name}.json")
    if options.resume:
        kept = json.loads(paths[-1].read_text(encoding="utf-8"))["settings"]
        own = describe(problem, options, arguments)
        others = [name for name in COMMON if kept[name] != own[name]]
        if others:
            parser.error(f"--resume: the results have other settings: {', '.join(others)}")
    with reporting.refusing(parser):
        return options, [_load(problem, size, options) for size in options.resolution]


def _load(problem, resolution, options):
    """Return the samples to train and to evaluate on."""
    flags = {name: getattr(options, name) for name in problem.flags}
    return problem.load(resolution, options.data_dir, options.train, options.test, **flags)


def main(problem, arguments=None):
    """Run the experiment; return the records of all runs."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, every_data = parse(problem, arguments)
    results = reporting.Results(
        problem.name,
        functools.partial(page, problem),
        options.output,
        describe(problem, options, arguments),
        overwrite=options.overwrite,
        key=("resolution", "epochs", "recipe", "seed", "method"),
        joined=True,
    )
    elsewhere = {size: _load(problem, size, options)[1] for size in options.also_at}
    data = dict(zip(options.resolution, every_data, strict=True))

    def measured(size, epochs, recipe, seed, method):
        return run(method, problem, data[size], epochs, seed, options, elsewhere)

    keys = [
        (size, epochs, options.recipe, seed, method)
        for size, epochs in zip(options.resolution, options.epochs, strict=True)
        for seed, method in itertools.product(range(options.seeds), options.methods)
    ]
    line = "{method}, size {resolution}, seed {seed}: {error:.4f}".format_map
    return reporting.run_all(results, keys, measured, line).runs
