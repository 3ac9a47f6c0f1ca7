"""Time of one training step of a search, beside a plain fit step of the same rewritten model.

    python benchmarks/search_steps.py [--cases lenet fno] [--steps 10] [--rounds 5] [--dry-run]
    python benchmarks/search_steps.py --starts [import resnet20 causal mixtures oracle] [--rounds 5]

The plain step has one batch and gradients of all variables. Beside it stand the modes of
`keras_xd.SearchModel`; the bilevel modes take a second batch, of architecture samples. Every
contestant in turn runs `fit` over so many steps; times are medians over all rounds without the
first step of each `fit` and without the first `fit`, which traces. `passes` are forward and
backward passes over one batch.
"""

import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import keras_tuner
import numpy as np
import timing
import xd_conv

import keras_xd
import tuner_integration

# passes, required: at most so many times the plain step
MODES = {
    "joint": (1, 1.1),
    "first_order": (2, 2.2),
    "alternating": (2, None),
    "second_order": (5, 5.5),
}


def lenet(options):
    """Return LeNet, rewritten, its loss, and the data of CIFAR-10's shapes."""
    shape = (options.size or 32,) * 2 + (3,)
    backbone = keras_xd.models.lenet(shape, 10, padding="same")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    labels = np.random.default_rng(1).integers(10, size=options.batch_size * options.steps)
    return keras_xd.rewrite(backbone, depth=options.depth), loss, shape, labels


def fno(options):
    """Return the rewritten convolutional twin of a one-dimensional Fourier neural operator."""
    size = options.size or 1024
    backbone = keras_xd.models.fno((size, 2), operation="convolution", padding="same")
    space = keras_xd.rewrite(
        backbone, depth=options.depth, padding="circular", only="convolution.*"
    )
    targets = np.random.default_rng(1).normal(size=(options.batch_size * options.steps, size, 1))
    return space, "mse", (size, 2), targets.astype("float32")


CASES = {"lenet": (lenet, 128), "fno": (fno, 20)}


