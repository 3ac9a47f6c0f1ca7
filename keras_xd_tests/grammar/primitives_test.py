import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.grammar import build, parse, primitives, spaces
from keras_xd.grammar.topologies import check_operators

SHAPE = (4, 4, 8)


def one(table, name, shape=SHAPE):
    return build(parse(f"(O {name})"), keras.Input(shape), table)


def test_tables_have_every_primitive():
    tables = {
        spaces.hierarchical_nas_bench_201_shared_cell: primitives.nas_bench_201(),
        spaces.darts_cell: primitives.darts(),
        spaces.activation_functions: primitives.activation_functions(),
        spaces.searchable_operations: primitives.searchable_operations(),
        spaces.einspace: primitives.einspace((32, 32)),
    }
    for space, table in tables.items():
        check_operators(space().rules, None, {"id", "zero", *table})


def test_networks_of_nas_bench_201():
    term = spaces.nas_bench_201().parse(
        "(SHARED share:cell (D2 Linear3 (D1 Linear3 (C Linear2 cell cell) (C Linear2 cell cell)"
        " (DOWN Linear2 cell resBlock)) (D1 Linear3 (C Linear2 cell cell) (C Linear2 cell cell)"
        " (DOWN Linear2 cell resBlock)) (D0 Linear3 (C Linear2 cell cell) (C Linear2 cell cell)"
        " cell)) (CELL Cell (OPS conv3x3) (OPS zero) (OPS zero) (OPS avg_pool) (OPS id)"
        " (OPS zero)))"
    )
    table, stem = primitives.nas_bench_201(), primitives.stem(4)
    model = build(term, keras.Input((8, 8, 3)), table, stem=stem, head=primitives.head(10))
    assert model.output_shape == (None, 10)
    convolutions = [x for x in model.layers if isinstance(x, keras.layers.Conv2D)]
    # The stem, fifteen cells of one convolution, two blocks of three.
    assert len(convolutions) == 1 + 15 + 2 * 3
    assert {x.filters for x in convolutions} == {4, 8, 16}
    # Five cells of 4 channels, five of 8, five of 16: 9 c² and 2 c for the normalization.
    cells = [layer for layer in model.layers if layer.name.startswith("conv3x3")]
    trained = sum(np.prod(w.shape) for layer in cells for w in layer.trainable_weights)
    assert trained == sum(5 * (9 * c**2 + 2 * c) for c in (4, 8, 16))


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("conv3x3", 9 * 64 + 4 * 8),
        ("conv1x1", 64 + 4 * 8),
        ("conv3x3o", 9 * 64),
        ("conv1x1o", 64),
        ("dconv3x3o", 9 * 8),
        ("avg_pool", 0),
        ("mish", 0),
        ("batch", 4 * 8),
        ("instance", 2 * 8),
        ("layer", 2 * 4 * 4 * 8),
        ("max_pool", 0),
        ("sep_conv3x3", 2 * (9 * 8 + 64 + 4 * 8)),
        ("dil_conv5x5", 25 * 8 + 64 + 4 * 8),
        ("resBlock", 9 * 8 * 16 + 9 * 16 * 16 + 8 * 16 + 2 * 4 * 16),
    ],
)
def test_sizes_of_the_primitives(name, weights):
    model = one({**primitives.darts(), **primitives.nas_bench_201()}, name)
    assert model.count_params() == weights
    assert model.output_shape == ((None, 2, 2, 16) if name == "resBlock" else (None, *SHAPE))


def test_searchable_operations_begin_as_what_they_are_called():
    table = primitives.searchable_operations()
    x = np.random.default_rng(0).normal(size=(2, *SHAPE)).astype("float32")
    np.testing.assert_allclose(np.array(one(table, "xd_identity")(x)), x, atol=2e-6)
    pooled = keras.layers.AveragePooling2D(3, 1, "same")(x)
    np.testing.assert_allclose(np.array(one(table, "xd_avg_pool")(x)), pooled, atol=2e-6)
    model = one(table, "xd_conv3x3")
    expected = keras.ops.conv(x, model.layers[1].kernel, padding="same")
    np.testing.assert_allclose(np.array(model(x)), expected, atol=5e-6)


def test_searchable_operations_are_searched_and_finalized():
    term = parse("(S Diamond2 xd_depthwise3x3 k_operation attention dynamic_conv)")
    table = primitives.searchable_operations(depth=1)
    model = build(term, keras.Input((4, 4, 4)), table, head=primitives.head(2))
    assert set(keras_xd.describe(model)) == {"xd_depthwise3x3_edge1", "k_operation_edge2"}
    names = [variable.path for variable in keras_xd.architecture_variables(model)]
    assert names and all("xd_depthwise3x3_edge1" in n or "k_operation_edge2" in n for n in names)
    x = np.random.default_rng(0).normal(size=(2, 4, 4, 4)).astype("float32")
    found = keras_xd.finalize(model)
    assert not keras_xd.architecture_variables(found)
    np.testing.assert_allclose(np.array(found(x)), np.array(model(x)), atol=1e-5)


def test_dynamic_convolution():
    model = one(primitives.searchable_operations(), "dynamic_conv")
    x = np.random.default_rng(0).normal(size=(2, *SHAPE)).astype("float32")
    y = np.array(model(x))
    # With equal weights for all images it is the average over 3 × 3 pixels, zeros outside.
    model.get_layer("dynamic_conv_edge1_mix").kernel.assign(np.zeros((1, 8)))
    mean = keras.ops.depthwise_conv(x, np.full((3, 3, 8, 1), 1 / 9, "float32"), padding="same")
    np.testing.assert_allclose(np.array(model(x)), mean, atol=1e-6)
    assert np.max(abs(y - mean)) > 1e-3
    # Weights are the image's own: each image alone gives the same.
    model = one(primitives.searchable_operations(), "dynamic_conv")
    alone = np.concatenate([np.array(model(x[:1])), np.array(model(x[1:]))])
    np.testing.assert_allclose(np.array(model(x)), alone, atol=1e-6)


def test_attention_mixes_all_pixels_and_saves(tmp_path):
    term = parse("(S Linear2 attention dynamic_conv)")
    model = build(term, keras.Input((2, 3, 8)), primitives.searchable_operations())
    x = np.random.default_rng(0).normal(size=(1, 2, 3, 8)).astype("float32")
    y = np.array(model(x))
    x[0, 0, 0] += 1
    assert np.all(np.any(np.array(model(x)) != y, axis=-1))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(np.array(again(x)), np.array(model(x)))


def test_images_of_unknown_size_are_refused():
    for name in ("attention", "dynamic_conv"):
        with pytest.raises(ValueError, match="need images of known size"):
            one(primitives.searchable_operations(), name, (None, None, 8))


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="`filters` must be"):
        primitives.stem(0)
    with pytest.raises(ValueError, match="`classes` must be"):
        primitives.head(1.5)
