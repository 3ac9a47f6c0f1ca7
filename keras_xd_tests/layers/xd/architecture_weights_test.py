"""K-matrices as an architecture: what tells their meaning, and what a random one is."""

import keras
import numpy as np
import pytest

from keras_xd import kmatrix, layers
from keras_xd.layers import warm_starts


def built(layer, shape=(None, 12, 2)):
    layer.build(shape)
    return layer


def dense(weight, plan):
    real, imaginary = kmatrix.KMatrix(np.asarray(weight), plan).dense()
    return np.array(real) + 1j * np.array(imaginary)


@pytest.mark.parametrize(
    ("one", "other", "keys"),
    [
        ({}, {"filters": 4, "kernel_size": 5, "strides": 2}, []),
        ({"radix": (2, 6)}, {"radix": (6, 2)}, ["radices"]),
        ({}, {"warm_start": "fourier_operator"}, ["kernel_placement"]),
        (
            {"depth": (1, 3, 1)},
            {"depth": (1, 3, 1), "warm_start": warm_starts.Convolution(trainable_dilation=True)},
            ["trainable_dilation"],
        ),
        (
            {"warm_start": "fourier_operator"},
            {"warm_start": warm_starts.Perturbed("fourier_operator", 0.5)},
            [],
        ),
        ({"warm_start": "random_unitary"}, {}, []),
        ({}, {"kind": layers.KOpConv1D}, ["class"]),
    ],
)
def test_signatures_tell_what_shapes_do_not(one, other, keys):
    common = {"filters": 2, "kernel_size": 3, "padding": "circular"}
    first, second = (
        built(options.pop("kind", layers.XDConv1D)(**{**common, **options}))
        for options in (dict(one), dict(other))
    )
    first, second = first.architecture_signature(), second.architecture_signature()
    assert [key for key in first if first[key] != second[key]] == keys


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (layers.XDConv1D(2, 3, depth=(1, 2, 3)), (None, 10, 2)),
        (layers.XDConv2D(2, 3, padding="same", radix=4), (None, 4, 7, 2)),
        (layers.KOpConv1D(2, 3, depth=9), (None, 6, 2)),
    ],
)
def test_random_matrices_are_unitary_and_L_and_K_are_scaled(layer, shape, rng):
    built(layer, shape)
    values = layer.random_architecture(rng)
    assert [v.shape for v in values] == [tuple(w.shape) for w in layer.architecture_variables]
    for index, value in enumerate(values[: 3 * layer.rank]):
        name, plan = "KLM"[index // layer.rank], layer.plans[index % layer.rank]
        matrix = dense(value, plan)
        axis = index % layer.rank
        size = layer.geometry[axis].size
        scale = {"K": (2 - (axis > 0)) * plan.n / size, "L": plan.n, "M": 1}[name]
        np.testing.assert_allclose(
            matrix @ matrix.conj().T, scale * np.eye(plan.n), atol=1e-5 * scale
        )
        assert np.abs(matrix.imag).max() > 0.05
        assert not np.array_equal(value, layer.random_architecture(rng)[index])


def test_random_gates_and_bias_are_those_of_a_search_from_scratch(rng):
    layer = layers.XDConv1D(4, 3, groups=2, padding="same", frequency_bias=True, channel_gates=True)
    *_, bias, gates = built(layer, (None, 9, 6)).random_architecture(rng)
    np.testing.assert_array_equal(bias, np.zeros((*[p.n for p in layer.plans], 2)))
    np.testing.assert_array_equal(gates, np.ones((3, 4)))


def test_random_causal_architecture_is_triangular(rng):
    layer = built(layers.XDCausalConv1D(2, 3), (None, 5, 2))
    for variable, value in zip(
        layer.architecture_variables, layer.random_architecture(rng), strict=True
    ):
        variable.assign(value)
    for name in ("K0", "M0"):
        matrix = layer.describe()[f"matrix/{name}"]
        np.testing.assert_array_equal(matrix, np.tril(matrix))
        assert np.abs(np.tril(matrix, -1)).max() > 0.05
    x = np.random.default_rng(0).normal(size=(1, 5, 2)).astype("float32")
    later = x.copy()
    later[:, 3:] += 1
    before, after = (keras.ops.convert_to_numpy(layer(data)) for data in (x, later))
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert np.abs(before[:, 3:] - after[:, 3:]).max() > 0.01
