import functools
import random

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.layers.xd.distances import (
    METRICS,
    Nearest,
    NearestTable,
    nearest_operation,
    operation_distance,
)

NAMES = ("convolution", "average_pooling", "identity", "zero", "fourier_operator")
CIRCULAR = {"padding": "circular"}


def built(kind, shape, *args, scale=0.0, **kwargs):
    """A built layer, its architecture perturbed by normal numbers times `scale`."""
    layer = kind(*args, **kwargs)
    layer.build((None, *shape))
    rng = np.random.default_rng(3)
    for variable in layer.architecture_variables:
        variable.assign_add(scale * rng.normal(size=variable.shape))
    return layer


def at_start(layer, name):
    """An XD-operation of the same arguments at a named start."""
    kind = layers.XDConv2D if isinstance(layer, layers.KOpConv2D) else type(layer)
    config = {**layer.get_config(), "frequency_bias": None, "channel_gates": None}
    config.pop("operation", None)
    copy = kind(**{**config, "warm_start": name})
    copy.build(layer.get_build_config()["input_shape"])
    return copy


def whole_map(layer):
    """The matrix from all inputs to all outputs of a layer, by applying it to unit inputs."""
    shape = layer.get_build_config()["input_shape"][1:]
    units = np.eye(np.prod(shape), dtype="float32").reshape(-1, *shape)
    return keras.ops.convert_to_numpy(layer(units)).reshape(len(units), -1).astype("float64")


def with_kernel(layer, kernel):
    layer.kernel.assign(kernel)
    return whole_map(layer)


def averaged_squares(a, b):
    """Mean squared norms of two operations and of their difference, kernel entry by entry.

    The entries of all channels at once: each has the rows and columns of its own channels.
    """
    zero = np.zeros(a.kernel.shape, "float32")
    fixed = [with_kernel(layer, zero) for layer in (a, b)]
    squares = [np.sum(m**2) for m in (*fixed, fixed[0] - fixed[1])]
    for taps in np.ndindex(*a.kernel_size):
        unit = zero.copy()
        unit[taps] = 1
        maps = [with_kernel(layer, unit) - f for layer, f in zip((a, b), fixed, strict=True)]
        for i, m in enumerate((*maps, maps[0] - maps[1])):
            squares[i] += np.sum(m**2) / np.prod(a.kernel_size)
    return squares


def parts_in_use(layer):
    """`K`, `L` and `M` multiplied out over the axes and cut, then `b` and `C`."""
    described = layer.describe()
    parts = {name: np.ones((1, 1)) for name in "KLM"}
    for axis, g in enumerate(layer.geometry):
        inputs, outputs = g.input_stride * np.arange(g.size), g.stride * np.arange(g.output_size)
        cut = {
            "K": described[f"matrix/K{axis}"][outputs],
            "L": described[f"matrix/L{axis}"] @ layer.warm_start.placement(g),
            "M": described[f"matrix/M{axis}"][:, inputs],
        }
        parts = {name: np.kron(parts[name], cut[name]) for name in "KLM"}
    values = {variable.name: variable.numpy() for variable in layer.architecture_variables}
    b = values.get("frequency_bias", np.zeros((*(plan.n for plan in layer.plans), 2)))
    channels = layer.get_build_config()["input_shape"][-1] // layer.groups
    return [*parts.values(), b, values.get("channel_gates", np.ones((channels, layer.filters)))]


def part_squares(a, b):
    pairs = zip(parts_in_use(a), parts_in_use(b), strict=True)
    triples = [(x, y, x - y) for x, y in pairs]
    return np.sum([[np.sum(np.abs(v) ** 2) for v in triple] for triple in triples], axis=0)


CASES = {
    "1d strided": (layers.XDConv1D, (9, 2), 2, 3, {"strides": 2, "scale": 0.2}),
    "1d causal": (layers.XDConv1D, (7, 2), 2, 2, {"padding": "causal", "depth": 3, "scale": 0.1}),
    "2d groups": (layers.XDConv2D, (3, 4, 2), 2, (2, 1), {"groups": 2, "scale": 0.1}),
    "2d with b and C": (
        *(layers.XDConv2D, (3, 3, 2), 2, (1, 2)),
        {**CIRCULAR, "frequency_bias": True, "channel_gates": True, "scale": 0.2},
    ),
    "2d pooling": (
        *(layers.XDConv2D, (4, 4, 2), 2, 2),
        {"strides": 2, "warm_start": "average_pooling", "scale": 0.1},
    ),
    "3d": (layers.XDConv3D, (3, 2, 3, 1), 1, (2, 1, 2), {**CIRCULAR, "scale": 0.1}),
    "k operation": (layers.KOpConv2D, (3, 4, 2), 2, (2, 1), {"padding": "same", "scale": 0.1}),
    "transposed": (layers.XDConv2DTranspose, (3, 2, 2), 3, (3, 1), {"strides": 2, "scale": 0.1}),
    "depthwise": (
        *(layers.XDDepthwiseConv2D, (3, 4, 2), 2),
        {"depth_multiplier": 2, "padding": "same", "scale": 0.1},
    ),
    "causal": (layers.XDCausalConv1D, (5, 2), 3, 2, {"depth": 2, "scale": 0.1}),
}


