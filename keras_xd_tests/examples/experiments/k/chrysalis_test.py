"""Networks and budgets of the experiments of the Chrysalis."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.layers.k.k_dense import KLayer
from keras_xd_tests import example_scripts

chrysalis = example_scripts.load("experiments.k.chrysalis")
models = example_scripts.load("experiments.k.chrysalis_models")


def samples(shape=(4, 4, 3), classes=3, number=9, batch_size=3, kind="plain"):
    rng = np.random.default_rng(0)
    pair = rng.integers(256, size=(number, *shape), dtype="uint8"), np.arange(number) % classes
    batches = chrysalis.functools.partial(
        chrysalis.ImageBatches, batch_size=batch_size, augment=kind == "plain"
    )
    return chrysalis.Data(pair, pair, classes, batches, chrysalis.normalize)


def test_depths_and_starts():
    data = samples((8, 8, 3))
    for method, depth in {"sgd_warm": 1, "sgd_scratch": 9, "random": 9, "depth_3": 3}.items():
        space = models.network("lenet", method, data)
        for name in ("conv1", "conv2"):
            layer = space.get_layer(name)
            assert isinstance(layer, keras_xd.layers.KOpConv2D) and layer.depth == (depth,) * 3
            assert layer.warm_start.is_random == (method != "sgd_warm")
    space = models.network("spherical", "sgd_first_warm", samples((17, 17, 1)))
    assert [space.get_layer(f"conv{index}").depth[0] for index in (1, 2)] == [1, 9]


@pytest.mark.parametrize(
    ("search", "number", "epochs", "steps", "published"),
    # Samples in batches of two. SGDR counts its last period, of one epoch of four; DARTS has
    # three samples in each half, of which one batch is whole.
    [
        (None, 4, 2, 4, False),
        ("sgd", 4, 2, 4, True),
        ("sgdr", 4, 4, 2, False),
        ("sgdr", 4, 1, 2, True),
        ("darts1", 6, 2, 2, True),
    ],
)
def test_budgets(search, number, epochs, steps, published):
    data = samples(number=number, batch_size=2)
    inputs = keras.Input((4, 4, 3))
    rows = keras.layers.Reshape((4, 12))(inputs)
    x = keras_xd.layers.KOpConv1D(2, 3, name="conv1", depth=1)(rows)
    model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(x)))
    before = [keras.ops.convert_to_numpy(v) for v in keras_xd.architecture_variables(model)]
    fitted = models.fit(model, data, "sgd", epochs, seed=0, search=search, published=published)
    if search is None:
        assert int(fitted.optimizer.iterations) == steps
        return
    optimizer = fitted.search_optimizer
    assert int(optimizer.weights_optimizer.iterations) == steps
    assert fitted.mode == models.MODES[search]
    adam = isinstance(optimizer.architecture_optimizer, keras.optimizers.Adam)
    assert adam == search.startswith("darts")
    expected = {"sgd": 4, "sgdr": 8}.get(search, 2)
    assert int(optimizer.architecture_optimizer.iterations) == expected
    after = keras_xd.architecture_variables(model)
    assert all(np.abs(a - b).max() > 0 for a, b in zip(before, after, strict=True))


def test_published_k_layers_are_of_the_shape_of_the_convolutions():
    data = samples((8, 8, 3))
    network, lenet = (models.network("lenet", m, data, True) for m in ("k_layer", "convolution"))
    shapes = [[layer.output.shape for layer in model.layers] for model in (network, lenet)]
    assert shapes[0] == shapes[1]
    for name, n, pairs in (("conv1", 8, 3 * 6), ("conv2", 4, 6 * 16)):
        layer = network.get_layer(name)
        assert isinstance(layer, KLayer)
        matrices = 2 * 2 * n * 2 * int(np.log2(n))  # of two axes, two butterflies of radix 2 each
        assert layer.count_params() == pairs * matrices + layer.filters
        assert layer.activation is keras.activations.relu
