"""Time, memory and errors of the layers on Keras' JAX or torch backend, on a GPU if there is one.

    KERAS_BACKEND=jax python benchmarks/gpu.py
    KERAS_BACKEND=torch python benchmarks/gpu.py [--cases 2d-32-64] [--rounds 7] [--dry-run]
    KERAS_BACKEND=jax python benchmarks/gpu.py --parts kernels

Needs this repository, keras, numpy and the backend alone. Cases are those of
benchmarks/xd_conv.py, forward and backward, in float32 (products in TF32 where the device has it)
and in mixed_bfloat16; contestants are XDConv, Keras' convolution and SpectralConv with all modes.
On torch, layers are compiled by torch.compile as well, as whole graphs. Then forward only: the
finalized layer. Then a step of a search of ResNet-20. `--parts kernels` looks at the programs of
JAX alone, which its CUDA plugin compiles for an H200 without one (`pip install "jax[cuda12]"`), and
writes benchmarks/gpu_kernels.md.

Milliseconds are medians over rounds in which the contestants take turns; in each round a contestant
is called several times and the device is waited for once, so that the time to launch kernels counts
where it is not hidden.

Errors are `‖found − expected‖ / ‖expected‖` of what is timed, from the same layer with the same
weights in float32 on the CPU, moved away from their start at random: of the outputs, and the
largest of the gradients. The script fails if that of an XDConv is more than 4 times the sum of the
larger one of Keras' convolution in the same type and of a rounding.

Memory is what the device held at most during a call. On JAX the compiled program is also looked at:
how many kernels it launches, how many of them only copy, and whether it calls the host. The floor
of a case is the larger of two times: its multiply–adds at the rate of a large matrix product, and
its bytes at the rate of adding to a large tensor, both measured here. The tables are written to
benchmarks/gpu.md on JAX and benchmarks/gpu_torch.md on torch, or nowhere with `--dry-run`.
"""

import gc
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import gpu_backends
import numpy as np
import timing
import xd_conv
from gpu_backends import built

DTYPES = ("float32", "mixed_bfloat16")
TINY = {"tiny": (2, 2, (8, 8), 3, 1, 0)}  # for tests
PARTS = ["layers", "search"]
WARM_UP = 3
LONGEST_ROUND = 0.25  # seconds, of one contestant
# The largest error of an XDConv, which is a dozen products: so many times that of a convolution and
# the rounding of a number, as a convolution may be computed exactly.
TIMES_THE_ERROR = 4
CASE = "batch, channels, sizes, kernel, depth"
PROGRAM = ("MiB", "kernels", "copies", "host calls")


def medians(backend, calls, rounds):
    """Return the median milliseconds of each call; of many in a row the last one is waited for."""
    counts, turns = {}, {}
    for name, call in calls.items():
        once = timing.medians({name: lambda call=call: backend.wait(call())}, 1, WARM_UP)[name]
        count = counts[name] = min(100, max(1, round(1e3 * LONGEST_ROUND / max(once, 1e-3))))
        turns[name] = lambda call=call, n=count: backend.wait([call() for _ in range(n)][-1])
    taken = timing.medians(turns, rounds, warm_up=0)
    return {name: value / counts[name] for name, value in taken.items()}


def rates(backend, rounds):
    """Return multiply–adds by type and bytes a millisecond, and the milliseconds of a call."""
    side, numbers = (4096, 2**28) if backend.is_gpu else (1024, 2**24)
    square = backend.array(inputs(side, side))
    large, one = (backend.array(np.ones(count, "float32")) for count in (numbers, 1))
    short = square.bfloat16() if hasattr(square, "bfloat16") else square.astype("bfloat16")
    calls = {
        "float32": backend.compiled(lambda a: a @ a, square)[0],
        "mixed_bfloat16": backend.compiled(lambda a: a @ a, short)[0],
        "bytes": backend.compiled(lambda a: a + 1.0, large)[0],
        "call": backend.compiled(lambda a: a + 1.0, one)[0],
    }
    taken = medians(backend, calls, rounds)
    found = {dtype: side**3 / taken[dtype] for dtype in DTYPES}
    return found | {"bytes": 8 * numbers / taken["bytes"], "call": taken["call"]}


