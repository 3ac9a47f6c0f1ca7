"""Time and memory of XD-operations beside Keras' convolution and the peer library relax.

    python benchmarks/xd_conv.py                       # keras_xd and Keras' convolution
    python benchmarks/xd_conv.py --relax ../relax      # and relax, from a checkout

`--relax` needs torch and torch_butterfly in the same environment. Every case is forward and
backward (inputs and all weights) in float32 with circular padding, all contestants in one process
on the same sizes, in turn; milliseconds are medians. `peak MiB` is
by how much resident memory rises during the first three steps (after tracing) in a process of its
own (Linux). The floor counts the multiply–adds of forward and twice as many of backward, and the
bytes of input, output, spectrum and their gradients, each moved once. Its time is the larger of
the two at the rates that this process measures: a product of two 2048 × 2048 matrices, and adding
to a tensor of 256 MB.
The table is written to benchmarks/xd_conv.md, or nowhere with `--dry-run`.
"""

import argparse
import gc
import importlib.metadata
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

RESULTS = pathlib.Path(__file__).with_suffix(".md")
# batch, channels, spatial sizes, kernel size, depth, required speed-up over relax
CASES = {
    "2d-32": (32, 16, (32, 32), 3, 1, 8),
    "2d-16": (32, 64, (16, 16), 3, 3, 15),
    "2d-64": (8, 32, (64, 64), 3, 3, 50),
    "1d-1024": (8, 64, (1024,), 5, 3, 50),
    "2d-32-64": (32, 64, (32, 32), 3, 3, None),
}
MOST_OF_CONVOLUTION = {"2d-32-64": 3}  # required: at most so many times Keras' convolution
MOST_OF_SPECTRAL = 2  # and of SpectralConv with all modes
MOST_OF_SPECTRAL_INFERENCE = 1.5
# One sample of one channel: what is left of its memory is the libraries' own.
FIXED = (1, 1, (32, 32), 3, 1, 0)
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)


def compiled_step(layer, batch, channels, sizes, *, jit):
    """Return the compiled forward and backward of a Keras layer, traced, and inputs for it."""
    import tensorflow as tf

    x = tf.random.stateless_normal((batch, *sizes, channels), (0, 1))
    layer.build(x.shape)
    weights = [variable.value for variable in layer.trainable_variables]

    @tf.function(jit_compile=jit)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_mean(tf.square(layer(x)))
        return tape.gradient(loss, [x, *weights])

    step.get_concrete_function(x)
    return step, x


def keras_step(layer, batch, channels, sizes, *, jit):
    """Return a function that runs forward and backward of a Keras layer once."""
    step, x = compiled_step(layer, batch, channels, sizes, jit=jit)
    return lambda: step(x)[0].numpy()


def keras_inference(layer, batch, channels, sizes):
    """Return a function that runs a Keras layer forward once."""
    import tensorflow as tf

    x = tf.random.stateless_normal((batch, *sizes, channels), (0, 1))
    forward = tf.function(layer)
    forward(x)
    return lambda: forward(x).numpy()


def xd_layer(case, depth=None, dtype=None):
    from keras_xd import layers

    _, channels, sizes, kernel, case_depth, _ = case
    return layers.XDConv(
        len(sizes),
        channels,
        kernel,
        padding="circular",
        use_bias=False,
        depth=depth or case_depth,
        dtype=dtype,
    )


def make_xd(case, *, jit, depth=None, dtype=None):
    batch, channels, sizes, *_ = case
    return keras_step(xd_layer(case, depth, dtype), batch, channels, sizes, jit=jit)


