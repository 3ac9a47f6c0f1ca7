"""Products with structured kernels beside those of dense layers, forward.

    python benchmarks/structured.py
    python benchmarks/structured.py --fly ../fly   # and the Monarch product of its authors

`--fly` is a checkout of HazyResearch/fly and needs torch and einops in the same environment. All
layers of a case are called in turn in one process, as graphs and compiled by XLA; `×` is the time
of `Dense` divided by the faster of the two. `floor` is the least that a layer can take beside
`Dense`: by its multiply–adds or its bytes, whichever is more.
"""

import importlib.util
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
import tensorflow as tf
import timing

from keras_xd import layers
from keras_xd.layers.k.k_dense import KDense

SIZES = {"1024": (1024, 1024), "3072": (768, 3072)}
FAMILIES = ("low_rank", "monarch", "block_tensor_train", "blast", "kaleidoscope")
FAST = 1.3  # times Dense


def contestants(inputs, units, share):
    """Return the built layers by their names."""
    found = {"Dense": keras.layers.Dense(units)}
    for family in FAMILIES:
        found[family] = layers.StructuredDense(units, family, density=share)
    if inputs == units:
        found["KDense"] = KDense(units)
    for layer in found.values():
        layer.build((None, inputs))
    return found


def calls(layer, x):
    """Return functions that call a layer as a graph, and compiled by XLA."""
    made = {}
    for name, compiled in (("graph", None), ("XLA", True)):
        function = tf.function(layer, jit_compile=compiled)
        function(x)
        made[name] = lambda function=function: function(x).numpy()
    return made


def products(layer, inputs):
    """Return the multiply–adds of a layer for one vector."""
    counted = getattr(layer, "multiply_adds", None)
    return inputs * layer.units if counted is None else counted((None, inputs))


def floor(layer, dense, batch, inputs):
    """Return the least time of a layer, as a share of that of a dense one."""

    def work(one):
        return products(one, inputs), one.count_params() + batch * (inputs + one.units)

    return max(own / whole for own, whole in zip(work(layer), work(dense), strict=True))


def torch_calls(folder, inputs, units, blocks, batch):
    """Return functions that call `torch.nn.Linear` and the Monarch product of fly."""
    import torch

    path = pathlib.Path(folder, "src/models/layers/blockdiag_butterfly_multiply.py")
    spec = importlib.util.spec_from_file_location("blockdiag_butterfly_multiply", path)
    fly = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fly)
    torch.set_num_threads(int(os.environ.get("TF_NUM_INTRAOP_THREADS", os.cpu_count())))
    x, linear = torch.randn(batch, inputs), torch.nn.Linear(inputs, units, bias=False)
    first = torch.randn(blocks, blocks, inputs // blocks)
    second = torch.randn(blocks, units // blocks, blocks)

    def without_gradients(function, *arguments):
        def call():
            with torch.no_grad():
                return function(*arguments)

        return call

    return {
        "torch Linear": without_gradients(linear, x),
        "fly Monarch": without_gradients(fly.blockdiag_butterfly_multiply, x, first, second),
    }


def table(options):
    """Return the lines of the table, each printed as it is found."""
    words = ["inputs × units", "layer", "numbers", "multiply–adds", "batch", "graph ms", "XLA ms"]
    lines = timing.head(*words, "×", "floor")
    for case in options.sizes:
        inputs, units = SIZES[case]
        layers = contestants(inputs, units, options.density)
        for batch in options.batches:
            x = np.random.default_rng(0).normal(size=(batch, inputs)).astype("float32")
            steps = {
                (name, form): call
                for name, layer in layers.items()
                for form, call in calls(layer, x).items()
            }
            torch_steps = {}
            if options.fly:
                blocks = layers["monarch"].kernel.product.sizes["blocks"]
                torch_steps = torch_calls(options.fly, inputs, units, blocks, batch)
            times = timing.medians(steps | torch_steps, 3, 1, options.repetitions, options.pause)
            best = {name: min(times[name, "graph"], times[name, "XLA"]) for name in layers}
            for name, layer in layers.items():
                ratio = best["Dense"] / best[name]
                text = f"**{ratio:.2f}**" if ratio >= FAST else f"{ratio:.2f}"
                least = f"{1 / floor(layer, layers['Dense'], batch, inputs):.1f}"
                cells = [f"{inputs} × {units}", name, f"{layer.count_params() - units:,}"]
                cells += [f"{products(layer, inputs):,}", batch]
                cells += [f"{times[name, form]:.2f}" for form in ("graph", "XLA")]
                lines.append(timing.row(*cells, text, least))
            if torch_steps:
                ratio = times["torch Linear"] / times["fly Monarch"]
                cells = [f"{inputs} × {units}", "fly's Monarch, torch", "", "", batch]
                cells += [f"{times['fly Monarch']:.2f}", "", f"{ratio:.2f}", ""]
                lines.append(timing.row(*cells))
    return lines


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--batches", nargs="+", type=int, default=[32, 512])
    parser.add_argument("--density", type=float, default=0.25)
    parser.add_argument("--repetitions", type=int, default=20, help="in each of three rounds")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds before each turn")
    parser.add_argument("--fly", help="folder of a checkout of HazyResearch/fly")
    options = parser.parse_args(arguments)
    packages = [*timing.PACKAGES, *(["torch"] if options.fly else [])]
    threads = os.environ.get("TF_NUM_INTRAOP_THREADS", os.cpu_count())
    peer = " --fly ../fly" if options.fly else ""
    lines = timing.page(
        "Structured kernels compared with dense ones",
        f"Written by `python benchmarks/structured.py{peer}`; {timing.versions(packages)}, "
        f"{threads} of {os.cpu_count()} cores, float32, forward. ×: the time of `Dense` by the "
        "faster of graph and XLA, divided by that of the layer; in bold from "
        f"{FAST} on. Floor: what × would be by multiply–adds and bytes at the rates of `Dense`; "
        "smaller products may run at higher rates. The torch product is beside `torch.nn.Linear`.",
        table(options),
    )
    return timing.write(options, lines)


if __name__ == "__main__":
    main()
