"""JSB chorales: temporal convolutional networks and two kinds of causal XD-operations.

    python examples/experiments/xd/music.py --data-dir path/of/the/data
    python examples/experiments/xd/music.py --synthetic --methods undilated xd_causal \\
        --epochs 4 --warmup 1

The keys of the next step of a piece are told from those of all steps before it. Methods:

- `tcn`: the network with dilations 1, 2, 4; `undilated`: all dilations 1, the backbone;
- `xd_causal`: every convolution of it becomes `keras_xd.layers.XDCausalConv1D`, which cannot look
  ahead whatever it learns, so that one pass over a chunk of a piece scores all its steps;
- `xd_windowed`: the XD paper's way. `keras_xd.rewrite` makes XD-operations that see all steps of
  a window, and only the last output of each window counts;
- `…_sampled`: scored in training on as many steps as the windowed search.

Both searches begin with the weights that `undilated` has after the epochs of warm-up. Finished runs
are kept in the results and not repeated.
"""

import dataclasses
import os
import pathlib
import shlex
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # the folder examples

import keras
import numpy as np
import parsing
import reporting
from datasets import music
from datasets.batches import Batches
from keras import ops
from parsing import positive
from reporting import count, present, select, spread

import keras_xd

PAPER = keras_xd.recipes.paper("xd", "jsb_chorales")
WEIGHTS_RATE, ARCHITECTURE_RATE, CLIPPING, DROPOUT = (
    PAPER[name] for name in ("learning_rate", "architecture_rate", "clipnorm", "dropout")
)
SHARE = 0.25  # of the steps that an epoch of windows or of a sampled method scores
NAMES = {
    "tcn": "TCN, dilated",
    "undilated": "TCN, undilated",
    "xd_causal": "XD, causal by construction",
    "xd_windowed": "XD, windows",
    "undilated_sampled": "TCN, undilated, sampled steps",
    "xd_causal_sampled": "XD, causal by construction, sampled steps",
}

KEYS = ("test", "validation")
COUNTS = (
    "scored_steps_per_epoch",
    "parameters",
    "architecture_parameters",
)


def table(runs):
    """Return the lines of a table, one for each method: mean ± standard deviation of the seeds."""
    head = ["method", "test, nats per step", "validation", "best epoch", "seeds"]
    head += ["scored steps / epoch", "trained parameters", "of them architecture"]
    rows = []
    for method in present(runs, "method", NAMES):
        own = select(runs, method=method)
        cells = [NAMES[method], *(spread([r[key] for r in own], 3) for key in KEYS)]
        cells += [", ".join(str(run[key]) for run in own) for key in ("best_epoch", "seed")]
        cells += [f"{own[0][key]:,}" for key in COUNTS]
        cpu = statistics.median(run["cpu_seconds_per_epoch"] for run in own)
        rows.append([*cells, f"{cpu:.1f}"])
    return reporting.table([*head, "CPU s / epoch"], rows)


def differences(runs):
    """Return lines on how far methods are apart on the test pieces, seed by seed."""
    tests = {
        name: {run["seed"]: run["test"] for run in select(runs, method=name)} for name in NAMES
    }
    lines = []
    for method in present(runs, "method", NAMES):
        for other in ("undilated", "xd_windowed"):
            if method == other or (other == "xd_windowed" and not method.startswith("xd_causal")):
                continue
            gaps = reporting.gains(tests[method], tests[other])
            if gaps:
                lines.append(f"- `{method}` minus `{other}`: {spread(gaps, 3)}")
    return lines


