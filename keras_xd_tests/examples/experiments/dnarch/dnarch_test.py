"""The experiment on learned architectures runs in a tiny setting, resumes, and reports; ListOps."""

import importlib
import json
import random

import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    dnarch = importlib.import_module("experiments.dnarch.dnarch")
    report = importlib.import_module("experiments.dnarch.dnarch_report")
    training = importlib.import_module("experiments.dnarch.dnarch_training")
    listops = importlib.import_module("datasets.listops")

TINY = ["--blocks", "1", "--channels", "4", "--epochs", "2", "--batch-size", "9"]
TINY += ["--learning-rate", "0.01", "--frequency", "4"]


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
        assert [len(curve) for curve in run["curves"].values()] == [1, 1, 1]
        assert len(run["seconds"]) == 1
        assert run["pruned_complexity"] == run["multiply_adds"] / run["target"]
        assert f"{run['method']}, seed 3, epoch 1: accuracy" in printed
    assert printed.count("C / C_target") >= 4
    plain, kernels, resolutions, everything = kept["runs"]
    # By the formula of docs/ccnn.md for 64 points, 4 channels, with encoder and decoder.
    block = 64 * 4 + 64 * 6 + 64 * (16 + 8 + 16 + 4)
    assert plain["target"] == block + 64 * 3 * 4 + 4 * 10 == plain["multiply_adds"]
    assert plain["complexity"] == kernels["complexity"] == 1 >= resolutions["complexity"]
    (sizes,) = plain["blocks"]
    assert sizes == {
        "depth": 1.0,
        "taps": [8, 8],
        "resolution": [8, 8],
        "channels": [4, 4, 4],
        "largest": [8, 8, 4],
    }
    assert len(everything["blocks"]) == 2
    assert everything["blocks"][0]["largest"] == [8, 8, 8]
    # Encoder (3 → 4), block (64 taps), decoder: weights, biases, scales and shifts.
    assert plain["parameters"] == (16 + 8) + (8 + 64 * 4 + 4) + 2 * (16 + 4) + 50
    page = files["dnarch_cifar10.md"].decode()
    command = "`python examples/experiments/dnarch/dnarch.py cifar10"
    assert f"{command} --seeds 3 --blocks 1 --channels 4 --epochs 1" in page
    assert f"| plain | {100 * plain['score']:.2f} | 1.000 | 1.000 |" in page

    monkeypatch.setattr(training, "run", None)  # what is finished is not run again
    assert dnarch.main(arguments).runs == kept["runs"]
    capsys.readouterr()
    assert "not overwritten" in refusal(capsys, *arguments, "--dropout", "0.5")
    assert (tmp_path / "dnarch_cifar10.json").read_bytes() == files["dnarch_cifar10.json"]


@pytest.mark.parametrize(
    ("experiment", "arguments", "largest"),
    [
        ("mnist", ["--size", "4", "--complexity-weight", "0.1", "5"], [16, 8]),
        ("listops", ["--lengths", "8", "16", "--subset", "7", "--blocks", "2"], [16, 8]),
        ("darcy", ["--size", "8", "--subset", "10", "--evaluate-on", "validation"], [8, 8, 8]),
    ],
)
def test_every_experiment_runs(experiment, arguments, largest, images, no_data, tmp_path):
    arguments = [experiment, *TINY, *arguments, "--epochs", "1", "--methods", "KRWD"]
    arguments += ["--temperature", "25"]
    results = dnarch.main([*arguments, "--output", str(tmp_path)])
    (run,) = results.runs
    assert run["score"] == pytest.approx(run["searched_score"], rel=1e-3)
    assert run["difference"] < 1e-4 and run["score"] >= 0
    assert [block["largest"] for block in run["blocks"]] == [largest] * len(run["blocks"])
    assert len(run["blocks"]) == 2 * results.settings["blocks"]
    assert len(run["blocks"][0]["taps"]) == len(largest) - 1
    numbers = {"mnist": (9, 5), "listops": (7, 7), "darcy": (9, 1)}[experiment]
    found = results.settings["training_samples"], results.settings["evaluation_samples"]
    assert found == numbers


