"""How exact XD-operations are in bfloat16, and what it costs, beside Keras' convolution.

    python benchmarks/precision.py [--cases 2d-32] [--repetitions 5] [--dry-run]

The cases are those of benchmarks/xd_conv.py. Errors are those of the outputs, relative to the
outputs' norm, from Keras' convolution with the same kernel in float64, with the padding "circular"
done before it; required: at most twice the error that Keras' convolution has in the same policy.
Milliseconds are those of forward and backward without XLA, medians, all policies in turn in one
process. Transforms are computed in float32 in each policy and the product between the channels in
bfloat16, so what bfloat16 saves depends on whether the processor has instructions for it. The
table is written to benchmarks/precision.md, or nowhere with `--dry-run`.
"""

import argparse
import importlib.metadata
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import numpy as np
import xd_conv

RESULTS = pathlib.Path(__file__).with_suffix(".md")
POLICIES = ("mixed_bfloat16", "bfloat16")
MOST = 2  # times the error of Keras' convolution


def circular(x, kernel_size):
    """Return inputs that are continued around each axis, for a convolution without padding."""
    left, right = (kernel_size - 1) // 2, kernel_size // 2
    widths = [(0, 0), *[(left, right)] * (x.ndim - 2), (0, 0)]
    return np.pad(x, widths, mode="wrap")


def errors(case, policy):
    """Return the errors of the searched and the finalized layer and of Keras' convolution."""
    import keras
    from keras import ops

    batch, channels, sizes, kernel_size, *_ = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, *sizes, channels))
    layer = xd_conv.xd_layer(case, dtype=policy)
    layer.build(x.shape)
    kernel = rng.standard_normal(layer.kernel.shape)
    layer.kernel.assign(kernel)
    kind = keras.layers.Conv1D if len(sizes) == 1 else keras.layers.Conv2D
    around = circular(x, kernel_size)

    def convolution(dtype):
        twin = kind(channels, kernel_size, use_bias=False, dtype=dtype)
        twin.build(around.shape)
        twin.kernel.assign(kernel)
        return ops.convert_to_numpy(ops.cast(twin(around), "float64"))

    exact = convolution("float64")
    found = [ops.convert_to_numpy(ops.cast(f(x), "float64")) for f in (layer, layer.finalize())]
    found.append(convolution(policy))
    return [float(np.linalg.norm(y - exact) / np.linalg.norm(exact)) for y in found]


def measure(name, repetitions):
    """Return the rows of a case, one for each policy: errors, then milliseconds."""
    case = xd_conv.CASES[name]
    steps = {policy: xd_conv.make_xd(case, jit=False, dtype=policy) for policy in POLICIES}
    steps["float32"] = xd_conv.make_xd(case, jit=False)
    for policy in ("float32", "mixed_bfloat16"):
        steps[f"Conv {policy}"] = xd_conv.make_convolution(case, dtype=policy)
    taken = xd_conv.interleaved_medians(steps, repetitions)
    return [(name, policy, *errors(case, policy), taken) for policy in POLICIES]


def report(rows, options):
    lines = [
        "# XD-operations in bfloat16",
        "",
        f"Written by `python benchmarks/precision.py --cases {' '.join(options.cases)} "
        f"--repetitions {options.repetitions}`; "
        + ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
        + f", {os.cpu_count()} cores. Relative errors of the outputs; milliseconds of forward and "
        "backward without XLA, medians, all in turn in one process.",
        "",
        "| case | policy | error | finalized | Conv | error / Conv's | ms | float32 | ms / float32 "
        "| Conv: mixed_bfloat16 / float32 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    worst = 0.0
    for name, policy, searched, finalized, twin, taken in rows:
        ratio = max(searched, finalized) / twin
        worst = max(worst, ratio)
        lines.append(
            f"| {name} | {policy} | {searched:.1e} | {finalized:.1e} | {twin:.1e} | {ratio:.2f} | "
            f"{taken[policy]:.1f} | {taken['float32']:.1f} | "
            f"{taken[policy] / taken['float32']:.2f} | "
            f"{taken['Conv mixed_bfloat16'] / taken['Conv float32']:.2f} |"
        )
    verdict = "is met" if worst <= MOST else "is NOT met"
    lines += ["", f"At most {worst:.2f} times Keras' error: the limit of {MOST} {verdict}.", ""]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = list(xd_conv.CASES)
    parser.add_argument("--cases", nargs="+", choices=names, default=names)
    parser.add_argument("--repetitions", type=int, default=5, help="in each of three rounds")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(arguments)
    rows = [row for name in options.cases for row in measure(name, options.repetitions)]
    text = report(rows, options)
    print(text)
    if not options.dry_run:
        RESULTS.write_text(text, encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
