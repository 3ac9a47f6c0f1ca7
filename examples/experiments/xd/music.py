"""Music and words: temporal convolutional networks and two kinds of causal XD-operations.

    python examples/experiments/xd/music.py --output small --data-dir path/of/the/data
    python examples/experiments/xd/music.py --output small --synthetic --methods undilated xd_causal
    python examples/experiments/xd/music.py --data words --output small
    python examples/experiments/xd/music.py --data nottingham --paper --output paper

What sounds in the next step of a piece is told from all steps before it, in JSB chorales or in
Nottingham's tunes; or the next word of the Penn Treebank. Methods:

- `tcn`: the network with dilations 1, 2, 4, …; `undilated`: all dilations 1, the backbone;
- `xd_causal`: every convolution of it becomes `keras_xd.layers.XDCausalConv1D`, which cannot look
  ahead whatever it learns, so that one pass over a chunk of a piece scores all its steps;
- `xd_windowed`: the XD paper's way. `keras_xd.rewrite` makes XD-operations that see all steps of
  a window, and only the last output of each window counts;
- `…_sampled`: scored in training on as many steps as the windowed search.

Both searches begin with the weights that `undilated` has after the epochs of warm-up. By default
networks are small; `--paper` takes what is not given from the paper. Finished runs are kept in the
results and not repeated.
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

import fitting
import keras
import numpy as np
import parsing
import reporting
from datasets import characters, music
from datasets.batches import Batches
from keras import ops
from parsing import positive
from reporting import count, present, select, spread
from scipy import special

import keras_xd

PAPER = {
    data: keras_xd.recipes.paper("xd", name)
    for data, name in (
        ("jsb", "jsb_chorales"),
        ("nottingham", "nottingham"),
        ("words", "penn_treebank"),
    )
}
TITLES = {**music.TITLES, "words": "words of the Penn Treebank"}
# Steps of a chunk, and how many of them are scored in another chunk.
CHUNKS = {
    "jsb": {"size": 64, "context": 24},
    "nottingham": {"size": 96, "context": 48},
    "words": {"size": 80, "context": 40},
}
PUBLISHED = {
    "jsb": "dilated TCN 8.10, undilated 8.16, its XD search 8.07",
    "nottingham": "dilated TCN 3.07",
    "words": "dilated TCN 4.485, a perplexity of 88.68",
}
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
COUNTS = ("scored_steps_per_epoch", "parameters", "architecture_parameters")


def table(runs):
    """Return the lines of a table, one for each method: mean ± standard deviation of the seeds."""
    words = bool(runs) and "perplexity" in runs[0]
    head = [
        "method",
        *["perplexity"] * words,
        "test, nats per step",
        "validation",
        "best epoch",
        "seeds",
    ]
    head += ["scored steps / epoch", "trained parameters", "of them architecture"]
    rows = []
    for method in present(runs, "method", NAMES):
        own = select(runs, method=method)
        cells = [NAMES[method], *(spread([r[key] for r in own], 3) for key in KEYS)]
        if words:
            cells.insert(1, spread([run["perplexity"] for run in own], 1))
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
    data, kernel = settings.get("task", "jsb"), settings.get("kernel_size", 2)
    paper, levels, words = PAPER[data], settings["levels"], data == "words"
    sees = 2 * (kernel - 1) * (2**levels - 1), 2 * (kernel - 1) * levels
    enough = "more than the convolutions can see"
    if settings["context"] < sees[0]:
        enough = f"the network sees {sees[0]} dilated, {sees[1]} undilated"
    scored = "cross-entropy of the next word, whose exponential is the perplexity"
    if not words:
        scored = "binary cross-entropy summed over the 88 keys"
    normalized = "with" if settings.get("weight_normalization") else "without the published"
    lines = [
        f"Network: {levels} levels, {settings['channels']} channels, kernel {kernel}, dropout "
        f"{paper['dropout']:g}, {normalized} weight normalization."
        + " Vectors of words are those of the output, too."
        * words,
        f"Weights: {paper['optimizer']}, rate {paper['learning_rate']:g}, norm of the gradient "
        f"clipped at {paper['clipnorm']:g}; architecture: Adam, rate "
        f"{paper['architecture_rate']:g}, "
        "not clipped. Rates are constant.",
        f"Search: both begin with the weights of `undilated` after {settings['warmup']} epochs, "
        "with new optimizers; depth 1, frequency bias and channel gates; all convolutions, those "
        "of size 1 too.",
        f"Batches: {settings['batch_size']} chunks of {settings['size']} steps. A step that is "
        f"scored has at least {settings['context']} steps before it in its chunk, or all there "
        f"are, {enough}." + " The published runs take one piece at a time." * (not words),
        f"Windows: {settings['window']} steps, zeros before a piece begins. An epoch has as many "
        f"updates as one of chunks, on {SHARE:g} of the steps, others each epoch. "
        "Methods named `…_sampled` score the same share in training. Validation and test are on "
        "all steps.",
        "CPU seconds are of the training steps of an epoch, without validation.",
    ]
    return reporting.markdown(
        f"{'Words' if words else 'Polyphonic music'}: TCN and two causal XD searches",
        reporting.written_by(f"`{settings['command']}`", written),
        f"Data: {settings['data']}; {', '.join(map(str, settings['pieces']))} pieces with "
        f"{', '.join(f'{n:,}' for n in settings['steps'])} scored steps for training, validation "
        f"and testing. Nats per step: {scored}, mean over all steps. "
        f"Every method has {settings['epochs']} epochs of equally many updates; the model "
        "of the epoch with the best validation is tested, a search as its finalized model.",
        table(runs),
        "Lower is better.",
        "Test pieces, in nats per step, seed by seed:",
        differences(runs),
        f"Published, as context only, since epochs and batches differ: {PUBLISHED[data]}.",
        "## Settings",
        reporting.points(lines),
    )


METHODS = tuple(NAMES)
SEARCH = {"depth": 1, "frequency_bias": True, "channel_gates": True}


class NatsPerStep(keras.losses.Loss):
    """Cross-entropy of all keys together or of the word, mean over the steps that are scored."""

    def __init__(self):
        super().__init__(reduction="mean_with_sample_weight", name="nats_per_step")

    def call(self, y_true, y_pred):
        if len(y_true.shape) < len(y_pred.shape):
            return ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        return ops.sum(ops.binary_crossentropy(y_true, y_pred, from_logits=True), axis=-1)


def nats(logits, targets):
    """Return the cross-entropy of each step, of all keys together or of the word."""
    if targets.ndim < logits.ndim:
        chosen = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
        return special.logsumexp(logits, -1) - chosen
    logits = logits.astype("float64")
    return (np.logaddexp(0, logits) - logits * targets).sum(axis=-1)


def fed(values):
    """Return values as a network takes them: words as they are, all others as float32."""
    return values if values.dtype == "int32" else values.astype("float32")


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
            entropy = nats(model.predict_on_batch(fed(self.inputs[places])), self.targets[places])
            counted = self.scored[places] & (np.arange(start, start + batch_size) < number)[:, None]
            total += float(np.sum(entropy, where=counted))
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
        return tuple(map(fed, parts))

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
    words, settings = options.data == "words", PAPER[options.data]
    network = keras_xd.models.tcn(
        (steps, options.channels if words else music.KEYS),
        music.KEYS,
        channels=options.channels,
        levels=options.levels,
        kernel_size=options.kernel_size,
        dilated=dilated,
        dropout=settings["dropout"],
        weight_normalization=options.weight_normalization,
    )
    if not words:
        return network
    features = keras.Model(network.input, network.layers[-2].output, name="tcn")
    inputs = keras.Input((steps,), dtype="int32", name="words")
    embedding = keras.layers.ReversibleEmbedding(
        options.symbols, options.channels, name="embedding"
    )
    x = keras.layers.Dropout(settings["embedding_dropout"], name="dropout")(embedding(inputs))
    return keras.Model(inputs, embedding(features(x), reverse=True))


def causal_space(model):
    """Return a search space of XD-operations that stay causal."""
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
        weights_optimizer(options),
        keras.optimizers.Adam(PAPER[options.data]["architecture_rate"]),
        loss=NatsPerStep(),
        jit_compile=False,  # on a CPU the steps of both searches are slower with XLA
    )
    return search


def weights_optimizer(options):
    """Return the paper's optimizer with the norm of the gradient of all model weights clipped."""
    settings = PAPER[options.data]
    optimizer = getattr(keras.optimizers, settings["optimizer"])
    return optimizer(settings["learning_rate"], global_clipnorm=settings["clipnorm"])


