"""The benchmark of structured kernels, in a small setting."""

import importlib

import keras
import pytest

from keras_xd import layers
from keras_xd_tests import example_scripts

with example_scripts.on_path(example_scripts.BENCHMARKS):
    structured = importlib.import_module("structured")


def test_all_families_are_measured_beside_dense(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(structured.SIZES, "1024", (16, 16))
    monkeypatch.setattr(structured.xd_conv.time, "sleep", lambda seconds: None)
    page = tmp_path / "page.md"
    words = ["--sizes", "1024", "--batches", "2", "--share", "0.8", "--repetitions", "1"]
    structured.main([*words, "--output", str(page)])
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if "16 × 16" in line]
    assert all(row in capsys.readouterr().out for row in rows[:1])
    cells = [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in rows]
    assert [row[1] for row in cells] == ["Dense", *structured.FAMILIES, "KDense"]
    assert cells[0][2:4] == ["256", "256"] and float(cells[0][7]) == float(cells[0][8]) == 1
    for row in cells[1:6]:
        assert int(row[2]) <= 0.8 * 256
        best = min(float(row[5]), float(row[6]))
        dense = min(float(cells[0][5]), float(cells[0][6]))
        assert float(row[7]) == pytest.approx(dense / best, rel=0.5, abs=0.2)


def test_floors_are_by_products_or_bytes():
    dense, small = keras.layers.Dense(64), layers.StructuredDense(64, "low_rank", share=0.25)
    for layer in (dense, small):
        layer.build((None, 64))
    numbers = small.count_params() - 64
    assert structured.floor(dense, dense, 8, 64) == 1
    # Of many vectors the inputs and outputs are most of the bytes.
    expected = (numbers + 64 + 512 * 128) / (64 * 65 + 512 * 128)
    assert structured.floor(small, dense, 512, 64) == pytest.approx(expected)
    assert structured.floor(small, dense, 1, 64) == pytest.approx(
        max(numbers / 64**2, (numbers + 64 + 128) / (64 * 65 + 128))
    )