@functools.cache
def layer_of(case):
    """The layer of a case, of which tests change the kernel alone."""
    kind, shape, *args, options = CASES[case]
    return built(kind, shape, *args, use_bias=False, **options)


@pytest.mark.parametrize(
    ("case", "name"),
    [(case, "convolution") for case in CASES]
    + [("1d causal", "identity"), ("2d pooling", "identity"), ("2d groups", "zero")],
)
def test_metrics_are_their_definitions(case, name):
    layer = layer_of(case)
    named, kernel = at_start(layer, name), keras.ops.convert_to_numpy(layer.kernel)
    assert operation_distance(named, name, "averaged") == 0.0
    named.kernel.assign(kernel)
    now, then = whole_map(layer), whole_map(named)
    squares = {"own_kernel": [np.sum(m**2) for m in (now, then, now - then)]}
    squares["averaged"] = averaged_squares(layer, named)
    if case != "causal":  # where entries outside of the triangles count for nothing
        squares["frobenius"] = part_squares(layer, named)
    layer.kernel.assign(kernel)
    for metric, (own, norm, change) in squares.items():
        assert change > 1e-4 * own
        relative = np.sqrt(change / (norm or own))
        assert operation_distance(layer, name, metric) == pytest.approx(relative, rel=1e-4)


@pytest.mark.parametrize("case", ["1d strided", "2d pooling", "k operation"])
def test_euclidean_compares_weights(case):
    kind, shape, *args, options = CASES[case]
    begin, layer = built(kind, shape, *args, **{**options, "scale": 0.0}), layer_of(case)
    values = [
        np.concatenate([weight.numpy().ravel() for weight in each.architecture_variables])
        for each in (layer, begin)
    ]
    change = np.linalg.norm(values[0] - values[1])
    start = options.get("warm_start", "convolution")
    gates = 0 if layer.channel_gates else np.prod(layer.kernel.shape[-2:])  # missing ones are open
    expected = change / np.sqrt(np.sum(values[1] ** 2) + gates)
    assert operation_distance(layer, start) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("number, name", list(enumerate(NAMES)))
def test_a_start_is_nearest_to_itself_at_distance_zero(number, name):
    layer = built(layers.XDConv1D, (6, 2), 2, 3, warm_start=name, depth=2, **CIRCULAR)
    for metric in METRICS:
        assert operation_distance(layer, name, metric) == 0.0
    found = nearest_operation(layer, METRICS[number])
    assert found.operation == name and found.distances[name] == 0.0
    assert set(found.distances) == set(NAMES)
    assert list(found.distances.values()) == sorted(found.distances.values())


def test_operations_that_do_not_fit_are_left_out():
    layer = built(layers.XDConv2D, (6, 6, 3), 5, 3, padding="same")
    found = nearest_operation(layer)
    assert isinstance(found, Nearest)
    assert list(found.distances) == ["convolution", "zero"]
    with pytest.raises(ValueError, match="`filters` must be the number of input channels"):
        operation_distance(layer, "identity")
    with pytest.raises(ValueError, match="padding='circular'"):
        operation_distance(layer, "fourier_operator")


def test_own_starts_without_a_name_random_and_perturbed_ones():
    start = layers.warm_starts.GraphConvolution(np.roll(np.eye(8), 1, axis=1) + np.eye(8))
    layer = built(layers.XDConv1D, (8, 2), 2, 1, warm_start=start, radix=8, **CIRCULAR)
    found = nearest_operation(layer)
    assert found.operation == "start" and operation_distance(layer, start) == 0.0
    assert {"convolution", "identity"} < set(found.distances)

    operation = layers.KOperation(warm_start="random_unitary", seed=2, depth=2)
    shared = built(layers.KOpConv1D, (8, 2), 2, 3, operation=operation, **CIRCULAR)
    layer = built(layers.XDConv1D, (8, 2), 2, 3, warm_start="random_unitary", **CIRCULAR)
    for one in (layer, shared):
        assert nearest_operation(one).operation == "random_unitary"
        assert operation_distance(one, "random_unitary", "averaged") == 0.0

    start = layers.warm_starts.Perturbed("identity", 0.02)
    layer = built(layers.XDConv1D, (8, 2), 2, 3, warm_start=start, padding="same", seed=1)
    found = nearest_operation(layer)
    assert found.operation == "identity" and operation_distance(layer, start) == 0.0
    assert 0 < found.distances["identity"] < 0.2


