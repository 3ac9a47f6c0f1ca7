import keras
import numpy as np
import pytest
from keras import ops

from keras_xd import layers
from keras_xd.layers.ccnn.kernel_network import grid
from keras_xd.testing import check_config


def weights(network):
    return {w.name: ops.convert_to_numpy(w).astype("float64") for w in network.weights}


def built(kind, rank=2, **kwargs):
    network = layers.KernelNetwork(kind, **{"units": 5, "features": 4, "seed": 3, **kwargs})
    network.build((None, rank))
    return network


@pytest.mark.parametrize("kind", ["fourier", "siren", "magnet"])
def test_the_configuration_makes_an_equal_network(kind):
    init_kwargs = {"kind": kind, "units": 4, "hidden_layers": 1, "frequency": 0.2, "seed": 1}
    check_config(layers.KernelNetwork, {**init_kwargs, "features": 3, "spread": 0.1})
    network, c = layers.KernelNetwork(**init_kwargs), grid((5,))
    copy = layers.KernelNetwork.from_config(network.get_config())
    np.testing.assert_array_equal(copy(c), network(c))
    assert network(c).shape == network.compute_output_shape(c.shape) == (5, 4)


def test_fourier_features_and_layers_are_those_of_numpy():
    network = built("fourier", frequency=0.5)
    w, c = weights(network), grid((4, 3))
    phase = c @ w["frequencies"]
    hidden = np.concatenate([np.cos(phase), np.sin(phase)], axis=1)
    for i in range(2):
        hidden = np.maximum(hidden @ w[f"kernel{i}"] + w[f"bias{i}"], 0)
    np.testing.assert_allclose(network(c), hidden, atol=1e-5)
    assert hidden.any()


def test_siren_is_that_of_numpy():
    network = built("siren", frequency=2.0, hidden_layers=1)
    w, c = weights(network), grid((4, 3))
    hidden = np.sin(2 * (c @ w["kernel0"] + w["bias0"]))
    hidden = np.sin(2 * (hidden @ w["kernel1"] + w["bias1"]))
    np.testing.assert_allclose(network(c), hidden, atol=1e-5)
    assert np.abs(w["kernel0"]).max() <= 0.5
    assert np.abs(w["kernel1"]).max() <= np.sqrt(6 / 5) / 2


def test_magnet_is_that_of_numpy():
    network = built("magnet", frequency=0.5, hidden_layers=1)
    w, c = weights(network), grid((4, 3))

    def gabor(i):
        distance = (c[:, :, None] - w[f"centres{i}"]) * w[f"sharpness{i}"]
        wave = np.sin(c @ w[f"frequencies{i}"] + w[f"phases{i}"])
        return np.exp(-0.5 * np.sum(distance**2, axis=1)) * wave

    expected = gabor(1) * (gabor(0) @ w["kernel0"] + w["bias0"])
    np.testing.assert_allclose(network(c), expected, atol=1e-5)


def test_parameters_are_those_of_the_published_network():
    """256 features, 128, 128 and the outputs of 4 blocks of 140 channels: 283,218 with the rest."""
    network = layers.KernelNetwork("fourier", 128)
    network.build((None, 1))
    count = network.count_params() - 128  # without the random frequencies
    assert count == 256 * 128 + 128 + 128 * 128 + 128
    more = layers.KernelNetwork("fourier", 128, hidden_layers=3)
    more.build((None, 1))
    assert more.count_params() - network.count_params() == 16512


def test_later_filters_begin_wider():
    network = layers.KernelNetwork("magnet", units=1000, hidden_layers=2, seed=0)
    network.build((None, 2))
    for index, mean in enumerate((6, 3, 2)):  # of the gamma distribution of each layer
        found = np.mean(weights(network)[f"sharpness{index}"])
        assert found == pytest.approx(mean, rel=0.1)


def test_the_penalty_is_what_the_grid_cannot_hold():
    network = built("magnet", rank=1, hidden_layers=1)
    parts = {w.name: w for w in network.weights}
    for index in range(2):
        parts[f"frequencies{index}"].assign(np.full((1, 5), 2 * np.pi))
        parts[f"sharpness{index}"].assign(np.full((1, 5), np.pi))
    # One cycle and two standard deviations of 1/2 are 2; each filter may have (9 - 1) / 4 / 2 = 1.
    assert float(network.alias_penalty((9,))) == pytest.approx(2 * (2 - 1) ** 2)
    assert float(network.alias_penalty((17,))) == 0


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"kind": "mlp"}, "'fourier', 'siren', 'magnet'"),
        ({"units": 0}, "units=0"),
        ({"hidden_layers": 0}, "hidden_layers=0"),
        ({"frequency": -1}, "frequency=-1"),
        ({"spread": True}, "spread=True"),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        layers.KernelNetwork(**kwargs)


def test_only_gabor_filters_have_a_penalty():
    with pytest.raises(ValueError, match="kind='siren'"):
        built("siren").alias_penalty((9, 9))


def test_a_network_computes_in_full_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        network = built("fourier")
    finally:
        keras.config.set_dtype_policy("float32")
    assert network.compute_dtype == "float32"
