"""Baselines, batches of images and rates of the CIFAR-10 experiment."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

cifar10 = example_scripts.load("experiments.xd.cifar10")
batches = example_scripts.load("datasets.batches")
images = example_scripts.load("datasets.images")


def parsed(monkeypatch, folder, *arguments):
    """Return the options of a run on made-up images."""
    data = np.zeros((4, 32, 32, 3), "float32"), np.arange(4)
    monkeypatch.setattr(cifar10.images, "load", lambda *_: (data, data, data))
    return cifar10.parse([*arguments, "--output", str(folder)])[0]


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


@pytest.mark.parametrize(
    "backbone, kind, rates, warmups, other_weight",
    [
        ("lenet", "permuted", (1e-3, 1e-1), (0, 50), 0.875),
        ("resnet20", "plain", (1e-4, 1e-3), (50, 0), 0.1),
        ("wide_resnet", "permuted", (1e-3, 1e-1), (0, 0), 0.875),
    ],
)
def test_the_settings_of_the_paper(
    backbone, kind, rates, warmups, other_weight, monkeypatch, tmp_path
):
    options = parsed(monkeypatch, tmp_path, "--paper", "--backbone", backbone)
    assert (options.epochs, options.batch_size, options.seeds) == (200, 128, [0, 1, 2])
    assert (options.layers, options.width, options.subset) == (40, 4, None)
    made = {}
    monkeypatch.setattr(cifar10, "backbone", lambda *_, **options: made.setdefault("it", tiny()))
    monkeypatch.setattr(
        keras_xd.SearchModel, "compile", lambda self, *_, **options: made.update(options)
    )
    for method, rate, epochs in zip(("xd", "darts"), rates, warmups, strict=True):
        space = cifar10.compiled(method, kind, 200, options).model.layers[-1]
        assert made["warmup_epochs"] == epochs
        assert float(made["architecture_optimizer"].learning_rate) == pytest.approx(rate)
        if method == "xd":
            size = {"lenet": 3, "resnet20": 5, "wide_resnet": 3}[backbone]
            assert space.kernel_size == (size, size) and tuple(space.depth) == (3, 3, 3)
            extras = backbone != "wide_resnet"  # which has neither in the paper
            assert (space.frequency_bias, space.channel_gates) == (extras, extras)
        else:
            assert len(space.operations) == 8
            assert float(np.max(space.probabilities)) == pytest.approx(1 - other_weight)


def tiny():
    layers = [keras.layers.Conv2D(2, 3, padding="same", name="conv")]
    return keras.Sequential([keras.Input((32, 32, 3)), *layers])


def test_images_that_cannot_be_had_are_named(monkeypatch, tmp_path):
    import tensorflow_datasets as tfds

    def fail(self, **options):
        raise OSError("no network")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    monkeypatch.setattr(tfds.core.DatasetBuilder, "is_prepared", lambda _: False)
    with pytest.raises(ValueError, match="must hold cifar10 as tensorflow-datasets prepares it"):
        images.load("cifar10", str(tmp_path))
    with pytest.raises(ValueError, match="cifar10 could not be downloaded from https.*no network"):
        images.load("cifar10")
