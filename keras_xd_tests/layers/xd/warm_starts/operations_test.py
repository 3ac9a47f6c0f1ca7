import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd import kmatrix, layers
from keras_xd.layers import warm_starts
from keras_xd.testing import assert_close

SHAPES = {1: (3, 13, 4), 2: (3, 8, 9, 4), 3: (2, 5, 6, 4, 4)}
RANKED = {1: layers.XDConv1D, 2: layers.XDConv2D, 3: layers.XDConv3D}
POOLING = {
    1: keras.layers.AveragePooling1D,
    2: keras.layers.AveragePooling2D,
    3: keras.layers.AveragePooling3D,
}


def outputs_of(layer, inputs):
    """Outputs of the searched layer, which its finalized form must share."""
    result = keras.ops.convert_to_numpy(layer(inputs))
    assert_close(keras.ops.convert_to_numpy(layer.finalize()(inputs)), result)
    return result


# Any two of a rank, a window and a padding together.
POOLINGS = [
    (*window, ("valid", "same")[(rank + column) % 2], rank)
    for rank in (1, 2, 3)
    for column, window in enumerate([(2, 2), (3, 1), (3, 2)])
]


@pytest.mark.parametrize("size, strides, padding, rank", POOLINGS)
def test_average_pooling(size, strides, padding, rank, rng):
    inputs = rng.standard_normal(SHAPES[rank]).astype("float32")
    arguments = {"strides": strides, "padding": padding}
    layer = RANKED[rank](4, size, **arguments, depth=2, warm_start="average_pooling")
    expected = POOLING[rank](size, **arguments)(inputs)
    assert_close(outputs_of(layer, inputs), np.array(expected))
    assert layer.describe()["distance_from_start/b"] == 0


@pytest.mark.parametrize(
    "rank, strides, padding, groups",
    [(1, 1, "same", 2), (2, 2, "circular", 1), (3, 2, "same", 1), (2, 1, "same", 4)],
)
def test_identity(rank, strides, padding, groups, rng):
    inputs = rng.standard_normal(SHAPES[rank]).astype("float32")
    options = {"strides": strides, "padding": padding, "groups": groups}
    layer = RANKED[rank](4, 3, **options, warm_start="identity")
    step = (slice(None), *[slice(None, None, strides)] * rank)
    assert_close(outputs_of(layer, inputs), inputs[step])


@pytest.mark.parametrize("rank", [1, 3])
def test_zero(rank, rng):
    inputs = rng.standard_normal(SHAPES[rank]).astype("float32")
    layer = RANKED[rank](5, 3, padding="same", warm_start="zero")
    assert np.all(outputs_of(layer, inputs) == 0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(inputs))
    (gates,) = [v for v in layer.architecture_variables if v.name == "channel_gates"]
    assert np.abs(tape.gradient(loss, gates.value)).max() > 0  # and it can grow


@pytest.mark.parametrize(
    "sizes, modes", [((15,), (8,)), ((16,), (8,)), ((8, 9), (3, 4)), ((6, 7, 5), (2, 3, 2))]
)
def test_fourier_operator_is_every_band_limited_convolution(sizes, modes, rng):
    rank, channels, filters = len(sizes), 2, 3
    frequencies = [np.abs(np.fft.fftfreq(n, 1 / n)) < m for n, m in zip(sizes, modes, strict=True)]
    mask = frequencies[0]
    for axis in frequencies[1:]:
        mask = np.logical_and.outer(mask, axis)
    axes = tuple(range(rank))
    kernel = rng.standard_normal((*sizes, channels, filters))
    spectrum = np.fft.fftn(kernel, axes=axes) * mask[..., None, None]
    inputs = rng.standard_normal((2, *sizes, channels)).astype("float32")
    inner = tuple(range(1, rank + 1))
    product = np.einsum("b...c,...cf->b...f", np.fft.fftn(inputs, axes=inner), spectrum)
    expected = np.fft.ifftn(product, axes=inner).real

    layer = RANKED[rank](
        filters,
        tuple(2 * m - 1 for m in modes),
        padding="circular",
        use_bias=False,
        warm_start="fourier_operator",
    )
    layer.build(inputs.shape)
    weights = np.fft.ifftn(spectrum, axes=axes).real
    for axis, geometry in enumerate(layer.geometry):
        basis = np.linalg.pinv(layer.warm_start.placement(geometry))
        weights = np.moveaxis(np.tensordot(basis, weights, (1, axis)), 0, axis)
    layer.kernel.assign(weights)
    assert_close(outputs_of(layer, inputs), expected)


