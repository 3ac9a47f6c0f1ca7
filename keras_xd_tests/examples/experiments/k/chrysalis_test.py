"""The experiments of the Chrysalis run in a tiny setting, resume, and report what they measured."""

import importlib
import json
import os

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    chrysalis = importlib.import_module("experiments.k.chrysalis")
    models = importlib.import_module("experiments.k.chrysalis_models")
    report = importlib.import_module("experiments.k.chrysalis_report")


@pytest.fixture
def images(rng, monkeypatch):
    """Replace CIFAR-10 by a few small random images, MNIST by a few of its size."""
    chrysalis._images.cache_clear()
    chrysalis._digits.cache_clear()

    def load(name, data_dir, subset):
        shape = (4, 4, 3) if name.startswith("cifar") else (28, 28, 1)
        numbers = (12, 4, 8) if subset is None else (subset,) * 3
        return tuple(
            (rng.uniform(size=(number, *shape)).astype("float32"), np.arange(number) % 10)
            for number in numbers
        )

    monkeypatch.setattr(chrysalis.images, "load", load)
    yield
    chrysalis._images.cache_clear()
    chrysalis._digits.cache_clear()


@pytest.fixture
def tiny(monkeypatch):
    """Replace the networks for images by one convolution and a dense layer."""

    def network(shape, classes):
        return keras.Sequential(
            [
                keras.Input(shape),
                keras.layers.Conv2D(2, 3, name="conv1"),
                keras.layers.Flatten(),
                keras.layers.Dense(classes),
            ]
        )

    monkeypatch.setattr(models, "BACKBONES", dict.fromkeys(models.BACKBONES, network))
    monkeypatch.setattr(models, "EMBEDDING", 2)


@pytest.fixture
def sentences(tmp_path):
    text = "".join(f"{index % 2} a{index % 3} b{index % 4} c d e\n" for index in range(30))
    (tmp_path / "text_mr.txt").write_text(text)
    return tmp_path


def refusal(capsys, *arguments):
    with pytest.raises(SystemExit):
        chrysalis.main(arguments)
    return capsys.readouterr().err


def samples(shape=(4, 4, 3), classes=3, number=9, batch_size=3, kind="plain"):
    rng = np.random.default_rng(0)
    pair = rng.integers(256, size=(number, *shape), dtype="uint8"), np.arange(number) % classes
    batches = chrysalis.functools.partial(
        chrysalis.ImageBatches, batch_size=batch_size, augment=kind == "plain"
    )
    return chrysalis.Data(pair, pair, classes, batches, chrysalis.normalize)


# Whole experiments


def test_searches_are_evaluated_in_three_ways_and_kept(images, tiny, tmp_path, monkeypatch, capsys):
    methods = ["convolution", "random", "sgd_warm"]
    arguments = ["--experiment", "transfer", "--kinds", "permuted", "--seeds", "3"]
    arguments += ["--methods", *methods, "--epochs", "1", "--batch-size", "12"]
    arguments += ["--output", str(tmp_path / "new")]
    results = chrysalis.main([*arguments, "--keep", str(tmp_path / "kept")])
    files = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert set(files) == {f"chrysalis_transfer.{suffix}" for suffix in ("json", "md")}
    kept = json.loads(files["chrysalis_transfer.json"])
    assert (kept["settings"], kept["runs"]) == (results.settings, results.runs)
    assert [run["method"] for run in kept["runs"]] == methods
    for run in kept["runs"]:
        fixed = run["method"] in models.FIXED
        protocols = {"offline", "transfer"} if fixed else {"offline", "transfer", "supernet"}
        assert set(run["accuracy"]) == set(run["seconds"]) == protocols
        assert all(0 <= value <= 1 for value in run["accuracy"].values())
        assert (run["architecture_parameters"] == 0) == fixed and run["samples"] == [11, 5]
    sizes = [run["parameters"] - run["architecture_parameters"] for run in kept["runs"]]
    assert len(set(sizes)) == 1  # the architecture of random operations is not trained
    page = files["chrysalis_transfer.md"].decode()
    assert (
        "examples/experiments/k/chrysalis.py --experiment transfer --methods convolution random"
        in page
    )
    assert "permuted: 11 training and 5 evaluation samples" in page

    # A run cut short goes on from what is kept, without searching or training again.
    monkeypatch.setattr(chrysalis, "fit", None)
    again = chrysalis.main(
        [*arguments, "--methods", "sgd_warm", "--keep", str(tmp_path / "kept"), "--overwrite"]
    )
    assert again.runs[0]["accuracy"] == kept["runs"][2]["accuracy"]
    monkeypatch.setattr(chrysalis, "run", None)  # what is finished is not run again
    assert chrysalis.main([*arguments, "--methods", "sgd_warm"]).runs == again.runs
    before = (tmp_path / "new" / "chrysalis_transfer.json").read_bytes()
    assert "not overwritten" in refusal(capsys, *arguments, "--epochs", "2")
    assert (tmp_path / "new" / "chrysalis_transfer.json").read_bytes() == before