def page(settings, runs, written):
    """Return the results page."""
    normalized = "with" if settings.get("weight_normalization") else "without the published"
    lines = [
        "# Polyphonic music: TCN and two causal XD searches",
        "",
        f"Written by `{settings['command']}`; {written['versions']}; "
        f"threads: {written['threads']}.",
        "",
        f"Data: {settings['data']}; {', '.join(map(str, settings['pieces']))} pieces with "
        f"{', '.join(f'{n:,}' for n in settings['steps'])} scored steps for training, validation "
        "and testing. Nats per step: binary cross-entropy summed over the 88 keys, mean over all "
        f"steps. Every method has {settings['epochs']} epochs of equally many updates; the model "
        "of the epoch with the best validation is tested, a search as its finalized model.",
        "",
        *table(runs),
        *_missing(runs),
        "Lower is better.",
        "",
        "Test pieces, in nats per step, seed by seed:",
        "",
        *differences(runs),
        "",
        "Published, as context only, since epochs and batches differ: dilated TCN 8.10, undilated "
        "8.16, its XD search 8.07.",
        "",
        "## Settings",
        "",
        f"- Network: {settings['levels']} levels, {settings['channels']} channels, kernel 2, "
        f"dropout {DROPOUT:g}, {normalized} weight normalization.",
        f"- Weights: Adam, rate {WEIGHTS_RATE:g}, norm of the gradient clipped at "
        f"{CLIPPING:g}; architecture: Adam, rate {ARCHITECTURE_RATE:g}, "
        "not clipped. Rates are constant.",
        f"- Search: both begin with the weights of `undilated` after {settings['warmup']} epochs, "
        "with new optimizers; depth 1, frequency bias and channel gates; all convolutions, those "
        "of size 1 too.",
        f"- Batches: {settings['batch_size']} chunks of {settings['size']} steps. A step that is "
        f"scored has at least {settings['context']} steps before it in its chunk, or all there "
        "are, more than the convolutions can see. The published runs take one piece at a time.",
        f"- Windows: {settings['window']} steps, zeros before a piece begins. An epoch has as many "
        f"updates as one of chunks, on {SHARE:g} of the steps, others each epoch. "
        "Methods named `…_sampled` score the same share in training. Validation and test are on "
        "all steps.",
        "- CPU seconds are of the training steps of an epoch, without validation.",
        "",
    ]
    return "\n".join(lines)


def _missing(runs):
    """Return a line with the methods that no run is there of, so that nobody expects them here."""
    names = [f"`{name}`" for name in NAMES if name not in {run["method"] for run in runs}]
    return [f"Not measured: {', '.join(names)}.", ""] if names else []


METHODS = tuple(NAMES)
SEARCH = {"depth": 1, "frequency_bias": True, "channel_gates": True}


class NatsPerStep(keras.losses.Loss):
    """Binary cross-entropy summed over the keys, mean over the steps that are scored."""

    def __init__(self):
        super().__init__(reduction="mean_with_sample_weight", name="nats_per_step")

    def call(self, y_true, y_pred):
        return ops.sum(ops.binary_crossentropy(y_true, y_pred, from_logits=True), axis=-1)


@dataclasses.dataclass(frozen=True)
class Samples:
    """Inputs, targets and which of the targets are scored, of one part of the data."""

    inputs: np.ndarray
    targets: np.ndarray
    scored: np.ndarray

    def nats(self, model, batch_size):
        """Return the loss of a model on all steps that are scored."""
        total = 0.0
        number = len(self.inputs)
        for start in range(0, number, batch_size):
            # The last batch is filled up, so that all have one size and nothing is compiled again.
            places = np.minimum(np.arange(start, start + batch_size), number - 1)
            logits = model.predict_on_batch(self.inputs[places].astype("float32"))
            logits = logits.astype("float64")
            entropy = np.logaddexp(0, logits) - logits * self.targets[places]
            counted = self.scored[places] & (np.arange(start, start + batch_size) < number)[:, None]
            total += float(np.sum(entropy.sum(axis=-1), where=counted))
        return total / int(self.scored.sum())


