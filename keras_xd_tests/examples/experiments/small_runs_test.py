"""Every experiment in a small setting: what it keeps, what its page says, what it refuses."""

import dataclasses
import functools
import importlib
import inspect
import json

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

MODULES = {
    **dict.fromkeys(("burgers", "darcy", "navier_stokes", "cifar10", "music"), "xd"),
    "unknown_order": "xd",
    **dict.fromkeys(("dnarch", "kernel_sizes", "pruned_resnet"), "dnarch"),
    **dict.fromkeys(("chrysalis", "chrysalis_models"), "k"),
    **dict.fromkeys(("nos", "nos_training"), "nos"),
    **dict.fromkeys(("structured", "structured_models", "small_transformers"), "structured"),
    **dict.fromkeys(("methods", "networks", "tasks"), "scoreboard"),
}
with example_scripts.on_path():
    redraw = importlib.import_module("redraw")
    images = importlib.import_module("datasets.images")
    music = importlib.import_module("datasets.music")
    modules = {
        name: importlib.import_module(f"experiments.{folder}.{name}")
        for name, folder in MODULES.items()
    }
    modules["scoreboard"] = importlib.import_module("scoreboard")

DNARCH = "--blocks 1 --channels 4 --epochs 1 --batch-size 9 --seeds 3"
PDE = "--epochs 2 --train 6 --test 2 --batch-size 6 --width 3 --modes 3"
NOS = "--batch-size 8 --epochs 1 --cells 3 --channels 2 --search-cells 3 --search-channels 2"
NOS += " --search-epochs 1 --teacher-depth 11 --teacher-alpha 3 --teacher-epochs 1 --drop-path 0"
CHRYSALIS = "--epochs 1 --batch-size 4"
# Script, side of the images of CIFAR-10, arguments, methods of the runs in their order.
RUNS = {
    "burgers": ("burgers", 0, f"{PDE} --resolution 16", ("FNO",)),
    "darcy": ("darcy", 0, f"{PDE} --resolution 7 --recipe operator", ("CNN", "XD")),
    "navier_stokes": (
        *("navier_stokes", 0, f"{PDE} --resolution 8 --history 2 --steps 6 --recipe operator"),
        ("XD",),
    ),
    "cifar10": (
        *("cifar10", 32, "--kinds permuted --seeds 3 --epochs 1 --batch-size 32 --depth 1"),
        ("xd",),
    ),
    "resnet20": (
        *("cifar10", 32, "--backbone resnet20 --kinds permuted --batch-size 32 --depth 1"),
        ("darts",),
    ),
    "music": (
        *("music", 0, "--synthetic --seeds 3 --epochs 2 --warmup 1 --channels 4 --levels 1"),
        ("xd_causal",),
    ),
    "dnarch": ("dnarch", 8, f"cifar10 {DNARCH} --size 8", ("KRWD",)),
    "kernel_sizes": (
        *("kernel_sizes", 8, f"cifar10 {DNARCH} --size 8 --sizes 3 7 --architecture-rates 0.1"),
        ("fixed 3", "learned from 3, rate 0.1"),
    ),
    "pruned_resnet": (
        *("pruned_resnet", 32, "--size 8 --width 8 --subset 8 --test-subset 6 --batch-size 4"),
        ("taylor",),
    ),
    "transfer": (
        *("chrysalis", 4, f"--experiment transfer --kinds permuted {CHRYSALIS}"),
        ("sgd_warm",),
    ),
    "lenet": (
        *("chrysalis", 4, f"--experiment lenet --published --kinds plain {CHRYSALIS}"),
        ("k_layer",),
    ),
    "text": ("chrysalis", 4, f"--experiment text --kinds mr {CHRYSALIS}", ("random",)),
    "spherical": (
        *("chrysalis", 4, f"--experiment spherical --kinds rotated --subset 4 {CHRYSALIS}"),
        ("spherical",),
    ),
    "search": ("nos", 8, f"search {NOS} --seeds 3", ("random",)),
    "guidance": ("nos", 8, f"guidance --paper {NOS}", ("weight_100",)),
    "calibration": (
        *("nos", 8, "calibration --epochs 1 --batch-size 8 --pool 2"),
        ("channel_attention",),
    ),
    "structured": (
        *("structured", 0, "--epochs 1 --width 8 --blocks 1 --mlp-width 16 --length 6 --seeds 1"),
        ("searched",),
    ),
    "small_transformers": ("small_transformers", 0, "--tasks vit --seeds 1", ("low_rank",)),
    "scoreboard": (
        *("scoreboard", 0, "--small --tasks mnist --seeds 1"),
        ("darts",),
    ),
    "unknown_order": (
        *("unknown_order", 0, "--tasks mnist1d --seeds 3"),
        ("boosting", "xd"),
    ),
}
MORE = {
    "music": "--batch-size 6 --size 12 --context 8 --window 9",
    "pruned_resnet": "--epochs 1 --more-epochs 1 --seeds 3",
    "structured": "--tasks mlp --shares 0.5 --batch-size 8 --subset 8",
}


