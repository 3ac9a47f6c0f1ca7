"""With `dtype="float64"` exact starts equal Keras' own float64 layers, not only to float32."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import kmatrix, layers
from keras_xd.kmatrix import constructions, special
from keras_xd.kmatrix.constructions import digit_reversal

TOLERANCE = 1e-12
FLOAT64 = {"dtype": "float64"}
CASES = {
    "xd_conv_1d": (layers.XDConv1D, keras.layers.Conv1D, (4, 3), {"padding": "causal"}, (13, 2)),
    "xd_conv_2d": (layers.XDConv2D, keras.layers.Conv2D, (4, 3), {"padding": "same"}, (7, 6, 2)),
    "strided": (layers.XDConv2D, keras.layers.Conv2D, (4, 3), {"strides": 2}, (7, 9, 2)),
    "grouped": (layers.XDConv1D, keras.layers.Conv1D, (4, 3), {"groups": 2}, (12, 2)),
    "transposed": (
        *(layers.XDConv2DTranspose, keras.layers.Conv2DTranspose, (4, 3)),
        *({"strides": 2, "padding": "same"}, (5, 6, 2)),
    ),
    "depthwise": (layers.XDDepthwiseConv2D, keras.layers.DepthwiseConv2D, (3,), {}, (7, 6, 2)),
    "separable": (
        *(layers.XDSeparableConv2D, keras.layers.SeparableConv2D, (4, 3)),
        *({"padding": "same"}, (7, 6, 2)),
    ),
    "causal": (layers.XDCausalConv1D, keras.layers.Conv1D, (4, 3), {}, (9, 2)),
    "k_operation": (layers.KOpConv2D, keras.layers.Conv2D, (4, 3), {"padding": "same"}, (7, 6, 2)),
}


def assert_equal_in_float64(actual, expected):
    actual, expected = (keras.ops.convert_to_numpy(value) for value in (actual, expected))
    assert actual.dtype == expected.dtype == "float64"
    scale = np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * scale)


@pytest.mark.parametrize("case", CASES)
def test_warm_started_and_finalized_layers_equal_their_twins(case, rng):
    layer_class, twin_class, arguments, options, shape = CASES[case]
    inputs = rng.normal(size=(2, *shape))
    twin_options = {"padding": "causal"} if case == "causal" else options
    twin = twin_class(*arguments, **twin_options, **FLOAT64)
    expected = twin(inputs)
    layer = layer_class(*arguments, **options, **FLOAT64)
    layer.build(inputs.shape)
    assert {variable.dtype for variable in layer.weights} == {"float64"}
    for name in ("kernel", "depthwise_kernel", "pointwise_kernel", "bias"):
        if hasattr(twin, name):
            getattr(layer, name).assign(getattr(twin, name))
    assert_equal_in_float64(layer(inputs), expected)
    distances = [v for name, v in layer.describe().items() if "distance" in name]
    assert distances and not any(distances)
    static = layer.finalize()
    assert {variable.dtype for variable in static.weights} == {"float64"}
    assert_equal_in_float64(static(inputs), expected)


def test_a_depth_of_three_and_several_blocks(rng):
    """A size at which K-matrices are products of several dense blocks."""
    inputs = rng.normal(size=(1, 1000, 1))
    twin = keras.layers.Conv1D(1, 3, padding="same", **FLOAT64)
    expected = twin(inputs)
    layer = layers.XDConv1D(1, 3, padding="same", depth=3, **FLOAT64)
    layer.build(inputs.shape)
    assert len(layer.plans[0].groups) > 1
    layer.kernel.assign(twin.kernel)
    assert_equal_in_float64(layer(inputs), expected)


@pytest.mark.parametrize("start", ["average_pooling", "identity"])
def test_starts_with_frequency_bias_and_gates(start, rng):
    inputs = rng.normal(size=(2, 12, 3))
    layer = layers.XDConv1D(3, 3, padding="same", warm_start=start, **FLOAT64)
    pooling = keras.layers.AveragePooling1D(3, 1, padding="same", **FLOAT64)
    expected = keras.ops.convert_to_tensor(inputs) if start == "identity" else pooling(inputs)
    assert_equal_in_float64(layer(inputs), expected)


def test_fourier_operator(rng):
    """The spectrum of the weights, by NumPy: real and imaginary parts of the lowest modes."""
    signal, modes, n = rng.normal(size=(2, 16, 1)), 4, 16
    layer = layers.XDConv1D(
        1, 2 * modes - 1, padding="circular", warm_start="fourier_operator", **FLOAT64
    )
    outputs = layer(signal)
    weights = keras.ops.convert_to_numpy(layer.kernel)[:, 0, 0]
    spectrum = np.zeros(n // 2 + 1, complex)
    spectrum[0] = weights[0]
    spectrum[1:modes] = weights[1:modes] + 1j * weights[modes:]
    expected = np.fft.irfft(np.fft.rfft(signal[..., 0]) * spectrum, n)[..., None]
    assert_equal_in_float64(outputs, expected)


@pytest.mark.parametrize("start", ["random_orthogonal", "random_unitary", "identity"])
def test_k_dense(start, rng):
    """The outputs are those of the K-matrix of the same stages, multiplied out by NumPy."""
    inputs = rng.normal(size=(3, 12))
    layer = layers.KDense(12, depth=1, warm_start=start, seed=4, **FLOAT64)
    outputs = layer(inputs)
    radices = layer.plan.radices
    stages = {
        "random_orthogonal": lambda r: constructions.random_orthogonal(r, generator),
        "random_unitary": lambda r: constructions.random_unitary(r, generator),
        "identity": constructions.identity,
    }[start]
    generator = np.random.default_rng(4)
    matrix = special.kmatrix_dense([stages(radices)])
    if start == "random_unitary":
        matrix *= np.sqrt(2)  # as many units as inputs
    assert_equal_in_float64(outputs, np.real(inputs @ matrix.T))


def test_spectral_conv(rng):
    signal = rng.normal(size=(2, 16, 1))
    layer = layers.SpectralConv1D(1, 4, use_bias=False, **FLOAT64)
    outputs = layer(signal)
    real, imaginary = keras.ops.convert_to_numpy(layer.kernel)[..., 0, 0]
    spectrum = np.zeros(9, complex)
    spectrum[:4] = real + 1j * imaginary
    expected = np.fft.irfft(np.fft.rfft(signal[..., 0]) * spectrum, 16)[..., None]
    assert_equal_in_float64(outputs, expected)


def test_resampled_operations(rng):
    """To a finer grid and back nothing of a band-limited signal is lost."""
    there = layers.FourierResampling((23,), **FLOAT64)
    back = layers.FourierResampling((11,), **FLOAT64)
    signal = rng.normal(size=(2, 11, 3))
    assert_equal_in_float64(back(there(signal)), signal)


def test_random_starts_are_unitary_in_float64():
    layer = layers.XDConv1D(
        1, 3, padding="circular", depth=2, warm_start="random_unitary", seed=1, **FLOAT64
    )
    layer.build((None, 12, 1))
    matrix = layer.describe()["matrix/M0"]
    assert_equal_in_float64((matrix @ matrix.conj().T).real, np.eye(12))


@pytest.mark.parametrize("to", ["xd", "masked"])
@pytest.mark.parametrize("finalized", [False, True])
def test_rewritten_models(to, finalized, rng):
    policy = FLOAT64
    model = keras.Sequential(
        [
            keras.Input((8, 8, 2), dtype="float64"),
            keras.layers.Conv2D(4, 3, padding="same", **policy),
            keras.layers.BatchNormalization(**policy),
            keras.layers.SeparableConv2D(4, 3, strides=2, **policy)
            if to == "xd"
            else keras.layers.Conv2D(4, 3, strides=2, **policy),
            keras.layers.ReLU(**policy),
            keras.layers.GlobalAveragePooling2D(**policy),
            keras.layers.Dense(3, **policy),
        ]
    )
    space = keras_xd.rewrite(model, to=to)
    inputs = rng.normal(size=(2, 8, 8, 2))
    found = keras_xd.finalize(space) if finalized else space
    assert_equal_in_float64(found(inputs), model(inputs))


@pytest.fixture
def restored_floatx():
    floatx = keras.config.floatx()
    yield
    keras.config.set_floatx(floatx)


def test_matrices_on_their_own(restored_floatx):
    """A `KMatrix` is of Keras' float type."""
    order = digit_reversal((3, 4))
    for floatx, error in (("float32", 1e-6), ("float64", 1e-14)):
        keras.config.set_floatx(floatx)
        fourier = kmatrix.KMatrix.dft(12, (3, 4))
        assert fourier.weights.dtype == floatx
        real, imaginary = (keras.ops.convert_to_numpy(part) for part in fourier.dense())
        expected = np.fft.fft(np.eye(12), axis=0)[order]
        np.testing.assert_allclose(real + 1j * imaginary, expected, rtol=0, atol=error)


@pytest.mark.parametrize(
    ("layer_class", "arguments"),
    [
        (layers.CKConv1D, {"initial_kernel_size": 4.0, "seed": 1}),
        (
            layers.DashConv1D,
            {"filters": 3, "kernel_size": 3, "kernel_sizes": (3, 5), "dilations": (1, 2)},
        ),
    ],
)
def test_both_forms_of_long_convolutions(layer_class, arguments, rng):
    inputs = rng.normal(size=(2, 12, 3))
    forms = [layer_class(**arguments, convolution=c, **FLOAT64) for c in ("direct", "fourier")]
    for layer in forms:
        layer.build(inputs.shape)
        layer.set_weights(forms[0].get_weights())
    assert_equal_in_float64(forms[1](inputs), forms[0](inputs))
