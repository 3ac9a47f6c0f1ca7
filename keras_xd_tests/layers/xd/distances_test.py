import functools
import itertools
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
from keras_xd.visualization.operators import operator_matrix

NAMES = ("convolution", "average_pooling", "identity", "zero", "fourier_operator")


def built(kind, shape, *args, scale=0.0, **kwargs):
    """A built layer, its architecture perturbed by normal numbers times `scale`."""
    layer = kind(*args, **kwargs)
    layer.build((None, *shape))
    perturb(layer, scale)
    return layer


def perturb(layer, scale, seed=3):
    rng = np.random.default_rng(seed)
    for variable in layer.architecture_variables:
        variable.assign_add(scale * rng.normal(size=variable.shape))


def at_start(layer, name):
    """An XDConv of the same arguments at a named start, made without the code under test."""
    copy = layers.XDConv(
        layer.rank,
        layer.filters,
        layer.kernel_size,
        layer.strides,
        layer.padding,
        groups=layer.groups,
        depth=layer.depth,
        warm_start=name,
    )
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


CASES = {
    "1d strided": (layers.XDConv1D, (9, 2), 2, 3, {"strides": 2, "scale": 0.2}),
    "1d causal": (layers.XDConv1D, (7, 2), 2, 2, {"padding": "causal", "depth": 3, "scale": 0.1}),
    "2d": (layers.XDConv2D, (4, 3, 2), 2, (3, 1), {"padding": "circular", "scale": 0.2}),
    "2d same": (layers.XDConv2D, (3, 4, 2), 2, 2, {"padding": "same", "scale": 0.2}),
    "2d groups": (layers.XDConv2D, (3, 4, 2), 2, (2, 1), {"groups": 2, "scale": 0.1}),
    "2d with b and C": (
        layers.XDConv2D,
        (3, 3, 2),
        2,
        (1, 2),
        {"padding": "circular", "frequency_bias": True, "channel_gates": True, "scale": 0.2},
    ),
    "2d pooling": (
        layers.XDConv2D,
        (4, 4, 2),
        2,
        2,
        {"strides": 2, "warm_start": "average_pooling", "scale": 0.1},
    ),
    "3d": (layers.XDConv3D, (3, 2, 3, 1), 1, (2, 1, 2), {"padding": "circular", "scale": 0.1}),
    "k operation": (layers.KOpConv2D, (3, 4, 2), 2, (2, 1), {"padding": "same", "scale": 0.1}),
}
each_case = pytest.mark.parametrize("case", CASES)
# The two starts in turn, and both of them once: a start is built apart from what is measured.
each_case_and_name = pytest.mark.parametrize(
    ("case", "name"),
    [
        *zip(CASES, itertools.cycle(["convolution", "identity"]), strict=False),
        ("2d", "identity"),
    ],
    ids=[*CASES, "2d identity"],
)


@functools.cache
def layer_of(case):
    """The layer of a case, of which tests change the kernel alone."""
    kind, shape, *args, options = CASES[case]
    return built(kind, shape, *args, use_bias=False, **options)


@functools.cache
def start_of(case, name):
    return at_start(layer_of(case), name)


@each_case_and_name
def test_averaged_is_the_mean_over_kernels(case, name):
    layer = layer_of(case)
    kernel = keras.ops.convert_to_numpy(layer.kernel)
    _, norm, change = averaged_squares(layer, start_of(case, name))
    layer.kernel.assign(kernel)
    expected = np.sqrt(change)
    assert operation_distance(layer, name, "averaged", False) == pytest.approx(expected, rel=1e-5)
    relative = np.sqrt(change / norm)
    assert operation_distance(layer, name, "averaged") == pytest.approx(relative, rel=1e-5)


@each_case_and_name
def test_own_kernel_compares_the_layers_as_they_are(case, name):
    layer, named = layer_of(case), start_of(case, name)
    named.kernel.assign(layer.kernel)
    now, then = whole_map(layer), whole_map(named)
    expected = np.linalg.norm(now - then)
    assert operation_distance(layer, name, "own_kernel", False) == pytest.approx(expected, rel=1e-5)
    relative = expected / np.linalg.norm(then)
    assert operation_distance(layer, name, "own_kernel") == pytest.approx(relative, rel=1e-5)