def spectral_layer(case):
    """Return the layer of the Fourier neural operator with all modes."""
    from keras_xd import layers

    _, channels, sizes, *_ = case
    modes = (*(n // 2 for n in sizes[:-1]), sizes[-1] // 2 + 1)
    return layers.SpectralConv(len(sizes), channels, modes)


def make_spectral(case):
    batch, channels, sizes, *_ = case
    return keras_step(spectral_layer(case), batch, channels, sizes, jit=False)


def convolution_layer(case, dtype=None):
    import keras

    _, channels, sizes, kernel, *_ = case
    kind = keras.layers.Conv1D if len(sizes) == 1 else keras.layers.Conv2D
    return kind(channels, kernel, padding="same", use_bias=False, dtype=dtype)


def make_convolution(case, dtype=None):
    batch, channels, sizes, *_ = case
    return keras_step(convolution_layer(case, dtype), batch, channels, sizes, jit=False)


def make_relax(case):
    import torch
    from relax.xd import XD, original

    batch, channels, sizes, kernel, depth, _ = case
    torch.set_num_threads(os.cpu_count())
    kind = torch.nn.Conv1d if len(sizes) == 1 else torch.nn.Conv2d
    weight = kind(channels, channels, kernel, bias=False).weight
    layer = XD(
        channels,
        channels,
        (kernel,) * len(sizes),
        sizes,
        weight=weight,
        arch=original,
        depth=depth,
        compact=False,
        padding=kernel // 2,
        padding_mode="circular",
    )
    x = torch.randn(batch, channels, *sizes, requires_grad=True)

    def step():
        x.grad = None
        layer.zero_grad()
        layer(x).square().mean().backward()

    return step


def measured_apart(script, words, threads):
    """Return what a script prints with `--measure` in a process with a number of threads."""
    environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": str(threads)}
    environment["TF_NUM_INTEROP_THREADS"] = str(threads)
    command = [sys.executable, script, "--measure", *words]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def interleaved_medians(steps, repetitions):
    """Run the contestants in turn, in three rounds, and return the median milliseconds of each.

    Each takes its repetitions in a row after a pause and one step that does not count, so that the
    idle threads of one library do not slow down the other.
    """
    times = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(3):
        for name, step in steps.items():
            time.sleep(0.5)
            step()
            for _ in range(repetitions):
                start = time.perf_counter()
                step()
                times[name].append(time.perf_counter() - start)
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def peak_memory(contestant, case_name, relax):
    """Return the growth of peak resident memory, in MiB, of three steps in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", contestant, case_name]
    if relax:
        command += ["--relax", relax]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def report_peak_memory(contestant, case):
    contestants = {
        "relax": make_relax,
        "keras_xd": lambda case: make_xd(case, jit=False),
        "keras_xd jit": lambda case: make_xd(case, jit=True),
        "Conv": make_convolution,
        "SpectralConv": make_spectral,
    }
    # Libraries are loaded and warm, and TensorFlow's graph is traced, before the growth is taken.
    contestants[contestant]((2, 2, (4,) * len(case[2]), 3, 1, 0))()
    step = contestants[contestant](case)
    gc.collect()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    before = process_memory("VmRSS")
    for _ in range(3):
        step()
    print(process_memory("VmHWM") - before)


def process_memory(field):
    """Return a field of this process's status (Linux) in MiB."""
    status = pathlib.Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in status if line.startswith(field)]
    return int(line.split()[1]) / 1024


def machine_rates():
    """Return the multiply–adds and the bytes a millisecond that TensorFlow reaches here."""
    import tensorflow as tf

    square = tf.random.stateless_normal((2048, 2048), (0, 1))
    large = tf.random.stateless_normal((64 * 10**6,), (0, 1))
    steps = {
        "product": lambda: tf.matmul(square, square).numpy(),
        "sum": lambda: (large + 1.0).numpy(),
    }
    times = interleaved_medians(steps, 5)
    return 2048**3 / times["product"], 2 * 4 * 64 * 10**6 / times["sum"]


def floor(case):
    """Return the multiply–adds and bytes that no implementation can avoid."""
    batch, channels, sizes, *_ = case
    layer = xd_layer(case)
    layer.build((None, *sizes, channels))
    frequencies = math.prod(sizes)
    values = batch * channels * frequencies
    spectrum = 2 * frequencies * channels * channels
    multiply_adds = 3 * batch * layer.complexity((None, *sizes, channels))
    return multiply_adds, 4 * (4 * values + 4 * spectrum)


def table_of_cases(options):
    rates = machine_rates()
    lines = [
        f"Rates measured: {rates[0] / 1e6:.0f} G multiply–adds a second, "
        f"{rates[1] / 1e6:.1f} GB a second.",
        "",
        "| case: batch, channels, sizes, kernel, depth | contestant | ms | time / floor "
        "| relax / this | target | peak MiB | relax / this |",
        "|---|---|---|---|---|---|---|---|",
    ]
    summaries = []
    for name in options.cases:
        case = CASES[name]
        batch, channels, sizes, kernel, depth, target = case
        steps = {"keras_xd": make_xd(case, jit=False), "keras_xd jit": make_xd(case, jit=True)}
        steps |= {"Conv": make_convolution(case), "SpectralConv": make_spectral(case)}
        if options.relax and target:
            steps["relax"] = make_relax(case)
        times = interleaved_medians(steps, options.repetitions)
        memory = {contestant: peak_memory(contestant, name, options.relax) for contestant in steps}
        counts = floor(case)
        least = max(count / rate for count, rate in zip(counts, rates, strict=True))
        label = f"{batch}, {channels}, {'×'.join(map(str, sizes))}, {kernel}, {depth}"
        for contestant in steps:
            ours = contestant.startswith("keras_xd")
            cells = [f"{times[contestant]:.1f}", f"{times[contestant] / least:.1f}" if ours else ""]
            cells += ["", "", f"{memory[contestant]:.0f}", ""]
            if "relax" in steps:
                cells[2] = f"{times['relax'] / times[contestant]:.1f}"
                cells[5] = f"{memory['relax'] / max(memory[contestant], 1):.1f}"
                cells[3] = f"≥ {target}" if ours else ""
            lines.append(f"| {label} | {contestant} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
        lines.append(
            f"| {label} | floor: {counts[0] / 1e6:.0f} M mult–adds, {counts[1] / 1e6:.0f} MB "
            f"| {least:.1f} | 1 | | | | |"
        )
        print(lines[-1], flush=True)
        summaries.append((name, label, times))
    lines += [
        "",
        "| case | keras_xd / Conv | target | keras_xd / SpectralConv, all modes | target |",
        "|---|---|---|---|---|",
    ]
    for name, label, times in summaries:
        most = f"≤ {MOST_OF_CONVOLUTION[name]}" if name in MOST_OF_CONVOLUTION else ""
        ratios = [times["keras_xd"] / times[other] for other in ("Conv", "SpectralConv")]
        lines.append(
            f"| {label} | {ratios[0]:.2f} | {most} | {ratios[1]:.2f} | ≤ {MOST_OF_SPECTRAL} |"
        )
        print(lines[-1], flush=True)
    return lines


def table_of_inference(options):
    """Forward only: the finalized layer beside the Fourier neural operator's and Keras' own."""
    lines = [
        "| case | finalized ms | SpectralConv, all modes | Conv | finalized / SpectralConv "
        "| target |",
        "|---|---|---|---|---|---|",
    ]
    for name in options.cases:
        batch, channels, sizes, *_ = case = CASES[name]
        searched = xd_layer(case)
        searched.build((batch, *sizes, channels))
        contestants = (searched.finalize(), spectral_layer(case), convolution_layer(case))
        steps = {
            index: keras_inference(layer, batch, channels, sizes)
            for index, layer in enumerate(contestants)
        }
        times = interleaved_medians(steps, options.repetitions)
        cells = " | ".join(f"{times[index]:.2f}" for index in steps)
        ratio = times[0] / times[1]
        lines.append(f"| {name} | {cells} | {ratio:.2f} | ≤ {MOST_OF_SPECTRAL_INFERENCE} |")
        print(lines[-1], flush=True)
    return lines


def line_of_fixed_memory(options):
    contestants = ["keras_xd", "keras_xd jit", "Conv"] + (["relax"] if options.relax else [])
    fixed = {c: peak_memory(c, "fixed", options.relax) for c in contestants}
    parts = ", ".join(f"{contestant} {memory:.0f}" for contestant, memory in fixed.items())
    line = f"Peak MiB of one sample of one channel at 32×32, which all cases include: {parts}."
    print(line, flush=True)
    return line


def table_of_depths(options):
    lines = [
        "| case | depth 1 ms | depth 3 | depth 9 | depth 9 / depth 1 |",
        "|---|---|---|---|---|",
    ]
    for name in options.cases:
        steps = {depth: make_xd(CASES[name], jit=False, depth=depth) for depth in (1, 3, 9)}
        times = interleaved_medians(steps, options.repetitions)
        cells = [f"{times[depth]:.1f}" for depth in (1, 3, 9)]
        lines.append(f"| {name} | {' | '.join(cells)} | {times[9] / times[1]:.2f} |")
        print(lines[-1], flush=True)
    return lines


def table_of_lengths(options):
    lines = ["| length | ms | growth exponent from 256 |", "|---|---|---|"]
    steps = {n: make_xd((2, 32, (n,), 5, 3, 0), jit=False) for n in LENGTHS}
    times = interleaved_medians(steps, options.repetitions)
    for n in LENGTHS:
        exponent = ""
        if n > LENGTHS[0]:
            growth = math.log(times[n] / times[LENGTHS[0]]) / math.log(n / LENGTHS[0])
            exponent = f"{growth:.2f}"
        lines.append(f"| {n} | {times[n]:.1f} | {exponent} |")
        print(lines[-1], flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relax", help="folder of a checkout of relax")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--repetitions", type=int, default=5, help="in each of three rounds")
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.relax:
        sys.path.insert(0, options.relax)
    if options.memory_of:
        contestant, name = options.memory_of
        report_peak_memory(contestant, FIXED if name == "fixed" else CASES[name])
        return
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    lines = [
        "# XD-operations: time and memory",
        "",
        f"Written by `python benchmarks/xd_conv.py{' --relax …' if options.relax else ''}`; "
        f"{versions}, {os.cpu_count()} cores. Forward and backward, float32, circular padding; "
        "medians, all contestants in turn in one process.",
        "",
        *table_of_cases(options),
        "",
        line_of_fixed_memory(options),
        "",
        "Inference (forward only):",
        "",
        *table_of_inference(options),
        "",
        "Depth (without XLA):",
        "",
        *table_of_depths(options),
        "",
        "Growth with length (batch 2, 32 channels, kernel 5, depth 3, without XLA):",
        "",
        *table_of_lengths(options),
    ]
    if not options.dry_run:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