def test_a_search_moves_to_its_target(images, no_data, tmp_path, monkeypatch):
    """The complexity term alone, in effect: with a weight of 1000, from masks that are longer."""
    network = training.network

    def longer(method, *arguments):
        model = network(method, *arguments)
        for variable in keras_xd.architecture_variables(model):
            variable.assign(variable.constraint(variable + 0.1))
        return model

    monkeypatch.setattr(training, "network", longer)
    arguments = ["mnist", *TINY, "--size", "4", "--methods", "KRWD", "--complexity-weight", "1000"]
    arguments += ["--batch-size", "9", "--epochs", "3", "--architecture-rate", "0.08"]
    arguments += ["--channels", "40"]  # whole ones, whose number changes in small steps
    (run,) = dnarch.main([*arguments, "--output", str(tmp_path)]).runs
    ratios = run["curves"]["complexity"]
    assert len(ratios) == len(run["curves"]["score"]) == len(run["seconds"]) == 3
    assert abs(ratios[0] - 1) > 0.05 and run["complexity"] == pytest.approx(1, abs=0.05)


# Data


def test_listops_by_hand():
    assert listops.evaluate("[MAX 2 9 [MIN 4 7 ] 0 ]") == 9
    assert listops.evaluate("[MIN 4 [SM 9 8 6 ] 7 ]") == 3
    assert listops.evaluate("[MED 1 9 4 ]") == 4
    assert listops.evaluate("[MED 9 1 2 5 ]") == 3  # 3.5, rounded down
    assert listops.evaluate("[SM [MED 0 1 ] [MAX 5 5 ] 8 ]") == 3
    assert listops.evaluate("7") == 7
    for wrong in ("", "[MAX ]", "[MAX 1 2", "1 2", "]", "[ADD 1 2 ]", "12"):
        with pytest.raises(ValueError, match="An expression must be"):
            listops.evaluate(wrong)


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


def test_operations_and_digits_are_drawn_as_often_as_they_should_be():
    generator, operations = random.Random(0), 0
    for _ in range(2000):
        tokens = []
        listops._append(generator, 9, 100, tokens)  # one operation more at most
        operations += len(tokens) > 1
        assert sum(token in listops.OPERATIONS for token in tokens) <= 1
    assert abs(operations / 2000 - 0.25) < 0.03


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


def test_rates_rise_and_fall():
    schedule = training.schedule(0.5, 100, 0.1)
    rates = [float(schedule(step)) for step in (0, 5, 10, 55, 100)]
    np.testing.assert_allclose(rates, [0, 0.25, 0.5, 0.25, 0], atol=1e-6)


def test_kernels_are_those_of_the_model_unless_a_frequency_is_given(images, tmp_path):
    arguments = ["mnist", *TINY[:-2], "--size", "4", "--output", str(tmp_path)]
    found = []
    for given in ([], ["--frequency", "3"]):
        options, data, _ = dnarch.parse([*arguments, *given])
        kernels = training.network("K", data, 0, options).get_layer("block1").network
        found.append((kernels.kind, kernels.frequency))
        settings = dnarch.describe(options, data)
        text = " ".join(report.texts(settings))
        assert ("half of what" in text) == (not given) and ("frequency 3" in text) == bool(given)
    assert found == [("magnet", (16 - 1) / 8), ("magnet", 3.0)]


def test_the_weight_of_the_complexity_grows_by_epoch(images, tmp_path):
    arguments = ["mnist", *TINY, "--size", "4", "--output", str(tmp_path), "--epochs", "5"]
    options, *_ = dnarch.parse([*arguments, "--complexity-weight", "1", "3"])
    assert [training.weights(options)(epoch) for epoch in range(5)] == [1, 1.5, 2, 2.5, 3]
    options, *_ = dnarch.parse(arguments)
    assert training.weights(options)(2) == 5.0 and options.architecture_rate == 5e-3


