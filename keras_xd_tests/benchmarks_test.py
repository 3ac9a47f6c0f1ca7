"""Every benchmark in a small setting, in this process, and what it writes."""

import contextlib
import importlib
import io
import json
import pathlib
import re

import keras
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd_tests.example_scripts import BENCHMARKS, on_path

NAMES = ("finalized", "first_search", "formats")
NAMES += ("nos", "quantized", "search_steps", "structured", "xd_conv")
with on_path(BENCHMARKS):
    scripts = {name: importlib.import_module(name) for name in NAMES}
    timing = importlib.import_module("timing")
    real_searches = importlib.import_module("real_searches")
    images = importlib.import_module("datasets.images")

pytestmark = pytest.mark.tensorflow("benchmarks trace with tf.function")

finalized, nos = scripts["finalized"], scripts["nos"]
structured = scripts["structured"]


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Measure in this process, because another one would import TensorFlow again."""

    def apart(script, task, threads=None, **environment):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            scripts[pathlib.Path(script).stem].main(["--measure", json.dumps(task)])
        return json.loads(text.getvalue().splitlines()[-1])

    monkeypatch.setattr(timing, "apart", apart)


def rows_of(lines, start):
    """Return the cells of the rows of tables that start with a text."""
    rows = (line.strip("|").split("|") for line in lines if line.startswith(f"| {start}"))
    return [[cell.strip(" *") for cell in row] for row in rows]


def test_all_benchmarks_are_here():
    names = {path.stem for path in BENCHMARKS.glob("*.py")}
    apart = {
        "code_lines",
        "gpu",
        "gpu_backends",
        "mutants",
        "real_report",
        "real_searches",
        "real_tasks",
    }
    assert names == {*NAMES, *apart}


# Harness


def test_calls_take_turns_and_the_first_ones_do_not_count(monkeypatch):
    clock, order = [0.0], []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(timing.time, "sleep", lambda seconds: order.append(f"{seconds} s"))

    def call(name, seconds):
        order.append(name)
        clock[0] += seconds if len(order) > 2 else 100.0

    calls = {"slow": lambda: call("slow", 0.2), "fast": lambda: call("fast", 0.05)}
    found = timing.medians(calls, 2, 1, 2, 0.5)
    assert found == pytest.approx({"slow": 200.0, "fast": 50.0})
    turns = ["0.5 s", "slow", "slow", "slow", "0.5 s", "fast", "fast", "fast"]
    assert order == ["slow", "fast", *turns, *turns]


def test_a_page_is_written_unless_it_is_a_dry_run(tmp_path, capsys):
    page = tmp_path / "page.md"
    words = ["--output", str(page)]
    for more, written in ((["--dry-run"], False), ([], True)):
        options = timing.parser("benchmarks/script.py", "What.").parse_args([*words, *more])
        lines = [*timing.head("a", "b"), timing.row(1, "two")]
        assert timing.write(options, lines) == lines and page.exists() == written
    assert page.read_text() == "| a | b |\n|---|---|\n| 1 | two |\n"
    assert capsys.readouterr().out == 2 * "| 1 | two |\n"


def test_commands_of_readme_and_docs_name_files_and_options_that_exist():
    root = BENCHMARKS.parent
    pages = [root / "README.md", *(root / "docs").glob("*.md")]
    text = " ".join(" ".join(page.read_text(encoding="utf-8") for page in pages).split())
    commands = re.findall(r"python ((?:examples|benchmarks)(?:/\w+)*)/(\w+)\.py([^`]*)`", text)
    assert len(commands) >= 15
    for folder, name, options in commands:
        source = (root / folder / f"{name}.py").read_text(encoding="utf-8")
        folders = {root / folder, root / folder.split("/")[0], root / "examples"}
        shared = [p.read_text(encoding="utf-8") for f in folders for p in f.glob("*.py")]
        for option in re.findall(r"--[a-z-]+", options):
            name_of = option[2:].replace("-", "_")
            words = (f'"{option}"', f'"{name_of}"', f"{name_of}=")
            assert any(word in file for file in [source, *shared] for word in words), (name, option)


# Layers and models


def test_xd_convolutions_are_measured(monkeypatch, tmp_path):
    script = scripts["xd_conv"]
    monkeypatch.setattr(script, "CASES", {"tiny": (2, 2, (8,), 3, 1, 8)})
    monkeypatch.setattr(script, "LENGTHS", (8, 16))
    names = ("SpectralConv1D", "Conv1D", "fft")
    monkeypatch.setattr(script, "LONG", {name: script.LONG[name] for name in names})
    monkeypatch.setattr(script, "TURNS", {"rounds": 1, "warm_up": 1})
    monkeypatch.setattr(script, "machine_rates", lambda: (1e6, 1e6))
    monkeypatch.setattr(script, "peak_memory", lambda *_: 3.0)
    output = tmp_path / "page.md"
    lines = script.main(["--repetitions", "1", "--output", str(output)])
    assert output.read_text() == "\n".join(lines) + "\n"
    measured = rows_of(lines, "2, 2, 8, 3, 1")
    assert [row[1] for row in measured[:4]] == ["keras_xd", "keras_xd jit", "Conv", "SpectralConv"]
    assert all(float(row[2]) > 0 and row[6] == "3" for row in measured[:4])
    ratio = float(measured[0][2]) / float(measured[2][2])
    assert float(measured[5][1]) == pytest.approx(ratio, rel=0.2)
    assert len(rows_of(lines, "tiny")) == 2
    output = tmp_path / "long.md"
    lines = script.main(["--long", "--repetitions", "1", "--output", str(output)])
    tables = rows_of(lines, "8 |")  # short kernels, long ones, memory
    assert [row[1].endswith("(1.00)") for row in tables] == [True] * 3 and output.exists()
    assert output.with_suffix(".svg").exists()
    assert all(len(row) == len(script.LONG) + 1 and all(row[2:]) for row in tables)


def small_operator():
    """A Fourier operator of one block and its search space."""
    options = {"width": 16, "modes": 3, "blocks": 1, "projection": 4}
    return finalized.fno((32, 2), **options)()


def test_finalized_models_are_measured_beside_their_backbones(tmp_path, monkeypatch):
    monkeypatch.setitem(finalized.CASES, "tcn", ("small", small_operator, False))
    monkeypatch.setattr(finalized, "BATCHES", (1,))
    kinds = ("auto", "spectrum", "kernel, float16")  # each is exported
    monkeypatch.setattr(finalized, "FORMS", {kind: finalized.FORMS[kind] for kind in kinds})
    output = tmp_path / "finalized.md"
    found = finalized.main(["--cases", "tcn", "--rounds", "1", "--output", str(output)])
    ((rows,),) = (by_threads.values() for by_threads in found.values())
    backbone, auto, spectrum, half = (rows[kind] for kind in ("backbone", *kinds))
    assert auto["forms"] == "1 frequencies" and auto["parameters"] < spectrum["parameters"]
    assert spectrum["bytes"] > auto["bytes"] and spectrum["1"] > 0
    assert max(spectrum["error"], auto["error"]) < 1e-5 and half["error"] < 1e-2
    assert half["bytes"] < spectrum["bytes"]
    ratio = spectrum["parameters"] / backbone["parameters"]
    text = output.read_text()
    assert f"| {spectrum['parameters']:,} | {ratio:.1f} |" in text and "## 1 thread\n" in text
    assert "finalized.py --cases tcn --moved 0.02 --threads 1 --rounds 1`" in text
    monkeypatch.setattr(finalized, "LARGEST", 10)
    assert finalized.measure("tcn", 0.0, 1)["spectrum"].keys() == {"parameters"}


def test_operators_are_served_by_every_runtime(monkeypatch):
    formats, name = scripts["formats"], "FNO, 256 points"
    tiny = formats.operator((9, 1), "fourier", 4, 2)
    monkeypatch.setitem(formats.OPERATORS, name, tiny)
    monkeypatch.setattr(formats, "LATENCY_BATCHES", (1, 2))
    served = {runtime: formats.SERVED[runtime] for runtime in ("SavedModel", "LiteRT")}
    monkeypatch.setattr(formats, "SERVED", served)
    monkeypatch.setattr(formats.timing, "apart", lambda _, name, **options: formats.served(name))
    found = formats.main(["--operators", name, "--dry-run"])[name]
    assert found.keys() == served.keys()
    for values in found.values():
        assert values["error"] < 1e-5
        assert values["bytes"] > 4 * tiny().count_params() and values["1"] > 0 < values["2"]
    rows = rows_of(formats.report_operators({name: found}), name)
    assert [row[1] for row in rows] == [*served] and rows[0][5] == rows[0][7] == "1.00"


def test_families_of_matrices_are_measured_beside_dense(monkeypatch):
    monkeypatch.setitem(structured.SIZES, "1024", (16, 16))
    words = ["--sizes", "1024", "--batches", "2", "--density", "0.8", "--repetitions", "1"]
    lines = structured.main([*words, "--pause", "0", "--dry-run"])
    cells = rows_of(lines, "16 × 16")
    assert [row[1] for row in cells] == ["Dense", *structured.FAMILIES, "KDense"]
    assert cells[0][2:4] == ["256", "256"] and float(cells[0][7]) == float(cells[0][8]) == 1
    for row in cells[1:6]:
        assert int(row[2]) <= 0.8 * 256
        best = min(float(row[5]), float(row[6]))
        dense = min(float(cells[0][5]), float(cells[0][6]))
        assert float(row[7]) == pytest.approx(dense / best, rel=0.5, abs=0.2)


# Searches


def small_lenet(shape, classes, **options):
    """Return a network of one convolution in place of ResNet-20 or LeNet."""
    return keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Conv2D(2, 3, padding="same"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(classes),
        ]
    )


def test_starts_are_measured(monkeypatch):
    script = scripts["search_steps"]
    monkeypatch.setattr(keras_xd.models, "resnet20", small_lenet)
    monkeypatch.setattr(script, "TRIALS", 10)
    monkeypatch.setattr(script.subprocess, "check_output", lambda command, text: "0.5\n")
    lines = script.main("--starts import resnet20 oracle --rounds 1 --dry-run".split())
    assert "| import keras_xd, after keras | 0.5 | 1.00 |" in lines
    rows = rows_of(lines, "XD") + rows_of(lines, "a proposal after 10 trials")
    assert len(rows) == 4 and all(float(row[1]) > 0 < float(row[2]) for row in rows)


def test_steps_of_modes_are_measured(monkeypatch):
    script = scripts["search_steps"]
    monkeypatch.setattr(keras_xd.models, "lenet", small_lenet)
    monkeypatch.setattr(script, "MODES", {"first_order": (2, 2.2)})
    words = "--cases lenet --batch 2 --size 8 --steps 2 --rounds 1 --dry-run".split()
    rows = rows_of(script.main(words), "lenet")
    assert [row[2] for row in rows] == ["plain", *script.MODES]
    assert all(float(row[4]) > 0 for row in rows) and rows[0][5] == "1.00"


def one_cell(cells, channels, shape, classes, **options):
    """Return a search network of one cell of two operations, which take less time to trace."""
    inputs = keras.Input(shape)
    x = keras.layers.Conv2D(channels, 3, padding="same")(inputs)
    architecture = ArchitectureLogits(False, ("identity", "dilated_3"))
    x = layers.HeterogeneousCell(channels, architecture, False, False)([x, x])
    x = keras.layers.GlobalAveragePooling2D(data_format="channels_last")(x)
    return keras.Model(inputs, keras.layers.Dense(classes)(x))


def test_a_step_of_cells_is_measured(monkeypatch):
    monkeypatch.setattr(keras_xd.models, "nos_search_network", one_cell)
    monkeypatch.setattr(nos, "LATER_STEPS", 1)
    found = nos.measure(3, 2, 1, (8, 8, 3))
    # Where every edge is computed by itself there are 5,858 nodes: edges count once.
    assert found["nodes"] < 1_160 and found["nodes in functions"] < 490
    assert found["variables"] == 15
    assert 0 < found["build and trace"] < found["first step"]
    assert found["later step"] > 0 and found["memory"] > 0


# Terms


def test_the_network_by_hand_is_in_the_space_of_whole_networks():
    tasks = real_searches.real_tasks
    values = tasks.BY_HAND["hierarchical"]
    term = tasks.SMALL_HIERARCHICAL.parse(values["term"])
    tasks.SMALL_HIERARCHICAL.check(term)
    model = tasks.network("hierarchical", term, (14, 14, 3))
    sizes = [layer.output.shape[1:] for layer in model.layers if "conv" in layer.name]
    assert sizes[0] == (7, 7, 8) and sizes[-1] == (2, 2, 32) and model.output_shape == (None, 20)
    kinds = [type(layer) for layer in model.layers]
    # The stem, three blocks of two, and two with a shortcut where the size is halved.
    assert kinds.count(keras.layers.Conv2D) == 1 + 6 + 6
