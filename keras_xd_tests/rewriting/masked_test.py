"""Models rewritten to masks of their kernels, widths and depth."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd.layers import MaskedConv2D, MaskedDense
from keras_xd.layers.masked.relative_mask import RelativeMask
from keras_xd_tests import sample_models
from keras_xd_tests.rewriting import masked_models


@pytest.fixture(scope="module")
def model():
    """A model that no test changes."""
    return sample_models.randomize(masked_models.residual(), np.random.default_rng(1))


def images(rng, size=8):
    return rng.standard_normal((2, size, size, 3)).astype("float32")


WIDTHS = [f"s{s}b{b}_a_width" for s in (0, 1) for b in (0, 1)] + ["hidden_width"]
KERNELS = ["stem", *(f"s{s}b{b}_{c}" for s in (0, 1) for b in (0, 1) for c in "ab")]


def masks_of(space):
    """The kinds of masks in a model, and their names or those of their layers."""
    names = {"kernel": [], "width": [], "depth": set()}
    for path in keras_xd.describe(space):
        owner, _, name = path.rpartition("/")
        if name == "kernel_mask":
            names["kernel"].append(owner)
        elif name.endswith("_width"):
            names["width"].append(name)
        elif name.startswith("depth"):
            names["depth"].add(name)
    return {key: sorted(value) for key, value in names.items()}


@pytest.fixture(scope="module")
def rewritten(model):
    return keras_xd.rewrite(model, to="masked")


@pytest.fixture
def space(rewritten):
    """A space that is made once, with its masks as they began."""
    with sample_models.architecture_restored(rewritten):
        yield rewritten


def test_the_same_function_at_first(model, space, rng):
    x = images(rng)
    np.testing.assert_array_equal(space(x, training=False), model(x, training=False))
    assert masks_of(space) == {
        "kernel": sorted(KERNELS),
        "width": sorted(WIDTHS),
        "depth": ["depth_4x4", "depth_8x8"],
    }
    assert len(keras_xd.architecture_variables(space)) == len(KERNELS) + len(WIDTHS) + 2
    assert float(keras_xd.complexity(space)) == keras_xd.complexity(model)
    types = {name: type(space.get_layer(name)) for name in ("stem", "hidden", "classifier")}
    assert types == {"stem": MaskedConv2D, "hidden": MaskedDense, "classifier": MaskedDense}
    assert type(space.get_layer("s1b0_projection")) is layers.Conv2D
    comparison = keras_xd.compare(model, space, x)
    assert comparison.output_error == comparison.worst.relative_error == 0
    assert {row.kind_after for row in comparison.rows} == {"MaskedConv2D", "Conv2D", "MaskedDense"}


def test_multiply_adds_by_hand(space):
    masks = {layer.name: layer for layer in shared_masks(space)}
    masks["s0b0_a_width"].length.assign([0.1])
    masks["s1b1_a_width"].length.assign([0.3])
    masks["hidden_width"].length.assign([-0.2])
    masks["depth_8x8"].length.assign([0.8])
    space.get_layer("s0b1_a").kernel_mask.length.assign([0.2, 0.3])

    # Coordinates are those of `linspace(-1, 1, points)`, up to the edge of the mask.
    first, last = 2, 4  # -1 and -1/3 ≤ 0.19; -1, …, 0.2 ≤ 0.39
    by_hand = 64 * 9 * 3 * 4  # stem
    by_hand += 64 * (25 * 4 * first + 9 * first * 4)
    by_hand += 64 * (1 * 3 * 4 * 4 + 9 * 4 * 4)  # taps at 0; at -0.5, 0 and 0.5
    by_hand += 16 * (25 * 4 * 6 + 9 * 6 * 6 + 4 * 6)
    by_hand += 16 * (25 * 6 * last + 9 * last * 6)
    by_hand += 6 * 2 + 2 * 3
    assert float(keras_xd.complexity(space)) == by_hand
    assert keras_xd.complexity(keras_xd.finalize(space)) == by_hand
    masks["depth_8x8"].length.assign([0.7])  # 1 - 0.7 exceeds ln 9 / 8
    assert float(keras_xd.complexity(space)) == by_hand - 64 * (1 * 3 * 4 * 4 + 9 * 4 * 4)


def shared_masks(space):
    """The masks that layers share."""
    found = [layer for layer in keras_xd.core.searchable.searchable_layers(space)]
    return [layer for layer in found if isinstance(layer, RelativeMask)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"masks": "kernel"}, {"kernel": sorted(KERNELS), "width": [], "depth": []}),
        ({"masks": ("width",)}, {"kernel": [], "width": sorted(WIDTHS), "depth": []}),
        (
            {"masks": "depth", "depth_groups": "model"},
            {"kernel": [], "width": [], "depth": ["depth"]},
        ),
        (
            {"only": ["stem", "s0b0_a", "s0.*_add"]},
            {"kernel": ["s0b0_a", "stem"], "width": ["s0b0_a_width"], "depth": ["depth_8x8"]},
        ),
        (
            {"skip": ["s0b0_add", "s.*", "stem"]},
            {"kernel": [], "width": ["hidden_width"], "depth": []},
        ),
        (
            {"only": lambda layer: layer.name == "hidden"},
            {"kernel": [], "width": ["hidden_width"], "depth": []},
        ),
    ],
    ids=range(6),
)
def test_what_is_masked(options, expected, model):
    assert masks_of(keras_xd.rewrite(model, to="masked", **options)) == expected


def test_frozen_layers_stay_frozen_and_the_model_untouched():
    model = masked_models.residual()
    model.get_layer("s0b0_a").trainable = False
    model.get_layer("s1b1_b").trainable = False
    before = sample_models.fingerprint(model)
    space = keras_xd.rewrite(model, to="masked")
    assert sample_models.fingerprint(model) == before
    frozen = space.get_layer("s0b0_a")
    assert not frozen.kernel.trainable and not frozen.kernel_mask.length.trainable
    assert space.get_layer("s0b0_b").input_width.length.trainable
    assert space.get_layer("s0b1_a").depth_mask.length.trainable


def test_a_step_towards_a_target_lowers_the_multiply_adds(rng):
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(12, 3, activation="relu", name="first"),
            layers.Conv2D(3, 1, name="second"),
            layers.GlobalAveragePooling2D(),
        ]
    )
    space = keras_xd.rewrite(model, to="masked", masks="width", initial_value=0.1)
    before = float(keras_xd.complexity(space))
    search = keras_xd.SearchModel(space)
    search.compile(
        keras.optimizers.SGD(0.0),
        keras.optimizers.SGD(0.005),
        keras.losses.MeanSquaredError(),
        complexity_target=before / 2,
        complexity_weight=1.0,
        run_eagerly=True,
        jit_compile=False,
    )
    x = images(rng)
    history = search.fit(x, np.zeros((2, 3)), epochs=2, verbose=0)
    values = history.history["complexity"]
    np.testing.assert_allclose(values[0], 2, rtol=1e-5)
    after = float(keras_xd.complexity(space))
    assert values[1] < values[0] and before / 2 < after < 0.99 * before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"masks": "widths"}, r"`masks` must be one or several of.*masks='widths'"),
        ({"masks": ()}, "`masks` must be one or several of"),
        ({"temperature": 2.0}, "`temperature` must be so high"),
        ({"initial_value": 0.95}, r"`initial_value` must be a number in \[0.1, 0.85\]"),
        ({"depth_groups": "all"}, "`depth_groups` must be one of 'stage', 'model'"),
        ({"depth": 3}, r"`to='masked'` takes the options \['masks'.*Received: \{'depth': 3\}"),
        ({"padding": "circular"}, "takes the options.*'padding': 'circular'"),
        ({"warm_start": "identity"}, "takes the options.*'warm_start'"),
        ({"only": "s0b0_relu"}, "cannot be .'s0b0_relu' is a "),
        ({"skip": "nothing"}, "skip='nothing', which does not exist"),
        ({"only": "s0b0_add", "masks": "depth"}, "Nothing of the model can be masked"),
    ],
)
def test_bad_options(options, message, model):
    with pytest.raises(ValueError, match=message):
        keras_xd.rewrite(model, to="masked", **options)


def test_models_that_cannot_be_masked():
    inputs = keras.Input((None, 8, 3))
    model = keras.Model(inputs, layers.Conv2D(4, 3, name="conv")(inputs))
    with pytest.raises(ValueError, match=r"conv \(its spatial size is unknown, \(None, None, 8, 3"):
        keras_xd.rewrite(model, to="masked")
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    with pytest.raises(ValueError, match="Nothing of the model can be masked"):
        keras_xd.rewrite(model, to="masked")
    with pytest.raises(ValueError, match="`model` must be a Keras model"):
        keras_xd.rewrite(3, to="masked")
    with pytest.raises(ValueError, match="Masks need no forecast"):
        keras_xd.forecast(masked_models.residual(), to="masked")


def test_channels_are_masked_where_all_layers_that_make_them_are_chosen():
    inputs = keras.Input((8, 8, 3))
    x, y = (layers.Conv2D(4, 3, name=name)(inputs) for name in "xy")
    end = layers.Conv2D(2, 1, name="end")(layers.Multiply()([x, y]))
    model = keras.Model(inputs, end)
    for selection in ({"only": "x"}, {"skip": "y"}):
        with pytest.raises(ValueError, match="Nothing of the model can be masked"):
            keras_xd.rewrite(model, to="masked", masks="width", **selection)
    space = keras_xd.rewrite(model, to="masked", masks="width", only=["x", "y"])
    assert len(keras_xd.architecture_variables(space)) == 1