def test_measuring_changes_nothing():
    layer = built(layers.XDConv1D, (8, 2), 2, 3, scale=0.1)
    before = layer.get_weights()
    random.seed(1), np.random.seed(2)
    expected = random.random(), np.random.rand()
    random.seed(1), np.random.seed(2)
    nearest_operation(layer)
    with pytest.raises(ValueError, match="a layer with a seed"):
        operation_distance(layer, "random_unitary")
    assert (random.random(), np.random.rand()) == expected
    for now, then in zip(layer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_only_a_map_without_size_is_zero():
    layer = built(layers.XDConv1D, (8, 2), 2, 3, warm_start="zero", **CIRCULAR)
    gates = layer.architecture_variables[-1]
    gates.assign(np.full((2, 2), 1e-8))  # beside 1 no more than rounding
    found = nearest_operation(layer)
    assert found.operation == "zero" and found.distances["convolution"] == 0.0
    gates.assign(np.full((2, 2), 1e-3))
    found = nearest_operation(layer)
    assert found.operation == "convolution" and found.distances["zero"] == 1.0
    assert list(found.distances)[-1] == "zero"


@pytest.mark.parametrize("search_pointwise", [False, True])
def test_layers_of_layers_compare_their_parts(search_pointwise):
    options = {**CIRCULAR, "search_pointwise": search_pointwise}
    begin, layer = (
        built(layers.XDSeparableConv2D, (3, 4, 2), 3, 2, scale=scale, **options)
        for scale in (0.0, 0.1)
    )
    inner = layers.XDConv1D(2, 3, padding="circular")
    resampled = built(layers.SearchableResampled, (12, 2), inner, (8,), scale=0.1)
    assert nearest_operation(begin).operation == "convolution"
    assert nearest_operation(resampled, "averaged") == nearest_operation(inner, "averaged")
    for metric in METRICS:
        assert operation_distance(begin, "convolution", metric) == 0.0
        parts = [operation_distance(layer.depthwise, "identity", metric)]
        if search_pointwise:
            parts.append(operation_distance(layer.pointwise, "convolution", metric))
        expected = np.sqrt(np.mean(np.square(parts)))
        assert operation_distance(layer, "identity", metric) == pytest.approx(expected)
        found = operation_distance(resampled, "identity", metric)
        assert found == operation_distance(inner, "identity", metric) > 0


def test_the_table_of_a_model():
    inputs = keras.Input((8, 8, 2))
    x = layers.XDConv2D(2, 3, padding="same", warm_start="identity", name="skip")(inputs)
    x = layers.XDSeparableConv2D(2, 3, search_pointwise=True, padding="same", name="both")(x)
    inner = layers.XDConv2D(2, 3, padding="circular", warm_start="average_pooling", name="inner")
    x = layers.SearchableResampled(inner, (6, 6), name="coarse")(x)
    model = keras.Model(inputs, keras.layers.Dense(1, name="dense")(x))
    found = nearest_operation(model)
    assert isinstance(found, NearestTable)
    assert {path: row.operation for path, row in found.rows.items()} == {
        "skip": "identity",
        "both/depthwise": "convolution",
        "both/pointwise": "convolution",
        "coarse/inner": "average_pooling",
    }
    assert found.rows["skip"] == nearest_operation(model.get_layer("skip"))
    assert nearest_operation(keras_xd.SearchModel(model)) == found
    lines = str(found).splitlines()
    assert lines[0].split() == ["layer", "kind", "nearest", "distance", "others"]
    assert lines[2].split()[:4] == ["skip", "XDConv2D", "identity", "0"]
    assert found.to_dict()["skip"]["distances"]["identity"] == 0.0
    with pytest.raises(ValueError, match="at least one.*Received"):
        nearest_operation(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))


def test_bad_arguments_are_refused():
    layer = built(layers.XDConv1D, (8, 2), 2, 3)
    with pytest.raises(ValueError, match="`metric` must be one of"):
        operation_distance(layer, "convolution", metric="manhattan")
    with pytest.raises(ValueError, match="`warm_start` must be one of 'convolution'"):
        operation_distance(layer, "max_pooling")
    with pytest.raises(ValueError, match="must be a (built XD-operation|XDLayer)"):
        operation_distance(layers.XDConv1D(2, 3), "convolution")
    with pytest.raises(ValueError, match="must be a (built XD-operation|XDLayer)"):
        nearest_operation(keras.layers.Conv1D(2, 3))
    long = built(layers.XDConv1D, (5000, 1), 1, 3, padding="circular")
    with pytest.raises(ValueError, match="at most 4096 points"):
        nearest_operation(long)
    assert operation_distance(long, "convolution") == 0.0
