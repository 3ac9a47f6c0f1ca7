"""Kernels as long as the signal: the columns of `L` against `L` applied to the placed kernel.

    python benchmarks/long_kernels.py

Both forms have equal values; a layer chooses one when it is built. Every case is forward and
backward in float32, both forms of one layer in turn in one process; `×` is the columns' time
divided by the other's. `chosen` is what the layer takes by its estimate, in bold where that is the
slower one by more than a fifth. `peak MiB` is by how much resident memory rises during three steps
in a process of its own (Linux). A form that would need more than `--most-memory` is left out.
"""

import dataclasses
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import numpy as np
import tensorflow as tf
import timing

from keras_xd import layers

FORMS = {"columns": False, "direct": True}
# class, batch, channels, sizes, kernel, padding
CASES = {
    "1d-4096": ("XDConv1D", 4, 2, (4096,), 4096, "circular"),
    "1d-16384": ("XDConv1D", 1, 2, (16384,), 16384, "circular"),
    "depthwise-2048": ("XDDepthwiseConv1D", 4, 16, (2048,), 1023, "same"),
    "1d-1024-5": ("XDConv1D", 8, 16, (1024,), 5, "circular"),
    "1d-1024-127": ("XDConv1D", 8, 16, (1024,), 127, "circular"),
    "1d-1024-511": ("XDConv1D", 8, 16, (1024,), 511, "circular"),
}


def layer_of(case):
    """Return a built layer of a case and the shape of its inputs."""
    name, batch, channels, sizes, kernel, padding = case
    filters = () if "Depthwise" in name else (channels,)
    layer = getattr(layers, name)(*filters, kernel, padding=padding, use_bias=False)
    shape = (batch, *sizes, channels)
    layer.build(shape)
    return layer, shape


def take_form(layer, form):
    """Let a built layer compute `L w` in one of the `FORMS`."""
    axes = [dataclasses.replace(axis, direct=FORMS[form]) for axis in layer._kernel_axes]
    layer._kernel_axes = tuple(axes)


def chosen_form(layer):
    """Return the form that a layer takes by its estimate, by axis where these differ."""
    names = {direct: form for form, direct in FORMS.items()}
    chosen = dict.fromkeys(names[axis.direct] for axis in layer._kernel_axes)
    return " and ".join(chosen)


def step_of(layer, shape):
    """Return a traced function that returns the outputs and all gradients."""
    x = tf.random.stateless_normal(shape, (0, 1))
    outputs = layer.compute_output_shape(shape)
    weights = tf.random.stateless_normal(outputs, (0, 2))
    variables = [variable.value for variable in layer.trainable_variables]

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tf.reduce_sum(y * weights)
        return [y, *tape.gradient(loss, [x, *variables])]

    step.get_concrete_function(x)
    return lambda: step(x)


def difference(some, others):
    """Return the largest relative Euclidean difference of two lists of tensors."""
    pairs = zip(map(np.asarray, some), map(np.asarray, others), strict=True)
    return max(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs)


def memory_of(case, form):
    """Return the seconds and MiB of building and the MiB of three steps, of one form."""
    tiny = (case[0], 2, 2, (8,) * len(case[3]), 3, case[5])
    layer, shape = layer_of(tiny)
    step_of(layer, shape)()
    start, made = time.perf_counter(), []
    built = timing.memory_growth(lambda: made.extend(layer_of(case)))
    seconds = time.perf_counter() - start
    layer, shape = made
    take_form(layer, form)
    step = step_of(layer, shape)
    return [seconds, built, timing.memory_growth(lambda: [step() for _ in range(3)])]


def table(options):
    """Return the lines of the table, each printed as it is found."""
    words = ["case", "layer: batch, channels, sizes, kernel", "columns ms", "direct ms", "×"]
    words += ["chosen", "error", "columns peak MiB", "direct peak MiB", "build s", "build MiB"]
    lines = timing.head(*words)
    for name in options.cases:
        case = CASES[name]
        layer, shape = layer_of(case)
        chosen = chosen_form(layer)
        # The columns and their gradient, each as the sum over a group and as complex blocks.
        needed = 16 * max(axis.plan.n * axis.kernel_size for axis in layer._kernel_axes) * 4 / 2**20
        forms = [form for form in FORMS if form == "direct" or needed < options.most_memory]
        steps, values = {}, []
        for form in forms:
            take_form(layer, form)
            steps[form] = step_of(layer, shape)
            values.append(steps[form]())
        calls = {form: lambda step=step: step()[0].numpy() for form, step in steps.items()}
        times = timing.medians(calls, 3, 1, options.repetitions, pause=0.5)
        memory = {form: timing.apart(__file__, [case, form]) for form in forms}
        seconds, built, _ = memory["direct"]
        text = [f"{times[form]:.1f}" if form in forms else "" for form in FORMS]
        peaks = [f"{memory[form][2]:.0f}" if form in forms else "" for form in FORMS]
        ratio = error = ""
        if len(forms) > 1:
            ratio = f"{times['columns'] / times['direct']:.2f}"
            error = f"{difference(*values):.1e}"
            if chosen in times and times[chosen] > 1.2 * min(times.values()):
                chosen = f"**{chosen}**"
        _, batch, channels, sizes, kernel, _ = case
        label = f"{case[0]}: {batch}, {channels}, {'×'.join(map(str, sizes))}, {kernel}"
        cells = [name, label, *text, ratio, chosen, error, *peaks, f"{seconds:.2f}", f"{built:.0f}"]
        lines.append(timing.row(*cells))
    return lines


def main(arguments=None):
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--repetitions", type=int, default=1, help="in each of three rounds")
    parser.add_argument("--most-memory", type=float, default=2048, help="MiB, of the columns")
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(memory_of(*options.measure)))
        return None
    threads = os.environ.get("TF_NUM_INTRAOP_THREADS", os.cpu_count())
    lines = timing.page(
        "Long kernels",
        f"Written by `python benchmarks/long_kernels.py`; {timing.versions()}, {threads} of "
        f"{os.cpu_count()} cores. Forward and backward, float32; medians, both forms in turn in "
        "one process.",
        table(options),
    )
    return timing.write(options, lines)


if __name__ == "__main__":
    main()
