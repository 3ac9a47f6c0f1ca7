import keras
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.graph.size_counts import count_activations, count_parameters


def network_of_blocks(learn):
    shared = layers.KernelNetwork(units=4, features=4)
    return keras_xd.models.ccnn(2, 6, (8, 3), 2, learn=learn, network=shared, kernel_size=5)


def test_a_network_of_whole_blocks_counts_as_it_is_finalized():
    model = network_of_blocks("")
    assert count_parameters(model) == keras_xd.finalize(model).count_params()
    assert count_parameters(model.get_layer("encoder")) == 3 * 6 + 6


def test_masks_count():
    model = network_of_blocks("WD")
    first = 3 * (5 + 5) + 9 + 3 + 9 + 3 + 1  # half of 6 channels, and half of 2 blocks
    assert float(count_parameters(model)) == pytest.approx(
        first + 3 * 6 + 6 + 4 * 6 + 6 * 2 + 2, rel=1e-5
    )
    block = 8 * 3 + 8 * 3 + 8 * (3 + 2 * 3 + 2 * 3)
    assert float(count_activations(model)) == pytest.approx(block + 8 * 6 + 2, rel=1e-5)
    assert count_activations(keras_xd.finalize(model)) == block + 8 * 6 + 2


def test_other_layers_count_their_weights_and_outputs():
    inputs = keras.Input((9, 3))
    x = layers.DifferentiableMask()(keras.layers.Dense(4)(inputs))
    x = keras.layers.TimeDistributed(keras.layers.Dense(2))(x)
    model = keras.Model(inputs, x)
    assert count_parameters(model) == 3 * 4 + 4 + 4 * 2 + 2
    assert count_activations(model) == 9 * 4 + 9 * 4 + 9 * 2
    shared = keras.layers.Dense(3)
    twice = keras.Model(inputs, shared(shared(inputs)))
    assert count_parameters(twice) == 12
    assert count_activations(twice) == 2 * 9 * 3


def test_shapes_have_to_be_known():
    model = keras.Sequential([keras.Input((None, 3)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="None, None, 3"):
        count_activations(model)
