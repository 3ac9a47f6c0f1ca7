"""Time and memory of the layers on Keras' JAX or torch backend, on a GPU if there is one.

    KERAS_BACKEND=jax python benchmarks/gpu.py
    KERAS_BACKEND=torch python benchmarks/gpu.py [--cases 2d-32-64] [--rounds 7] [--dry-run]

Needs this repository, keras, numpy and the backend alone. Cases are those of
benchmarks/xd_conv.py, forward and backward (inputs and all weights), in float32 (matrix products in
TF32 where the device has it, which is the default of JAX; asked for on torch) and in
mixed_bfloat16; contestants are XDConv, Keras' convolution (cuDNN on a GPU) and SpectralConv with
all modes, an FFT layer. Then forward only: the finalized layer. Then a step of a search of a small
ResNet, of a cell of all operations, and of CKConv. Milliseconds are medians over rounds in which
the contestants take turns; in each round a contestant is called several times, and the device is
waited for once, so that the time to launch kernels counts where it is not hidden.

Memory is what the device held at most during a call, inputs and weights included: XLA's own account
on JAX, the allocator's peak on torch. On JAX the compiled program is also looked at: how many
kernels (instructions of the entry computation that do work) it launches, how many of them only
copy, and whether it calls the host. What is chosen by the kind of device, pieces of tensors and
halves of repeated matrices, is chosen so for the device in use; without a GPU the program for one
is compiled for the CPU too, to count these, as "XDConv, whole".

The floor of a case is the larger of two times: its multiply–adds at the rate of the device's matrix
product of 4096 × 4096 (1024 × 1024 on a CPU), and its bytes at the rate of adding to a tensor of
1 GB (64 MB on a CPU), both measured here. The tables are written to benchmarks/gpu.md, or nowhere
with `--dry-run`.
"""

import argparse
import gc
import importlib.metadata
import os
import pathlib
import re
import statistics
import sys
import time
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np

RESULTS = pathlib.Path(__file__).with_suffix(".md")
DTYPES = ("float32", "mixed_bfloat16")
PARTS = ("cell", "kernels", "search")  # which take minutes to compile on a CPU
TINY = {"tiny": (2, 2, (8, 8), 3, 1, 0)}  # for tests
WARM_UP = 3
LONGEST_ROUND = 0.25  # seconds, of one contestant
# Instructions of XLA that move no data.
FREE = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "iota", "after-all")


class Jax:
    """Compiled calls and their memory on JAX."""

    def __init__(self):
        import jax

        self.jax = jax
        self.device = str(jax.devices()[0].device_kind)
        self.is_gpu = jax.devices()[0].platform == "gpu"
        self.version = f"jax {jax.__version__}"

    def array(self, value):
        return self.jax.numpy.asarray(value)

    def compiled(self, function, *arguments):
        """Return a call of a function of arrays, and what its program is like."""
        program = self.jax.jit(function).lower(*arguments).compile()
        memory = program.memory_analysis()
        sizes = ("temp_size", "argument_size", "output_size")
        found = kernels(program.as_text())
        found["MiB"] = sum(getattr(memory, f"{name}_in_bytes") for name in sizes) / 2**20
        return (lambda: program(*arguments)), found

    def step(self, layer, x, backward):
        """Return a call of a layer, and what its program is like."""
        fixed = [variable.value for variable in layer.non_trainable_variables]
        weights = [variable.value for variable in layer.trainable_variables]

        def outputs(weights, x):
            return layer.stateless_call(weights, fixed, x)[0]

        def loss(weights, x):
            return self.jax.numpy.mean(outputs(weights, x).astype("float32") ** 2)

        function = self.jax.grad(loss, (0, 1)) if backward else outputs
        return self.compiled(function, weights, self.array(x))

    def wait(self, result):
        self.jax.block_until_ready(result)


class Torch:
    """Calls and their memory on torch, without compilation."""

    def __init__(self):
        import torch

        self.torch = torch
        self.is_gpu = torch.cuda.is_available()
        self.device = torch.cuda.get_device_name() if self.is_gpu else "cpu"
        self.version = f"torch {torch.__version__}"
        torch.set_float32_matmul_precision("high")  # TF32, as JAX's default
        torch.backends.cudnn.allow_tf32 = True

    def array(self, value):
        return self.torch.as_tensor(value, device="cuda" if self.is_gpu else "cpu")

    def compiled(self, function, *arguments):
        return (lambda: function(*arguments)), self.memory(lambda: function(*arguments))

    def step(self, layer, x, backward):
        """Return a call of a layer, and its memory."""
        x = self.array(x).requires_grad_(backward)
        weights = [variable.value for variable in layer.trainable_variables]

        def call():
            if not backward:
                with self.torch.no_grad():
                    return layer(x)
            loss = layer(x).float().square().mean()
            return self.torch.autograd.grad(loss, [x, *weights])

        return call, self.memory(call)

    def memory(self, call):
        """Return the most that the device held in a call."""
        if not self.is_gpu:
            return {}
        call()
        self.torch.cuda.reset_peak_memory_stats()
        call()
        self.torch.cuda.synchronize()
        return {"MiB": self.torch.cuda.max_memory_allocated() / 2**20}

    def wait(self, result):
        del result
        if self.is_gpu:
            self.torch.cuda.synchronize()


