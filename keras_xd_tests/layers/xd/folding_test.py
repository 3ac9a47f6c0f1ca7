import numpy as np
from keras import ops

from keras_xd import layers


def test_the_parts_of_an_operation_make_up_its_spectrum(rng):
    """`C ∘ (L w + b)` of a static layer from `L`, `w`, `b` and `C` of the other form."""
    layer = layers.XDConv1D(3, 3, padding="same", frequency_bias=True, channel_gates=True)
    layer.build((None, 8, 2))
    for variable in (*layer.architecture_variables, layer.kernel):
        variable.assign(rng.normal(size=variable.shape))
    stored = layer.finalize("kernel").spectrum
    matrix, kernel, bias, gates = (ops.convert_to_numpy(part) for part in stored)
    expected = gates * (np.einsum("npk,kio->npio", matrix, kernel) + bias)
    (spectrum,) = layer.finalize().spectrum
    spectrum = ops.convert_to_numpy(spectrum)
    np.testing.assert_allclose(spectrum, expected, rtol=1e-4, atol=1e-5)


def test_gates_without_a_bias_are_part_of_the_kernel(rng):
    layer = layers.XDConv1D(3, 3, padding="same", channel_gates=True)
    layer.build((None, 8, 2))
    gates = rng.normal(size=(2, 3))
    layer.architecture_variables[-1].assign(gates)
    static = layer.finalize("kernel")
    kernel, before = map(ops.convert_to_numpy, (static.kernel, layer.kernel))
    np.testing.assert_allclose(kernel, gates * before, rtol=1e-5)
    assert not static.channel_gates
