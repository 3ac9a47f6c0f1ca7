"""The CIFAR-10 experiment runs in a small setting, resumes, and reports what it measured."""

import importlib
import json
import os

import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    cifar10 = importlib.import_module("experiments.xd.cifar10")
    cifar10_models = importlib.import_module("experiments.xd.cifar10_models")
    cifar10_report = importlib.import_module("experiments.xd.cifar10_report")
    batches = importlib.import_module("datasets.batches")
    permutation = importlib.import_module("datasets.permutation")


@pytest.fixture
def images(rng, monkeypatch):
    """Replace CIFAR-10 by a few random images."""
    parts = []
    for number in (22, 10, 8):
        inputs = rng.integers(256, size=(number, 32, 32, 3)) / 255
        parts.append((inputs.astype("float32"), rng.integers(10, size=number)))
    monkeypatch.setattr(cifar10.images, "load", lambda name, data_dir, subset: tuple(parts))
    return parts


def shallow():
    """Return the search with K-matrices of depth 1."""
    lenet = keras_xd.models.lenet((32, 32, 3), 10, pooling="average")
    options = {"depth": 1, "frequency_bias": True, "channel_gates": True}
    return keras_xd.rewrite(lenet, operations=("convolution", "pooling"), **options)


def refusal(capsys, *arguments):
    with pytest.raises(SystemExit):
        cifar10.main(arguments)
    return capsys.readouterr().err