def kernels(text):
    """Return how many kernels, copies and calls of the host an optimized program of XLA has.

    Args:
        text: the program's text, of which the computation `ENTRY` is what is launched.
    """
    entry = text[text.index("ENTRY") :]
    names = re.findall(r"^\s+(?:ROOT )?%?\S+ = .*?[\])}] ([a-z][\w-]*)\(", entry, re.MULTILINE)
    work = [name for name in names if name not in FREE]
    copies = [name for name in work if name.startswith("copy")]
    hosts = re.findall(r'custom_call_target="[^"]*callback[^"]*"', text)
    hosts += re.findall(r" (?:infeed|outfeed|send|recv)\(", text)
    return {"kernels": len(work), "copies": len(copies), "host calls": len(hosts)}


def medians(backend, calls, rounds):
    """Return the median milliseconds of each call; the calls take turns."""
    counts, times = {}, {name: [] for name in calls}
    for name, call in calls.items():
        for _ in range(WARM_UP):
            backend.wait(call())
        start = time.perf_counter()
        backend.wait(call())
        once = time.perf_counter() - start
        counts[name] = min(100, max(1, round(LONGEST_ROUND / max(once, 1e-6))))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                result = call()
            backend.wait(result)
            times[name].append((time.perf_counter() - start) / counts[name])
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def rates(backend, rounds):
    """Return multiply–adds and bytes a millisecond of the device, by type of the products."""
    side, numbers = (4096, 2**28) if backend.is_gpu else (1024, 2**24)
    square = backend.array(np.ones((side, side), "float32"))
    large = backend.array(np.ones(numbers, "float32"))
    short = square.bfloat16() if hasattr(square, "bfloat16") else square.astype("bfloat16")
    calls = {
        "float32": backend.compiled(lambda a: a @ a, square)[0],
        "mixed_bfloat16": backend.compiled(lambda a: a @ a, short)[0],
        "bytes": backend.compiled(lambda a: a + 1.0, large)[0],
    }
    taken = medians(backend, calls, rounds)
    found = {dtype: side**3 / taken[dtype] for dtype in DTYPES}
    return found | {"bytes": 8 * numbers / taken["bytes"]}


def inputs(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def built(layer, x):
    layer.build(x.shape)
    return layer


def cases(backend, options, rates):
    """Return the rows of the five cases: forward and backward, each contestant by type."""
    import xd_conv

    rows = []
    for name in options.cases:
        batch, channels, sizes, kernel, depth, _ = case = (xd_conv.CASES | TINY)[name]
        x = inputs(batch, *sizes, channels)
        adds, moved = xd_conv.floor(case)
        for dtype in DTYPES:
            share = 1 if dtype == "float32" else 2
            least = max(adds / rates[dtype], moved / share / rates["bytes"])
            layers = {
                "XDConv": xd_conv.xd_layer(case, dtype=dtype),
                "Conv": xd_conv.convolution_layer(case, dtype=dtype),
            }
            if dtype == "float32":
                layers["SpectralConv"] = xd_conv.spectral_layer(case)
            found = {key: backend.step(built(v, x), x, True) for key, v in layers.items()}
            if isinstance(backend, Jax) and not backend.is_gpu:
                with as_on_accelerator():
                    found["XDConv, whole"] = backend.step(layers["XDConv"], x, True)
            taken = medians(
                backend, {key: call for key, (call, _) in found.items()}, options.rounds
            )
            label = f"{batch}, {channels}, {'×'.join(map(str, sizes))}, {kernel}, {depth}"
            for key, (_, program) in found.items():
                ours = key.startswith("XDConv")
                row = [label, dtype, key, f"{taken[key]:.3f}"]
                row += [f"{taken[key] / least:.1f}" if ours else ""]
                row += [f"{taken[key] / taken['Conv']:.2f}", *described(program)]
                rows.append(row)
                print(*row, flush=True)
            rows.append([label, dtype, "floor", f"{least:.3f}", "1", *[""] * 5])
            gc.collect()
    return rows


def as_on_accelerator():
    """Return a context in which the package chooses its forms for an accelerator."""
    from keras_xd.core import devices

    return unittest.mock.patch.object(devices, "has_accelerator", lambda: True)


def inference(backend, options):
    """Return the rows of finalized layers, forward only."""
    import xd_conv

    rows = []
    for name in options.cases:
        batch, channels, sizes, *_ = case = (xd_conv.CASES | TINY)[name]
        x = inputs(batch, *sizes, channels)
        searched = built(xd_conv.xd_layer(case), x)
        layers = {
            "finalized": searched.finalize(),
            "Conv": built(xd_conv.convolution_layer(case), x),
            "SpectralConv": built(xd_conv.spectral_layer(case), x),
        }
        found = {key: backend.step(layer, x, False) for key, layer in layers.items()}
        taken = medians(backend, {key: call for key, (call, _) in found.items()}, options.rounds)
        for key, (_, program) in found.items():
            row = [name, key, f"{taken[key]:.3f}", f"{taken[key] / taken['Conv']:.2f}"]
            rows.append([*row, *described(program)])
            print(*rows[-1], flush=True)
    return rows


def others(backend, options):
    """Return the rows of a cell of all operations and of long continuous kernels."""
    import keras

    import keras_xd

    batch, channels = options.batch, options.channels
    subjects = {}
    if "cell" in options.parts:
        features = keras.Input((32, 32, channels))
        cell = keras_xd.layers.HeterogeneousCell(channels, keras_xd.layers.CellArchitecture())
        model = keras.Model(features, cell([features, features]))
        name = f"cell, all operations, {channels} channels"
        subjects[name] = model, inputs(batch, 32, 32, channels)
    if "kernels" in options.parts:
        for sizes, taps in (((1024,), 511), ((32, 32), 33)):
            name = f"CKConv, {'×'.join(map(str, sizes))}, {4 * channels} channels"
            x = inputs(batch, *sizes, 4 * channels)
            layer = keras_xd.layers.CKConv(len(sizes), kernel_size=taps)
            subjects[name] = built(layer, x), x
    rows = []
    for name, (layer, x) in subjects.items():
        call, program = backend.step(layer, x, True)
        taken = medians(backend, {name: call}, options.rounds)[name]
        rows.append([name, str(batch), f"{taken:.3f}", *described(program)])
        print(*rows[-1], flush=True)
    return rows


def search(backend, options):
    """Return the rows of a step of `fit`: a ResNet, and the search of all its convolutions."""
    import keras

    import keras_xd

    x = inputs(options.batch * options.steps, 32, 32, 3)
    y = np.arange(len(x)) % 10
    backbone = keras_xd.models.resnet20((32, 32, 3), 10, width=options.channels)
    space = keras_xd.SearchModel(keras_xd.rewrite(backbone))
    rows, taken = [], {}
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
        rows.append([name, str(options.batch), f"{taken[name]:.2f}", ratio])
        print(*rows[-1], flush=True)
    return rows


def described(program):
    """Return the cells of a program: MiB, kernels, copies, calls of the host."""
    memory = f"{program['MiB']:.0f}" if "MiB" in program else ""
    return [memory, *(str(program.get(key, "")) for key in ("kernels", "copies", "host calls"))]


def table(head, rows):
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)] + [""]


