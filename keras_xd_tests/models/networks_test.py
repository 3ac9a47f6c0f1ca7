"""What all networks of `models` have in common: they learn, are saved, refuse wrong arguments."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import models

ARGUMENTS = {
    "lenet": {"input_shape": (16, 16, 1), "classes": 3},
    "wide_lenet": {"input_shape": (8, 8, 1), "classes": 3, "filters": (2, 3, 2), "units": 4},
    "spherical_cnn": {"input_shape": (17, 20, 1), "classes": 3, "filters": (2, 3)},
    "resnet20": {"input_shape": (4, 4, 3), "classes": 3, "width": 2},
    "wide_resnet": {"input_shape": (4, 4, 3), "classes": 3, "depth": 10, "width": 2},
    "protein_resnet": {"input_shape": (6, 6, 5), "depth": 6, "width": 4, "dropout": 0.0},
    "pyramidnet": {"depth": 11, "alpha": 9, "input_shape": (8, 8, 3), "classes": 2},
    "kim_cnn": {"length": 9, "vocabulary": 9, "classes": 2, "embedding": 6, "filters": 4},
    "tcn": {"input_shape": (12, 2), "outputs": 2, "channels": 8, "levels": 1, "dropout": 0.0},
    "fno": {"input_shape": (32, 2), "width": 4, "modes": 4, "blocks": 1},
    "fcn": {"input_shape": (12, 2), "classes": 3, "filters": (3, 4, 3)},
    "resnet1d": {"input_shape": (12, 2), "classes": 3, "filters": (3, 4, 4)},
    "inception_time": {"input_shape": (12, 2), "classes": 3, "filters": 2, "depth": 3},
}


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in ARGUMENTS]
    + [("fno", {"operation": "convolution"}), ("fno", {"operation": "xd"})],
)
def test_learns_and_reloads(name, options, tmp_path, rng):
    model = getattr(models, name)(**ARGUMENTS[name], **options)
    shape = (8, *model.input_shape[1:])
    inputs = rng.integers(9, size=shape) if name == "kim_cnn" else rng.normal(size=shape)
    targets = rng.normal(size=(8, *model.output_shape[1:]))
    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
    before = [keras.ops.convert_to_numpy(v).copy() for v in model.trainable_variables]
    steps = 5 if name in ("kim_cnn", "tcn") else 3
    losses = [model.train_on_batch(inputs, targets) for _ in range(steps)]
    assert losses[-1] < 0.98 * losses[0]
    for old, new in zip(before, model.trainable_variables, strict=True):
        assert not np.array_equal(old, keras.ops.convert_to_numpy(new)), new.path
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(restored(inputs)), keras.ops.convert_to_numpy(model(inputs))
    )


DENSE = (8 * 8 * 128 + 1) * 128 + 129 * 10
CONVOLUTIONS = (9 * 3 + 1) * 32 + (9 * 32 + 1) * 64 + (9 * 64 + 1) * 128
COUNTS = {
    "lenet": (76 * 6 + 151 * 16 + 401 * 120 + 121 * 84 + 85 * 10, 62_006),
    "wide_lenet": (CONVOLUTIONS + 4 * (32 + 64 + 128 + 128) + DENSE, 1_144_650),
    "spherical_cnn": (26 * 20 + 501 * 40 + (5 * 5 * 40 + 1) * 10, 30_570),
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameters(name):
    shape = (60, 60, 1) if name == "spherical_cnn" else (32, 32, 3)
    model = getattr(models, name)(shape, 10)
    assert {model.count_params()} == set(COUNTS[name])
    assert model.output_shape == (None, 10)


@pytest.mark.parametrize(
    ("name", "short", "long"),
    [
        ("fcn", 265_986, 278_153),
        # aeon's ResNet has a convolution in its third skip as well; the published one has none.
        ("resnet1d", 523_330 - (128 + 1) * 128, 530_569 - (128 + 1) * 128),
        ("inception_time", 422_498, 494_985),
    ],
)
def test_networks_for_time_series_have_the_sizes_of_aeon(name, short, long):
    """Counted in aeon 1.6.0: its `FCNNetwork`, `ResNetNetwork` and `InceptionNetwork`."""
    assert getattr(models, name)((150, 1), 2).count_params() == short
    model = getattr(models, name)((None, 12), 9)
    assert (model.count_params(), model.output_shape) == (long, (None, 9))


def test_sizes_of_wide_residual_networks():
    model = models.wide_resnet((32, 32, 3), 10)
    convolutions = [x for x in model.layers if isinstance(x, keras.layers.Conv2D)]
    assert [x.kernel_size for x in convolutions].count((3, 3)) == 1 + 2 * 18
    assert len(convolutions) == 40  # with three shortcuts
    # The published 8.9 million.
    assert sum(int(np.prod(v.shape)) for v in model.trainable_variables) == 8_949_210
    sizes = {"conv": 32, "stage1_block6_add": 32, "stage2_block1_add": 16, "stage3_block6_add": 8}
    assert {name: model.get_layer(name).output.shape[1] for name in sizes} == sizes


@pytest.mark.parametrize(
    ("depth", "width", "parameters"),
    [(4, 16, 5_891), (6, 16, 10_563), (10, 16, 19_907), (18, 16, 38_595), (34, 16, 75_971)],
)
def test_sizes_of_residual_networks_of_proteins(depth, width, parameters):
    blocks, block = depth // 2 - 1, 2 * (9 * width**2 + width) + 2 * width
    ends = 2 * 57 + 58 * width + 2 * width + 9 * width + 1
    model = models.protein_resnet((None, None, 57), depth, width=width)
    trainable = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    # The published 0.038 million at depth 18.
    assert trainable == ends + blocks * block == parameters
    convolutions = [x for x in model.layers if isinstance(x, keras.layers.Conv2D)]
    assert len(convolutions) == depth
    assert {x.dilation_rate for x in convolutions} == {(1, 1)}


@pytest.mark.parametrize("name", ["kim_cnn", "spherical_cnn"])
def test_the_search_space_starts_as_the_network(name, rng):
    model = getattr(models, name)(**ARGUMENTS[name])
    space = keras_xd.rewrite(model, to="k_operation", depth=1)
    inputs = rng.integers(9, size=(4, *model.input_shape[1:])).astype("float32")
    np.testing.assert_allclose(space(inputs), model(inputs), atol=1e-4)
    searched = [layer.name for layer in keras_xd.core.searchable.searchable_layers(space)]
    assert searched == [layer.name for layer in model.layers if "conv" in layer.name]


@pytest.mark.parametrize("start", ["convolution", "random_unitary"])
def test_tied_operations_of_the_wide_lenet(start, rng):
    model = models.wide_lenet((8, 8, 3), 4, filters=(2, 3, 4), units=5)
    shared = keras_xd.layers.KOperation(depth=1, warm_start=start)
    space = keras_xd.rewrite(model, "k_operation", only=["conv2", "conv3"], operation=shared)
    assert len(keras_xd.architecture_variables(space)) == 6
    inputs = rng.normal(size=(2, 8, 8, 3)).astype("float32")
    same = np.allclose(space(inputs), model(inputs), atol=1e-4)
    assert same == (start == "convolution")


WRONG = {
    "lenet": [
        *({"input_shape": (28, 28)}, {"classes": 0}),
        *({"padding": "circular"}, {"pooling": "min"}),
    ],
    "wide_lenet": [
        *({"input_shape": (28, 28)}, {"input_shape": (3, 28, 1)}, {"classes": 0}),
        *({"filters": (2, 2)}, {"units": 0}),
    ],
    "spherical_cnn": [
        *({"input_shape": (60, 60)}, {"input_shape": (16, 60, 1)}, {"classes": 0}),
        {"filters": (20, 0)},
    ],
    "resnet20": [{"input_shape": (32, 32)}, {"classes": -1}, {"width": 0}],
    "wide_resnet": [
        *({"input_shape": (32, 32)}, {"classes": 0}, {"depth": 12}, {"depth": 4}, {"width": 0}),
        {"dropout": 1},
    ],
    "protein_resnet": [
        *({"input_shape": (8, 8)}, {"input_shape": (8, 8, None)}, {"depth": 5}, {"depth": 2}),
        *({"width": 0}, {"dropout": 1}, {"dilated": 2}),
    ],
    "pyramidnet": [
        *({"depth": 12}, {"depth": 2}, {"depth": 8}),
        *({"alpha": 0}, {"alpha": "84"}, {"input_shape": (8, 8)}, {"classes": 0}),
    ],
    "kim_cnn": [
        *({"length": 0}, {"vocabulary": 0}, {"classes": 0}, {"embedding": 0}, {"filters": 0}),
        *({"kernel_sizes": ()}, {"kernel_sizes": (3, 3)}, {"kernel_sizes": 3}),
        *({"kernel_sizes": (3, 4, 5), "length": 4}, {"dropout": 1}),
    ],
    "tcn": [
        *({"input_shape": (8,)}, {"input_shape": (8, None)}, {"input_shape": (0, 2)}),
        *({"input_shape": 8}, {"outputs": 0}, {"channels": 0}, {"levels": 0}),
        *({"kernel_size": (2, 2)}, {"dropout": 1}),
    ],
    **dict.fromkeys(
        ("fcn", "resnet1d"),
        [{"input_shape": (8,)}, {"classes": 0}, {"filters": (2, 2)}, {"filters": (2, 0, 2)}],
    ),
    "inception_time": [
        *({"input_shape": (8, None)}, {"classes": 0}, {"filters": 0}, {"kernel_size": 3}),
        {"depth": 0},
    ],
    "fno": [
        *({"input_shape": (2,)}, {"input_shape": (8, None)}, {"input_shape": (0, 2)}),
        *({"input_shape": 8}, {"input_shape": (4, 4, 4, 4, 1)}, {"outputs": 0}, {"width": 0}),
        *({"modes": (4, 4)}, {"modes": 18}, {"modes": 32, "operation": "convolution"}),
        *({"modes": 17, "operation": "xd"}, {"input_shape": (None, 2), "operation": "xd"}),
        *({"blocks": 0}, {"operation": "k"}, {"padding": "valid"}, {"projection": 0}),
        {"normalization": "layer"},
    ],
}


@pytest.mark.parametrize(
    ("name", "changes"),
    [(name, changes) for name, wrong in WRONG.items() for changes in wrong],
    ids=str,
)
def test_bad_arguments(name, changes):
    argument = next(iter(changes))
    with pytest.raises(ValueError, match=f"Received: .*{argument}="):
        getattr(models, name)(**{**ARGUMENTS[name], **changes})