def test_every_method_is_measured_and_kept(images, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(cifar10_models.METHODS, "xd", shallow)
    arguments = ["--kinds", "permuted", "--seeds", "3", "--epochs", "1", "--batch-size", "32"]
    arguments += ["--output", str(tmp_path / "new")]
    results = cifar10.main(arguments)
    files = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert set(files) == {"cifar10.json", "cifar10.md"}
    kept = json.loads(files["cifar10.json"])
    assert (kept["settings"], kept["runs"]) == (results.settings, results.runs)
    assert [run["method"] for run in kept["runs"]] == ["backbone", "xd", "linear", "k_layer"]
    assert kept["settings"]["training_images"] == 32 and kept["settings"]["evaluation_images"] == 8
    for run in kept["runs"]:
        assert {len(curve) for curve in [*run["curves"].values(), run["seconds"]]} == {1}
        # A finalized XD-operation answers as the searched one did at the end of training.
        assert run["accuracy"] == pytest.approx(run["curves"]["evaluation_accuracy"][-1], abs=1e-4)
        assert run["architecture_parameters"] < run["parameters"]
        assert min(run["seconds"]) > 0
    moved = kept["runs"][1]["distances"]
    assert set(moved) == {"conv1", "pool1", "conv2", "pool2"}
    assert all(moved[name][matrix] > 0 for name in moved for matrix in "KLM")
    assert "examples/experiments/xd/cifar10.py --kinds permuted --seeds 3 --epochs 1" in str(
        files["cifar10.md"]
    )

    monkeypatch.setattr(cifar10, "run", None)  # what is finished is not run again
    assert cifar10.main(arguments).runs == kept["runs"]
    assert "not overwritten" in refusal(capsys, *arguments, "--epochs", "3")
    assert (tmp_path / "new" / "cifar10.json").read_bytes() == files["cifar10.json"]


def test_permuted_and_plain_images_are_what_is_trained_on(images, tmp_path, monkeypatch):
    seen = {}

    def run(method, kind, seed, train, evaluation, options):
        seen[kind, seed] = train, evaluation
        return run_record(method, kind, seed, 0.5)

    monkeypatch.setattr(cifar10, "run", run)
    arguments = ["--methods", "backbone", "--output", str(tmp_path)]
    cifar10.main([*arguments, "--seeds", "0", "4"])
    pixels = [np.round(inputs * 255).astype("uint8") for inputs, _ in images]
    train, test = np.concatenate(pixels[:2]), pixels[2]
    for seed in (0, 4):
        (plain, labels), (plain_test, test_labels) = seen["plain", seed]
        np.testing.assert_array_equal(plain, train)
        np.testing.assert_array_equal(plain_test, test)
        np.testing.assert_array_equal(labels, np.concatenate([images[0][1], images[1][1]]))
        np.testing.assert_array_equal(test_labels, images[2][1])
        (permuted, _), (permuted_test, _) = seen["permuted", seed]
        np.testing.assert_array_equal(permuted, permutation.permute(train, seed))
        np.testing.assert_array_equal(permuted_test, permutation.permute(test, seed))
    cifar10.main([*arguments, "--seeds", "0", "--overwrite", "--evaluate-on", "validation"])
    np.testing.assert_array_equal(seen["plain", 0][0][0], pixels[0])
    np.testing.assert_array_equal(seen["plain", 0][1][0], pixels[1])


def test_the_search_starts_as_lenet_with_average_pooling(rng):
    space = cifar10_models.searched()
    twin = keras_xd.models.lenet((32, 32, 3), 10, pooling="average")
    for layer in twin.layers:
        if layer.weights:
            weights = space.get_layer(layer.name)
            layer.set_weights([weights.kernel, weights.bias])
    inputs = rng.normal(size=(4, 32, 32, 3)).astype("float32")
    expected = np.array(twin(inputs))
    np.testing.assert_allclose(np.array(space(inputs)), expected, atol=2e-5)
    rewritten = keras_xd.rewrite(
        twin,
        operations=("convolution", "pooling"),
        depth=3,
        frequency_bias=True,
        channel_gates=True,
    )
    assert [x.get_config() for x in space.layers] == [x.get_config() for x in rewritten.layers]
    searchable = [x for x in space.layers if isinstance(x, keras_xd.layers.SearchableLayer)]
    assert [layer.name for layer in searchable] == ["conv1", "pool1", "conv2", "pool2"]
    for layer in searchable:
        assert layer.depth == (3, 3, 3) and layer.frequency_bias and layer.channel_gates


def test_baselines_have_the_size_of_lenet():
    classifier = 400 * 120 + 120 + 120 * 84 + 84 + 84 * 10 + 10
    lenet = cifar10_models.backbone()
    sizes = (int(np.prod(lenet.get_layer(name).output.shape[1:])) for name in ("pool1", "pool2"))
    assert tuple(sizes) == cifar10_models.POOLED_SIZES == (1176, 400)
    dense = 3072 * 1176 + 1176 + 1176 * 400 + 400
    assert cifar10_models.linear().count_params() == dense + classifier
    # Two butterflies of 3072 = 2¹⁰ · 3 points and two of 1215 = 3⁵ · 5, which is cheaper than 1176.
    structured = 2 * 3072 * (10 * 2 + 3) + 1176 + 2 * 1215 * (5 * 3 + 5) + 400
    assert cifar10_models.k_layer().count_params() == structured + classifier


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


WRITTEN = {"command": "python it", "versions": "keras 3", "threads": 2}


def run_record(method, kind, seed, accuracy):
    return {
        "method": method,
        "kind": kind,
        "seed": seed,
        "accuracy": accuracy,
        "parameters": 1234,
        "architecture_parameters": 34,
        "seconds": [3.0, 1.0, 2.0],
        "curves": {"evaluation_accuracy": [0.1, accuracy]},
        "distances": {"conv1": {"K": 0.25, "L": 0.5, "M": seed}},
    }


def test_the_table_holds_means_and_deviations():
    runs = [
        run_record(method, "permuted", seed, accuracy)
        for method, accuracies in {"backbone": (0.4, 0.42, 0.44), "xd": (0.5, 0.55, 0.6)}.items()
        for seed, accuracy in enumerate(accuracies)
    ]
    settings = {"epochs": 2, "training_images": 5, "evaluation_images": 6, "text": ["A line."]}
    text = cifar10_report.page({**settings, "evaluate_on": "test"}, runs, WRITTEN)
    assert "| backbone: LeNet | 42.0 ± 2.0 | 1,234 | 34 | 1.0 |" in text
    assert "| XD: LeNet, searched | 55.0 ± 5.0 | 1,234 | 34 | 1.0 |" in text
    assert "XD minus backbone, permuted: 13.0 ± 3.0 points (3 seeds)." in text
    text = cifar10_report.page({**settings, "evaluate_on": "test"}, runs[:4], WRITTEN)
    assert "| XD: LeNet, searched | 50.0 (0) | 1,234 | 34 | 1.0 |" in text
    assert "XD minus backbone, permuted: 10.0 points (1 seed)." in text


def test_the_table_holds_distances():
    runs = [run_record("xd", "permuted", seed, 0.5) for seed in range(3)]
    settings = {"epochs": 2, "training_images": 5, "evaluation_images": 6, "text": ["A line."]}
    text = cifar10_report.page({**settings, "evaluate_on": "test"}, runs, WRITTEN)
    assert "| conv1 | 0.25 / 0.50 / 1.00 |" in text
    assert "`python it`" in text and "after 2 epochs on 5 training images" in text


def test_files_of_others_are_kept(images, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cifar10, "run", lambda *arguments: run_record(*arguments[:3], 0.5))
    (tmp_path / "cifar10.md").write_text("mine")
    arguments = ["--output", str(tmp_path), "--methods", "backbone"]
    assert "not overwritten" in refusal(capsys, *arguments)
    assert (tmp_path / "cifar10.md").read_text() == "mine"
    cifar10.main([*arguments, "--overwrite"])
    assert "LeNet" in (tmp_path / "cifar10.md").read_text()


@pytest.mark.real_data("TFDS_DATA_DIR", "cifar10")
def test_real_images_are_loaded(tmp_path):
    arguments = ["--subset", "6", "--data-dir", os.environ["TFDS_DATA_DIR"]]
    _, train, test, results = cifar10.parse([*arguments, "--output", str(tmp_path)])
    for inputs, labels in (train, test):
        assert inputs.shape == (6, 32, 32, 3) and inputs.dtype == "uint8"
        assert 0 <= inputs.min() < 80 and 180 < inputs.max() <= 255 and labels.shape == (6,)
    assert results.settings["training_images"] == 6


def test_nonsense_is_refused(tmp_path, capsys):
    assert "at least 1" in refusal(capsys, "--epochs", "0")
    assert "at least 0" in refusal(capsys, "--seeds", "-1")
    assert "positive" in refusal(capsys, "--architecture-rate", "nan")
    assert "invalid choice" in refusal(capsys, "--methods", "darts")
    assert "must hold cifar10" in refusal(capsys, "--data-dir", str(tmp_path / "none"))
