"""JSB chorales: temporal convolutional networks and two kinds of causal XD-operations.

    python examples/experiments/xd/music.py --data-dir path/of/the/data
    python examples/experiments/xd/music.py --synthetic --methods undilated xd_causal \\
        --epochs 4 --warmup 1

The keys of the next step of a piece are told from those of all steps before it. Methods:

- `tcn`: the network with dilations 1, 2, 4;
- `undilated`: all dilations 1, the backbone of the search;
- `xd_causal`: every convolution of it becomes `keras_xd.layers.XDCausalConv1D`, which cannot look
  ahead whatever it learns, so that one pass over a chunk of a piece scores all its steps;
- `xd_windowed`: the XD paper's way. `keras_xd.rewrite` makes XD-operations that see all steps of
  a window, so every step is one sample, a window of its last steps, and only the last output
  counts;
- `undilated_sampled`, `xd_causal_sampled`: as the ones above, but scored in training on as many
  steps as the windowed search.

Both searches begin with the weights that `undilated` has after the epochs of warm-up, in which an
architecture would be fixed; the convolution and its start as an XD-operation are one function.
Results are written after every run: `music.md` and `music.json`. A run that is there
already is not repeated when the script is started again with the same settings.
"""

import argparse
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
from reporting import count

import keras_xd
from experiments.xd import music_report

METHODS = tuple(music_report.NAMES)
WEIGHTS_RATE, ARCHITECTURE_RATE, CLIPPING = 1e-3, 2e-4, 0.4
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
    """Batches of `Samples`; those that do not fill a batch wait for another epoch.

    Args:
        samples: `Samples`.
        batch_size, seed, epoch: as of `Batches`.
        steps: batches of an epoch; as many as can be filled by default.
        share: share of the targets that are scored, drawn again each epoch.
    """

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
        dropout=options.dropout,
    )


def causal_space(model):
    """Return a copy of a network whose causal convolutions are XD-operations that stay causal."""

    def twin(layer):
        config = layer.get_config()
        if type(layer) is not keras.layers.Conv1D:
            return type(layer).from_config(config)
        del config["padding"]
        return keras_xd.layers.XDCausalConv1D.from_config({**config, **SEARCH})

    space = keras.models.clone_model(model, clone_function=twin)
    for old, new in zip(model.layers, space.layers, strict=True):
        for name in ("kernel", "bias"):
            if hasattr(old, name):
                getattr(new, name).assign(getattr(old, name))
    return space


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
        keras.optimizers.Adam(options.architecture_rate),
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
        batch_size = max(1, round(options.share * len(samples[0].inputs) / updates))
    share = options.share if method != kind else 1.0

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
    before, found, architecture, start = None, model, [], []
    if searched:
        before, model = log, make_search(kind, model, options)
        architecture = keras_xd.architecture_variables(model)
        start = [ops.convert_to_numpy(variable) for variable in architecture]
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
    record = {"method": method, "seed": seed}
    if searched:
        found = keras_xd.finalize(model)
        record["distances"] = distances(model)
    return {
        **record,
        "test": samples[2].nats(found, batch_size if searched else 4 * options.batch_size),
        "validation": min(log.validation),
        "best_epoch": log.best,
        "parameters": count(model.trainable_variables),
        "architecture_parameters": count(architecture),
        "architecture_moved": sum(
            int(np.sum(ops.convert_to_numpy(variable) != value))
            for variable, value in zip(architecture, start, strict=True)
        ),
        "updates_per_epoch": len(batches),
        "scored_steps_per_epoch": batches.steps_per_epoch(),
        "cpu_seconds_per_epoch": round(statistics.median(log.seconds), 2),
        "curves": {
            "training": [*(before.training if before else []), *log.training],
            "validation": [*(before.validation if before else []), *log.validation],
        },
    }


def distances(search):
    """Return the relative distance of `K`, `L` and `M` from their start, mean of the layers."""
    told = keras_xd.describe(search.model).values()
    return {
        matrix: round(statistics.mean(layer[f"distance_from_start/{matrix}"] for layer in told), 4)
        for matrix in "KLM"
    }


def parse(arguments):
    """Return the options, the data and the results with the runs that are finished already."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS[:4]))
    parser.add_argument("--seeds", nargs="+", type=parsing.seed, default=[0, 1, 2])
    parser.add_argument("--epochs", type=positive, default=20)
    parser.add_argument("--warmup", type=positive, default=5, help="epochs before the searches")
    parser.add_argument("--batch-size", type=positive, default=4, help="chunks of a batch")
    parser.add_argument("--size", type=positive, default=64, help="steps of a chunk")
    parser.add_argument("--context", type=positive, default=24, help="steps a chunk scores not")
    parser.add_argument("--window", type=positive, default=40, help="steps of a window")
    parser.add_argument(
        "--share",
        type=float,
        default=0.25,
        help="share of the steps that an epoch of windows or of a sampled method scores",
    )
    parser.add_argument("--channels", type=positive, default=150)
    parser.add_argument("--levels", type=positive, default=3)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--architecture-rate", type=float, default=ARCHITECTURE_RATE)
    parser.add_argument("--data-dir", help="folder of the data; KERAS_XD_DATA_DIR by default")
    parser.add_argument("--synthetic", action="store_true", help="made-up pieces, to try it out")
    reporting.add_arguments(parser)
    options = parser.parse_args(arguments)
    if options.warmup >= options.epochs:
        parser.error("--warmup must be smaller than --epochs")
    if options.context >= options.size:
        parser.error("--context must be smaller than --size")
    if not 0 < options.share <= 1:
        parser.error("--share must be above 0 and at most 1")
    try:
        data = music.synthetic() if options.synthetic else music.load(options.data_dir)
        results = reporting.Results(
            "music",
            music_report.page,
            options.output,
            describe(options, data, arguments),
            overwrite=options.overwrite,
            key=("method", "seed"),
        )
    except ValueError as error:
        parser.error(str(error))
    return options, data, results


def describe(options, data, arguments):
    """Return the settings that the results depend on."""
    words = ["…" if word == options.data_dir else word for word in arguments]
    shown = ("batch_size", "size", "context", "window", "share", "channels", "levels", "dropout")
    return {
        "command": shlex.join(["python", "examples/experiments/xd/music.py", *words]),
        "data": "made up" if options.synthetic else "JSB chorales",
        "pieces": [len(part) for part in data],
        "steps": [sum(len(piece) - 1 for piece in part) for part in data],
        **{name: getattr(options, name) for name in (*shown, "epochs", "warmup")},
        "weights_rate": WEIGHTS_RATE,
        "architecture_rate": options.architecture_rate,
        "clipping": CLIPPING,
    }


def main(arguments=None):
    """Do the runs that are not there yet; return the records of all."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options, data, results = parse(arguments)
    for number in options.seeds:
        for method in options.methods:
            results.obtain((method, number), run, method, number, data, options)
    print("\n".join(["", *music_report.table(results.runs), f"Results: {options.output}"]))
    return results.runs


if __name__ == "__main__":
    main()