@pytest.fixture
def small(monkeypatch, tmp_path, rng):
    """Return a function that puts few data and small networks in the place of those of a run."""

    def prepare(side):
        def load(name, data_dir=None, subset=None):
            shape = (side, side, 3) if name.startswith("cifar") else (28, 28, 1)
            return tuple(
                (rng.uniform(size=(number, *shape)).astype("float32"), np.arange(number) % 10)
                for number in (12, 4, 7)
            )

        monkeypatch.setattr(images, "load", load)
        for name in ("_images", "_digits"):
            getattr(modules["chrysalis"], name).cache_clear()

    text = "".join(f"{index % 2} a{index % 3} b{index % 4} c d e\n" for index in range(30))
    (tmp_path / "text_mr.txt").write_text(text)
    monkeypatch.setattr(
        modules["chrysalis"].text, "find_shared", lambda *_: tmp_path / "text_mr.txt"
    )
    monkeypatch.setattr(music, "synthetic", functools.partial(music.synthetic, (3, 1, 1), (20, 30)))
    monkeypatch.setattr(keras_xd.models, "fno", functools.partial(keras_xd.models.fno, blocks=1))
    monkeypatch.setattr(keras_xd.models, "lenet", one_convolution)
    monkeypatch.setattr(keras_xd.models, "resnet20", three_stages)
    monkeypatch.setattr(keras_xd.models, "pyramidnet", as_pyramidnet(three_stages))
    monkeypatch.setattr(
        modules["nos_training"], "NOS_OPERATIONS", ("identity", "average_pooling_3")
    )
    sweep, pruned = modules["kernel_sizes"], modules["pruned_resnet"]
    monkeypatch.setattr(sweep, "methods", lambda *of, every=sweep.methods: every(*of)[:3:2])
    monkeypatch.setattr(pruned, "CALLS", (32,))
    monkeypatch.setattr(pruned.timing, "ROUNDS", 1)
    backbones = dict.fromkeys(modules["chrysalis_models"].BACKBONES, one_convolution)
    monkeypatch.setattr(modules["chrysalis_models"], "BACKBONES", backbones)
    monkeypatch.setattr(modules["structured"], "FAMILIES", ("low_rank", "blast"))
    parts = [(rng.normal(size=(8, 16, 16, 3)).astype("float32"), np.arange(8) % 10)] * 2
    tasks = modules["structured_models"].TASKS
    made_up = dataclasses.replace(tasks["mlp"], load=lambda _: (parts, (16, 16, 3), None, 10))
    monkeypatch.setitem(tasks, "mlp", made_up)
    monkeypatch.setitem(tasks, "vit", dataclasses.replace(tasks["vit"], load=made_up.load))
    tiny = ({"width": 16, "heads": 2, "blocks": 1}, 8, 1, 1, 1e-3, 1e-3)
    monkeypatch.setattr(modules["small_transformers"], "NETWORKS", {"vit": tiny})
    monkeypatch.setattr(modules["scoreboard"], "SMALL_UPDATES", 2)
    for name, value in {"PERIODS": 1, "RATES": (1e-3,), "PAIRS": ((1e-3, 2),)}.items():
        monkeypatch.setattr(modules["methods"], name, value)
    order = modules["unknown_order"]
    signals = [(rng.normal(size=(n, 8)).astype("float32"), np.arange(n) % 2) for n in (20, 6)]
    options = {"load": lambda _: signals, "epochs": 1, "module": None}
    task = dataclasses.replace(order.TASKS["mnist1d"], **options)
    monkeypatch.setitem(order.TASKS, "mnist1d", task)
    monkeypatch.setattr(order, "RATES", ("rate", (1e-3,)))
    monkeypatch.setattr(order, "TAPS", (3,))
    return prepare


def three_stages(shape, classes, width=4):
    """Return a network of a convolution a stage, with the names of ResNet-20 and PyramidNet."""
    x = inputs = keras.Input(shape, name="image")
    for stage in (1, 2, 3):
        name, strides = f"stage{stage}_block1", 1 if stage == 1 else 2
        y = keras.layers.Conv2D(width, 3, strides, "same", use_bias=False, name=f"{name}_conv1")(x)
        y = keras.layers.BatchNormalization(name=f"{name}_conv1_normalization")(y)
        y = keras.layers.ReLU(name=f"stage{stage}_block3_relu2")(y)
        x = keras.layers.Activation("linear", name=f"stage{stage}")(y)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x))


def as_pyramidnet(network):
    """Return a function with the arguments of `models.pyramidnet` that makes another network."""
    arguments = inspect.signature(keras_xd.models.pyramidnet)

    def make(*values, **keywords):
        given = arguments.bind(*values, **keywords).arguments
        return network(given["input_shape"], given["classes"])

    return make


def one_convolution(shape, classes, **options):
    layers = [keras.layers.Conv2D(2, 3, name="conv1"), keras.layers.AveragePooling2D(2)]
    layers += [keras.layers.Flatten(), keras.layers.Dense(classes)]
    return keras.Sequential([keras.Input(shape), *layers])