def report(backend, options):
    """Measure all; return the page."""
    measured = rates(backend, options.rounds)
    program = ["MiB", "kernels", "copies", "host calls"]
    case = "batch, channels, sizes, kernel, depth"
    shown = f"KERAS_BACKEND={os.environ['KERAS_BACKEND']} {options.command}"
    where = f"on {backend.device}" if backend.is_gpu else "on a CPU; on a GPU it was not measured"
    lines = [
        "# Layers on an accelerator",
        "",
        f"Written by `{shown}`: {backend.version}, keras {importlib.metadata.version('keras')}, "
        f"{where}. Milliseconds, medians over {options.rounds} rounds in which the contestants "
        "take turns.",
        "",
        f"Rates measured: {measured['float32'] / 1e9:.3g} T multiply–adds a second in float32, "
        f"{measured['mixed_bfloat16'] / 1e9:.3g} in bfloat16, {measured['bytes'] / 1e6:.4g} GB a "
        "second.",
        "",
        "## Forward and backward",
        "",
        *table([case, "type", "layer", "ms", "/ floor", "/ Conv", *program], [])[:-1],
    ]
    rows = cases(backend, options, measured)
    lines += [f"| {' | '.join(row)} |" for row in rows] + ["", "## Forward only", ""]
    lines += table(["case", "layer", "ms", "/ Conv", *program], inference(backend, options))
    if {"cell", "kernels"} & set(options.parts):
        lines += ["## Other layers, forward and backward", ""]
        lines += table(["layer", "batch", "ms", *program], others(backend, options))
    if "search" in options.parts:
        lines += ["## A step of `fit`", ""]
        lines += table(["model", "batch", "ms", "/ ResNet-20"], search(backend, options))
    return "\n".join(lines)


def main(arguments=None):
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import xd_conv

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = list(xd_conv.CASES)
    parser.add_argument("--cases", nargs="+", choices=[*names, *TINY], default=names)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="of cells, CKConv and searches")
    parser.add_argument("--channels", type=int, default=16, help="of cells and searches")
    parser.add_argument("--steps", type=int, default=20, help="of an epoch of the search")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS, help="that take long")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(arguments)
    words = sys.argv[1:] if arguments is None else arguments
    options.command = " ".join(["python benchmarks/gpu.py", *words])
    name = os.environ.setdefault("KERAS_BACKEND", "jax")
    if name not in ("jax", "torch"):
        parser.error(f"KERAS_BACKEND must be jax or torch. Received: {name!r}")
    text = report({"jax": Jax, "torch": Torch}[name](), options)
    print(text)
    if not options.dry_run:
        RESULTS.write_text(text, encoding="utf-8")
    return text


if __name__ == "__main__":
    main()
