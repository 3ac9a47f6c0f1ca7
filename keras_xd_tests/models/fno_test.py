"""Fourier neural operators: sizes by hand, the circular baseline, other resolutions, files."""

import math

import numpy as np
import pytest

import keras_xd
from keras_xd import models


def trainable(model):
    return sum(int(np.prod(v.shape)) for v in model.trainable_variables)


@pytest.mark.parametrize(
    ("operation", "mixing", "published"),
    # 64 × 64 complex numbers for each of 16 frequencies, or a kernel of 17 points.
    [("fourier", 2 * 16 * 64 * 64, 550_081), ("convolution", 17 * 64 * 64, 304_321)],
)
def test_parameters_in_one_dimension(operation, mixing, published):
    model = models.fno((256, 2), operation=operation)
    block = mixing + (64 * 64 + 64) + 2 * 64  # the operation, the points, batch normalisation
    assert trainable(model) == (2 + 1) * 64 + 4 * block + 65 * 128 + 129
    assert trainable(model) == published
    assert model.input_shape == (None, 256, 2) and model.output_shape == (None, 256, 1)


def circular_convolution(x, kernel):
    """`y[t] = Σ_j w[j] x[t + j - p]` on a circle, on each spatial axis, p = (k - 1) // 2."""
    rank = kernel.ndim - 2
    y = 0
    for place in np.ndindex(*kernel.shape[:rank]):
        shifts = [(k - 1) // 2 - j for j, k in zip(place, kernel.shape, strict=False)]
        y = y + np.roll(x, shifts, axis=range(1, rank + 1)) @ kernel[place]
    return y


@pytest.mark.parametrize(("sizes", "modes"), [((11,), 4), ((5, 6), (3, 2)), ((3, 4, 5), (2, 1, 3))])
def test_computes_what_it_says(sizes, modes, rng):
    model = models.fno((*sizes, 2), width=4, modes=modes, blocks=2, operation="convolution")
    for variable in model.variables:  # biases and statistics that are not zero and one
        low = 0.5 if "variance" in variable.name else -0.5
        variable.assign(rng.uniform(low, 1, size=variable.shape))
    weights = {
        layer.name: [np.asarray(w, "float64") for w in layer.weights] for layer in model.layers
    }
    inputs = rng.normal(size=(3, *sizes, 2)).astype("float32")
    kernel, bias = weights["lift"]
    x = inputs @ kernel + bias
    for block in (1, 2):
        kernel, bias = weights[f"pointwise{block}"]
        x = circular_convolution(x, *weights[f"convolution{block}"]) + x @ kernel + bias
        scale, offset, mean, variance = weights[f"normalization{block}"]
        x = (x - mean) / np.sqrt(variance + 1e-5) * scale + offset
        x = np.maximum(x, 0) if block == 1 else x
    kernel, bias = weights["projection"]
    x = np.maximum(x @ kernel + bias, 0)
    kernel, bias = weights["outputs"]
    np.testing.assert_allclose(model(inputs), x @ kernel + bias, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("input_shape", [(12, 2), (7, 8, 3)])
def test_the_search_starts_as_the_circular_network(input_shape, rng):
    options = {"width": 5, "modes": 4, "blocks": 2, "operation": "convolution"}
    circular = models.fno(input_shape, **options)
    same = models.fno(input_shape, padding="same", **options)
    same.set_weights(circular.get_weights())
    published = {"frequency_bias": False, "channel_gates": False}
    space = keras_xd.rewrite(same, padding="circular", only="convolution.*", **published)
    inputs = rng.normal(size=(3, *input_shape)).astype("float32")
    np.testing.assert_allclose(space(inputs), circular(inputs), atol=2e-6)
    assert np.abs(same(inputs) - circular(inputs)).max() > 1e-3
    sizes = [g.padded_size for g in space.get_layer("convolution1").geometry]
    assert sizes == list(input_shape[:-1])
    # K, L and M of each axis, no bias of the spectrum and no gates.
    rank = len(input_shape) - 1
    assert len(keras_xd.architecture_variables(space)) == 2 * 3 * rank


@pytest.mark.parametrize(("sizes", "modes"), [((16,), 5), ((9, 8), (3, 4))])
def test_the_search_may_start_as_a_fourier_operator(sizes, modes, rng):
    """Each operation keeps the frequencies below `modes` and multiplies them by its weights."""
    model = models.fno((*sizes, 2), width=4, modes=modes, blocks=1, operation="xd")
    layer = model.get_layer("xd1")
    modes = modes if isinstance(modes, tuple) else (modes,)
    assert layer.kernel.shape == (*(2 * mode - 1 for mode in modes), 4, 4)
    assert 0 <= np.min(layer.kernel) and 0.9 / 16 < np.max(layer.kernel) <= 1 / 16
    assert len(keras_xd.architecture_variables(model)) == 2 * 3 * len(sizes) // 2
    axes = tuple(range(1, len(sizes) + 1))
    hidden = rng.normal(size=(1, *sizes, 4)).astype("float32")
    before, after = (np.fft.fftn(np.asarray(x), axes=axes) for x in (hidden, layer(hidden)))
    lowest = np.ones(sizes, bool)
    for axis, (size, mode) in enumerate(zip(sizes, modes, strict=True)):
        shape = [-1 if one == axis else 1 for one in range(len(sizes))]
        lowest &= (np.abs(np.fft.fftfreq(size, 1 / size)) < mode).reshape(shape)
    assert np.abs(after[0][~lowest]).max() < 1e-4 < np.abs(after[0][lowest]).min()
    mean = before[(0,) * (1 + len(sizes))] @ np.asarray(layer.kernel)[(0,) * len(sizes)]
    np.testing.assert_allclose(after[(0,) * (1 + len(sizes))], mean, atol=1e-4)


def test_architecture_parameters_of_the_paper():
    same = models.fno((256, 2), operation="convolution", padding="same")
    published = {"frequency_bias": False, "channel_gates": False}
    space = keras_xd.rewrite(same, padding="circular", **published)
    variables = keras_xd.architecture_variables(space)
    assert sum(int(np.prod(v.shape)) for v in variables) == 2 * 49_152
    assert trainable(space) == 304_321 + 2 * 49_152


def test_initial_weights_are_the_published_ones():
    model = models.fno((32, 2), width=48, modes=8, operation="convolution")
    for name, inputs in (("lift", 2), ("pointwise1", 48), ("convolution1", 9 * 48)):
        largest = np.abs(model.get_layer(name).kernel).max()
        assert 0.9 * inputs**-0.5 < largest <= inputs**-0.5


def test_factorised_weights_are_fewer_and_deployed(tmp_path, rng):
    options = {"width": 8, "modes": (4, 5), "blocks": 1, "normalization": None, "local_kernel": 3}
    model = models.fno((16, 12, 2), factorization="tucker", rank=0.4, **options)
    ranks = (6, 4, 6, 6)
    numbers = np.prod(ranks) + np.dot(ranks, (8, 5, 8, 8))
    assert trainable(models.fno((16, 12, 2), **options)) - trainable(model) == 2 * (2560 - numbers)
    x = rng.normal(size=(3, 16, 12, 2)).astype("float32")
    final = keras_xd.finalize(model)
    np.testing.assert_allclose(final(x), model(x), rtol=1e-4, atol=1e-6)
    keras_xd.export(model, tmp_path / "model.onnx", format="onnx", verbose=False)
    space = keras_xd.rewrite(model)  # the local convolution is searched
    np.testing.assert_allclose(space(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factorization": "cp"}, "Received: factorization='cp'"),
        ({"factorization": "tucker", "rank": 0.0}, "Received: rank=0.0"),
        ({"factorization": "tucker", "operation": "convolution"}, "not factorised. Received"),
    ],
)
def test_factorizations_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        models.fno((16, 2), width=4, modes=4, **options)


def test_spectral_convolutions_are_not_rewritten():
    model = models.fno((16, 2), width=4, modes=4, blocks=1, factorization="tucker")
    with pytest.raises(ValueError, match=r"SpectralConv is not rewritten.*fno\(operation=\"xd\""):
        keras_xd.rewrite(model)


@pytest.mark.parametrize("operation", ["fourier", "convolution", "xd"])
def test_the_u_shaped_operator_has_coarser_grids_and_the_sizes_of_its_inputs(operation, rng):
    model = models.uno((17, 12, 2), 3, width=4, modes=6, levels=1, operation=operation)
    assert model.get_layer("down1").output.shape == (None, 9, 6, 4)
    assert model.get_layer("add2").output.shape == (None, 9, 6, 8)
    assert model.get_layer("join1").output.shape == (None, 17, 12, 12)
    x = rng.normal(size=(2, 17, 12, 2)).astype("float32")
    assert model(x).shape == (2, 17, 12, 3)
    if operation == "convolution":
        space = keras_xd.rewrite(model)
        np.testing.assert_allclose(space(x), model(x), rtol=1e-4, atol=1e-5)
    else:
        final = keras_xd.finalize(model)
        np.testing.assert_allclose(final(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("shape", "levels"), [((None, 1), 1), ((12, 1), 2), ((32, 1), 0)])
def test_sizes_that_cannot_be_halved_are_refused(shape, levels):
    with pytest.raises(ValueError, match="levels="):
        models.uno(shape, width=4, levels=levels)


@pytest.mark.parametrize(
    "make",
    [
        lambda: models.fno((16, 1), width=4, modes=10),
        lambda: models.fno((32, 16, 1), width=4, modes=9, operation="xd"),
        lambda: models.fno((16, 16, 1), width=4, modes=16, operation="convolution"),
        lambda: models.uno((16, 16, 1), width=4, modes=10, levels=1),
        lambda: models.uno((16, 16, 1), width=4, modes=9, levels=1, operation="xd"),
        lambda: models.uno((16, 16, 1), width=4, modes=16, levels=1, operation="convolution"),
        lambda: models.fno((None, 1), width=4, modes=10)(np.zeros((1, 16, 1), "float32")),
        lambda: keras_xd.resize(models.fno((32, 1), width=4, modes=12), (16, 1)),
    ],
)
def test_more_modes_than_the_grid_has_are_refused(make):
    with pytest.raises(ValueError, match=r"(?s)`.*modes.*Received: modes=\(?\d+|input_shape=\(16"):
        make()


def exact_gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def spectral_convolution(x, kernel):
    """The oracle of a spectral convolution in two dimensions, by NumPy's transforms."""
    rows, columns = kernel.shape[1] // 2, kernel.shape[2]
    kept = [*range(rows), *range(-rows, 0)]
    spectrum = np.fft.rfft2(x, axes=(1, 2))
    mixed = np.zeros((*spectrum.shape[:-1], kernel.shape[-1]), complex)
    mixed[:, kept, :columns] = np.einsum(
        "bxyi,xyio->bxyo", spectrum[:, kept, :columns], kernel[0] + 1j * kernel[1]
    )
    return np.fft.irfft2(mixed, s=x.shape[1:3], axes=(1, 2))


def test_the_network_of_neuraloperator(rng):
    """Lifting, a gated MLP behind each block and GELU, also after the MLP but the last."""
    options = {"lifting": 6, "channel_mlp": 3, "activation": "gelu", "normalization": None}
    model = models.fno((8, 6, 2), width=4, modes=(3, 4), blocks=2, projection=5, **options)
    for variable in model.variables:
        variable.assign(rng.normal(size=variable.shape) / 2)
    weights = {
        layer.name: [np.asarray(w, "float64") for w in layer.weights] for layer in model.layers
    }
    inputs = rng.normal(size=(3, 8, 6, 2)).astype("float32")

    def dense(x, name):
        kernel, bias = weights[name]
        return x @ kernel + bias

    x = dense(exact_gelu(dense(inputs, "lifting")), "lift")
    for block, activation in ((1, exact_gelu), (2, lambda x: x)):
        mixed = spectral_convolution(x, *weights[f"spectral{block}"])
        mixed = activation(mixed + dense(x, f"pointwise{block}"))
        mixed = dense(exact_gelu(dense(mixed, f"mlp{block}")), f"mlp_outputs{block}")
        x = activation(mixed + x * weights[f"gate{block}"][0])
    x = dense(exact_gelu(dense(x, "projection")), "outputs")
    np.testing.assert_allclose(model(inputs), x, rtol=1e-4, atol=1e-5 * np.abs(x).max())


@pytest.mark.parametrize("operation", ["fourier", "convolution", "xd"])
def test_every_option_is_searched_finalized_and_exported(operation, tmp_path, rng):
    options = {"lifting": 6, "channel_mlp": 3, "activation": "gelu", "normalization": None}
    if operation != "convolution":
        options |= {"factorization": "tucker", "rank": 0.5}
    model = models.fno(
        (8, 6, 2), width=4, modes=3, blocks=1, operation=operation, padding="same", **options
    )
    model.get_layer("gate1").gate.assign([0.5, 1, 2, -1])
    x = rng.normal(size=(3, 8, 6, 2)).astype("float32")
    space = keras_xd.rewrite(model) if operation == "convolution" else model
    np.testing.assert_allclose(space(x), model(x), atol=1e-6)
    assert bool(keras_xd.architecture_variables(space)) == (operation != "fourier")
    final = keras_xd.finalize(space)
    np.testing.assert_allclose(final(x), model(x), rtol=1e-4, atol=1e-6)
    final.export(tmp_path / "model.onnx", format="onnx", verbose=False)


def test_an_xd_operation_between_fewer_channels_has_the_share_of_weights():
    options = {"width": 24, "modes": (4, 5), "blocks": 1, "operation": "xd"}
    whole, factorized = (
        models.fno((16, 16, 3), factorization=factorization, rank=0.42, **options)
        for factorization in (None, "tucker")
    )
    operation = factorized.get_layer("xd1")
    assert operation.kernel.shape == (7, 9, 15, 15)
    numbers = np.size(operation.kernel) + 2 * 24 * 15
    assert 0.38 < numbers / np.size(whole.get_layer("xd1").kernel) <= 0.42
