"""Time and memory of XD-operations beside Keras' convolution and the peer library relax.

    python benchmarks/xd_conv.py                       # keras_xd and Keras' convolution
    python benchmarks/xd_conv.py --relax ../relax      # and relax, from a checkout
    TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 python benchmarks/xd_conv.py --long

`--relax` needs torch and torch_butterfly in the same environment. Every case is forward and
backward in float32 with circular padding, all contestants in turn in one process. `peak MiB` is by
how much resident memory rises during the first three steps in a process of its own (Linux). The
floor counts multiply–adds (of backward twice those of forward) and the bytes of input, output,
spectrum and their gradients, each moved once, at the rates that this process measures. `--long`
writes only the tables of long axes, to benchmarks/long_axes.md: time with short and long kernels
and memory of SpectralConv1D of all modes, convolutions, torch's FFT if it is there, and XDConv1D.
"""

import gc
import importlib.util
import json
import math
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import timing

TURNS = {"rounds": 3, "warm_up": 1, "pause": 0.5}
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
LENGTHS = (256, 1024, 4096, 16384, 65536)


def step_of(layer, case, jit=False):
    """Return a function that runs forward and backward of a Keras layer once, traced."""
    import tensorflow as tf

    batch, channels, sizes, *_ = case
    x = tf.random.stateless_normal((batch, *sizes, channels), (0, 1))
    layer.build(x.shape)
    weights = [variable.value for variable in layer.trainable_variables]

    @tf.function(jit_compile=jit)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_mean(tf.square(layer(x, training=True)))
        return tape.gradient(loss, [x, *weights])

    step.get_concrete_function(x)
    return lambda: step(x)[0].numpy()


def keras_inference(layer, batch, channels, sizes):
    """Return a function that runs a Keras layer forward once."""
    import tensorflow as tf

    x = tf.random.stateless_normal((batch, *sizes, channels), (0, 1))
    forward = tf.function(layer)
    forward(x)
    return lambda: forward(x).numpy()


def xd_layer(case, padding="circular", **options):
    from keras_xd import layers

    _, channels, sizes, kernel, depth, _ = case
    options = {"padding": padding, "use_bias": False, "depth": depth or 1, **options}
    return getattr(layers, f"XDConv{len(sizes)}D")(channels, kernel, **options)