class SampleBatches(Batches):
    """Batches of `Samples`; those that do not fill a batch wait for another epoch."""

    def __init__(self, samples, batch_size, seed, epoch=0, steps=None, share=1.0):
        self.samples, self.share = samples, share
        self.steps = steps or len(samples.inputs) // batch_size
        super().__init__(
            samples.inputs, samples.targets, batch_size=batch_size, seed=seed, epoch=epoch
        )

    def __len__(self):
        return self.steps

    def take(self, chosen, index):
        parts = *super().take(chosen, index), self.scored[chosen]
        return tuple(part.astype("float32") for part in parts)

    def on_epoch_end(self):
        super().on_epoch_end()
        self.scored = self.samples.scored
        if self.share < 1:
            self.scored = self.scored & (self.rng.random(self.scored.shape) < self.share)

    def steps_per_epoch(self):
        """Return how many targets are scored in an epoch, on average over the orders."""
        seen = self.steps * self.batch_size / self.number
        return round(seen * self.share * int(self.samples.scored.sum()))


class BestEpoch(keras.callbacks.Callback):
    """Notes losses and CPU seconds of each epoch; keeps the weights of the best validation."""

    def __init__(self, validate, report):
        super().__init__()
        self.validate, self.report = validate, report
        self.training, self.validation, self.seconds = [], [], []
        self.best, self.weights = None, None

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.process_time()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.process_time() - self.start)
        self.training.append(round(float(logs["loss"]), 5))
        value = self.validate(self.model)
        if not self.validation or value < min(self.validation):
            self.best, self.weights = epoch + 1, self.model.get_weights()
        self.validation.append(round(value, 5))
        self.report(epoch + 1, self)


def backbone(options, steps, dilated=False):
    """Return the network of the convolutions for a number of steps."""
    return keras_xd.models.tcn(
        (steps, music.KEYS),
        music.KEYS,
        channels=options.channels,
        levels=options.levels,
        dilated=dilated,
        dropout=DROPOUT,
        weight_normalization=options.weight_normalization,
    )


def causal_space(model):
    """Return a copy of a network whose causal convolutions are XD-operations that stay causal."""
    return keras_xd.rewrite(model, to="xd", **SEARCH)


def windowed_space(model):
    """Return a search space with the network's last output, from XD-operations over all steps."""
    space = keras_xd.rewrite(model, to="xd", causal="windowed", **SEARCH)
    return keras.Model(space.inputs[0], space.outputs[0][:, -1:], name=model.name)


def make_search(kind, trained, options):
    """Return a compiled search that begins as the trained undilated network."""
    steps, rewritten = {
        "xd_causal": (options.size, causal_space),
        "xd_windowed": (options.window, windowed_space),
    }[kind]
    model = backbone(options, steps)
    model.set_weights(trained.get_weights())
    space = rewritten(model)
    search = keras_xd.SearchModel(space)
    search.compile(
        weights_optimizer(),
        keras.optimizers.Adam(ARCHITECTURE_RATE),
        loss=NatsPerStep(),
        jit_compile=False,  # on a CPU the steps of both searches are slower with XLA
    )
    return search


def weights_optimizer():
    """Return Adam with the norm of the gradient of all model weights clipped."""
    return keras.optimizers.Adam(WEIGHTS_RATE, global_clipnorm=CLIPPING)


