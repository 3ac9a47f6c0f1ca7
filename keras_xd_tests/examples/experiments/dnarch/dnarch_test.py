"""The experiment on learned architectures runs in a tiny setting, resumes, and reports; ListOps."""

import importlib
import json

import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    dnarch = importlib.import_module("experiments.dnarch.dnarch")
    training = importlib.import_module("experiments.dnarch.dnarch_training")
    listops = importlib.import_module("datasets.listops")

TINY = ["--blocks", "1", "--channels", "4", "--epochs", "2", "--batch-size", "9"]


@pytest.fixture
def images(rng, monkeypatch):
    """Replace CIFAR-10 by a few small random images, MNIST by a few of its size."""

    def load(name, data_dir, subset):
        shape = (8, 8, 3) if name == "cifar10" else (28, 28, 1)
        return tuple(
            (rng.uniform(size=(number, *shape)).astype("float32"), np.arange(number) % 10)
            for number in (7, 2, 5)
        )

    monkeypatch.setattr(training.cifar10.images, "load", load)


@pytest.fixture
def no_data(monkeypatch):
    monkeypatch.delenv("KERAS_XD_DATA_DIR", raising=False)


def refusal(capsys, *arguments):
    with pytest.raises(SystemExit):
        dnarch.main(arguments)
    return capsys.readouterr().err


# Whole experiments


def test_images_are_averaged(images):
    pixels = np.arange(2 * 4 * 4 * 3, dtype="uint8").reshape(2, 4, 4, 3)
    found = training.averaged(pixels, 2)
    assert found.dtype == "uint8" and found.shape == (2, 2, 2, 3)
    # The mean of rows 0 and 1 and columns 2 and 3 of the first channel: 6, 9, 18, 21.
    assert found[0, 0, 1, 0] == round((6 + 9 + 18 + 21) / 4)
    np.testing.assert_array_equal(training.averaged(pixels, 4), pixels)
    with pytest.raises(ValueError, match="must divide 4"):
        training.averaged(pixels, 3)


def test_methods_are_trained_pruned_and_kept(images, no_data, tmp_path, monkeypatch, capsys):
    arguments = ["cifar10", *TINY, "--size", "8", "--seeds", "3", "--epochs", "1"]
    arguments += ["--output", str(tmp_path)]
    results = dnarch.main(arguments)
    printed = capsys.readouterr().out
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(files) == {f"dnarch_cifar10.{suffix}" for suffix in ("json", "md")}
    kept = json.loads(files["dnarch_cifar10.json"])
    assert (kept["settings"], kept["runs"]) == (results.settings, results.runs)
    assert kept["settings"]["training_samples"] == 9
    assert [run["method"] for run in kept["runs"]] == list(training.METHODS)
    for run in kept["runs"]:
        assert run["score"] in [n / 5 for n in range(6)]
        assert run["score"] == run["searched_score"] and run["difference"] < 1e-4
        assert len(run["seconds"]) == 1
        assert run["pruned_complexity"] == run["multiply_adds"] / run["target"]
    assert printed.count("C / C_target") >= 4
    plain, kernels, resolutions, everything = kept["runs"]
    # By the formula of docs/ccnn.md for 64 points, 4 channels, with encoder and decoder.
    block = 64 * 4 + 64 * 6 + 64 * (16 + 8 + 16 + 4)
    assert plain["target"] == block + 64 * 3 * 4 + 4 * 10 == plain["multiply_adds"]
    assert plain["complexity"] == kernels["complexity"] == 1 >= resolutions["complexity"]
    assert plain["blocks"][0]["largest"] == [8, 8, 4] and len(everything["blocks"]) == 2
    page = files["dnarch_cifar10.md"].decode()
    command = "`python examples/experiments/dnarch/dnarch.py cifar10"
    assert f"{command} --seeds 3 --blocks 1 --channels 4 --epochs 1" in page
    assert f"| plain | {100 * plain['score']:.2f} | 1.000 | 1.000 |" in page

    monkeypatch.setattr(training, "run", None)  # what is finished is not run again
    assert dnarch.main(arguments).runs == kept["runs"]
    capsys.readouterr()
    assert "not overwritten" in refusal(capsys, *arguments, "--kernel-size", "3")
    assert (tmp_path / "dnarch_cifar10.json").read_bytes() == files["dnarch_cifar10.json"]


