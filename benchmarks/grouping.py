"""Measure one, two and three groups of dense blocks, the data of the cost rule of `kmatrix.plan`.

    python benchmarks/grouping.py [--columns 512] [--sizes 64 128 256 512 1024] [--depths 1 3 9]

For every size and depth, forward and backward of one K-matrix (folding included) applied as M and
as K, median milliseconds, without and with XLA, and the grouping that the cost rule picks.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from keras_xd import kmatrix
from keras_xd.kmatrix import product, radix, transform


def median_milliseconds(function, *arguments, repetitions=7):
    function(*arguments)
    function(*arguments)
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        np.array(function(*arguments)[0])
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def step_function(plan):
    def step(weights, x):
        with tf.GradientTape() as tape:
            tape.watch((weights, x))
            (factors,) = product.multiply_out([weights], [plan])
            y = transform.forward_transform(factors, plan, pair=False)(x)
            z = transform.transposed_transform(factors, plan, pair=False)(y)
            loss = tf.reduce_mean(tf.square(z))
        return tape.gradient(loss, (weights, x))

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, default=512)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 256, 512, 1024])
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 3, 9])
    parser.add_argument("--no-jit", action="store_true")
    options = parser.parse_args()
    for n in options.sizes:
        for depth in options.depths:
            r = kmatrix.factorise(n)
            start = kmatrix.KMatrix.random_unitary(n, depth=depth, seed=depth)
            weights = tf.constant(start.weights)
            x = tf.random.normal((1, n, options.columns))
            picked = kmatrix.plan(n, depth=depth, columns=options.columns)
            cells = []
            for count in (1, 2, 3):
                if count == 1 and n > 1024:
                    continue
                plan = radix.balanced(n, r, count)
                function = tf.function(step_function(plan))
                milliseconds = median_milliseconds(function, weights, x)
                cell = f"{'x'.join(map(str, plan.group_sizes))}: {milliseconds:.1f}"
                if not options.no_jit:
                    function = tf.function(step_function(plan), jit_compile=True)
                    cell += f" / {median_milliseconds(function, weights, x):.1f}"
                cells.append(cell + ("  <- picked" if plan == picked else ""))
            print(f"n {n} depth {depth}:  " + "   ".join(cells), flush=True)


if __name__ == "__main__":
    main()
