"""Time of pruned continuous convolutional networks beside the complexity that was aimed at.

    python benchmarks/pruning.py [--cases 1d 2d] [--learn WDE] [--targets 0.25 0.5 1]
        [--measures multiply_adds activations] [--threads 1 2] [--dry-run]

A CCNN is searched by the complexity term alone, with targets of 0.25, 0.5 and 1 times the
multiply–adds, or the activations, of the network of half its blocks and half its channels, then
pruned and finalized.
Base networks are the paper's, of 4 blocks and 140 channels, and one as wide as the largest of its
backbone, 380 channels. Beside the pruned networks runs the base network itself, finalized from
`learn=""`. Times are of one forward pass of a compiled function at inference, medians over rounds
in which all networks take turns. `search`, `pruned`, `time` and `blocks` are ratios to the base
network. `search` is the measure of the search space, `pruned` that of the pruned network; both
count whole channels and blocks. `outside` is the share of its time that encoder, pooling and
decoder take, measured by a network of these alone: they are hardly counted. `blocks` is the time
without them. Required: times in the order of complexities (rank correlation 1), and the time of the
whole network within a factor of 1.5 of the pruned network's share of the measure. With `R` learned
the search is rendered dynamically, as resolutions cost nothing less otherwise. Each number of
threads is a process of its own. The tables are written to benchmarks/pruning.md, or nowhere with
`--dry-run`.
"""

import argparse
import importlib.metadata
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import keras_xd
from keras_xd import layers, models

RESULTS = pathlib.Path(__file__).with_suffix(".md")
CASES = {"1d": (1024, 1), "2d": (32, 32, 3)}
FACTOR = 1.5
OUTSIDE = ("encoder", "encoder_normalization", "encoder_gelu", "pool", "decoder")
NAMES = {"multiply_adds": "multiply–adds", "activations": "activations"}
MEASURES = {"multiply_adds": keras_xd.complexity, "activations": layers.count_activations}


def network(blocks, channels, shape, learn, options):
    """Return a CCNN, whose kernels have the size of the inputs or of `--kernel-size`.

    Its convolutions are counted as they are carried out.
    """
    return models.ccnn(
        blocks,
        channels,
        shape,
        classes=10,
        learn=learn,
        kernel_size=options.kernel_size,
        rendering="dynamic" if "R" in learn else "static",
        per_channel=True,
        seed=0,
    )


def count(model, measure):
    """Return a measure of a model, a number or a scalar tensor."""
    return MEASURES[measure](model)


def drive(space, target, steps, measure):
    """Let the complexity term alone move the masks until the target is met within 1 %."""
    variables = keras_xd.architecture_variables(space)
    optimizer = keras.optimizers.Adam(0.02)
    optimizer.build(variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            ratio = ops.convert_to_tensor(count(space, measure), "float32") / target
            loss = ops.square(ratio - 1)
        gradients = tape.gradient(loss, [v.value for v in variables], unconnected_gradients="zero")
        optimizer.apply(gradients, variables)
        return ratio

    for _ in range(steps):
        if abs(float(step()) - 1) < 0.01:
            break
    return float(count(space, measure)) / target


def forward(model, jit):
    """Return a compiled function of inputs, by XLA if `jit`."""
    return tf.function(lambda inputs: model(inputs, training=False), jit_compile=jit)


def without_blocks(model):
    """Return the encoder, the pooling and the decoder of a finalized network, as a network."""
    x = inputs = keras.Input(model.input_shape[1:])
    for layer in model.layers:
        if layer.name in OUTSIDE:
            x = layer(x)
    return keras.Model(inputs, x)


def medians(functions, inputs, rounds):
    """Return the median milliseconds of each function; the first round is not counted."""
    times = {name: [] for name in functions}
    for turn in range(rounds + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            ops.convert_to_numpy(function(inputs))
            if turn:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(found) for name, found in times.items()}


def rank_correlation(first, second):
    """Return the correlation of the ranks of two lists of different numbers."""
    ranks = [np.argsort(np.argsort(values)) for values in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])


