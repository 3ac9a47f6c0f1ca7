"""The benchmark of bfloat16 runs in a small setting."""

import importlib

import numpy as np
import pytest

from keras_xd_tests import example_scripts

with example_scripts.on_path(example_scripts.BENCHMARKS):
    precision = importlib.import_module("precision")


@pytest.mark.parametrize("sizes", [(8, 8), (12,)])
def test_errors_beside_those_of_keras(sizes, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(precision.xd_conv, "CASES", {"tiny": (2, 4, sizes, 3, 1, 0)})
    monkeypatch.setattr(
        precision.xd_conv, "interleaved_medians", lambda steps, _: dict.fromkeys(steps, 2.0)
    )
    monkeypatch.setattr(precision.xd_conv, "make_xd", lambda *_, **__: None)
    monkeypatch.setattr(precision.xd_conv, "make_convolution", lambda *_, **__: None)
    monkeypatch.setattr(precision, "RESULTS", tmp_path / "page.md")
    rows = precision.main(["--cases", "tiny"])
    assert [policy for _, policy, *_ in rows] == list(precision.POLICIES)
    for _, _, searched, finalized, twin, _ in rows:
        assert 1e-3 < twin < 1e-2
        assert all(0.1 * twin < error < 2 * twin for error in (searched, finalized))
    assert "limit of 2 is met" in (tmp_path / "page.md").read_text()
    exact = precision.errors((2, 4, sizes, 3, 1, 0), "float64")
    assert max(exact) < 1e-14
    assert precision.circular(np.arange(4.0)[None, :, None], 4)[0, :, 0].tolist() == [
        *[3, 0, 1, 2, 3, 0, 1]
    ]
    capsys.readouterr()
