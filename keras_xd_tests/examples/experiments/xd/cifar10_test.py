"""Baselines, batches of images and rates of the CIFAR-10 experiment."""

import importlib

import numpy as np

from keras_xd_tests import example_scripts

with example_scripts.on_path():
    cifar10 = importlib.import_module("experiments.xd.cifar10")
    batches = importlib.import_module("datasets.batches")
    permutation = importlib.import_module("datasets.permutation")


def test_baselines_have_the_size_of_lenet():
    classifier = 400 * 120 + 120 + 120 * 84 + 84 + 84 * 10 + 10
    models = cifar10.METHODS
    lenet = models["backbone"]()
    sizes = (int(np.prod(lenet.get_layer(name).output.shape[1:])) for name in ("pool1", "pool2"))
    assert tuple(sizes) == cifar10.POOLED_SIZES == (1176, 400)
    dense = 3072 * 1176 + 1176 + 1176 * 400 + 400
    assert models["linear"]().count_params() == dense + classifier
    # Two butterflies of 3072 = 2¹⁰ · 3 points and two of 1215 = 3⁵ · 5, which is cheaper than 1176.
    structured = 2 * 3072 * (10 * 2 + 3) + 1176 + 2 * 1215 * (5 * 3 + 5) + 400
    assert models["k_layer"]().count_params() == structured + classifier


def test_batches_hold_every_image_once_an_epoch(rng):
    inputs, labels = rng.integers(256, size=(10, 32, 32, 3), dtype="uint8"), np.arange(10)
    data = batches.ImageBatches(inputs, labels, batch_size=5, seed=1, augment=False)
    first = [data[index] for index in range(len(data))]
    order = np.concatenate([y for _, y in first])
    assert len(data) == 2 and sorted(order) == list(range(10)) and list(order) != list(range(10))
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (inputs[order] / 255 - mean) / deviation
    np.testing.assert_allclose(np.concatenate([x for x, _ in first]), expected, atol=1e-5)
    data.on_epoch_end()
    second = np.concatenate([data[index][1] for index in range(len(data))])
    assert sorted(second) == list(range(10)) and list(second) != list(order)
    assert len(batches.ImageBatches(inputs, labels, 4, 1, augment=False)) == 2
    assert len(batches.ImageBatches(inputs, labels, 128, 1, augment=False)) == 1


def test_augmented_images_are_crops_and_mirror_images(rng):
    number = 300
    inputs = rng.integers(1, 256, size=(number, 6, 8, 3), dtype="uint8")
    data = batches.ImageBatches(inputs, np.arange(number), number, seed=2, augment=True)
    found, chosen = data[0]
    np.testing.assert_array_equal(found, data[0][0])  # the same when asked again
    padded = batches.normalize(np.pad(inputs, [(0, 0), (4, 4), (4, 4), (0, 0)]))
    places = set()
    for image, index in zip(found, chosen, strict=True):
        matches = [
            (top, left, step)
            for top in range(9)
            for left in range(9)
            for step in (1, -1)
            if np.array_equal(padded[index, top : top + 6, left : left + 8][:, ::step], image)
        ]
        assert matches
        places.update(matches)
    assert {place[:2] for place in places} >= {(0, 0), (8, 8)}
    assert {place[2] for place in places} == {1, -1}
    data.on_epoch_end()
    again, _ = data[0]
    assert not np.array_equal(found[np.argsort(chosen)], again[np.argsort(data.order)])


def test_rates_fall_at_half_and_at_three_quarters():
    rates = [float(cifar10.schedule(0.01, 200)(step)) for step in (0, 99, 101, 149, 151, 199)]
    np.testing.assert_allclose(rates, [0.01, 0.01, 0.005, 0.005, 0.001, 0.001], rtol=1e-6)