@pytest.mark.parametrize(
    ("arguments", "taps"),
    [(["--size", "7"], 31), (["--size", "4"], 16), (["--size", "7", "--kernel-size", "9"], 9)],
)
def test_kernels_begin_with_rows_of_images(arguments, taps, images, tmp_path):
    arguments = ["mnist", *TINY, *arguments, "--output", str(tmp_path)]
    options, data, _ = dnarch.parse(arguments)
    model = training.network("KR", data, 0, options)
    (block,) = (x for x in model.layers if isinstance(x, keras_xd.layers.CCNNBlock))
    assert block.describe()["taps/0"] == pytest.approx(taps, abs=1) and options.kernel_size == taps


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


def record(method, seed, score, complexity=1.0, epochs=2):
    block = {"taps": [3, 5], "resolution": [16, 12], "channels": [4, 5, 6], "largest": [16, 16, 8]}
    return {
        "method": method,
        "kind": "cifar10",
        "seed": seed,
        "score": score,
        "searched_score": score,
        "difference": 2e-6 * (1 + seed),
        "parameters": 1000,
        "searched_parameters": 2000,
        "complexity": complexity,
        "multiply_adds": 500.0,
        "pruned_complexity": 0.5,
        "blocks": [{"depth": 0.75, **block}, {"depth": 0.0, **block}],
        "target": 1000.0,
        "seconds": [3.0] * epochs,
        "curves": {name: [0.5] * epochs for name in ("score", "complexity", "loss")},
        "command": f"python {seed}",
    }


def test_the_page(tmp_path, images):
    options, data, _ = dnarch.parse(
        ["cifar10", "--epochs", "2", "--size", "8", "--output", str(tmp_path)]
    )
    settings = dnarch.describe(options, data)
    runs = [record("KRWD", 0, 0.5, 1.2), record("plain", 0, 0.4), record("plain", 1, 0.6, epochs=1)]
    written = {"versions": "keras 3", "threads": 2}
    text = report.page(settings, runs, written)
    assert "Written by `python 0` and `python 1`" in text
    row = "| 50.00 ± 14.14 | 1.000 ± 0.000 | 0.500 ± 0.000 | 500 | 1,000 | 2,000 | 4.0e-06 |"
    assert f"| plain {row} 4 |" in text or f"| plain {row} 5 |" in text
    assert "| KRWD: and widths, depth | 50.00 (0) | 1.200 |" in text
    assert "Not within 5 % of the target: KRWD: and widths, depth, seed 0, 1.200." in text
    assert "Stopped in epoch 1, of a loss that is not finite: plain, seed 1." in text
    assert "| KRWD | 0 | 1 of 2 | 1 | 0.75 | 3 × 5 | 16 × 12 | 4, 5, 6 |" in text
    assert "4 of 48" in text  # blocks and channels of KRWD
    settings = {**settings, "experiment": "darcy", "size": 43}
    text = report.page(settings, runs, written)
    assert "| plain | 0.5000 ± 0.1414 |" in text and "43 × 43 points" in text


def test_nonsense_is_refused(images, tmp_path, capsys):
    assert "invalid choice" in refusal(capsys, "imagenet")
    assert "invalid choice" in refusal(capsys, "cifar10", "--methods", "KW")
    assert "must divide 8" in refusal(capsys, "cifar10", "--size", "3")
    assert "--size is not for listops" in refusal(capsys, "listops", "--size", "14")
    assert "must divide 28" in refusal(capsys, "mnist", "--size", "5")
    assert "--lengths is for listops" in refusal(capsys, "mnist", "--lengths", "5", "9")
    assert "to below `longest`" in refusal(capsys, "listops", "--lengths", "9", "9")
    assert "which is generated" in refusal(capsys, "listops", "--data-dir", "here")
    assert "one number, or two" in refusal(capsys, "cifar10", "--complexity-weight", "1", "2", "3")
    assert "at least 0, not '-1'" in refusal(capsys, "cifar10", "--weight-decay=-1")
    assert "below 1" in refusal(capsys, "cifar10", "--dropout", "1")
    assert "temperature=0.5" in refusal(capsys, "cifar10", "--temperature", "0.5")