def inputs(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def expected(backend, case):
    """Return the moved weights of each layer of a case, and what it computes with them."""
    batch, channels, sizes, *_ = case
    x, found = inputs(batch, *sizes, channels), {}
    for key, kind in (("XDConv", xd_conv.xd_layer), ("Conv", xd_conv.convolution_layer)):
        values = gpu_backends.moved_weights(built(kind(case), x))
        found[key] = values, backend.reference(lambda kind=kind: kind(case), values, x)
    return found


def check(errors, rounding):
    """Return what is wrong with the largest errors of layers, of which one is "Conv"."""
    most = TIMES_THE_ERROR * (errors["Conv"] + rounding)
    return [
        f"the error of {key} is {error:.1e}, that of Conv {errors['Conv']:.1e}"
        for key, error in errors.items()
        if key != "Conv" and not error <= most  # NaN too
    ]


def labelled(case):
    """Return a case as the cell below `CASE`."""
    batch, channels, sizes, kernel, depth, _ = case
    return f"{batch}, {channels}, {'×'.join(map(str, sizes))}, {kernel}, {depth}"


def cases(backend, options, rates, references, faults):
    """Generate the rows of the five cases: forward and backward, each contestant by type."""
    for name in options.cases:
        batch, channels, sizes, *_ = case = (xd_conv.CASES | TINY)[name]
        x = inputs(batch, *sizes, channels)
        adds, moved = xd_conv.floor(case)
        label = labelled(case)
        references[name] = expected(backend, case)
        values = {key: weights for key, (weights, _) in references[name].items()}
        for dtype in DTYPES:
            share = 1 if dtype == "float32" else 2
            least = max(adds / rates[dtype], moved / share / rates["bytes"])
            layers = {
                "XDConv": built(xd_conv.xd_layer(case, dtype=dtype), x, values["XDConv"]),
                "Conv": built(xd_conv.convolution_layer(case, dtype=dtype), x, values["Conv"]),
            }
            if dtype == "float32":
                layers["SpectralConv"] = built(xd_conv.spectral_layer(case), x)
            found = {key: backend.step(layer, x, True) for key, layer in layers.items()}
            expected_of = {key: references[name][key][1] for key in values}
            compiled = backend.compiled_steps({key: layers[key] for key in values}, x)
            for key, step in compiled.items():
                found[key], expected_of[key] = step, expected_of[key.split(",")[0]]
            errors = {
                key: gpu_backends.errors(found[key][0](), known)
                for key, known in expected_of.items()
            }
            largest = {key: max(pair) for key, pair in errors.items()}
            faults += [
                f"{name} in {dtype}: {fault}" for fault in check(largest, backend.rounding(dtype))
            ]
            taken = medians(
                backend, {key: call for key, (call, _) in found.items()}, options.rounds
            )
            for key, (_, program) in found.items():
                row = [label, dtype, key, f"{taken[key]:.3f}"]
                row += [f"{taken[key] / least:.1f}" if key.startswith("XDConv") else ""]
                row += [f"{taken[key] / taken['Conv']:.2f}"]
                yield [*row, *written(errors.get(key, ())), *described(program)]
            yield [label, dtype, "floor", f"{least:.3f}", "1", *[""] * 7]
            gc.collect()


def programs(backend, options):
    """Generate the rows of what the programs of XDConv, forward and backward, are like."""
    for name in options.cases:
        batch, channels, sizes, *_ = case = (xd_conv.CASES | TINY)[name]
        x = inputs(batch, *sizes, channels)
        kinds = {"XDConv": xd_conv.xd_layer, "Conv": xd_conv.convolution_layer}
        for key, kind in (kinds | {"SpectralConv": xd_conv.spectral_layer}).items():
            for backward in (True, False):
                _, program = backend.step(built(kind(case), x), x, backward)
                way = "forward and backward" if backward else "forward"
                yield [labelled(case), key, way, *described(program)]


def inference(backend, options, references, faults):
    """Generate the rows of finalized layers, forward only."""
    for name in options.cases:
        batch, channels, sizes, *_ = case = (xd_conv.CASES | TINY)[name]
        x, known = inputs(batch, *sizes, channels), references[name]
        layers = {
            "finalized": built(xd_conv.xd_layer(case), x, known["XDConv"][0]).finalize(),
            "Conv": built(xd_conv.convolution_layer(case), x, known["Conv"][0]),
            "SpectralConv": built(xd_conv.spectral_layer(case), x),
        }
        found = {key: backend.step(layer, x, False) for key, layer in layers.items()}
        errors = {}
        for key, other in (("finalized", "XDConv"), ("Conv", "Conv")):
            errors[key] = gpu_backends.error(found[key][0](), known[other][1][0])
        faults += [f"{name}: {fault}" for fault in check(errors, backend.rounding("float32"))]
        taken = medians(backend, {key: call for key, (call, _) in found.items()}, options.rounds)
        for key, (_, program) in found.items():
            row = [name, key, f"{taken[key]:.3f}", f"{taken[key] / taken['Conv']:.2f}"]
            error = [errors[key]] if key in errors else []
            yield [*row, *written(error, 1), *described(program)]


def search(backend, options):
    """Generate the rows of a step of `fit`: a ResNet, and the search of all its convolutions."""
    import keras

    import keras_xd

    x = inputs(options.batch * options.steps, 32, 32, 3)
    y = np.arange(len(x)) % 10
    backbone = keras_xd.models.resnet20((32, 32, 3), 10, width=options.channels)
    space = keras_xd.SearchModel(keras_xd.rewrite(backbone))
    taken = {}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for name, model, rest in (("ResNet-20", backbone, ()), ("its search", space, ("adam",))):
        model.compile("adam", *rest, loss=loss)
        times = []
        for _ in range(options.rounds + 1):  # the first one compiles
            start = time.perf_counter()
            model.fit(x, y, batch_size=options.batch, epochs=1, verbose=0)
            times.append(1e3 * (time.perf_counter() - start) / options.steps)
        taken[name] = statistics.median(times[1:])
        ratio = f"{taken[name] / taken['ResNet-20']:.2f}"
        yield [name, str(options.batch), f"{taken[name]:.2f}", ratio]


def written(errors, count=2):
    """Return the cells of so many errors, empty ones where there are none."""
    return [f"{error:.1e}" for error in errors] or [""] * count


def described(program):
    """Return the cells of a program: MiB, kernels, copies, calls of the host."""
    memory = f"{program['MiB']:.0f}" if "MiB" in program else ""
    return [memory, *(str(program.get(key, "")) for key in PROGRAM[1:])]


def rows(head, measured):
    """Generate the lines of a table."""
    yield from timing.head(*head)
    for cells in measured:
        yield f"| {' | '.join(cells)} |"


def report(backend, options, faults):
    """Measure the parts that are asked for; generate the lines of the page."""
    if "kernels" in options.parts:
        yield "# Programs of JAX\n"
        yield f"Written by `{options.command}`: {backend.version}, {backend.device}.\n"
        yield "Times need the device: [layers on an accelerator](gpu.md).\n"
        yield from rows([CASE, "layer", "way", *PROGRAM], programs(backend, options))
        return
    measured = rates(backend, options.rounds)
    where = f"on {backend.device}" if backend.is_gpu else "on a CPU; on a GPU it was not measured"
    yield "# Layers on an accelerator\n"
    yield (
        f"Written by `{options.command}`: {backend.version}, "
        f"{timing.versions(('keras',))}, {where}. Milliseconds, medians over "
        f"{options.rounds} rounds in which the contestants take turns. Errors are those of the "
        "outputs and the largest of any gradient, from float32 on the CPU.\n"
    )
    yield (
        f"Rates measured: {measured['float32'] / 1e9:.3g} T multiply–adds a second in float32, "
        f"{measured['mixed_bfloat16'] / 1e9:.3g} in bfloat16, {measured['bytes'] / 1e6:.4g} GB a "
        f"second. A call that adds to a single number takes {measured['call']:.3f} ms.\n"
    )
    yield "## Forward and backward\n"
    references = {}
    head = [CASE, "type", "layer", "ms", "/ floor", "/ Conv", "error", "of gradients", *PROGRAM]
    yield from rows(head, cases(backend, options, measured, references, faults))
    yield "\n## Forward only\n"
    head = ["case", "layer", "ms", "/ Conv", "error", *PROGRAM]
    yield from rows(head, inference(backend, options, references, faults))
    references.clear()
    if "search" in options.parts:
        yield "\n## A step of `fit`\n"
        yield from rows(["model", "batch", "ms", "/ ResNet-20"], search(backend, options))


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    names = list(xd_conv.CASES)
    parser.add_argument("--cases", nargs="+", choices=[*names, *TINY], default=names)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="of searches")
    parser.add_argument("--channels", type=int, default=16, help="of searches")
    parser.add_argument("--steps", type=int, default=20, help="of an epoch of the search")
    parser.add_argument(
        "--parts", nargs="+", choices=["layers", "search", "kernels"], default=PARTS
    )
    parser.set_defaults(output=None)
    options = parser.parse_args(arguments)
    name = os.environ.setdefault("KERAS_BACKEND", "jax")
    if name not in ("jax", "torch"):
        parser.error(f"KERAS_BACKEND must be jax or torch. Received: {name!r}")
    kernels = "kernels" in options.parts
    if kernels and (name != "jax" or len(options.parts) > 1):
        parser.error("--parts kernels is a page of its own, of JAX")
    page = "gpu_kernels.md" if kernels else {"jax": "gpu.md", "torch": "gpu_torch.md"}[name]
    options.output = options.output or pathlib.Path(__file__).with_name(page)
    words = [" ".join(["--cases", *options.cases])] if options.cases != names else []
    words += [] if options.parts == PARTS else [" ".join(["--parts", *options.parts])]
    words += [] if kernels else [f"--rounds {options.rounds}"]
    options.command = " ".join([f"KERAS_BACKEND={name} python benchmarks/gpu.py", *words])
    lines, faults = [], []
    backend = gpu_backends.JaxForH200() if kernels else gpu_backends.backend()
    for line in report(backend, options, faults):
        print(line, flush=True)
        lines.append(line)
        timing.write(options, lines)
    if faults:
        sys.exit("\n".join(faults))
    return lines


if __name__ == "__main__":
    main()
