import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.testing import check_layer


def test_layer():
    init_kwargs = {"initial_kernel_size": 4.0, "alias_penalty": 0.0, "seed": 1}
    check_layer(layers.FlexConv1D, init_kwargs, (2, 9, 2), run_jit=False, run_mixed_precision=False)


@pytest.mark.parametrize("rank", [1, 2])
def test_the_rank_is_that_of_the_class(rank, rng):
    shape = (2, 8, 6)[: rank + 1] + (3,)
    x = rng.normal(size=shape).astype("float32")
    network = layers.KernelNetwork("magnet", units=4, seed=1)
    expected = layers.CKConv(rank, network, seed=2)(x)
    for layer_class in ((layers.CKConv1D, layers.CKConv2D), (layers.FlexConv1D, layers.FlexConv2D)):
        layer = layer_class[rank - 1](network, seed=2)
        np.testing.assert_allclose(layer(x), expected, atol=1e-6)
        assert "rank" not in layer.get_config()


def test_the_penalty_is_part_of_the_loss(rng):
    x = rng.normal(size=(1, 8, 2)).astype("float32")
    network = layers.KernelNetwork("magnet", units=4, frequency=9.0, seed=1)
    layer = layers.FlexConv1D(network, kernel_size=7, alias_penalty=0.5)
    layer(x)
    expected = 0.5 * float(network.alias_penalty((7,)))
    assert expected > 0
    assert [float(loss) for loss in layer.losses] == [pytest.approx(expected)]
    without = layers.FlexConv1D(network, kernel_size=7, alias_penalty=0)
    without(x)
    assert not without.losses


def test_a_shared_network_of_a_flexible_convolution_is_saved_once(tmp_path):
    network = layers.KernelNetwork("magnet", units=4)
    inputs = keras.Input((8, 2))
    x = layers.FlexConv1D(network)(layers.FlexConv1D(network)(inputs))
    keras.Model(inputs, x).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[1].network is loaded.layers[2].network


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"network": layers.KernelNetwork("siren")}, "kind='siren'"),
        ({"alias_penalty": -1}, "alias_penalty=-1"),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        layers.FlexConv1D(**kwargs)
