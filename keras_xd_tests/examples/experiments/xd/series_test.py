"""Time series and a forecast in a small setting: records, page, the choice of rates."""

import functools
import importlib
import json

import numpy as np
import pytest

import keras_xd
from keras_xd import auto
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    redraw = importlib.import_module("redraw")
    loader = importlib.import_module("datasets.series")
    series = importlib.import_module("experiments.xd.series")
    forecast = importlib.import_module("experiments.xd.forecast")


def write_problem(folder, rng, name="Waves"):
    """Write a problem of two classes, noise and waves of 24 steps."""
    for part, number in (("TRAIN", 12), ("TEST", 6)):
        lines = ["@univariate true", "@classLabel true flat wave", "@data"]
        for label in ("flat", "wave") * (number // 2):
            values = rng.normal(size=24) + 3 * (label == "wave") * np.sin(np.arange(24))
            lines.append(",".join(map(str, values.round(3))) + f":{label}")
        folder.mkdir(exist_ok=True)
        (folder / f"{name}_{part}.ts").write_text("\n".join(lines))


def test_series_are_classified_with_the_rate_that_was_best(tmp_path, monkeypatch, rng):
    write_problem(tmp_path / "data", rng)
    monkeypatch.setattr(series, "published", lambda name: dict.fromkeys(series.PUBLISHED, 0.75))
    monkeypatch.setattr(auto, "SPACES", auto.SPACES[:1])
    one_seed = functools.partial(keras_xd.search, budget=3.5)
    monkeypatch.setattr(keras_xd, "search", one_seed)
    arguments = "--sets Waves --methods backbone auto --seeds 3 --filters 2 --updates 10 --steps 12"
    arguments = [*arguments.split(), "--data", str(tmp_path / "data"), "--output", str(tmp_path)]
    series.main(arguments)
    found = json.loads((tmp_path / "series.json").read_text())
    tried = {run["rate"]: run["loss"] for run in found["runs"] if run["part"] == "validation"}
    assert set(tried) == set(series.RATES)
    best = min(tried, key=tried.get)
    tests = [run for run in found["runs"] if run["part"] == "test"]
    methods = ("backbone", "auto")  # which searches XD
    assert [(run["method"], run["rate"]) for run in tests] == [(name, best) for name in methods]
    assert tests[1]["kept"] in ("backbone", "xd, depth 1")
    assert all(run["samples"] == [12, 6] and run["shape"] == [24, 1] for run in tests)
    page = (tmp_path / "series.md").read_text()
    assert redraw.page("series", found) == page and "nan" not in page
    before = (tmp_path / "series.json").read_bytes()
    series.main(arguments)  # nothing is left to do
    assert (tmp_path / "series.json").read_bytes() == before


def test_what_is_needed_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(series, "folder_of_aeon", lambda *parts: None)
    monkeypatch.setattr(forecast.importlib.util, "find_spec", lambda name: None)
    for script, package in ((series, "aeon"), (forecast, "statsmodels")):
        with pytest.raises(SystemExit):
            script.main(["--output", str(tmp_path)])
        assert f"pip install {package}" in capsys.readouterr().err


def test_series_are_shortened_split_and_scaled(rng):
    inputs = rng.normal(2, 3, size=(8, 10, 2))
    np.testing.assert_allclose(series.shortened(inputs, 4)[1, 2], inputs[1, 6:9].mean(axis=0))
    train, test = series.prepared(inputs, inputs[:2], 10)
    np.testing.assert_allclose(
        [train.mean(axis=(0, 1)), train.std(axis=(0, 1))], [[0, 0], [1, 1]], atol=1e-6
    )
    np.testing.assert_array_equal(test, train[:2])
    kept, held = series.split(inputs, np.array([0, 0, 0, 0, 1, 1, 1, 1]), 0)
    assert kept[1].tolist() == [0, 0, 0, 1, 1, 1] and held[1].tolist() == [0, 1]


def test_forecasts_never_see_what_they_predict():
    values = np.arange(1000.0)
    ends = [int(1000 * share) for share in np.cumsum(list(forecast.PARTS.values()))]
    for index, part in enumerate(forecast.PARTS):
        origins, inputs, targets = forecast.pieces(values, part)
        assert origins[0] >= (ends[index - 1] if index else forecast.HISTORY)
        assert origins[-1] + forecast.HORIZON <= ends[index]
        assert inputs.shape[1:] == (forecast.HISTORY, 1) and np.all(inputs == 1)
        np.testing.assert_array_equal(targets[0, 5], np.arange(1, forecast.HORIZON + 1))
