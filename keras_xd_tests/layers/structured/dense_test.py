import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.kmatrix import families
from keras_xd.testing import check_layer

FAMILIES = (*families.FAMILIES, "dense")
every_family = pytest.mark.parametrize("family", FAMILIES)


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("monarch", None),
        ("kaleidoscope", {"radix": (2, 5), "depth": 2}),
    ],
)
def test_layer(family, sizes):
    arguments = {"units": 10, "family": family, "activation": "tanh", "seed": 1}
    arguments |= {"density": 0.6} if sizes is None else {"sizes": sizes}
    check_layer(layers.StructuredDense, arguments, (3, 5, 6), run_jit=family == "monarch")


@every_family
@pytest.mark.parametrize("shape", [(64, 256), (256, 64)])
def test_outputs_start_with_the_variance_of_dense(family, shape, rng):
    x = rng.normal(size=(256, shape[0])).astype("float32")
    dense = keras.layers.Dense(shape[1], kernel_initializer="glorot_uniform")
    drawn = [layers.StructuredDense(shape[1], family, seed=seed) for seed in range(4)]
    expected, *found = (np.var(np.asarray(layer(x))) for layer in (dense, *drawn))
    assert np.mean(found) == pytest.approx(float(expected), rel=0.15)


@pytest.mark.parametrize(
    ("family", "sizes", "count"),
    [
        ("low_rank", {"rank": 3}, 3 * (30 + 42)),
        ("monarch", {"blocks": 6}, 6 * (30 + 42)),
        (
            "block_tensor_train",
            {"row_factors": (6, 7), "column_factors": (5, 6), "rank": 2},
            2 * (6 * 30 + 6 * 42),
        ),
        ("blast", {"blocks": 3, "rank": 4}, 4 * (30 + 42) + 4 * 9),
        ("kaleidoscope", {"radix": (6, 7)}, None),
        ("dense", None, 30 * 42),
    ],
)
def test_multiply_adds(family, sizes, count):
    layer = layers.StructuredDense(42, family, sizes=sizes)
    inputs = keras.Input((5, 30))
    model = keras.Model(inputs, layer(inputs))
    if family == "kaleidoscope":  # folded to one matrix, which is the cheapest at this size
        count = 42 * 30
    assert keras_xd.complexity(model) == 5 * count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "units=0"),
        ({"family": "sparse"}, "`family` must be one of .* Received: family='sparse'"),
        ({"density": 0}, "density=0"),
        ({"sizes": {"rank": 3}}, r"of the family 'monarch' must be a dictionary of \['blocks'\]"),
        ({"density": 0.01}, "smallest monarch matrix of shape .* has 36 numbers"),
        ({"units": 7}, "common divisor above 1. Received: matrix of shape"),
        ({"sizes": {"blocks": 5}}, "Received: blocks=5"),
        ({"family": "blast", "sizes": {"blocks": 2}}, "sizes of a blast matrix are"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.StructuredDense(**{"units": 12, "family": "monarch", **arguments}).build((None, 6))


def test_kernels_of_other_shapes_and_unknown_sizes():
    layer = layers.StructuredDense(4, density=1.0)
    with pytest.raises(ValueError, match="must have a known size"):
        layer.build((None, None))
    layer.build((None, 6))
    with pytest.raises(ValueError, match=r"must have shape \(6, 4\)"):
        layer.project(np.ones((4, 6)))


def test_multiply_adds_count_every_vector_of_a_sample():
    layer = layers.StructuredDense(6, "monarch", density=0.7)
    layer.build((None, 3, 4, 8))
    single = layer.kernel.product.multiply_adds
    assert layer.multiply_adds((None, 8)) == single > 0
    assert layer.multiply_adds((None, 3, 4, 8)) == 12 * single