@pytest.mark.parametrize(
    ("experiment", "arguments", "largest"),
    [
        ("mnist", ["--size", "4"], [16, 8]),
        ("listops", ["--subset", "7", "--blocks", "2"], [128, 8]),
        ("darcy", ["--size", "8", "--subset", "10"], [8, 8, 8]),
    ],
)
def test_every_experiment_runs(experiment, arguments, largest, images, no_data, tmp_path):
    arguments = [experiment, *TINY, *arguments, "--epochs", "1", "--methods", "KRWD"]
    results = dnarch.main([*arguments, "--output", str(tmp_path)])
    (run,) = results.runs
    assert run["score"] == pytest.approx(run["searched_score"], rel=1e-3)
    assert run["difference"] < 1e-4 and run["score"] >= 0
    assert [block["largest"] for block in run["blocks"]] == [largest] * len(run["blocks"])
    assert len(run["blocks"]) == 2 * results.settings["blocks"]
    assert len(run["blocks"][0]["taps"]) == len(largest) - 1
    numbers = {"mnist": (9, 5), "listops": (7, 7), "darcy": (10, 10)}[experiment]
    found = results.settings["training_samples"], results.settings["evaluation_samples"]
    assert found == numbers


# Data


def parsed(tokens):
    """Return the value, the depth and the numbers of arguments of an expression."""
    token = tokens.pop(0)
    if token.isdigit():
        return int(token), 0, []
    values, depths, counts = [], [], []
    while tokens[0] != "]":
        value, depth, inner = parsed(tokens)
        values.append(value)
        depths.append(depth)
        counts += inner
    tokens.pop(0)
    compute = {"[MIN": np.min, "[MAX": np.max, "[MED": np.median, "[SM": lambda v: np.sum(v) % 10}
    return int(compute[token](values)), 1 + max(depths), [*counts, len(values)]


def test_listops_by_the_recipe():
    parts = listops.load((60, 10, 5), 20, 40, seed=1)
    assert [part[0].shape for part in parts] == [(60, 40), (10, 40), (5, 40)]
    inputs, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    assert len({row.tobytes() for row in inputs}) == 75
    arguments = []
    for row, value in zip(inputs, values, strict=True):
        end = int(np.argmax(row == listops.END))
        assert 20 <= end < 40 and not row[end + 1 :].any() and row[:end].min() > listops.END
        tokens = [listops.TOKENS[number] for number in row[:end]]
        found, depth, counts = parsed(tokens)
        assert found == value and depth <= 9 and not tokens
        arguments += counts
    assert min(arguments) == 2 and max(arguments) == 10
    assert set(inputs.ravel()) == set(range(16)) | {16} == set(range(len(listops.TOKENS)))
    again = listops.load((60, 10, 5), 20, 40, seed=1)
    np.testing.assert_array_equal(again[0][0], parts[0][0])
    assert not np.array_equal(listops.load((60, 10, 5), 20, 40, seed=2)[0][0], parts[0][0])


def test_lengths_without_enough_expressions_are_refused():
    with pytest.raises(ValueError, match="to below `longest`.*shortest=8, longest=8"):
        listops.load((1, 1, 1), 8, 8)
    with pytest.raises(ValueError, match="as many different expressions"):
        listops.load((500, 1, 1), 4, 5)


def test_pixels_in_a_row(rng):
    images = rng.integers(256, size=(2, 28, 28, 1), dtype="uint8")
    found = training.sequences(images, 7)
    assert found.shape == (2, 49, 1) and found.dtype == "float32"
    mean = images[1, 4:8, 8:12].mean() / 255
    assert found[1, 7 * 1 + 2, 0] == pytest.approx((mean - 0.1307) / 0.3081, rel=1e-5)
    np.testing.assert_allclose(
        training.sequences(images, 28)[..., 0] * 0.3081 + 0.1307,
        images.reshape(2, -1) / 255,
        atol=1e-6,
    )


# Training


def test_answers_are_decoded_by_the_network(tmp_path):
    """The networks of Darcy flow answer with solutions, and errors are those of solutions."""
    arguments = ["darcy", *TINY, "--size", "8", "--subset", "10", "--output", str(tmp_path)]
    options, data, _ = dnarch.parse(arguments)
    for method in ("plain", "K"):
        model = training.network(method, data, 0, options)
        decoding = model.layers[-1]
        assert isinstance(decoding, keras_xd.layers.PointNormalization) and decoding.invert
    answers = training.outputs(model, data.inputs)
    expected = [
        np.linalg.norm(p - t) / np.linalg.norm(t)
        for t, p in zip(data.targets, answers, strict=True)
    ]
    assert data.score(answers) == pytest.approx(np.mean(expected), rel=1e-5)
    # The mean of the solutions is the answer of a network that is zero.
    model.layers[-2].set_weights([0 * w for w in model.layers[-2].get_weights()])
    mean = training.outputs(model, data.inputs)[0]
    np.testing.assert_allclose(mean, decoding.mean, rtol=1e-5, atol=1e-7)


# Pages


def test_nonsense_is_refused(images, tmp_path, capsys):
    assert "invalid choice" in refusal(capsys, "imagenet")
    assert "invalid choice" in refusal(capsys, "cifar10", "--methods", "KW")
    assert "must divide 8" in refusal(capsys, "cifar10", "--size", "3")
    assert "must divide 28" in refusal(capsys, "mnist", "--size", "5")
    for wrong in (["--size", "14"], ["--data-dir", "here"]):
        assert "which is generated" in refusal(capsys, "listops", *wrong)
