"""The benchmarks of warm-up and of padded sizes, in small settings."""

import argparse
import importlib

import keras
import pytest

from keras_xd import layers
from keras_xd_tests import example_scripts

with example_scripts.on_path(example_scripts.BENCHMARKS):
    warm_up = importlib.import_module("warm_up")
    padded_sizes = importlib.import_module("padded_sizes")


def cells_of(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    "name, arguments, form",
    [("as it began", warm_up.SAME, "convolution"), ("moved", warm_up.CASES["moved"][4], "folded")],
)
def test_a_layer_is_measured_beside_that_of_keras(name, arguments, form, monkeypatch):
    case = (1, 6, 2, layers.XDConv2D, arguments, keras.layers.Conv2D)
    monkeypatch.setitem(warm_up.CASES, name, case)
    cells = cells_of(warm_up.row_of_layer(name, False, 1))
    assert cells[:4] == [name, "1, 2, 6×6", form, "no"]
    variables, frozen, theirs, faster, beside = map(float, cells[4:])
    assert faster == pytest.approx(variables / frozen, rel=0.2)
    assert beside == pytest.approx(frozen / theirs, rel=0.2)


@pytest.mark.parametrize("name", warm_up.CASES)
def test_every_case_can_be_made(name):
    _, size, channels, kind, arguments, twin = warm_up.CASES[name]
    filters = {} if kind is layers.XDDepthwiseConv2D else {"filters": channels}
    layer = kind(kernel_size=3, **filters, **arguments)
    shape = (None, size, size, channels)
    plain = twin(**warm_up.twin_arguments(twin, channels))
    assert layer.compute_output_shape(shape) == plain.compute_output_shape(shape)


def test_networks_begin_as_resnet_20():
    options = argparse.Namespace(size=8, width=1, blocks=2)
    model = warm_up.network(options)
    convolutions = [x for x in model.layers if isinstance(x, keras.layers.Conv2D)]
    assert len(convolutions) == 5 and model.output_shape == (None, 10)


def one_convolution(options):
    layers_of = [keras.layers.Conv2D(options.width, 3, padding="same", activation="relu")]
    layers_of += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((options.size, options.size, 3)), *layers_of])


def test_a_network_is_measured_and_the_page_is_written(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    monkeypatch.setattr(warm_up, "network", one_convolution)  # three graphs are traced of it
    monkeypatch.setattr(warm_up, "row_of_layer", lambda name, jit, repetitions: f"| {name} | {jit}")
    words = ["--cases", "moved", "--repetitions", "1", "--batch-size", "1", "--size", "8"]
    words += ["--blocks", "1", "--width", "1", "--without-xla"]
    warm_up.main([*words, "--output", str(page)])
    text = page.read_text(encoding="utf-8")
    assert text.splitlines()[-1] in capsys.readouterr().out
    assert "| moved | False" in text
    cells = cells_of(text.splitlines()[-1])
    assert cells[0] == "no" and len(cells) == 9 and all(float(cell) > 0 for cell in cells[1:])


def test_only_the_search_of_the_package_has_forms():
    search = warm_up.FromVariables(
        keras.Sequential([keras.Input((6, 1)), layers.XDConv1D(2, 3), keras.layers.Flatten()])
    )
    assert search.frozen.candidates() == []


def test_sizes_from_the_least_to_the_chosen_one_are_measured(tmp_path, monkeypatch):
    assert padded_sizes.candidates(32, 3) == (
        33,
        {33: (3, 11), 34: (2, 17), 35: (5, 7), 36: (2, 2, 3, 3)},
    )
    case = (1, 1, (13,), 3)
    monkeypatch.setitem(padded_sizes.CASES, "2d-32-3", case)
    page = tmp_path / "page.md"
    words = ["--cases", "2d-32-3", "--repetitions", "1", "--output", str(page)]
    padded_sizes.main(words)
    rows = [cells_of(line) for line in page.read_text(encoding="utf-8").splitlines()[-2:]]
    assert [row[3] for row in rows] == ["14", "15 (chosen)"]
    # Three K-matrices of depth 1, each of two numbers for every entry of every block.
    assert [row[5] for row in rows] == [str(6 * n * s) for n, s in ((14, 9), (15, 8))]
    assert rows[-1][-2:] == ["1.00", "1.00"]
