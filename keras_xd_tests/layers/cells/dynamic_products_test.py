"""Dynamic kernels of several edges equal those of each, and their derivatives differences."""

import numpy as np
import pytest
from keras import ops
from scipy import special

from keras_xd.layers.cells.block_matrices import block_diagonal
from keras_xd.layers.cells.dynamic_products import dynamic_kernels

FILTERS, INNER, SHAPE = 4, 2, (2, 3, 5)


def arguments(sizes, edges, rng):
    """Return arguments of `dynamic_kernels` behind the first two, float32 arrays."""
    batch, height, width = SHAPE
    x = rng.normal(size=(batch, height, width, FILTERS))
    channels = edges * len(sizes) * INNER
    own = rng.normal(size=(edges, 1, len(sizes) * INNER, FILTERS)).astype("float32")
    found = (
        x,
        x.reshape(batch, -1, FILTERS).transpose(0, 2, 1),
        rng.normal(size=(FILTERS, channels)),
        rng.normal(size=(1, channels)),
        rng.normal(size=(sum(size**2 for size in sizes) * edges, FILTERS)),
        ops.convert_to_numpy(block_diagonal(ops.convert_to_tensor(own)))[0],
        rng.uniform(size=(len(sizes), 1, edges * FILTERS)),
    )
    return [value.astype("float32") for value in found]


def one_by_one(sizes, edges, x, images, matrix, offset, taps, decode, shares):
    largest, first = max(sizes), 0
    found = np.zeros((len(x), largest, largest, edges * FILTERS))
    inner = np.maximum(x.reshape(len(x), -1, FILTERS) @ matrix + offset, 0)
    for number, size in enumerate(sizes):
        margin = (largest - size) // 2
        inside = slice(margin, margin + size)
        for edge in range(edges):
            start = (edge * len(sizes) + number) * INNER
            own = slice(start, start + INNER)
            outputs = slice(edge * FILTERS, (edge + 1) * FILTERS)
            rows = taps[edge::edges][first : first + size**2]
            context = special.softmax(rows @ images, axis=-1) @ inner[..., own]
            kernel = special.softmax(context @ decode[own, outputs], axis=1)
            kernel = kernel.reshape(-1, size, size, FILTERS) * shares[number, 0, outputs]
            found[:, inside, inside, outputs] += kernel
        first += size**2
    return found


@pytest.mark.parametrize("sizes", [(3,), (3, 5)])
@pytest.mark.parametrize("edges", [1, 3])
def test_kernels_of_edges_together_are_those_of_each(sizes, edges, rng):
    values = arguments(sizes, edges, rng)
    found = dynamic_kernels(sizes, edges, *map(ops.convert_to_tensor, values))
    expected = one_by_one(sizes, edges, *values)
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.tensorflow("differentiates by a tape")
def test_derivatives_equal_differences(rng):
    import tensorflow as tf

    sizes, edges = (3, 5), 2
    values = arguments(sizes, edges, rng)
    weights = rng.normal(size=(SHAPE[0], 5, 5, edges * FILTERS))
    tensors = [tf.constant(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        loss = tf.reduce_sum(dynamic_kernels(sizes, edges, *tensors) * weights.astype("float32"))
    gradients = tape.gradient(loss, tensors)
    for place, gradient in enumerate(gradients):
        # Zeros are those between the edges, by which nothing is multiplied one by one.
        direction = rng.normal(size=values[place].shape) * (values[place] != 0)
        losses = []
        for step in (1e-5, -1e-5):
            moved = [value.astype("float64") for value in values]
            moved[place] = moved[place] + step * direction
            losses.append(np.sum(one_by_one(sizes, edges, *moved) * weights))
        expected = (losses[0] - losses[1]) / 2e-5
        np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-3, atol=1e-4)
