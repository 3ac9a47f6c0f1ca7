import json

import keras
import numpy as np
import pytest

from keras_xd import genotypes, layers
from keras_xd.layers.cells.edge_stack import EdgeStack


def test_weights_are_drawn_as_layers_draw_them():
    """The spread of every variable is that of the layer's own initializer.

    With strides, without which an identity has no weights.
    """
    filters, count, strides = 32, 12, 2
    stack = EdgeStack(filters, genotypes.NOS_OPERATIONS, strides=[strides], nodes=[0] * count)
    stack.build()
    cell = layers.HeterogeneousCell(filters, layers.CellArchitecture())
    for name in genotypes.NOS_OPERATIONS:
        drawn, filled = (cell.make_operation(name, strides, name) for _ in range(2))
        for layer in (drawn, filled):
            layer.build((None, 8, 8, filters))
        samples = []
        for edge in range(count):
            stack.fill(filled, edge, name)
            samples.append([keras.ops.convert_to_numpy(v) for v in filled.trainable_variables])
        assert len(samples[0]) == len(drawn.trainable_variables)
        for number, variable in enumerate(drawn.trainable_variables):
            wide = np.max(np.abs(keras.ops.convert_to_numpy(variable)))
            found = np.concatenate([sample[number].ravel() for sample in samples])
            assert np.max(np.abs(found)) == pytest.approx(wide, rel=0.2), (name, variable.path)
            assert abs(np.mean(found)) < 0.1 * wide
            assert np.any(samples[0][number] != samples[1][number])


def test_there_are_few_variables():
    stack = EdgeStack(8, genotypes.NOS_OPERATIONS, strides=[2, 1], nodes=[0] * 4 + [1] * 14)
    stack.build()
    names = [variable.name for variable in stack.weights]
    assert len(set(names)) == len(names) <= 30
    edges = {name: variable.shape[0] for name, variable in zip(names, stack.weights, strict=True)}
    assert edges["pointwise_0"] == 18 and edges["even"] == 4
    assert edges["strided_moving_mean"] == 4 and edges["moving_mean"] == 14
    assert edges["pooling_moving_mean"] == 2


def test_statistics_move_towards_those_of_a_batch(rng):
    stack = EdgeStack(2, ("average_pooling_3", "dilated_3"), strides=[1, 1], nodes=[0, 1, 1])
    stack.build()
    values = {name: rng.random((5, 2)).astype("float32") for name in ("mean", "variance")}
    nodes = {n: {f"pooling_moving_{k}": v[n] for k, v in values.items()} for n in range(2)}
    edges = {n: {f"moving_{k}": v[n + 2] for k, v in values.items()} for n in range(3)}
    stack.update(nodes, edges)
    found = {v.name: keras.ops.convert_to_numpy(v) for v in stack.non_trainable_variables}
    for kind, start in (("mean", 0.0), ("variance", 1.0)):
        expected = 0.9 * start + 0.1 * values[kind]
        np.testing.assert_allclose(found[f"pooling_moving_{kind}"], expected[:2], rtol=1e-5)
        np.testing.assert_allclose(found[f"moving_{kind}"], expected[2:], rtol=1e-5)


def test_configuration():
    stack = EdgeStack(4, ("identity", "dynamic_3"), strides=[1, 2], nodes=[0, 1], name="edges")
    config = json.loads(json.dumps(stack.get_config()))
    copy = EdgeStack.from_config(config)
    assert copy.get_config() == stack.get_config()
