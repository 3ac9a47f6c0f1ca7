import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import keras_xd
from keras_xd import layers
from keras_xd.layers.masked import masks
from keras_xd.testing import check_layer


def built(input_shape, **kwargs):
    layer = layers.DifferentiableMask(**kwargs)
    layer.build(input_shape)
    return layer


def train(layer, target_size, steps=60, rate=0.5):
    """Pull the sizes of a mask towards a number, by the loss of the sizes alone."""
    optimizer = keras.optimizers.Adam(rate)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(ops.stack(layer.sizes) / target_size - 1))
        (gradient,) = tape.gradient(loss, [layer.length.value])
        optimizer.apply([gradient], [layer.length])


@pytest.mark.parametrize(
    "init_kwargs, input_shape, run_jit",
    [
        ({"axis": -1}, (2, 3, 8), True),
        (
            {"axis": (1, -2), "profile": "gaussian", "initial_size": 5, "minimum_size": 3},
            (2, 9, 8, 2),
            False,
        ),
    ],
)
def test_layer(init_kwargs, input_shape, run_jit):
    check_layer(
        layers.DifferentiableMask,
        init_kwargs,
        input_shape,
        run_jit=run_jit,
        run_mixed_precision=run_jit,
    )


def test_inputs_are_multiplied_by_the_product_of_the_masks(rng):
    layer = built((None, 6, 5, 4), axis=(1, 3), profile="gaussian", centre=0.2, initial_size=3)
    layer.length.assign([0.4, 0.7])
    x = rng.normal(size=(2, 6, 5, 4)).astype("float32")
    first, second = (np.linspace(-1, 1, n) - 0.2 for n in (6, 4))
    first, second = (np.exp(-0.5 * (d / w) ** 2) for d, w in ((first, 0.4), (second, 0.7)))
    first, second = (np.where(mask < 0.1, 0, mask) for mask in (first, second))
    expected = np.einsum("nabc,a,c->nabc", x, first, second)
    np.testing.assert_allclose(layer(x), expected, atol=1e-6)
    assert not first.all() and second.any()


@pytest.mark.parametrize("profile", ["sigmoid", "gaussian"])
@pytest.mark.parametrize("target", [0.01, 1000.0])
def test_every_step_ends_in_the_admissible_range(profile, target):
    layer = built(
        (None, 1, 17, 5), axis=(2, 3), profile=profile, temperature=8.0, initial_size="half"
    )
    train(layer, target, steps=4)
    limit = 0 if target < 1 else 1
    for length, points in zip(ops.convert_to_numpy(layer.length), (17, 5), strict=True):
        gaussian = masks.gaussian_range(points)
        limits = gaussian if profile == "gaussian" else masks.sigmoid_range(8.0)
        assert length == pytest.approx(limits[limit], rel=1e-6)


def test_complexity_is_the_entries_under_the_mask_and_differentiable():
    layer = built((None, 6, 40), initial_size=10)
    assert float(layer.complexity((None, 6, 40))) == pytest.approx(60, rel=1e-5)
    assert float(keras_xd.complexity(keras.Sequential([keras.Input((6, 40)), layer]))) == (
        pytest.approx(60, rel=1e-5)
    )
    with tf.GradientTape() as tape:
        count = layer.complexity((None, 6, 40))
    # The size is 20 (x_T + 1) and x_T moves as the offset does.
    np.testing.assert_allclose(tape.gradient(count, layer.length.value), [6 * 20], rtol=1e-6)


@pytest.mark.parametrize("start", [20.0, 60.0])
def test_the_loss_of_the_complexity_alone_drives_the_size_to_its_target(start):
    """From half and from one and a half times the target to the target."""
    mask = layers.DifferentiableMask(initial_size=start)
    search = keras_xd.SearchModel(keras.Sequential([keras.Input((80,)), mask]))
    search.compile(
        "sgd",
        keras.optimizers.Adam(0.03),
        lambda y, outputs: 0 * ops.sum(outputs),
        complexity_target=40,
        complexity_weight=1.0,
        jit_compile=False,
    )
    data = np.zeros((100, 80))
    search.fit(data, data, batch_size=1, verbose=0)
    assert mask.describe()["size"] / 40 == pytest.approx(1, abs=0.02)