def spectral_layer(case):
    """Return the layer of the Fourier neural operator with all modes."""
    from keras_xd import layers

    _, channels, sizes, *_ = case
    modes = (*(n // 2 for n in sizes[:-1]), sizes[-1] // 2 + 1)
    return layers.SpectralConv(len(sizes), channels, modes)


def convolution_layer(case, dtype=None):
    import keras

    _, channels, sizes, kernel, *_ = case
    kind = keras.layers.Conv1D if len(sizes) == 1 else keras.layers.Conv2D
    return kind(channels, kernel, padding="same", use_bias=False, dtype=dtype)


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


CONTESTANTS = {
    "keras_xd": lambda case: step_of(xd_layer(case), case),
    "keras_xd jit": lambda case: step_of(xd_layer(case), case, jit=True),
    "Conv": lambda case: step_of(convolution_layer(case), case),
    "SpectralConv": lambda case: step_of(spectral_layer(case), case),
    "relax": make_relax,
}


def peak_memory(contestant, case, relax):
    """Return the growth of peak resident memory, in MiB, of three steps in a process of its own."""
    return timing.apart(__file__, [contestant, case, relax])


def measured_memory(contestant, case, relax):
    if relax:
        sys.path.insert(0, relax)
    # Libraries are loaded and warm, and TensorFlow's graph is traced, before the growth is taken.
    make = {**CONTESTANTS, **LONG}[contestant]
    make((2, 2, (8,) * len(case[2]), 3, 1, 0))()
    step = make(case)
    gc.collect()
    return timing.memory_growth(lambda: [step() for _ in range(3)])


def machine_rates():
    """Return the multiply–adds and the bytes a millisecond that TensorFlow reaches here."""
    import tensorflow as tf

    square = tf.random.stateless_normal((2048, 2048), (0, 1))
    large = tf.random.stateless_normal((64 * 10**6,), (0, 1))
    steps = {
        "product": lambda: tf.matmul(square, square).numpy(),
        "sum": lambda: (large + 1.0).numpy(),
    }
    times = timing.medians(steps, repetitions=5, **TURNS)
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
    """Return the lines of the table of forward and backward passes, and what they are beside."""
    rates = machine_rates()
    lines = [
        f"Rates measured: {rates[0] / 1e6:.0f} G multiply–adds a second, "
        f"{rates[1] / 1e6:.1f} GB a second.",
        "",
        *timing.head(
            *("case: batch, channels, sizes, kernel, depth", "contestant", "ms", "time / floor"),
            *("relax / this", "target", "peak MiB", "relax / this"),
        ),
    ]
    ratios = []
    for name in options.cases:
        case = CASES[name]
        batch, channels, sizes, kernel, depth, target = case
        names = [n for n in CONTESTANTS if n != "relax" or (options.relax and target)]
        times = timing.medians(
            {name: CONTESTANTS[name](case) for name in names},
            repetitions=options.repetitions,
            **TURNS,
        )
        memory = {name: peak_memory(name, case, options.relax) for name in names}
        counts = floor(case)
        least = max(count / rate for count, rate in zip(counts, rates, strict=True))
        label = f"{batch}, {channels}, {'×'.join(map(str, sizes))}, {kernel}, {depth}"
        for contestant, taken in times.items():
            ours = contestant.startswith("keras_xd")
            cells = [f"{taken:.1f}", f"{taken / least:.1f}" if ours else ""]
            cells += ["", "", f"{memory[contestant]:.0f}", ""]
            if "relax" in times:
                cells[2] = f"{times['relax'] / taken:.1f}"
                cells[5] = f"{memory['relax'] / max(memory[contestant], 1):.1f}"
                cells[3] = f"≥ {target}" if ours else ""
            lines.append(timing.row(label, contestant, *cells))
        what = f"floor: {counts[0] / 1e6:.0f} M mult–adds, {counts[1] / 1e6:.0f} MB"
        lines.append(timing.row(label, what, f"{least:.1f}", 1, *4 * [""]))
        most = f"≤ {MOST_OF_CONVOLUTION[name]}" if name in MOST_OF_CONVOLUTION else ""
        beside = [f"{times['keras_xd'] / times[other]:.2f}" for other in ("Conv", "SpectralConv")]
        ratios.append([label, beside[0], most, beside[1], f"≤ {MOST_OF_SPECTRAL}"])
    words = ["case", "keras_xd / Conv", "target", "keras_xd / SpectralConv, all modes", "target"]
    return [*lines, "", *timing.table(words, ratios)[:-1]]


def table_of_inference(options):
    """Forward only: the finalized layer beside the Fourier neural operator's and Keras' own."""
    words = ["case", "finalized ms", "SpectralConv, all modes", "Conv", "finalized / SpectralConv"]
    lines = timing.head(*words, "target")
    for name in options.cases:
        batch, channels, sizes, *_ = case = CASES[name]
        searched = xd_layer(case)
        searched.build((batch, *sizes, channels))
        layers = (searched.finalize(), spectral_layer(case), convolution_layer(case))
        steps = {i: keras_inference(one, batch, channels, sizes) for i, one in enumerate(layers)}
        times = timing.medians(steps, repetitions=options.repetitions, **TURNS)
        ratio = f"{times[0] / times[1]:.2f}"
        cells = (f"{taken:.2f}" for taken in times.values())
        lines.append(timing.row(name, *cells, ratio, f"≤ {MOST_OF_SPECTRAL_INFERENCE}"))
    return lines


def table_of_depths(options):
    lines = timing.head("case", "depth 1 ms", "depth 3", "depth 9", "depth 9 / depth 1")
    for name in options.cases:
        case = CASES[name]
        steps = {depth: step_of(xd_layer(case, depth=depth), case) for depth in (1, 3, 9)}
        times = timing.medians(steps, repetitions=options.repetitions, **TURNS)
        cells = [f"{taken:.1f}" for taken in times.values()]
        lines.append(timing.row(name, *cells, f"{times[9] / times[1]:.2f}"))
    return lines


def long_layer(jit=False, **options):
    return lambda case: step_of(xd_layer(case, "same", **options), case, jit)


def torch_fft(case):
    import torch

    from keras_xd.layers.fourier.fft_convolution import fast_length

    batch, channels, (n,), kernel, *_ = case
    size = fast_length(n + kernel - 1)
    torch.set_num_threads(1)
    x = torch.randn(batch, channels, n, requires_grad=True)
    weight = torch.randn(channels, channels, kernel, requires_grad=True)

    def step():
        x.grad = weight.grad = None
        spectra = [torch.fft.rfft(each, size) for each in (x, weight)]
        y = torch.einsum("bcf,dcf->bdf", spectra[0], spectra[1].conj())
        torch.fft.irfft(y, size)[..., :n].square().mean().backward()

    return step


LONG = {
    "SpectralConv1D": CONTESTANTS["SpectralConv"],
    "Conv1D": CONTESTANTS["Conv"],
    **({"torch, FFT": torch_fft} if importlib.util.find_spec("torch") else {}),
    **{f"depth {d}{', XLA' * j}": long_layer(j, depth=d) for d in (1, 3) for j in (False, True)},
    **{method: long_layer(method=method) for method in ("stages", "dense", "fft")},
}


def of_lengths(kernel, measure):
    """Return what is measured of all contestants at each length, with kernels as long if `None`."""
    found = {}
    for n in LENGTHS:
        case = (4, 16, (n,), kernel or n, None, None)
        fits = {"dense": n <= 1024, "Conv1D": n * case[3] <= 2**24}
        found[n] = measure(case, [name for name in LONG if fits.get(name, True)])
        gc.collect()
    return found


def long_table(found):
    """Return the lines of a table of all lengths, with ratios to SpectralConv1D and growth."""
    lines, exponents = timing.head("length", *LONG), []
    for n, values in found.items():
        one = values["SpectralConv1D"] + 1e-9
        texts = {name: f"{v:.1f} ({v / one:.2f})" for name, v in values.items()}
        lines.append(timing.row(n, *(texts.get(name, "") for name in LONG)))
    for name in LONG:
        first, *_, last = [n for n in LENGTHS if name in found[n]]
        rise = (found[last][name] + 1e-9) / (found[first][name] + 1e-9)
        exponents.append(f"{math.log(rise, last / first):.2f}")
    return [*lines, timing.row("exponent of the growth", *exponents)]


def growth(times):
    """Draw the times of a table over the lengths, with the slope of n log n."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (title, found) in zip(panels, times.items(), strict=True):
        lengths = [n for n in LENGTHS if found[n]]
        for name in LONG:
            if "XLA" not in name:
                axes.loglog(lengths, [found[n].get(name, math.nan) for n in lengths], label=name)
        first = found[lengths[0]]["SpectralConv1D"] / lengths[0] / math.log(lengths[0])
        line = [first * n * math.log(n) for n in lengths]
        axes.loglog(lengths, line, color="black", linestyle=":", label="n log n")
        axes.set(title=title, xlabel="length")
    panels[0].set_ylabel("ms of CPU, forward and backward")
    panels[1].legend(frameon=False, fontsize=8)
    return figure


def page_of_long_axes(options):
    """Return the lines of the page of long axes: time for short and long kernels, and memory."""
    from keras_xd.visualization import style

    def cpu(case, names):
        turns = {"repetitions": options.repetitions, "clock": time.process_time, **TURNS}
        return timing.medians({name: LONG[name](case) for name in names}, **turns)

    def peak(case, names):
        return {name: peak_memory(name, case, None) for name in names}

    times = {"kernel 5": of_lengths(5, cpu), "kernel as long as the axis": of_lengths(None, cpu)}
    if not options.dry_run:
        style.save(growth(times), options.output.with_suffix(".svg"))
    short, long = map(long_table, times.values())
    return timing.page(
        "Long axes",
        "Written by `TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 python "
        f"benchmarks/xd_conv.py --long --repetitions {options.repetitions}`; {timing.versions()}. "
        "Forward and backward, float32, 16 channels, batch 4; depth 1 where none is named; in "
        "brackets times SpectralConv1D with all modes. Load of the machine (2 cores): "
        f"{os.getloadavg()[2]:.0f}.",
        "Kernel 5, milliseconds of CPU, medians of turns in one process:",
        short,
        "Kernel as long as the axis:",
        long,
        f"![growth]({options.output.stem}.svg)",
        "Kernel 5, MiB by which resident memory rises at most in three steps of a process:",
        long_table(of_lengths(5, peak)),
    )


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--relax", help="folder of a checkout of relax")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--repetitions", type=int, default=5, help="in each of three rounds")
    parser.add_argument("--long", action="store_true", help="only the table of long axes")
    parser.set_defaults(output=None)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measured_memory(*options.measure)))
        return None
    if options.long:
        options.output = options.output or pathlib.Path(__file__).with_name("long_axes.md")
        return timing.write(options, page_of_long_axes(options))
    options.output = options.output or pathlib.Path(__file__).with_suffix(".md")
    if options.relax:
        sys.path.insert(0, options.relax)
    lines = [
        "# XD-operations: time and memory",
        "",
        f"Written by `python benchmarks/xd_conv.py{' --relax …' if options.relax else ''}`; "
        f"{timing.versions()}, {os.cpu_count()} cores. Forward and backward, float32, circular "
        "padding; medians, all contestants in turn in one process.",
        "",
        *table_of_cases(options),
        "",
        "Inference (forward only):",
        "",
        *table_of_inference(options),
        "",
        "Depth (without XLA):",
        "",
        *table_of_depths(options),
    ]
    return timing.write(options, lines)


if __name__ == "__main__":
    main()
