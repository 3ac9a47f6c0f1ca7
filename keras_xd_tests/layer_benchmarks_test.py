"""The benchmarks of layers, cells and finalized models, in small settings."""

import functools
import importlib
import inspect
import json
import os
import re
import types

import keras
import pytest

import keras_xd
from keras_xd_tests.example_scripts import BENCHMARKS, on_path

with on_path(BENCHMARKS):
    finalized = importlib.import_module("finalized")
    formats = importlib.import_module("formats")
    low_rank = importlib.import_module("low_rank")
    nos = importlib.import_module("nos")
    quantized = importlib.import_module("quantized")
    xd_conv = importlib.import_module("xd_conv")


def stand_in(name, noted=None):
    """Return a function of small networks, with the arguments of one of `keras_xd.models`.

    They are added to the list `noted`, and the network has another layer if there is one.
    """
    arguments = inspect.signature(getattr(keras_xd.models, name))

    def network(*values, **keywords):
        given = arguments.bind(*values, **keywords).arguments
        layers = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(given["classes"])]
        if noted is not None:
            noted.append(given)
            layers.insert(0, keras.layers.Conv2D(4, 3))
        return keras.Sequential([keras.Input(given["input_shape"]), *layers])

    return network


def small_cnn1d():
    """As `finalized.cnn1d`, with one convolution, of which each form is exported."""
    convolution, pooling, *_, mean, dense = finalized.cnn1d().layers
    kept = [x.from_config(x.get_config()) for x in (convolution, pooling, mean, dense)]
    return keras.Sequential([keras.Input((32, 8)), *kept])


def test_finalized_models_are_measured_beside_their_backbones(tmp_path, monkeypatch):
    monkeypatch.setitem(finalized.CASES, "cnn1d", ("small", small_cnn1d, {}))
    monkeypatch.setattr(finalized, "BATCHES", (1,))
    output = tmp_path / "finalized.md"
    served = finalized.served

    def one_served(model, folder):  # each is exported in the same way
        if os.path.basename(folder) == exported:
            return served(model, folder)
        return 1, types.SimpleNamespace(serve=lambda inputs: model(inputs, training=False))

    exported = str(["backbone", *finalized.FORMS].index("spectrum"))
    monkeypatch.setattr(finalized, "served", one_served)

    def measured(name, threads, options):  # here, where the case is small
        rows = finalized.measure(name, options.depth, options.steps, options.rounds)
        return json.loads(json.dumps(rows))

    monkeypatch.setattr(finalized, "measured_apart", measured)
    words = ["--cases", "cnn1d", "--rounds", "1", "--steps", "1", "--threads", "1"]
    words += ["--output", str(output)]
    ((rows,),) = (by_threads.values() for by_threads in finalized.main(words).values())
    backbone, found, kernel = (rows[kind] for kind in ("backbone", "spectrum", "kernel"))
    assert found["parameters"] > backbone["parameters"] and found["bytes"] > backbone["bytes"]
    assert kernel["parameters"] <= rows["search space"]["parameters"] < found["parameters"]
    assert rows["kernel, float16"]["weights"] < 0.6 * kernel["weights"]
    assert found["error"] < 1e-5 < rows["spectrum, float16"]["error"] < 1e-2
    assert rows["low rank"]["kept"].endswith(" of 1") and rows["low rank"]["error"] < 0.05
    ratio = found["parameters"] / backbone["parameters"]
    text = output.read_text()
    assert f"| {found['parameters']:,} | {ratio:.1f} |" in text
    assert "## Times, 1 thread\n" in text
    assert "finalized.py --cases cnn1d --depth 1 --steps 1 --threads 1 --rounds 1`" in text
    before = output.stat().st_mtime_ns
    monkeypatch.setattr(finalized, "measured_apart", lambda *arguments: rows)
    finalized.main([*words, "--dry-run"])
    assert output.stat().st_mtime_ns == before