def test_own_kernel_sums_the_operator_matrices_over_channels():
    options = {"padding": "circular", "use_bias": False, "scale": 0.2}
    layer = built(layers.XDConv1D, (5, 2), 2, 3, **options)
    named = at_start(layer, "identity")
    pairs = [(channel, filter) for channel in range(2) for filter in range(2)]
    changes = [operator_matrix(layer, *pair) - operator_matrix(named, *pair) for pair in pairs]
    expected = np.linalg.norm(changes)
    assert operation_distance(layer, "identity", "own_kernel", False) == pytest.approx(
        expected, rel=1e-5
    )


def parts_in_use(layer):
    """`K`, `L` and `M` multiplied out over the axes and cut, then `b` and `C`."""
    described = layer.describe()
    parts = {name: np.ones((1, 1)) for name in "KLM"}
    for axis, g in enumerate(layer.geometry):
        cut = {
            "K": described[f"matrix/K{axis}"][: g.stride * g.output_size : g.stride],
            "L": described[f"matrix/L{axis}"] @ g.placement(),
            "M": described[f"matrix/M{axis}"][:, : g.size],
        }
        parts = {name: np.kron(parts[name], cut[name]) for name in "KLM"}
    values = {variable.name: variable.numpy() for variable in layer.architecture_variables}
    b = values.get("frequency_bias", np.zeros((*(plan.n for plan in layer.plans), 2)))
    gates = values.get("channel_gates", np.ones(layer.kernel.shape[-2:]))
    return [*parts.values(), b, gates]


def norm_of(arrays):
    return np.sqrt(sum(np.sum(np.abs(array) ** 2) for array in arrays))


@each_case_and_name
def test_frobenius_compares_matrices_multiplied_out(case, name):
    layer = layer_of(case)
    now, then = parts_in_use(layer), parts_in_use(start_of(case, name))
    change = norm_of([a - b for a, b in zip(now, then, strict=True)])
    absolute = operation_distance(layer, name, "frobenius", relative=False)
    assert absolute == pytest.approx(change, rel=1e-5)
    assert operation_distance(layer, name, "frobenius") == pytest.approx(
        change / norm_of(then), rel=1e-5
    )


@each_case
def test_euclidean_compares_weights(case):
    kind, shape, *args, options = CASES[case]
    start = options.get("warm_start", "convolution")
    begin, layer = built(kind, shape, *args, **{**options, "scale": 0.0}), layer_of(case)
    values = [[v.numpy() for v in x.architecture_variables] for x in (layer, begin)]
    change = norm_of([a - b for a, b in zip(*values, strict=True)])
    assert operation_distance(layer, start, relative=False) == pytest.approx(change, rel=1e-5)
    gates = [] if layer.channel_gates else [np.ones(layer.kernel.shape[-2:])]
    expected = change / norm_of([*values[1], *gates])
    assert operation_distance(layer, start) == pytest.approx(expected, rel=1e-5)


def test_euclidean_counts_missing_gates_as_open():
    layer = built(layers.XDConv1D, (8, 3), 5, 3)
    assert operation_distance(layer, "zero", relative=False) == pytest.approx(np.sqrt(3 * 5))


@pytest.mark.parametrize("number, name", list(enumerate(NAMES)))
def test_a_start_is_nearest_to_itself_at_distance_zero(number, name):
    layer = built(layers.XDConv1D, (6, 2), 2, 3, padding="circular", warm_start=name, depth=2)
    for metric in METRICS:
        assert operation_distance(layer, name, metric) == 0.0
    for metric in (METRICS[number], METRICS[number - 1]):
        found = nearest_operation(layer, metric)
        assert found.operation == name
        assert set(found.distances) == set(NAMES)
        assert found.distances[name] == 0.0
        assert list(found.distances.values()) == sorted(found.distances.values())


def test_distance_grows_as_a_layer_moves_away():
    distances = {metric: [] for metric in METRICS}
    for scale in (0.0, 0.01, 0.1, 0.8):
        layer = built(layers.XDConv2D, (4, 5, 2), 2, 3, padding="same", depth=3, scale=scale)
        for metric, found in distances.items():
            found.append(operation_distance(layer, "convolution", metric))
    for metric, found in distances.items():
        assert found[0] == 0.0
        assert all(a < b for a, b in itertools.pairwise(found)), (metric, found)


