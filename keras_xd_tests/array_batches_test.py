import numpy as np
import pytest
import tensorflow as tf
from keras.src import tree
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from keras_xd_tests import array_batches


def found(dataset):
    return [tree.map_structure(lambda leaf: leaf.numpy().tolist(), batch) for batch in dataset]


@pytest.mark.parametrize("batch_size", [2, 3, 6, 8])
@pytest.mark.parametrize("nested", [False, True])
def test_batches_are_those_of_keras(batch_size, nested):
    x, y = np.arange(12.0, dtype="float32").reshape(6, 2), np.arange(6)
    if nested:
        x, y = {"one": x, "two": [x[:, :1], tf.constant(x)]}, [y, y + 0.5]
    weights = np.linspace(0, 1, 6)
    adapter = ArrayDataAdapter(x, y, weights, batch_size=batch_size)
    of_keras, ours = array_batches.OF_KERAS(adapter), array_batches.batches(adapter)
    assert found(ours) == found(of_keras)
    assert len(ours) == len(found(of_keras))
    assert ours.element_spec == of_keras.element_spec


def test_every_pass_is_shuffled_by_the_seed():
    orders = []
    for _ in range(2):
        tf.random.set_seed(1)
        adapter = ArrayDataAdapter(np.arange(20), batch_size=8, shuffle=True)
        dataset = array_batches.batches(adapter)
        orders += [sum(found(dataset), []) for _ in range(2)]
    assert orders[:2] == orders[2:]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]) == list(range(20))


def test_shuffled_batches_are_made_by_keras(monkeypatch):
    made = []
    monkeypatch.setattr(array_batches, "OF_KERAS", made.append)
    adapter = ArrayDataAdapter(np.arange(6), batch_size=2, shuffle="batch")
    array_batches.batches(adapter)
    assert made == [adapter]