def test_low_ranks_are_measured(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(low_rank, "SHAPES", ())
    monkeypatch.setattr(low_rank, "TOLERANCES", (0.01, 0.5))
    small = keras_xd.models.lenet
    monkeypatch.setattr(keras_xd.models, "resnet20", small)
    medians = low_rank.medians

    def of_the_first(contestants, *arguments):  # each makes a graph
        first = next(iter(contestants))
        (taken,) = medians({first: contestants[first]}, *arguments).values()
        return dict.fromkeys(contestants, taken)

    monkeypatch.setattr(low_rank, "medians", of_the_first)
    data = [
        (rng.random((n, 16, 16, 1)).astype("float32"), rng.integers(10, size=n)) for n in (8, 6)
    ]
    output = tmp_path / "low_rank.md"
    lines = low_rank.main(["--epochs", "1", "--rounds", "1", "--output", str(output)], data)
    assert output.read_text() == "\n".join(lines) + "\n"
    rows = [line.split(" | ") for line in lines if line.startswith("| low rank, tolerance")]
    assert [row[2] for row in rows] == ["2 of 2"] * 2
    numbers = [int(row[1].replace(",", "")) for row in rows]
    assert numbers[0] > numbers[1] and float(rows[0][5]) < float(rows[1][5]) < 1
    table = low_rank.layer_rows(1, ((1, 16, 4, 1),))
    assert len(table) == 3 and table[2].startswith("| 1, 16×16, 4, 1 | ")
    assert table[2].count(" ×") >= 6


def one_cell(cells, channels, shape, classes):
    """Return a search network of one cell of two operations, which take less time to trace."""
    inputs = keras.Input(shape)
    x = keras.layers.Conv2D(channels, 3, padding="same")(inputs)
    architecture = keras_xd.layers.CellArchitecture(False, ("identity", "dilated_3"))
    x = keras_xd.layers.HeterogeneousCell(channels, architecture, False, False)([x, x])
    x = keras.layers.GlobalAveragePooling2D(data_format="channels_last")(x)
    return keras.Model(inputs, keras.layers.Dense(classes)(x))


def test_a_step_of_cells_is_measured(monkeypatch):
    monkeypatch.setattr(keras_xd.models, "nos_search_network", one_cell)
    monkeypatch.setattr(nos, "LATER_STEPS", 1)
    monkeypatch.setattr(nos, "ROWS", 64)
    monkeypatch.setattr(nos, "COPIED", 2**16)
    found = nos.measure(3, 2, 1, False, (8, 8, 3))
    # Where every edge is computed by itself there are 5,858 nodes, so that edges count once.
    assert found["nodes"] < 1_160 and found["nodes in functions"] < 490
    assert found["variables"] == 15
    assert 0 < found["build and trace"] < found["first step"]
    assert found["later step"] > 0 and found["memory"] > 0
    assert found["multiply-adds a second"] > 0 and found["bytes a second"] > 0


def test_the_floor_of_a_step_has_both_parts():
    found = {"multiply-adds": 4e10, "bytes": 6e9, "later step": 2.5}
    found |= {"multiply-adds a second": 4e10, "bytes a second": 2.4e10}
    line = nos.floor_line([3, 8, 64], found)
    assert "1.00 s by its multiply–adds" in line and "(40 · 10⁹ a second)" in line
    assert "0.25 s by its bytes" in line and "(24.0 GB a second)" in line
    assert line.endswith("A step takes 2.5 times the larger, 2.0 times the sum.")


@pytest.mark.parametrize("kind", ["partial", nos.PERTURBATION, nos.DERIVED])
def test_a_step_of_a_relaxation_is_measured(kind, monkeypatch):
    monkeypatch.setattr(nos, "GENOTYPES", 1)
    monkeypatch.setattr(nos, "EVALUATIONS", 1)
    name = "nos_network" if kind == nos.DERIVED else "nos_search_network"
    monkeypatch.setattr(keras_xd.models, name, stand_in(name))
    found = nos.measure_relaxation(3, 4, 1, kind, (8, 8, 3))
    assert 0 < found["later step"] < found["first step"] and found["memory"] > 0
    assert ("evaluation" in found) == (kind == nos.PERTURBATION)


def test_a_selection_is_the_sum_of_its_evaluations():
    model = keras_xd.models.nos_search_network(
        3, 1, (8, 8, 3), operations=("identity", "max_pooling_3")
    )
    evaluated = []
    model.evaluate = lambda x, y, **options: evaluated.append(len(x))
    found = nos.measure_selection(model, 64, (8, 8, 3))
    assert found["evaluations"] == 1 + 2 * 18 * 2
    assert evaluated == [nos.HELD_OUT] * (1 + nos.EVALUATIONS)
    line = nos.selection_line([3, 8, 64], {"evaluations": 397, "evaluation": 10.0})
    assert "397 evaluations of 256 held-out images in batches of 64, 10.00 s each, 3,970 s" in line


def test_cells_of_layers_are_those_of_version_0_1():
    model = keras_xd.models.nos_search_network(
        3, 2, (4, 4, 3), operations=("identity", "dilated_3")
    )
    apart = nos.with_edge_layers(model)
    cells = [layer for layer in apart.layers if layer.name.startswith("cell")]
    assert all(cell.edge_layers for cell in cells) and len(cells) == 3
    assert len(keras_xd.architecture_variables(apart)) == len(
        keras_xd.architecture_variables(model)
    )
    assert apart.count_params() == model.count_params()


def test_formats_are_measured_once_and_refusals_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(formats, "RESULTS", tmp_path / "formats.md")
    monkeypatch.setattr(formats, "RECORDS", tmp_path / "formats.json")
    # In this process, because another one would import TensorFlow again.
    measured = []

    @functools.cache
    def printed(cells):
        formats.main(["--in-process", cells])
        return capsys.readouterr().out.splitlines()

    def run_backend(backend, cells):
        measured.extend(cells)
        for line in printed(json.dumps(cells)):
            if line.startswith(formats.MARK):
                yield json.loads(line.removeprefix(formats.MARK))

    monkeypatch.setattr(formats, "run_backend", run_backend)
    words = ["--kinds", "KDense", "--formats", "onnx"]
    found = formats.main(words)
    assert max(found["KDense"]["onnx"]) < 1e-5
    assert formats.main(words) == found and measured == [("KDense", "onnx")]
    records = json.loads((tmp_path / "formats.json").read_text())
    records["KDense"]["onnx"]["values"][1] = "no such operation"
    (tmp_path / "formats.json").write_text(json.dumps(records))
    formats.main(words)
    text = (tmp_path / "formats.md").read_text()
    assert re.search(r"\| KDense \| \de[-+]\d\d / \[1\] \|", text)
    assert "- [1] no such operation" in text
    # Measured with other versions, so again.
    records["KDense"]["onnx"]["versions"]["keras"] = "3.0.0"
    (tmp_path / "formats.json").write_text(json.dumps(records))
    assert formats.main(words) == found and len(measured) == 2
