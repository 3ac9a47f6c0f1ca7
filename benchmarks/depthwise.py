"""Long depthwise convolutions: taps one by one against the FFT, and which of them a layer takes.

    python benchmarks/depthwise.py [--rounds 7] [--dry-run]

`direct` and `fourier` of `keras_xd.layers.fourier.fft_convolution`, "same" padding, batch 16,
float32, on TensorFlow without XLA, in one process bound to one core; medians of the processor's
milliseconds. `training` is forward and backward, with the gradients of inputs and kernel.
`multiply–adds` is their number by FFT over that by taps, and `taken` what `convolution="auto"` of
`CKConv` and `StaticCKConv` takes; in bold where that takes more than twice the sum of the other's
two times. The table is written to benchmarks/depthwise.md, or nowhere with `--dry-run`.
"""

import argparse
import importlib.metadata
import os
import pathlib
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

RESULTS = pathlib.Path(__file__).with_suffix(".md")
BATCH = 16
# Sizes, channels and numbers of taps along each axis.
CASES = (
    ((8, 8), 24, (5, 7)),
    ((16, 16), 140, (5, 9, 15)),
    ((32, 32), 24, (3, 5, 7, 9, 13, 17, 33)),
    ((1024,), 24, (5, 15, 31, 63, 127, 255, 1023)),
)


def median(function, arguments, rounds):
    """Return the median milliseconds of the processor of a function, after a first call."""
    found = []
    for turn in range(rounds + 1):
        start = time.process_time()
        function(*arguments).numpy()
        if turn:
            found.append(1e3 * (time.process_time() - start))
    return statistics.median(found)


def measure(convolve, x, kernel, before, rounds):
    """Return the milliseconds of the way forward, and of forward and backward."""
    import tensorflow as tf

    def forward(x, kernel):
        return tf.reduce_sum(tf.sin(convolve(x, kernel, before)))

    def training(x, kernel):
        with tf.GradientTape() as tape:
            tape.watch([x, kernel])
            total = forward(x, kernel)
        return sum(tf.reduce_sum(slope) for slope in tape.gradient(total, [x, kernel]))

    functions = [tf.function(f, autograph=False) for f in (forward, training)]
    return [median(function, (x, kernel), rounds) for function in functions]


def row(sizes, channels, taps, rounds):
    """Return the line of the table of one kernel."""
    import tensorflow as tf

    from keras_xd.layers.fourier import fft_convolution

    rank = len(sizes)
    taps, before = (taps,) * rank, ((taps - 1) // 2,) * rank
    x, kernel = (tf.random.normal(s) for s in ((BATCH, *sizes, channels), (*taps, channels)))
    ways = fft_convolution.direct, fft_convolution.fourier
    times = [measure(way, x, kernel, before, rounds) for way in ways]
    counts = fft_convolution.expected_multiply_adds(
        sizes, taps, reach=fft_convolution.reaches(taps, before)
    )
    by_transform = fft_convolution.are_faster(counts[1], counts[0])
    taken = "FFT" if by_transform else "taps"
    if sum(times[by_transform]) > 2 * sum(times[not by_transform]):
        taken = f"**{taken}**"
    (a, b), (c, d) = times
    return (
        f"| {' × '.join(map(str, sizes))} | {channels} | {' × '.join(map(str, taps))} | {a:.1f} | "
        f"{b:.1f} | {c:.1f} | {d:.1f} | {c / a:.2f} | {d / b:.2f} | "
        f"{counts[1] / counts[0]:.2f} | {taken} |"
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    lines = [
        "# Depthwise convolutions by taps and by FFT",
        "",
        f"Written by `python benchmarks/depthwise.py`; {versions}, one core, float32, batch "
        f"{BATCH}, without XLA. Milliseconds of the processor, medians of {options.rounds}; "
        "training is forward and backward. Bold: more than twice the other's time.",
        "",
        "| sizes | channels | taps | by taps, ms | training | by FFT, ms | training | FFT / taps | "
        "training | multiply–adds | taken |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for sizes, channels, several in CASES:
        for taps in several:
            lines.append(row(sizes, channels, taps, options.rounds))
            print(lines[-1], flush=True)
    if not options.dry_run:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
