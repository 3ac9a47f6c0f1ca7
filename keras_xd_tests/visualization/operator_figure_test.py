"""The parts of the picture of an operator: windows, matrices, phases."""

import numpy as np
import pytest

from keras_xd import layers
from keras_xd.visualization import operator_figure


@pytest.mark.parametrize("kind", [layers.XDConv1D, layers.KOpConv1D])
def test_matrices_of_a_large_axis_are_products_with_unit_vectors(kind, rng, monkeypatch):
    layer = kind(1, 3, padding="same", depth=2)
    layer.build((None, 48, 1))
    for variable in layer.architecture_variables:
        variable.assign(variable + rng.normal(scale=0.1, size=variable.shape))
    expected = operator_figure.matrices(layer, 10)
    assert {name: matrix.shape for name, matrix in expected.items()} == {
        "M, axis 0": (10, 10),
        "K, axis 0": (10, 10),
    }
    monkeypatch.setattr(operator_figure, "LARGEST_DENSE", 16)
    monkeypatch.setattr(kind, "describe", None)
    found = operator_figure.matrices(layer, 10)
    for name, matrix in expected.items():
        np.testing.assert_allclose(found[name], matrix, atol=1e-5)


def test_matrices_of_a_large_causal_layer_are_left_out(monkeypatch):
    layer = layers.XDCausalConv1D(1, 3)
    layer.build((None, 16, 1))
    assert operator_figure.matrices(layer)
    monkeypatch.setattr(operator_figure, "LARGEST_DENSE", 8)
    assert operator_figure.matrices(layer) == {}
