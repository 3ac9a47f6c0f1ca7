"""The benchmark of long kernels, in a small setting."""

import importlib
import json

import pytest

from keras_xd_tests import example_scripts

with example_scripts.on_path(example_scripts.BENCHMARKS):
    long_kernels = importlib.import_module("long_kernels")


@pytest.fixture
def small(monkeypatch):
    case = ("XDConv1D", 1, 1, (169,), 120, "circular")
    monkeypatch.setitem(long_kernels.CASES, "small", case)
    monkeypatch.setattr(long_kernels, "memory_of", lambda name, form: [0.125, 2.0, len(form)])


def test_both_forms_are_measured_and_compared(small, tmp_path, capsys):
    page = tmp_path / "page.md"
    words = ["--cases", "small", "--repetitions", "1", "--output", str(page)]
    long_kernels.main(words)
    row = page.read_text(encoding="utf-8").splitlines()[-1]
    assert row in capsys.readouterr().out
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:2] == ["small", "XDConv1D: 1, 1, 169, 120"]
    columns, direct, ratio = map(float, cells[2:5])
    assert ratio == pytest.approx(columns / direct, rel=0.1)
    assert cells[5].strip("*") in long_kernels.FORMS and 0 < float(cells[6]) < 1e-6
    assert cells[7:] == ["7", "6", "0.12", "2"]


def test_a_form_that_needs_too_much_memory_is_left_out(small, capsys):
    words = ["--cases", "small", "--repetitions", "1", "--dry-run", "--most-memory", "1"]
    long_kernels.main(words)
    cells = capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    assert [cells[2], cells[4], cells[7]] == ["", "", ""] and float(cells[3]) > 0


def test_memory_is_that_of_a_process_of_its_own(capsys):
    long_kernels.report_memory(("XDConv1D", 1, 1, (256,), 200, "circular"), "direct")
    seconds, built, steps = json.loads(capsys.readouterr().out)
    assert seconds > 0 and built >= 0 and steps >= 0