def test_the_zero_map_is_as_far_as_the_layer_is_large():
    layer = built(layers.XDConv1D, (8, 2), 2, 3, padding="circular", scale=0.1, use_bias=False)
    size = np.linalg.norm(whole_map(layer))
    assert operation_distance(layer, "zero", "own_kernel", relative=False) == pytest.approx(
        size, rel=1e-5
    )
    assert operation_distance(layer, "zero", "own_kernel") == 1.0
    assert operation_distance(layer, "zero", "averaged") == 1.0


def test_nearest_follows_a_layer_from_one_operation_to_another():
    options = {"padding": "circular", "frequency_bias": True, "channel_gates": True}
    layer = built(layers.XDConv1D, (12, 3), 3, 3, **options)
    target = built(layers.XDConv1D, (12, 3), 3, 3, padding="circular", warm_start="identity")
    start = [variable.numpy() for variable in layer.architecture_variables]
    found = []
    for step in (0.0, 0.05, 0.95, 1.0):
        pairs = zip(layer.architecture_variables, start, target.architecture_variables, strict=True)
        for variable, old, new in pairs:
            variable.assign((1 - step) * old + step * new.numpy())
        found.append(nearest_operation(layer).operation)
    assert found == ["convolution", "convolution", "identity", "identity"]


def test_averaged_ignores_how_a_map_is_written():
    layer = built(layers.XDConv1D, (10, 2), 3, 3, padding="circular", radix=10)
    k, _, m = layer.architecture_variables  # one stage each, so that factors move exactly
    k.assign(4 * k)
    m.assign(m / 4)
    assert operation_distance(layer, "convolution", "averaged") == 0.0
    assert operation_distance(layer, "convolution", "euclidean") > 0.1
    assert operation_distance(layer, "convolution", "frobenius") > 0.1


def test_unit_impulse_as_own_kernel_is_the_identity():
    layer = built(layers.XDConv1D, (9, 2), 2, 3, padding="same")
    kernel = np.zeros((3, 2, 2), "float32")
    kernel[1] = np.eye(2)
    layer.kernel.assign(kernel)
    assert operation_distance(layer, "identity", "own_kernel") < 1e-6
    assert operation_distance(layer, "identity", "averaged") > 1


def test_operations_that_do_not_fit_are_left_out():
    layer = built(layers.XDConv2D, (6, 6, 3), 5, 3, padding="same")
    found = nearest_operation(layer)
    assert isinstance(found, Nearest)
    assert list(found.distances) == ["convolution", "zero"]
    with pytest.raises(ValueError, match="`filters` must be the number of input channels"):
        operation_distance(layer, "identity")
    with pytest.raises(ValueError, match="padding='circular'"):
        operation_distance(layer, "fourier_operator")


def test_own_starts_without_a_name_and_random_ones():
    graph = np.roll(np.eye(8), 1, axis=1) + np.eye(8)
    start = layers.warm_starts.GraphConvolution(graph)
    options = {"padding": "circular", "radix": 8}
    layer = built(layers.XDConv1D, (8, 2), 2, 1, warm_start=start, **options)
    found = nearest_operation(layer)
    assert found.operation == "start"
    assert {"convolution", "identity"} < set(found.distances)
    assert operation_distance(layer, start) == 0.0

    layer = built(layers.XDConv1D, (8, 2), 2, 3, warm_start="random_unitary", depth=2)
    assert nearest_operation(layer).operation == "random_unitary"
    assert operation_distance(layer, "random_unitary", "averaged") == 0.0
    with pytest.raises(ValueError, match="a layer with a seed"):
        operation_distance(built(layers.XDConv1D, (8, 2), 2, 3), "random_unitary")


def test_a_perturbed_start_is_near_what_it_was():
    start = layers.warm_starts.Perturbed("identity", 0.02)
    layer = built(layers.XDConv1D, (8, 2), 2, 3, warm_start=start, padding="same", seed=1)
    found = nearest_operation(layer)
    assert found.operation == "identity"
    assert 0 < found.distances["identity"] < 0.2
    assert operation_distance(layer, start) == 0.0


