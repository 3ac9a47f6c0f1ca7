import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.testing import assert_close


def fourier_operator(sizes, modes, channels=16, **options):
    """A built operation that begins as a Fourier operator of so many modes."""
    layer = layers.XDConv(
        len(sizes),
        12,
        2 * modes - 1,
        padding="circular",
        warm_start="fourier_operator",
        frequency_bias=None,
        channel_gates=None,
        **options,
    )
    layer.build((None, *sizes, channels))
    return layer


@pytest.mark.parametrize(
    ("sizes", "modes", "kept"),
    [((64,), 5, (5,)), ((20, 24), 3, (3, 5)), ((8, 8, 9), 2, (2, 3, 3))],
)
def test_a_fourier_operator_keeps_its_modes_alone(sizes, modes, kept, rng, tmp_path):
    layer = fourier_operator(sizes, modes)
    static = layer.finalize("low_rank", tolerance=1e-6)
    assert type(static) is layers.StaticXD and static.kept == kept and static.error < 1e-6
    assert static.count_params() < 0.4 * layer.finalize().count_params()
    inputs = rng.normal(size=(2, *sizes, 16)).astype("float32")
    assert_close(np.array(static(inputs)), np.array(layer(inputs)))
    model = keras.Sequential([keras.Input((*sizes, 16)), static])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(np.array(loaded(inputs)), np.array(layer(inputs)))


def test_frequencies_that_carry_little_go_by_name_alone(rng):
    layer = fourier_operator((64,), 5, use_bias=False)
    costs = layer.finalize("auto").costs
    assert [cost.form for cost in costs] == ["kernel", "spectrum", "frequencies"]
    for variable in layer.architecture_variables:
        variable.assign(variable + rng.normal(scale=4e-3, size=variable.shape))
    inputs = rng.normal(size=(64, 64, 16)).astype("float32")
    expected = np.array(layer(inputs))
    assert len(layer.finalize("auto").costs) == 2
    static = layer.finalize("low_rank", tolerance=0.1)
    assert static.kept == (5,) and 0.005 < static.error < 0.1
    error = np.linalg.norm(np.array(static(inputs)) - expected) / np.linalg.norm(expected)
    assert 0.8 * static.error < error < 1.2 * static.error
    assert layer.finalize("low_rank", tolerance=0.002).error is None