def rows_of(case, channels, measure, options):
    """Return the rows of one case and one measure, and whether they are as required."""
    shape = tuple(options.size or n for n in CASES[case][:-1]) + CASES[case][-1:]
    base = network(options.blocks, channels, shape, "", options)
    budget = float(count(base, measure))
    plain = keras_xd.finalize(base)
    functions, found = {}, {}

    def add(name, model):
        functions[name] = forward(model, options.jit)
        functions[name, "outside"] = forward(without_blocks(model), options.jit)

    add("base", plain)
    for target in options.targets:
        space = network(2 * options.blocks, 2 * channels, shape, options.learn, options)
        ratio = target * drive(space, target * budget, options.steps, measure)
        layers.update_rendering(space)
        pruned = keras_xd.finalize(space)
        blocks = [x for x in pruned.layers if isinstance(x, layers.StaticCCNNBlock)]
        name = f"{target:g}"
        found[name] = (ratio, count(pruned, measure) / budget, blocks)
        add(name, pruned)
    inputs = np.random.default_rng(0).normal(size=(options.batch, *shape)).astype("float32")
    times = medians(functions, inputs, options.rounds)
    rows, right = [], True
    for name, (ratio, left, blocks) in found.items():
        share = times[name] / times["base"]
        inside = [times[net] - times[net, "outside"] for net in (name, "base")]
        outside, of_blocks = times[name, "outside"] / times[name], inside[0] / inside[1]
        widths = " ".join("/".join(map(str, block.widths)) for block in blocks)
        within = 1 / FACTOR <= share / left <= FACTOR
        right = right and within
        rows.append(
            f"| {case}, {channels} | {name} | {ratio:.3f} | {left:.3f} | {times[name]:.1f} | "
            f"{share:.3f} | {share / left:.2f} | {'yes' if within else 'no'} | {outside:.2f} | "
            f"{of_blocks:.3f} | {widths} |"
        )
    correlation = 1.0
    if len(found) > 1:
        ratios = [left for _, left, _ in found.values()]
        correlation = rank_correlation(ratios, [times[name] for name in found])
    rows.append(
        f"| {case}, {channels} | base | 1 | 1 | {times['base']:.1f} | 1 | | | "
        f"{times['base', 'outside'] / times['base']:.2f} | 1 | {options.blocks} blocks of "
        f"{channels} channels, rank correlation {correlation:.2f} |"
    )
    return rows, right and correlation > 0.999


def in_process(threads):
    """Return the tables of a process of so many threads, as lines."""
    arguments = [*sys.argv[1:], "--threads", str(threads), "--tables"]  # the last ones count
    limits = {f"TF_NUM_{kind}_THREADS": str(threads) for kind in ("INTRAOP", "INTEROP")}
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env={**os.environ, **limits},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    print(done.stdout, flush=True)
    return done.stdout.splitlines()


def tables(options):
    """Return the tables of all measures, as lines."""
    lines = []
    head = [
        "| case, channels | target | count: search | pruned | ms | time | time / pruned | within | "
        "outside | blocks | widths of the blocks |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for measure in options.measures:
        threads = f"threads: {options.threads[0]}"
        lines += ["", f"## Budget of {NAMES[measure]}, {threads}", "", *head]
        as_required = True
        for case, channels in itertools.product(options.cases, options.channels):
            rows, right = rows_of(case, channels, measure, options)
            as_required = as_required and right
            lines += rows
        lines += ["", f"As required: {'yes' if as_required else 'no'}."]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--learn", default="WDE", help="what is learned, letters of KRWDE")
    parser.add_argument("--targets", nargs="+", type=float, default=[0.25, 0.5, 1.0])
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--blocks", type=int, default=4, help="of the base network")
    parser.add_argument("--channels", nargs="+", type=int, default=[140, 380], help="of the same")
    parser.add_argument("--kernel-size", type=int, help="of the largest kernel; all by default")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, help="size of the inputs, for a quick check")
    parser.add_argument("--steps", type=int, default=400, help="at most, of each search")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--jit", action="store_true", help="compile with XLA")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    parser.add_argument("--tables", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tables:  # in a process of its own
        print("\n".join(tables(options)))
        return
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    lines = [
        "# Time of pruned networks",
        "",
        f"Written by `python benchmarks/pruning.py --learn {options.learn} --batch "
        f"{options.batch} --blocks {options.blocks} --channels "
        f"{' '.join(map(str, options.channels))} --rounds {options.rounds} --threads "
        f"{' '.join(map(str, options.threads))}"
        f"{' --jit' if options.jit else ''}`; {versions}, "
        f"{len(os.sched_getaffinity(0))} cores, float32, "
        f"{'with' if options.jit else 'without'} XLA, forward passes, medians of "
        f"{options.rounds} rounds. Ratios are to the base network. Required: rank correlation 1 of "
        f"times and counts, and time over what is left of the count within a factor of {FACTOR}. "
        "Outside is the share of encoder, pooling and decoder.",
    ]
    for threads in options.threads:
        print(f"{threads} threads", flush=True)
        lines += in_process(threads)
    if not options.dry_run:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
