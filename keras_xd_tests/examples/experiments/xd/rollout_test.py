"""Rollouts of a flow in a small setting: records, page, pictures, the choice of rates."""

import json

import numpy as np

from keras_xd_tests import example_scripts

redraw = example_scripts.load("redraw")
rollout = example_scripts.load("experiments.xd.rollout")

SMALL = "--resolution 8 --train 3 --evaluation 1 --start 1 --width 2 --modes 2 --blocks 1"
SMALL += " --epochs 1 --batch-size 8 --seeds 0 3"


def test_each_method_is_trained_with_the_rates_that_were_best(tmp_path, monkeypatch):
    rates = {"fourier": [(1e-2, None), (1e-9, None)], "xd": [(1e-2, 1e-3)]}
    monkeypatch.setattr(rollout, "RATES", rates)
    arguments = [*SMALL.split(), "--methods", "fourier", "xd", "--output", str(tmp_path)]
    rollout.main(arguments)
    found = json.loads((tmp_path / "rollout.json").read_text())
    runs = {(run["method"], run["seed"], run["rates"][0]): run for run in found["runs"]}
    rates = (1e-2, 1e-9)
    best = min(rates, key=lambda rate: np.mean(runs["fourier", 0, rate]["validation"]))
    (worse,) = set(rates) - {best}
    first = {("fourier", 0, best), ("fourier", 0, worse), ("xd", 0, 1e-2)}
    assert set(runs) == first | {("fourier", 3, best), ("xd", 3, 1e-2)}
    for run in runs.values():
        assert len(run["test"]) == 10 and np.isfinite(run["test"] + run["validation"]).all()
    page = (tmp_path / "rollout.md").read_text()
    assert "| XD search | 2 |" in page and "nan" not in page
    assert redraw.page("rollout", found) == page
    assert "<svg" in (tmp_path / "rollout.svg").read_text()
    before = (tmp_path / "rollout.json").read_bytes()
    rollout.main(arguments)  # nothing is left to do
    assert (tmp_path / "rollout.json").read_bytes() == before