def run(method, seed, data, options):
    """Train one model; return what was measured of it."""
    kind = method.removesuffix("_sampled")
    searched, windowed = kind.startswith("xd"), kind == "xd_windowed"
    chunked = [Samples(*music.chunks(part, options.size, options.context)) for part in data]
    samples, batch_size, number = chunked, options.batch_size, None
    evaluated = batch_size if options.data == "words" else 4 * batch_size  # words have many logits
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
    fitting.compiled(model, weights_optimizer(options), loss=NatsPerStep())
    first = options.warmup if searched else options.epochs
    batches = SampleBatches(chunked[0], options.batch_size, seed, share=1.0 if windowed else share)
    log = BestEpoch(lambda model: chunked[1].nats(model, evaluated), report)
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
    test = samples[2].nats(found, batch_size if searched else evaluated)
    perplexity = {"perplexity": float(np.exp(test))} if options.data == "words" else {}
    return {
        "method": method,
        "seed": seed,
        "test": test,
        **perplexity,
        "validation": min(log.validation),
        "best_epoch": log.best,
        "parameters": count(model.trainable_variables),
        "architecture_parameters": count(architecture),
        "updates_per_epoch": len(batches),
        "scored_steps_per_epoch": batches.steps_per_epoch(),
        "cpu_seconds_per_epoch": round(statistics.median(log.seconds), 2),
    }


