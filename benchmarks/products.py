"""What TensorFlow's own products take of a training step of an XD-operation.

    python benchmarks/products.py [--cases 2d-32 …] [--threads 1 2] [--rounds 15]

The graph of forward and backward of each layer of `xd_conv.py` is traced without XLA; every product
in it (MatMul, BatchMatMulV2) and every Transpose is timed alone, on random tensors of its shapes,
as often as it stands in the graph, all in turn with the whole layer and with Keras' convolution.
Their sum is what is left if nothing else took time: no arrangement of these operations is faster.
The floor is that of `xd_conv.py`: multiply–adds at the rate of a product of two 2048 × 2048
matrices, or bytes at the rate of adding to a large tensor. Each number of threads has a process of
its own. Writes benchmarks/products.md, or nothing with `--dry-run`.
"""

import argparse
import collections
import importlib.metadata
import json
import os
import pathlib
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import xd_conv

RESULTS = pathlib.Path(__file__).with_suffix(".md")
PRODUCTS, COPIES = ("MatMul", "BatchMatMulV2"), ("Transpose",)


def traced(layer, batch, channels, sizes):
    """Return the graph of a step, forward and backward, with what it calls inlined."""
    from tensorflow.python.framework import convert_to_constants

    step, x = xd_conv.compiled_step(layer, batch, channels, sizes, jit=False)
    whole = step.get_concrete_function(x)
    return convert_to_constants.convert_variables_to_constants_v2(whole).graph


def operations(graph):
    """Return a counter of what is timed, `(kind, shapes, settings)`."""

    found = collections.Counter()
    for node in graph.get_operations():
        if node.type not in (*PRODUCTS, *COPIES):
            continue
        shapes = tuple(tuple(tensor.shape) for tensor in node.inputs)
        if any(size is None for shape in shapes for size in shape):
            raise ValueError(f"Unknown shape in {node.name}: {shapes}")
        if node.type == "MatMul":
            settings = (node.get_attr("transpose_a"), node.get_attr("transpose_b"))
        elif node.type == "BatchMatMulV2":
            settings = (node.get_attr("adj_x"), node.get_attr("adj_y"))
        else:
            shapes, settings = shapes[:1], _order(node.inputs[1])
        found[node.type, shapes, settings] += 1
    return found


def _order(tensor):
    """Return the order of the axes that a Transpose is given."""
    import tensorflow as tf

    if tensor.op.type == "InvertPermutation":  # in a gradient
        return tuple(int(axis) for axis in np.argsort(_order(tensor.op.inputs[0])))
    return tuple(int(axis) for axis in tf.get_static_value(tensor))


def timed(kind, shapes, settings):
    """Return a function that runs an operation once."""
    import tensorflow as tf

    tensors = [tf.random.normal(shape) for shape in shapes]
    if kind in COPIES:
        function = tf.function(lambda x: tf.transpose(x, settings))
    else:
        first, second = settings
        function = tf.function(lambda a, b: tf.matmul(a, b, transpose_a=first, transpose_b=second))
    function(*tensors)
    return lambda: function(*tensors)


def measure(name, rounds):
    """Return the median milliseconds of the layer, the convolution, products and transposes."""
    case = xd_conv.CASES[name]
    batch, channels, sizes, *_ = case
    counts = operations(traced(xd_conv.xd_layer(case), batch, channels, sizes))
    steps = {
        "layer": xd_conv.make_xd(case, jit=False),
        "convolution": xd_conv.make_convolution(case),
        **{operation: timed(*operation) for operation in counts},
    }
    times = {key: [] for key in steps}
    for index in range(rounds + 2):
        for key, step in steps.items():
            start = time.perf_counter()
            step()
            if index > 1:
                times[key].append(1000 * (time.perf_counter() - start))
    found = {key: statistics.median(values) for key, values in times.items()}
    sums = {kind: 0.0 for kind in ("products", "transposes")}
    for operation, count in counts.items():
        sums["products" if operation[0] in PRODUCTS else "transposes"] += count * found[operation]
    multiply_adds, moved = xd_conv.floor(case)
    rate, bandwidth = xd_conv.machine_rates()
    floor = max(multiply_adds / rate, moved / bandwidth)
    count = sum(number for (kind, *_), number in counts.items() if kind in PRODUCTS)
    return {
        **{key: found[key] for key in ("layer", "convolution")},
        **sums,
        "floor": floor,
        "count": count,
    }


def measured_apart(name, threads, rounds):
    """Return what `measure` does in a process with a number of threads."""
    return xd_conv.measured_apart(__file__, [name, str(rounds)], threads)


def table(results):
    """Return the lines of the table."""
    lines = [
        "| case: batch, channels, sizes, kernel, depth | threads | layer, ms | products alone | "
        "transposes alone | both / layer | convolution, ms | both / convolution | floor, ms | "
        "both / floor |",
        "|---" * 10 + "|",
    ]
    for (name, threads), row in results.items():
        batch, channels, sizes, kernel, depth, _ = xd_conv.CASES[name]
        case = f"{batch}, {channels}, {'×'.join(map(str, sizes))}, {kernel}, {depth}"
        both = row["products"] + row["transposes"]
        cells = [case, str(threads), f"{row['layer']:.1f}"]
        cells.append(f"{row['products']:.1f} ({row['count']})")
        cells += [f"{row['transposes']:.1f}", f"{both / row['layer']:.2f}"]
        cells += [f"{row['convolution']:.1f}", f"{both / row['convolution']:.2f}"]
        cells += [f"{row['floor']:.1f}", f"{both / row['floor']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=xd_conv.CASES, default=list(xd_conv.CASES))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.measure:
        name, rounds = options.measure
        print(json.dumps(measure(name, int(rounds))))
        return None
    results = {
        (name, threads): measured_apart(name, threads, options.rounds)
        for name in options.cases
        for threads in options.threads
    }
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    command = f"python benchmarks/products.py --cases {' '.join(options.cases)}"
    command += f" --threads {' '.join(map(str, options.threads))} --rounds {options.rounds}"
    lines = [
        "# Products in a step of an XD-operation",
        "",
        f"Written by `{command}`; {versions}, float32, without XLA. Milliseconds, medians "
        "of all in turn; in parentheses the number of products. “Both” are all products and "
        "transposes of forward and backward, each timed alone.",
        "",
        *table(results),
    ]
    print("\n".join(lines))
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    main()