def numbers(value):
    """Yield all numbers of nested lists and dictionaries."""
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers(part)
    elif isinstance(value, (int, float)):
        yield value


@pytest.mark.filterwarnings("ignore:.* has collapsed:UserWarning")  # of operations without weights
@pytest.mark.parametrize("name", RUNS)
def test_runs_are_kept_and_written(name, small, tmp_path, capsys):
    script, side, words, methods = RUNS[name]
    small(side)
    arguments = [*words.split(), *MORE.get(name, "").split(), "--output", str(tmp_path / "new")]
    if name not in ("kernel_sizes",):
        arguments += ["--methods", *methods]
    modules[script].main(arguments)
    (records,) = (tmp_path / "new").glob("*.json")
    found = json.loads(records.read_text())
    assert list(dict.fromkeys(run["method"] for run in found["runs"])) == list(methods)
    assert np.isfinite(list(numbers(found["runs"]))).all()
    page = records.with_suffix(".md").read_text()
    assert page == redraw.page(records.stem, found) and "nan" not in page
    assert f"{script}.py" in page and str(tmp_path) not in page.replace(f"--output {tmp_path}", "")
    # Nothing is left to do, and results of other settings are not written over.
    capsys.readouterr()
    before = records.read_bytes()
    if script in ("burgers", "darcy", "navier_stokes"):
        with pytest.raises(SystemExit):
            modules[script].main(arguments)
        assert "would be overwritten" in capsys.readouterr().err
        arguments.append("--resume")
    modules[script].main(arguments)
    assert records.read_bytes() == before


REFUSED = {
    "burgers --resolution 8 --epochs 1 2": "as many as --resolution",
    "burgers --seeds 0": "at least 1",
    "burgers --data-dir nowhere": "must hold burgers1d.npz",
    "burgers --resume": "and there are none",
    "navier_stokes --also-at 8 --train 6 --test 2": "work at one size only",
    "navier_stokes --data-dir nowhere": "ns_V1e-3_N5000_T50.mat must exist",
    "darcy --nodes 30": "must divide `nodes - 1`",
    "cifar10 --seeds -1": "at least 0",
    "cifar10 --methods dash": "invalid choice",
    "cifar10 --backbone resnet20 --methods linear": "--methods of resnet20 are backbone, xd, darts",
    "cifar10 --methods expert --kinds plain": "is of permuted images",
    "music --synthetic --epochs 1": "--warmup must be smaller",
    "music --synthetic --context 64": "--context must be smaller",
    "music --synthetic --data words": "--synthetic makes music",
    "music --data words --data-dir nowhere": "must hold ptb_words.npz",
    "music --data nottingham --data-dir nowhere": "must hold Nottingham.mat",
    "dnarch cifar10 --size 3": "must divide 8",
    "dnarch listops --size 14": "which is generated",
    "kernel_sizes cifar10 --size 8 --sizes 3 9": "up to the 8 points of the inputs. Received: [3,",
    "pruned_resnet --budgets 0": "above 0",
    "chrysalis --experiment depth --methods linear": "--methods of depth",
    "chrysalis --experiment text --kinds plain": "--kinds of text",
    "chrysalis --experiment lenet --epochs 6": "multiple of 4",
    "chrysalis --experiment transfer --subset 4": "none of the classes",
    "nos search --cells 2": "at least 3",
    "nos search --drop-path 1": "0 to below 1",
    "nos calibration --transfer cifar100": "--transfer is of the experiment search",
    "nos search --backbone resnet18": "--backbone is of the experiment calibration",
    "nos calibration --methods nos": "--methods of calibration are",
    "nos calibration --paper": "--paper is of the searches",
    "nos calibration --pool 3": "--pool must divide",
    "structured --shares 0": "--shares must be above 0",
}


@pytest.mark.parametrize("words", REFUSED)
def test_wrong_arguments_are_refused_before_anything_runs(words, small, tmp_path, capsys):
    small(8)
    script, *arguments = words.split()
    with pytest.raises(SystemExit):
        modules[script].main([*arguments, "--output", str(tmp_path / "new")])
    assert REFUSED[words] in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_classes_are_split_and_numbered_again(small, tmp_path, monkeypatch):
    small(4)
    labels = np.arange(20) % 10
    pixels = np.broadcast_to(labels[:, None, None, None], (20, 4, 4, 3)) / np.float32(255)
    monkeypatch.setattr(images, "load", lambda *_: [(pixels, labels)] * 3)
    chrysalis = modules["chrysalis"]
    options, _ = chrysalis.parse(["--experiment", "transfer", "--output", str(tmp_path / "new")])
    for data, start in zip(chrysalis.load("transfer", "plain", 0, options), (0, 5), strict=True):
        inputs, numbered = data.train
        assert data.classes == 5 and set(numbered) == set(range(5)) and len(numbered) == 20
        np.testing.assert_array_equal(inputs[:, 0, 0, 0], numbered + start)