def normalised_graph(rng, nodes):
    adjacency = (rng.random((nodes, nodes)) < 0.3).astype(float)
    return adjacency / np.maximum(adjacency.sum(axis=1, keepdims=True), 1)


def test_graph_and_diffusion_graph_convolution(rng):
    nodes, hops = 11, 3
    matrix = normalised_graph(rng, nodes)
    inputs = keras.Input((nodes, 3), name="nodes")
    terms, powers = [], [np.linalg.matrix_power(matrix, hop) for hop in range(hops)]
    for power in powers:
        start = warm_starts.GraphConvolution(power)
        layer = layers.XDConv1D(4, 1, padding="circular", radix=nodes, warm_start=start)
        terms.append(layer(inputs))
    model = keras.Model(inputs, keras.layers.Add()(terms))
    x = rng.standard_normal((2, nodes, 3)).astype("float32")
    expected = 0
    for layer, power in zip(model.layers[1:], powers, strict=False):
        kernel = keras.ops.convert_to_numpy(layer.kernel)[0]
        term = np.einsum("st,btc,cf->bsf", power, x, kernel)
        assert_close(outputs_of(layer, x), term)
        expected = expected + term
    assert_close(keras.ops.convert_to_numpy(model(x)), expected)


def graph_of_edges(rng, nodes, edges):
    places = rng.choice(nodes * nodes, edges, replace=False)
    matrix = np.zeros(nodes * nodes)
    matrix[places] = rng.standard_normal(edges)
    return matrix.reshape(nodes, nodes)


@pytest.mark.parametrize("nodes, edges", [(12, 24), (12, 7), (30, 90)])
def test_a_graph_convolution_by_its_edges(nodes, edges, rng):
    matrix = graph_of_edges(rng, nodes, edges)
    start = warm_starts.GraphConvolution(matrix)
    layer = layers.XDConv1D(4, 1, depth=(1, 1, 6), warm_start=start)
    x = rng.standard_normal((2, nodes, 3)).astype("float32")
    layer.build(x.shape)
    (axis,) = layer.geometry
    assert axis.padded_size == kmatrix.padded_size(max(nodes, edges))
    kernel = keras.ops.convert_to_numpy(layer.kernel)[0]
    assert_close(outputs_of(layer, x), np.einsum("st,btc,cf->bsf", matrix, x, kernel))
    assert keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(layer)
    ).forecast(x.shape) == layer.forecast(x.shape)


def test_graphs_on_both_axes_or_beside_a_convolution(rng):
    first, second = graph_of_edges(rng, 6, 9), graph_of_edges(rng, 5, 8)
    x = rng.standard_normal((2, 6, 5, 3)).astype("float32")
    options = {"depth": (1, 1, 6), "padding": "same"}
    start = warm_starts.GraphConvolution((first, second))
    layer = layers.XDConv2D(4, 1, warm_start=start, **options)
    layer.build(x.shape)
    kernel = keras.ops.convert_to_numpy(layer.kernel)[0, 0]
    expected = np.einsum("st,uv,btvc,cf->bsuf", first, second, x, kernel)
    assert_close(outputs_of(layer, x), expected)
    start = warm_starts.GraphConvolution((first, None))
    layer = layers.XDConv2D(4, (1, 3), warm_start=start, **options)
    layer.build(x.shape)
    mixed = np.einsum("st,btvc->bsvc", first, x)
    convolution = keras.layers.Conv2D(4, (1, 3), padding="same", use_bias=False)
    convolution.build(x.shape)
    convolution.kernel.assign(layer.kernel)
    assert_close(outputs_of(layer, x), np.array(convolution(mixed)))


@pytest.mark.parametrize("size, dilation", [(16, 2), (20, 3), (15, 2)])
def test_trainable_dilation_is_a_permutation_inside_l(size, dilation, rng):
    inputs = rng.standard_normal((2, size, 3)).astype("float32")
    convolution = keras.layers.Conv1D(4, 3, padding="same", dilation_rate=dilation)
    expected = np.array(convolution(inputs))
    layer = layers.XDConv1D(
        4,
        3,
        padding="same",
        dilation_rate=dilation,
        depth=(1, 3, 1),
        warm_start=warm_starts.Convolution(trainable_dilation=True),
    )
    layer.build(inputs.shape)
    layer.kernel.assign(convolution.kernel)
    assert_close(outputs_of(layer, inputs), expected)
    # The places are no longer fixed: the weights lie side by side before L.
    np.testing.assert_array_equal(
        layer.warm_start.placement(layer.geometry[0])[:3], np.eye(3, dtype="float32")
    )


