"""Normalization point by point: statistics, coordinates, constant points, files, precision."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd.layers import PointNormalization


def adapted(data, **options):
    layer = PointNormalization(**options)
    layer.adapt(data)
    return layer


@pytest.mark.parametrize("sizes", [(7,), (4, 5), (2, 3, 4)])
def test_every_point_has_mean_zero_and_deviation_one(sizes, rng):
    values = rng.normal(2, 3, size=(50, *sizes, 2)).astype("float32")
    layer = adapted(values)
    encoded = keras.ops.convert_to_numpy(layer(values))
    np.testing.assert_allclose(encoded.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(encoded.std(axis=0), 1, atol=1e-4)
    expected = (values - values.mean(axis=0)) / (values.std(axis=0) + 1e-5)
    np.testing.assert_allclose(encoded, expected, atol=1e-4)
    decoded = adapted(values, invert=True)(encoded)
    np.testing.assert_allclose(decoded, values, rtol=1e-4, atol=1e-4)


def test_points_of_one_value_are_zero_and_back():
    """Where Keras' layer makes rounding noise of the size of a function."""
    values = np.full((1000, 5, 1), 0.1, "float32")
    np.testing.assert_array_equal(adapted(values)(values), 0 * values)
    decoded = adapted(values, invert=True)(np.ones((1, 5, 1), "float32"))
    np.testing.assert_allclose(decoded, 0.1 + 1e-5, rtol=1e-6)
    keras_layer = keras.layers.Normalization(axis=(1, 2))
    keras_layer.adapt(values)
    assert np.abs(keras_layer(values)).max() > 0.5


@pytest.mark.parametrize("kind", ["dataset", "pairs", "sequence", "generator"])
def test_batches_give_the_statistics_of_the_whole(kind, rng):
    values = (100 + rng.normal(size=(10, 4, 1))).astype("float32")

    class Sequence(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return values[4 * index : 4 * index + 4], None

    data = {
        "dataset": lambda: tf.data.Dataset.from_tensor_slices(values).batch(4),
        "pairs": lambda: tf.data.Dataset.from_tensor_slices((values, values)).batch(3),
        "sequence": Sequence,
        "generator": lambda: (values[i : i + 1] for i in range(10)),
    }[kind]()
    layer = adapted(data)
    np.testing.assert_allclose(layer.mean, values.astype("float64").mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(layer.deviation, values.astype("float64").std(axis=0), rtol=1e-5)


def test_a_neural_operator_between_two_of_them(tmp_path, rng):
    """Statistics are saved, copied by `rewrite` and `finalize`, and cost nothing."""
    inputs = (5 + rng.normal(size=(6, 8, 2))).astype("float32")
    solutions = 100 * inputs[..., :1]
    operator = keras_xd.models.fno(
        (8, 2), width=3, modes=3, blocks=1, operation="convolution", padding="same"
    )
    layers = adapted(inputs, channels=1), operator, adapted(solutions, invert=True)
    model = keras.Sequential([keras.Input((8, 2)), *layers])
    space = keras_xd.rewrite(model)
    expected = model(inputs)
    np.testing.assert_allclose(space(inputs), expected, rtol=1e-4)
    search = keras_xd.SearchModel(space)
    search.compile("adam", "adam", keras_xd.losses.RelativeL2(), run_eagerly=True)
    search.fit(inputs, solutions, verbose=0)
    plain = keras_xd.finalize(search)
    plain.save(tmp_path / "plain.keras")
    loaded = keras.models.load_model(tmp_path / "plain.keras")
    np.testing.assert_allclose(loaded(inputs), search(inputs), rtol=1e-4)
    assert keras_xd.complexity(model) == keras_xd.complexity(operator)


def test_what_does_not_fit_is_refused(rng):
    with pytest.raises(ValueError, match="`channels` must be an integer of at least 1"):
        PointNormalization(channels=0)
    with pytest.raises(ValueError, match="`epsilon` must be"):
        PointNormalization(epsilon=0.0)
    with pytest.raises(ValueError, match=r"known sizes.*\(None, None, 1\)"):
        PointNormalization()(keras.Input((None, 1)))
    with pytest.raises(ValueError, match="at least as many channels.*channels=3"):
        adapted(np.ones((2, 4, 2)), channels=3)
    layer = adapted(np.ones((2, 4, 2)))
    with pytest.raises(ValueError, match=r"grid \(4,\) with 2 channels.*\(2, 5, 2\)"):
        layer.adapt(np.ones((2, 5, 2)))
    with pytest.raises(ValueError, match=r"with 2 channels.*\(2, 4, 3\)"):
        layer.adapt(np.ones((2, 4, 3)))
    with pytest.raises(ValueError, match="`adapt` needs functions"):
        layer.adapt([])
    with pytest.raises(ValueError, match="array or batches.*int"):
        layer.adapt(3)
    values = np.ones((3, 4, 2))
    values[1, 2, 1] = np.inf
    for data in (values, [np.ones((2, 4, 2)), values]):
        number = 1 + 2 * isinstance(data, list)
        with pytest.raises(ValueError, match=f"must be finite.*inf in sample {number}, channel 1"):
            layer.adapt(data)
    np.testing.assert_array_equal(layer.mean, np.ones((4, 2)))  # of the first adaption
