"""The benchmark of architecture rates of first searches, in a small setting."""

import importlib

import numpy as np
import pytest

from keras_xd_tests import example_scripts

with example_scripts.on_path(example_scripts.BENCHMARKS):
    first_search = importlib.import_module("first_search")


def test_every_method_has_a_row_on_the_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(first_search, "RESULTS", tmp_path / "page.md")
    monkeypatch.setitem(first_search.RATES, "xd, depth 1", (0.5,))
    words = ["--spaces", "xd, depth 1", "--seeds", "0", "--epochs", "1", "--subset", "64"]
    found = first_search.main(words)
    text = (tmp_path / "page.md").read_text()
    assert text in capsys.readouterr().out and " ".join(words) in text
    plain, permuted, other = (
        found[key]
        for key in (
            ("xd, depth 1", 0.5, "plain", 0),
            ("xd, depth 1", 0.5, "permuted", 0),
            (None, None, "permuted", 0),
        )
    )
    gain = f"{permuted - other:.1f}"
    assert f"| xd, depth 1 | 0.5 | {plain:.1f} | {permuted:.1f} | {gain} |" in text
    assert f"| {other:.1f} |  |" in text and len(found) == 4


def test_a_mixture_is_trained_again(monkeypatch, rng):
    fitted = []
    fit = first_search.fit

    def noted(model, *arguments):
        fitted.append((type(model).__name__, len(arguments)))
        return fit(model, *arguments)

    monkeypatch.setattr(first_search, "fit", noted)
    data = rng.random(size=(8, 8, 8, 1)).astype("float32"), np.arange(8) % 10
    accuracy = first_search.accuracy("darts", 0.1, 0, data, data, 1)
    assert fitted == [("SearchModel", 4), ("FinalizedModel", 3)] and 0 <= accuracy <= 100


def test_means_and_deviations():
    found = {
        ("dash", 0.1, kind, seed): 90.0 + seed for kind in ("plain", "permuted") for seed in (0, 2)
    }
    found |= {(None, None, "permuted", seed): 80.0 for seed in (0, 2)}
    row = first_search.page(found, [0, 2], 1, []).splitlines()[-2]
    assert row == "| dash | 0.1 | 91.0 ± 1.4 | 91.0 ± 1.4 | 11.0 ± 1.4 |"