def test_random_masks_have_admissible_sizes(rng):
    layer = built((None, 50, 9), axis=(1, 2), profile="gaussian")
    draws = np.array([layer.random_architecture(rng)[0] for _ in range(200)])
    sizes = draws * masks.gaussian_edge(1.0) * [50, 9]
    assert np.all(sizes >= [2, 2]) and np.all(sizes <= [50.001, 9.001])
    assert np.mean(sizes, axis=0) == pytest.approx([26, 5.6], rel=0.1)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"axis": 0}, "other than 0.*axis=0"),
        ({"axis": ()}, "axis=\\(\\)"),
        ({"axis": 1.0}, "axis=1.0"),
        ({"profile": "square"}, "'sigmoid', 'gaussian'"),
        ({"temperature": 1.0}, "temperature=1.0"),
        ({"centre": 2.0}, "centre=2.0"),
        ({"threshold": 1.0}, "threshold=1.0"),
        ({"initial_size": -1}, "initial_size=-1"),
        ({"minimum_size": "full"}, "minimum_size='full'"),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        layers.DifferentiableMask(**kwargs)


@pytest.mark.parametrize(
    "kwargs, input_shape, message",
    [
        ({}, (None, 4, None), "sizes of the axes.*axis=-1.*None"),
        ({"axis": 3}, (None, 4, 4), "axis=3"),
        ({"axis": (1, -1)}, (None, 4), "different axes.*axis=\\(1, -1\\)"),
        ({}, (None, 1), "at least 2 points"),
        ({"minimum_size": 4}, (None, 280), "from 28.79 to 280 of 280.*minimum_size=4, temperature"),
        ({"initial_size": 9.0}, (None, 8), "initial_size=9.0"),
        ({"profile": "gaussian", "initial_size": 1.0}, (None, 9), "from 2.25 to 9 of 9"),
    ],
)
def test_bad_shapes_and_sizes_are_refused(kwargs, input_shape, message):
    with pytest.raises(ValueError, match=message):
        built(input_shape, **kwargs)


def test_half_of_an_axis_may_be_less_than_the_smallest_mask():
    low, _ = masks.sigmoid_range(4.0)
    for initial_size in (None, "half"):
        layer = built((None, 10), temperature=4.0, initial_size=initial_size)
        np.testing.assert_allclose(layer.length.numpy(), [low], rtol=1e-6)
        assert layer.describe()["size"] > 5
    layer = built((None, 10), minimum_size=8)
    assert layer.describe()["size"] == pytest.approx(8)


def test_counts_are_whole_and_move_with_the_sizes():
    layer = built((None, 6, 9), axis=(1, 2), profile="gaussian")
    layer.length.assign([masks.gaussian_width(0.1, 0.5), masks.gaussian_width(0.1, 0.3)])
    with tf.GradientTape(persistent=True) as tape:
        counts, sizes = layer.counts, layer.sizes
    # Of 6 points -1, -0.6, …, 1 two lie within 0.5; of 9 three lie within 0.3.
    assert [float(count) for count in counts] == [2, 3]
    for count, size in zip(counts, sizes, strict=True):
        slopes = [tape.gradient(value, layer.length.value) for value in (count, size)]
        np.testing.assert_array_equal(*slopes)
        assert np.count_nonzero(slopes[0]) == 1


def test_presence_is_that_of_each_point():
    layer = built((None, 5), initial_size=3)
    with tf.GradientTape(persistent=True) as tape:
        presence, (size,) = layer.presence, layer.sizes
    np.testing.assert_array_equal(presence, [1, 1, 1, 0, 0])
    slope = tape.gradient(size, layer.length.value)
    np.testing.assert_array_equal(
        tape.jacobian(presence, layer.length.value)[:, 0], [0, 0, slope[0], 0, 0]
    )


def test_a_finalized_mask_is_not_trained():
    static = built((None, 9), profile="gaussian").finalize()
    assert len(static.weights) == 1 and not static.trainable_weights


@pytest.mark.parametrize("axis", [0, (1, 1), (1, -2), 3])
def test_axes_that_are_none_are_refused(axis):
    with pytest.raises(ValueError, match="axes of its inputs other than the batch's. Received"):
        layers.StaticMask(axis).build((None, 4, 3))