@pytest.mark.parametrize(
    "start",
    [
        *warm_starts.operations.STARTS,
        warm_starts.Convolution(trainable_dilation=True),
        warm_starts.GraphConvolution(np.eye(4)),
        warm_starts.GraphConvolution((np.eye(4), None)),
        warm_starts.Composed("average_pooling", input=[2, 0, 1]),
        warm_starts.Composed("convolution", output=kmatrix.KMatrix.random_unitary(6, seed=0)),
        warm_starts.Composed("convolution", input=kmatrix.KMatrix.hadamard(4).T),
        warm_starts.Composed("zero", input=([1, 0], None)),
        warm_starts.Perturbed(warm_starts.Composed("identity", output=[1, 0]), 0.25),
    ],
)
def test_starts_round_trip(start):
    start = warm_starts.operations.get(start)
    identifier = warm_starts.operations.identifier(start)
    restored = warm_starts.operations.get(json.loads(json.dumps(identifier)))
    assert type(restored) is type(start)
    assert restored.get_config() == start.get_config()
    assert isinstance(identifier, str) == (not start.get_config())


def bad(message, **arguments):
    return pytest.param(arguments, message, id=message[:40])


@pytest.mark.parametrize(
    "arguments, message",
    [
        bad("`filters` must be the number of input channels.*filters=8, 4", warm_start="identity"),
        bad("Identity needs `frequency_bias=True`", warm_start="identity", frequency_bias=False),
        bad("Zero needs `channel_gates=True`", warm_start="zero", channel_gates=False),
        bad("needs padding='circular'.*'valid'", warm_start="fourier_operator"),
        bad(
            r"odd kernel_size.*\(4,\)",
            warm_start="fourier_operator",
            padding="circular",
            kernel_size=4,
        ),
        bad(
            r"needs depth \(1, 3, 1\) or more.*\(1, 2, 1\)",
            warm_start=warm_starts.Convolution(trainable_dilation=True),
            depth=(1, 2, 1),
        ),
        bad(
            r"over \[10\] nodes needs.*sizes \[10\].*radix=None",
            warm_start=warm_starts.GraphConvolution(np.ones((10, 10))),
            kernel_size=1,
            padding="circular",
        ),
        bad(
            r"needs depth \(1, 1, 6\) or more.*\(1, 1, 1\)",
            warm_start=warm_starts.GraphConvolution(np.eye(10)),
            kernel_size=1,
        ),
        bad(
            r"over \[10, 10\] nodes needs as many axes",
            warm_start=warm_starts.GraphConvolution((np.eye(10), np.eye(10))),
            kernel_size=1,
        ),
    ],
)
def test_a_start_that_the_layer_cannot_express(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.XDConv1D(**{"filters": 8, "kernel_size": 3, **arguments}).build((None, 10, 4))
    for wrong in (np.ones((2, 3)), (np.eye(4), np.ones((2, 3)))):
        with pytest.raises(ValueError, match=r"square.*Received: adjacency of shape \(2, 3\)"):
            warm_starts.GraphConvolution(wrong)


@pytest.mark.parametrize("kind", [layers.KOpConv1D, layers.KOpConv2D, layers.XDConv2D])
def test_the_start_of_the_k_operations_paper_is_unitary(kind):
    start = warm_starts.RandomUnitary(scale="unitary")
    layer = kind(2, 3, depth=2, padding="circular", warm_start=start, seed=1)
    layer.build((None, *([6] * layer.rank), 1))
    found = {name: v for name, v in layer.describe().items() if name.startswith("matrix/")}
    assert len(found) == 3 * layer.rank
    for matrix in found.values():
        np.testing.assert_allclose(matrix @ matrix.conj().T, np.eye(6), atol=1e-6)
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    again = keras.saving.deserialize_keras_object(config).describe()
    for name, matrix in found.items():
        np.testing.assert_array_equal(again[name], matrix)
    with pytest.raises(ValueError, match="'variance', 'unitary'.*Received: scale='none'"):
        warm_starts.RandomUnitary(scale="none")