@pytest.mark.parametrize(
    ("experiment", "kind", "method"),
    [
        ("lenet", "plain", "k_layer"),
        ("wide", "plain", "convolution"),
        ("wide_transfer", "permuted", "convolution"),
        ("cifar100", "plain", "convolution"),
        ("text", "mr", "sgd_warm"),
        ("text", "mr", "linear"),
        ("spherical", "rotated", "convolution"),
        ("depth", "plain", "depth_2"),
    ],
)
def test_every_experiment_runs(experiment, kind, method, images, tiny, sentences, monkeypatch):
    monkeypatch.setenv("KERAS_XD_DATA_DIR", str(sentences))
    arguments = ["--experiment", experiment, "--kinds", kind, "--methods", method]
    subset = "10" if experiment == "wide_transfer" else "4"
    arguments += ["--epochs", "1", "--subset", subset, "--batch-size", "4"]
    (run,) = chrysalis.main([*arguments, "--output", str(sentences)]).runs
    expected = {"offline"} if method in models.FIXED else {"offline", "supernet"}
    expected |= {"transfer"} if experiment == "cifar100" else set()
    if experiment == "wide_transfer":
        assert set(run["accuracy"]) == expected | {"transfer"} and run["samples"] == [5, 5]
        return
    assert set(run["accuracy"]) == expected and run["samples"] == [
        4,
        4 if experiment != "text" else 3,
    ]


# Data


def test_classes_are_split_and_numbered_again(images, tmp_path):
    options, _ = chrysalis.parse(["--experiment", "transfer", "--output", str(tmp_path)])
    first, second = chrysalis.load("transfer", "plain", 0, options)
    inputs, labels = chrysalis._images("cifar10", os.environ.get("TFDS_DATA_DIR"), options.subset)[
        0
    ]
    for data, classes in ((first, range(5)), (second, range(5, 10))):
        chosen = [index for index, label in enumerate(labels) if label in classes]
        np.testing.assert_array_equal(data.train[0], inputs[chosen])
        np.testing.assert_array_equal(data.train[1], labels[chosen] - classes[0])
        assert data.classes == 5
    assert len(first.train[0]) + len(second.train[0]) == 16


# Networks


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


def test_a_warm_start_is_the_network():
    data = samples((4, 4, 3))
    space = models.network("wide", "sgd_warm", data)
    first, second, third = (space.get_layer(f"conv{i}") for i in (1, 2, 3))
    assert second.operation is third.operation is not None and first.operation is None
    keras.utils.set_random_seed(1)
    backbone = models.network("wide", "convolution", data)
    inputs = data.scaled(data.train[0])
    space = models.k_operations(backbone, "warm")
    np.testing.assert_allclose(space(inputs), backbone(inputs), atol=1e-4)


# Training


@pytest.mark.parametrize(
    ("search", "number", "epochs", "steps"),
    # Samples in batches of two. SGDR counts its last period, of one epoch of four; DARTS has
    # three samples in each half, of which one batch is whole.
    [
        (None, 4, 2, 4),
        ("sgd", 4, 2, 4),
        ("sgdr", 4, 4, 2),
        ("darts1", 6, 2, 2),
        ("darts2", 6, 2, 2),
    ],
)
def test_budgets(search, number, epochs, steps):
    data = samples(number=number, batch_size=2)
    inputs = keras.Input((4, 4, 3))
    rows = keras.layers.Reshape((4, 12))(inputs)
    x = keras_xd.layers.KOpConv1D(2, 3, name="conv1", depth=1)(rows)
    model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(x)))
    before = [keras.ops.convert_to_numpy(v) for v in keras_xd.architecture_variables(model)]
    fitted = models.fit(model, data, "sgd", epochs, seed=0, search=search)
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


# Pages


def test_nonsense_is_refused(images, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("KERAS_XD_DATA_DIR", raising=False)
    assert "--experiment" in refusal(capsys)
    arguments = ["--output", str(tmp_path), "--experiment"]
    assert "--methods of depth" in refusal(capsys, *arguments, "depth", "--methods", "linear")
    assert "--kinds of text" in refusal(capsys, *arguments, "text", "--kinds", "plain")
    assert "multiple of 4" in refusal(capsys, *arguments, "lenet", "--epochs", "6")
    assert "text_mr.txt" in refusal(capsys, *arguments, "text")
    assert "none of the classes" in refusal(capsys, *arguments, "transfer", "--subset", "4")
    assert not list(tmp_path.iterdir())