def paper(options):
    """Return the options of the paper."""
    settings = PAPER[options.data]
    names = ("epochs", "channels", "levels", "kernel_size")
    found = {name: settings[name] for name in names} | CHUNKS[options.data]
    found |= {
        "weight_normalization": True,
        "warmup": settings["warmup_epochs"],
        "batch_size": settings.get("batch_size", 4),
    }
    return found | {"window": settings.get("history", 40), "seeds": [0, 1, 2], "subset": None}


def small(options):
    """Return options that a search of some minutes has; of words, few."""
    few = {"weight_normalization": False, "channels": 32, "epochs": 3, "warmup": 1, "seeds": [0]}
    return paper(options) | few | {"subset": 20000 if options.data == "words" else None}


def load(options):
    """Return the pieces of each part, and how many symbols there are."""
    if options.synthetic:
        return music.synthetic(), music.KEYS
    if options.data != "words":
        parts = music.load(options.data_dir, options.data)
        return tuple(part[: options.subset] for part in parts), music.KEYS
    parts, symbols = characters.load_words(options.data_dir, 1, options.subset)
    return tuple([np.append(words, following[-1])] for words, following in parts), symbols


def parse(arguments):
    """Return the options, the data and the results with the runs that are finished already."""
    parser = reporting.parser(__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS[:4]))
    parser.add_argument("--seeds", nargs="+", type=parsing.seed)
    parsing.add(parser, positive, epochs=None)
    parsing.add(parser, parsing.whole, warmup=(None, "epochs before the searches"))
    parsing.add(parser, positive, batch_size=(None, "chunks of a batch"), size=(None, "of a chunk"))
    parsing.add(parser, positive, context=(None, "steps a chunk scores not"), window=None)
    parsing.add(parser, positive, channels=None, levels=None, kernel_size=None)
    parsing.add(parser, positive, subset=(None, "pieces or words of each part"))
    normalized = "normalize the weights, as published; a search begins with their kernels"
    parser.add_argument("--weight-normalization", action="store_true", help=normalized)
    parser.add_argument("--data-dir", help="folder of the data; KERAS_XD_DATA_DIR by default")
    parser.add_argument("--data", choices=TITLES, default="jsb")
    parser.add_argument("--synthetic", action="store_true", help="made-up pieces, to try it out")
    reporting.add_arguments(parser)
    options = parsing.with_paper(parser, arguments, paper, small)
    if options.warmup >= options.epochs:
        parser.error("--warmup must be smaller than --epochs")
    if options.context >= options.size:
        parser.error("--context must be smaller than --size")
    if options.synthetic and options.data == "words":
        parser.error("--synthetic makes music")
    with reporting.refusing(parser):
        data, options.symbols = load(options)
    settings, key = describe(options, data, arguments), ("method", "seed")
    name = "music" if options.data == "jsb" else f"music_{options.data}"
    results = reporting.open_results(parser, options, name, page, settings, key=key)
    return options, data, results


def describe(options, data, arguments):
    """Return the settings that the results depend on."""
    words = ["…" if word == options.data_dir else word for word in arguments]
    shown = ("batch_size", "size", "context", "window", "channels", "levels", "epochs", "warmup")
    return {
        "command": shlex.join(["python", "examples/experiments/xd/music.py", *words]),
        "task": options.data,
        "data": "made up" if options.synthetic else TITLES[options.data],
        "pieces": [len(part) for part in data],
        "steps": [sum(len(piece) - 1 for piece in part) for part in data],
        "kernel_size": options.kernel_size,
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