def test_shared_operation():
    operation = layers.KOperation(warm_start="random_unitary", seed=2, depth=2)
    options = {"padding": "circular", "operation": operation}
    layer = built(layers.KOpConv1D, (8, 2), 2, 3, **options)
    assert nearest_operation(layer).operation == "random_unitary"
    assert operation_distance(layer, "random_unitary") == 0.0


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


def test_a_trained_convolution_search_is_nearest_to_convolution():
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 128)
    time = np.arange(32) / 32
    waves = np.sin(2 * np.pi * np.outer(3 + 4 * labels, time) + rng.uniform(0, 6, (128, 1)))
    x = (waves + 0.1 * rng.normal(size=waves.shape))[..., None].astype("float32")
    layer = layers.XDConv1D(4, 5, padding="same", activation="relu", name="conv")
    pooled = [keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((32, 1)), layer, *pooled])
    search = keras_xd.SearchModel(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizers = [keras.optimizers.Adam(0.03) for _ in range(2)]
    search.compile(*optimizers, loss, jit_compile=False)
    search.fit(x, labels, epochs=20, batch_size=32, verbose=0)
    np.testing.assert_array_equal(np.argmax(model(x), axis=-1), labels)
    assert nearest_operation(layer, "averaged").operation == "zero"  # which the scale decides
    found = nearest_operation(layer)
    assert found.operation == "convolution"
    assert 0 < found.distances["convolution"] < found.distances["zero"] == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_fitted_does_not_change_with_scale(name):
    options = {"padding": "circular", "frequency_bias": True, "channel_gates": True}
    layer = built(layers.XDConv1D, (12, 3), 3, 3, scale=0.3, **options)
    before = operation_distance(layer, name, "fitted")
    k, _, m, _, gates = layer.architecture_variables
    k.assign(50 * k)
    m.assign(m / 3)
    gates.assign(gates * 0.01)
    assert operation_distance(layer, name, "fitted") == pytest.approx(before, rel=1e-4)
    assert 0 < before <= 1


def test_fitted_sees_a_convolution_whose_weights_are_mixed():
    layer = built(layers.XDConv1D, (9, 2), 3, 3, padding="circular", radix=9, use_bias=False)
    _, stage, _ = layer.architecture_variables
    # Other combinations of the weights' places are still kernels of convolutions.
    placement = layer.geometry[0].placement()
    places = np.argmax(placement, axis=0)
    mix = np.random.default_rng(0).normal(size=(3, 3))
    dense = layer.describe()["matrix/L0"] @ placement @ mix
    matrix = layer.describe()["matrix/L0"].copy()
    matrix[:, places] = dense
    for order in (matrix, matrix.T):
        stage.assign(np.stack([order.real, order.imag]).reshape(stage.shape))
        if np.allclose(layer.describe()["matrix/L0"], matrix, atol=1e-5):
            break
    np.testing.assert_allclose(layer.describe()["matrix/L0"], matrix, atol=1e-5)
    assert operation_distance(layer, "convolution", "averaged") > 0.5
    assert operation_distance(layer, "convolution", "fitted") == 0.0


def test_only_a_map_without_size_is_zero():
    layer = built(layers.XDConv1D, (8, 2), 2, 3, warm_start="zero", padding="circular")
    assert nearest_operation(layer).operation == "zero"
    gates = layer.architecture_variables[-1]
    gates.assign(np.full((2, 2), 1e-8))  # beside 1 no more than rounding
    found = nearest_operation(layer)
    assert found.operation == "zero" and found.distances["convolution"] == 0.0
    gates.assign(np.full((2, 2), 1e-3))
    found = nearest_operation(layer)
    assert found.operation == "convolution" and found.distances["zero"] == 1.0
    assert list(found.distances)[-1] == "zero"


@functools.cache
def separable(search_pointwise):
    """Return a layer at its start and one that is perturbed, which no test changes."""
    options = {"padding": "circular", "search_pointwise": search_pointwise}
    return [
        built(layers.XDSeparableConv2D, (3, 4, 2), 3, 2, scale=scale, **options)
        for scale in (0.0, 0.1)
    ]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("search_pointwise", [False, True])
def test_separable_layers_compare_their_parts(metric, search_pointwise):
    layer, moved = separable(search_pointwise)
    assert operation_distance(layer, "convolution", metric) == 0.0
    layer = moved
    parts = [operation_distance(layer.depthwise, "identity", metric)]
    if search_pointwise:
        parts.append(operation_distance(layer.pointwise, "convolution", metric))
        assert parts[1] > 0
    expected = np.sqrt(np.mean(np.square(parts)))
    assert operation_distance(layer, "identity", metric) == pytest.approx(expected)


def test_a_start_of_a_separable_layer_is_nearest_to_itself():
    start = layers.XDSeparableConv1D(3, 3, padding="same", warm_start="identity")
    start.build((None, 7, 2))
    for metric in METRICS[::2]:
        assert nearest_operation(start, metric).operation == "identity"
    for search_pointwise, metric in zip((False, True), METRICS[1::2], strict=True):
        layer, _ = separable(search_pointwise)
        assert nearest_operation(layer, metric).operation == "convolution"


@pytest.mark.parametrize("metric", METRICS)
def test_resampled_layers_compare_the_layer_inside(metric):
    inner = layers.XDConv1D(2, 3, padding="circular")
    layer = built(layers.SearchableResampled, (12, 2), inner, (8,), scale=0.1)
    assert (
        operation_distance(layer, "identity", metric)
        == operation_distance(inner, "identity", metric)
        > 0
    )


def test_a_resampled_layer_is_nearest_to_what_the_layer_inside_is():
    inner = layers.XDConv1D(2, 3, padding="circular")
    layer = built(layers.SearchableResampled, (12, 2), inner, (8,), scale=0.1)
    assert nearest_operation(layer, "averaged") == nearest_operation(inner, "averaged")


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


def test_channels_first_and_mixed_precision():
    options = {"padding": "same", "scale": 0.1}
    layer = built(layers.XDConv2D, (6, 5, 2), 2, 3, **options)
    options |= {"data_format": "channels_first", "dtype": "mixed_bfloat16"}
    other = built(layers.XDConv2D, (2, 6, 5), 2, 3, **options)
    for metric in ("euclidean", "frobenius", "averaged"):
        assert operation_distance(layer, "identity", metric) == operation_distance(
            other, "identity", metric
        )


OTHERS = {
    "transposed": (layers.XDConv2DTranspose, (3, 2, 2), 3, (3, 1), {"strides": 2, "scale": 0.1}),
    "depthwise": (
        layers.XDDepthwiseConv2D,
        (3, 4, 2),
        2,
        {"depth_multiplier": 2, "padding": "same", "scale": 0.1},
    ),
    "causal": (layers.XDCausalConv1D, (5, 2), 3, 2, {"depth": 2}),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_layers(case):
    kind, shape, *args, options = OTHERS[case]
    layer = built(kind, shape, *args, use_bias=False, **options)
    if kind is layers.XDCausalConv1D:
        rng = np.random.default_rng(2)
        for matrix in layer.architecture_variables:
            matrix.assign(matrix * rng.uniform(0.8, 1.2, size=matrix.shape))
    begin = built(kind, shape, *args, use_bias=False, **{**options, "scale": 0.0})
    assert operation_distance(begin, "convolution", "averaged") == 0.0
    assert nearest_operation(begin).operation == "convolution"

    begin.kernel.assign(layer.kernel)
    now, then = whole_map(layer), whole_map(begin)
    expected = np.linalg.norm(now - then) / np.linalg.norm(then)
    assert expected > 0.01
    assert operation_distance(layer, "convolution", "own_kernel") == pytest.approx(
        expected, rel=1e-4
    )

    size = np.linalg.norm(now)
    assert operation_distance(layer, "zero", "own_kernel", False) == pytest.approx(size, rel=1e-4)
    _, norm, change = averaged_squares(layer, begin)
    relative = np.sqrt(change / norm)
    assert operation_distance(layer, "convolution", "averaged") == pytest.approx(relative, rel=1e-4)


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


def test_names_of_the_package():
    assert keras_xd.operation_distance is operation_distance
    assert keras_xd.nearest_operation is nearest_operation
