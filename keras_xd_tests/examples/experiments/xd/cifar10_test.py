"""Baselines, batches of images and rates of the CIFAR-10 experiment."""

import importlib

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    cifar10 = importlib.import_module("experiments.xd.cifar10")
    batches = importlib.import_module("datasets.batches")
    images = importlib.import_module("datasets.images")
    permutation = importlib.import_module("datasets.permutation")


def parsed(monkeypatch, folder, *arguments):
    """Return the options of a run on made-up images."""
    data = np.zeros((4, 32, 32, 3), "float32"), np.arange(4)
    monkeypatch.setattr(cifar10.images, "load", lambda *_: (data, data, data))
    return cifar10.parse([*arguments, "--output", str(folder)])[0]


def test_baselines_have_the_size_of_lenet(monkeypatch, tmp_path):
    classifier = 400 * 120 + 120 + 120 * 84 + 84 + 84 * 10 + 10
    options = parsed(monkeypatch, tmp_path)
    lenet = cifar10.make("backbone", "plain", options)
    sizes = (int(np.prod(lenet.get_layer(name).output.shape[1:])) for name in ("pool1", "pool2"))
    assert tuple(sizes) == cifar10.POOLED_SIZES == (1176, 400)
    dense = 3072 * 1176 + 1176 + 1176 * 400 + 400
    assert cifar10.make("linear", "plain", options).count_params() == dense + classifier
    # Two butterflies of 3072 = 2¹⁰ · 3 points and two of 1215 = 3⁵ · 5, which is cheaper than 1176.
    structured = 2 * 3072 * (10 * 2 + 3) + 1176 + 2 * 1215 * (5 * 3 + 5) + 400
    assert cifar10.make("k_layer", "plain", options).count_params() == structured + classifier


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
    steps = (0, 99, 101, 149, 151, 199)
    for backbone, falls in (("lenet", (0.01, 0.005, 0.001)), ("wide_resnet", (0.1, 0.01, 0.001))):
        settings = cifar10.settings_of_paper(backbone, "plain")
        rate = cifar10.schedule(settings["learning_rate"], 200, settings)
        np.testing.assert_allclose([float(rate(s)) for s in steps], np.repeat(falls, 2), rtol=1e-6)


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


def test_the_expert_gets_the_images_in_their_order(monkeypatch, tmp_path):
    seen = []
    data = np.random.default_rng(0).random((4, 32, 32, 3)).astype("float32"), np.arange(4)
    monkeypatch.setattr(cifar10.images, "load", lambda *_: (data, data, data))

    def run(method, kind, seed, train, evaluation, options):
        seen.append((method, kind))
        ordered = np.array_equal(evaluation[0], np.round(data[0] * 255))
        assert ordered == (kind == "plain" or method == "expert")
        return {"method": method, "kind": kind, "seed": seed, "accuracy": 0.5, "seconds": [1.0]} | {
            "parameters": 1,
            "architecture_parameters": 0,
        }

    monkeypatch.setattr(cifar10, "run", run)
    cifar10.main(["--methods", "backbone", "expert", "--output", str(tmp_path)])
    assert seen == [("backbone", "plain"), ("backbone", "permuted"), ("expert", "permuted")]


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