def run(method, seed, data, options):
    """Train one model; return what was measured of it."""
    kind = method.removesuffix("_sampled")
    searched, windowed = kind.startswith("xd"), kind == "xd_windowed"
    chunked = [Samples(*music.chunks(part, options.size, options.context)) for part in data]
    samples, batch_size, number = chunked, options.batch_size, None
    updates = len(chunked[0].inputs) // batch_size
    if windowed:
        samples = [Samples(*music.windows(part, options.window)) for part in data]
        number = updates
        batch_size = max(1, round(SHARE * len(samples[0].inputs) / updates))
    share = SHARE if method != kind else 1.0

    def report(epoch, log):
        print(
            f"{method}, seed {seed}, epoch {epoch}: training {log.training[-1]:.3f}, validation "
            f"{log.validation[-1]:.3f} ({log.seconds[-1]:.1f} CPU s)",
            flush=True,
        )

    keras.utils.set_random_seed(seed)
    model = backbone(options, options.size, dilated=method == "tcn")
    model.compile(weights_optimizer(), loss=NatsPerStep())
    first = options.warmup if searched else options.epochs
    batches = SampleBatches(chunked[0], options.batch_size, seed, share=1.0 if windowed else share)
    log = BestEpoch(lambda model: chunked[1].nats(model, 4 * options.batch_size), report)
    model.fit(batches, epochs=first, callbacks=[log], verbose=0, shuffle=False)
    found, architecture = model, []
    if searched:
        model = make_search(kind, model, options)
        architecture = keras_xd.architecture_variables(model)
        batches = SampleBatches(samples[0], batch_size, seed, options.warmup, number, share)
        log = BestEpoch(lambda model: samples[1].nats(model, batch_size), report)
        model.fit(
            batches,
            initial_epoch=options.warmup,
            epochs=options.epochs,
            callbacks=[log],
            verbose=0,
            shuffle=False,
        )
    model.set_weights(log.weights)
    if searched:
        found = keras_xd.finalize(model)
    return {
        "method": method,
        "seed": seed,
        "test": samples[2].nats(found, batch_size if searched else 4 * options.batch_size),
        "validation": min(log.validation),
        "best_epoch": log.best,
        "parameters": count(model.trainable_variables),
        "architecture_parameters": count(architecture),
        "updates_per_epoch": len(batches),
        "scored_steps_per_epoch": batches.steps_per_epoch(),
        "cpu_seconds_per_epoch": round(statistics.median(log.seconds), 2),
    }


def parse(arguments):
    """Return the options, the data and the results with the runs that are finished already."""
    parser = reporting.parser(__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS[:4]))
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0, 1, 2])
    parsing.add(parser, positive, epochs=20, warmup=(5, "epochs before the searches"))
    parsing.add(parser, positive, batch_size=(4, "chunks of a batch"), size=(64, "of a chunk"))
    parsing.add(parser, positive, context=(24, "steps a chunk scores not"), window=40)
    parsing.add(parser, positive, channels=150, levels=3)
    normalized = "normalize the weights, as published; a search begins with their kernels"
    parser.add_argument("--weight-normalization", action="store_true", help=normalized)
    parser.add_argument("--data-dir", help="folder of the data; KERAS_XD_DATA_DIR by default")
    parser.add_argument("--pieces", choices=music.TITLES, default="jsb", help="the data")
    parser.add_argument("--synthetic", action="store_true", help="made-up pieces, to try it out")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    if options.warmup >= options.epochs:
        parser.error("--warmup must be smaller than --epochs")
    if options.context >= options.size:
        parser.error("--context must be smaller than --size")
    try:
        data = (
            music.synthetic() if options.synthetic else music.load(options.data_dir, options.pieces)
        )
    except ValueError as error:
        parser.error(str(error))
    settings, key = describe(options, data, arguments), ("method", "seed")
    name = "music" if options.pieces == "jsb" else f"music_{options.pieces}"
    results = reporting.open_results(parser, options, name, page, settings, key=key)
    return options, data, results


def describe(options, data, arguments):
    """Return the settings that the results depend on."""
    words = ["…" if word == options.data_dir else word for word in arguments]
    shown = ("batch_size", "size", "context", "window", "channels", "levels", "epochs", "warmup")
    return {
        "command": shlex.join(["python", "examples/experiments/xd/music.py", *words]),
        "data": "made up" if options.synthetic else music.TITLES[options.pieces],
        "pieces": [len(part) for part in data],
        "steps": [sum(len(piece) - 1 for piece in part) for part in data],
        **{name: getattr(options, name) for name in shown},
        **({"weight_normalization": True} if options.weight_normalization else {}),
    }


def main(arguments=None):
    """Do the runs that are not there yet; return the records of all."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, data, results = parse(arguments)

    def measured(method, seed):
        return run(method, seed, data, options)

    keys = [(method, seed) for seed in options.seeds for method in options.methods]
    reporting.run_all(results, keys, measured, "{method}, seed {seed}: test {test:.3f}".format_map)
    return results.runs


if __name__ == "__main__":
    main()