class StepTimes(keras.callbacks.Callback):
    """Keeps the seconds of every step but the first of each `fit`."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        float(logs["loss"])  # the step has come to its end
        if batch:
            self.seconds.append(time.perf_counter() - self.start)


def contestants(space, loss):
    """Return a model for each mode, all of one space, and the plain one."""

    def optimizers():
        return [keras.optimizers.SGD(1e-3, momentum=0.9) for _ in range(2)]

    plain = keras.models.clone_model(space)
    plain.compile(keras_xd.optimizers.architecture_optimizer(plain, *optimizers()), loss)
    found = {"plain": plain}
    for mode in MODES:
        found[mode] = keras_xd.SearchModel(keras.models.clone_model(space))
        found[mode].compile(*optimizers(), loss, mode=mode)
    return found


def medians(name, options):
    """Return the median milliseconds of a step of each contestant."""
    make, batch_size = CASES[name]
    options.batch_size = options.batch or batch_size
    space, loss, shape, y = make(options)
    x = np.random.default_rng(0).normal(size=(len(y), *shape)).astype("float32")
    models = contestants(space, loss)
    times = {contestant: StepTimes() for contestant in models}
    for turn in range(options.rounds + 1):
        for contestant, model in models.items():
            bilevel = contestant not in ("plain", "joint")
            model.fit(
                x,
                y,
                batch_size=options.batch_size,
                callbacks=[times[contestant]] if turn else None,
                verbose=0,
                **({"architecture_validation_data": (x, y)} if bilevel else {}),
            )
    return {name: 1e3 * statistics.median(found.seconds) for name, found in times.items()}


def seconds(call):
    """Return the seconds of the processor that a call takes."""
    start = time.process_time()
    call()
    return time.process_time() - start


def later(calls, rounds):
    """Return the median seconds of the processor of calls that take turns."""
    times = timing.medians(calls, rounds, clock=time.process_time)
    return {name: value / 1e3 for name, value in times.items()}


def import_times(rounds):
    """Import the package in fresh processes, after Keras."""
    program = "import time, keras; start = time.process_time(); import keras_xd; "
    command = [sys.executable, "-c", program + "print(time.process_time() - start)"]
    texts = [subprocess.check_output(command, text=True) for _ in range(rounds)]
    return [{"import keras_xd, after keras": statistics.median(map(float, texts))}]


def resnet20_times(rounds):
    """Train ResNet-20 plainly and in a joint search."""
    plain = keras_xd.models.resnet20((32, 32, 3), 10)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    labels = np.random.default_rng(1).integers(10, size=32)
    return search_times("ResNet-20", plain, "XD", 3, labels, loss, rounds)


def causal_times(rounds):
    """Train a temporal convolutional network on chunks of music plainly and in a joint search."""
    plain = keras_xd.models.tcn(
        (CHUNK, 88), 88, channels=64, levels=4, kernel_size=2, dilated=False
    )
    keys = np.random.default_rng(1).integers(2, size=(32, CHUNK, 88))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    return search_times(f"TCN, {CHUNK} steps", plain, "causal XD", 1, keys, loss, rounds)


def search_times(name, plain, search_name, depth, targets, loss, rounds):
    """Train a model plainly and in a joint search of XD-operations of a depth."""
    shape = (len(targets), *plain.input_shape[1:])
    data = np.random.default_rng(0).normal(size=shape).astype("float32"), targets
    search = keras_xd.SearchModel(keras_xd.rewrite(plain, depth=depth))
    plain.compile("adam", loss, jit_compile=False)
    search.compile("adam", "adam", loss, jit_compile=False)
    models = {name: plain, search_name: search}
    steps = {name: functools.partial(m.train_on_batch, *data) for name, m in models.items()}
    firsts = {f"{name}, first step": seconds(step) for name, step in steps.items()}
    found = later(steps, rounds)
    return [firsts, {f"{name}, later step": taken for name, taken in found.items()}]


def mixture_times(rounds):
    """Forward and backward of a convolution and of mixtures in its place."""
    found = []
    for sizes in ((32, 32), (64,)):
        steps = {}
        for kind in ("Conv", "MixedOperation", "DashConv"):
            for jit in (False, True):
                home = keras.layers if kind == "Conv" else keras_xd.layers
                layer = getattr(home, f"{kind}{len(sizes)}D")
                steps[f"{kind}, {'×'.join(map(str, sizes))}{', XLA' * jit}"] = xd_conv.step_of(
                    layer(16, 3, padding="same", use_bias=False), (32, 16, sizes), jit
                )
        found.append(later(steps, rounds))
    return found


def oracle_times(rounds):
    """Propose points after `TRIALS` random ones, of a cell and of a hierarchical space."""
    found = {}
    for space in ("nas_bench_201_cell", "hierarchical_nas_bench_201"):
        grammars = {"network": getattr(keras_xd.grammar.spaces, space)()}
        goal = keras_tuner.Objective("loss", "min")
        oracle = tuner_integration.GrammarOracle(grammars, goal, TRIALS + rounds, seed=1)
        oracle.initial_trials, times = TRIALS, []
        for _ in range(TRIALS + rounds):
            start = time.process_time()
            (term,) = oracle.ask()
            times.append(time.process_time() - start)
            oracle.tell(term, float(term.count("conv")))
        found[f"a proposal after {TRIALS} trials, {space}"] = statistics.median(times[TRIALS:])
    return [found]


STARTS = {"import": import_times, "resnet20": resnet20_times, "causal": causal_times}
STARTS |= {"mixtures": mixture_times, "oracle": oracle_times}
TRIALS, CHUNK = 200, 64


def page_of_starts(options):
    """Return the lines of the page of what a search begins with."""
    rows = timing.head("what", "seconds of the processor", "times the first of its kind")
    for part in options.starts or STARTS:
        for times in timing.apart(__file__, [part, options.rounds], threads=1):
            first = next(iter(times.values()))
            for name, taken in times.items():
                rows.append(timing.row(name, f"{taken:.3g}", f"{taken / first:.2f}"))
    words = (
        f"Written by `python benchmarks/search_steps.py --starts`; {timing.versions()}, one "
        "thread, float32, batch 32, without XLA unless it is named; medians but of first steps."
    )
    return timing.page("What a search begins with", words, rows)


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10, help="of each fit, at least 2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, help="batch size, for a quick check")
    parser.add_argument("--size", type=int, help="size of the inputs, for a quick check")
    parser.add_argument("--starts", nargs="*", choices=STARTS, help="only the page of starts")
    options = parser.parse_args(arguments)
    if options.measure:
        part, rounds = options.measure
        print(json.dumps(STARTS[part](rounds)))
        return None
    if options.starts is not None:
        options.output = options.output.with_name("search_starts.md")
        return timing.write(options, page_of_starts(options))
    rows = timing.head("model", "batch", "step", "passes", "ms", "times the plain step", "target")
    for name in options.cases:
        times = medians(name, options)
        for contestant, taken in times.items():
            passes, target = MODES.get(contestant, (1, None))
            cells = [name, options.batch_size, contestant, passes, f"{taken:.1f}"]
            cells += [f"{taken / times['plain']:.2f}", f"≤ {target}" if target else ""]
            rows.append(timing.row(*cells))
    lines = timing.page(
        "A training step of a search",
        f"Written by `python benchmarks/search_steps.py`; {timing.versions()}, {os.cpu_count()} "
        f"cores, depth {options.depth}, float32, SGD with momentum, medians of "
        f"{options.rounds * (options.steps - 1)} steps in {options.rounds} rounds.",
        rows,
    )
    return timing.write(options, lines)


if __name__ == "__main__":
    main()
