"""The experiment on heterogeneous cells runs in a small setting, resumes, and reports."""

import importlib
import inspect
import json

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.layers.cells.genotypes import Genotype, random_genotype
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    nos = importlib.import_module("experiments.nos.nos")
    nos_report = importlib.import_module("experiments.nos.nos_report")
    nos_training = importlib.import_module("experiments.nos.nos_training")

SMALL = ["--cells", "3", "--channels", "2", "--search-cells", "3", "--search-channels", "2"]
SMALL += ["--teacher-depth", "11", "--teacher-alpha", "3", "--epochs", "1", "--search-epochs", "1"]
SMALL += ["--teacher-epochs", "1", "--batch-size", "8"]
# Neither of the few operations has weights, which the guard of collapses says.
WITHOUT_WEIGHTS = pytest.mark.filterwarnings("ignore:.* has collapsed:UserWarning")


@pytest.fixture
def images(rng, monkeypatch):
    """Replace CIFAR-10 by a few small random images."""
    parts = []
    for number in (6, 2, 5):
        inputs = rng.integers(256, size=(number, 8, 8, 3)) / 255
        parts.append((inputs.astype("float32"), rng.integers(10, size=number)))
    monkeypatch.setattr(nos.cifar10.images, "load", lambda name, data_dir, subset: tuple(parts))


@pytest.fixture
def few_operations(monkeypatch):
    """Search among two operations, which are built faster than eleven, with a small teacher."""
    names = ("identity", "average_pooling_3")
    monkeypatch.setattr(nos_training, "NOS_OPERATIONS", names)
    arguments = inspect.signature(keras_xd.models.pyramidnet)

    def teacher(*values, **keywords):
        given = arguments.bind(*values, **keywords).arguments
        x = inputs = keras.Input(given["input_shape"])
        for stage in (1, 2, 3):
            strides = 1 if stage == 1 else 2
            x = keras.layers.Conv2D(4, 3, strides, padding="same", name=f"stage{stage}")(x)
        x = keras.layers.GlobalAveragePooling2D()(x)
        return keras.Model(inputs, keras.layers.Dense(given["classes"])(x))

    monkeypatch.setattr(keras_xd.models, "pyramidnet", teacher)
    return names


def three_stages(shape, classes, width=8):
    """Return a network of one convolution a stage, with the names of ends of ResNet-20."""
    x = inputs = keras.Input(shape, name="image")
    for stage in (1, 2, 3):
        x = keras.layers.Conv2D(width, 3, padding="same", name=f"stage{stage}_conv")(x)
        x = keras.layers.BatchNormalization(name=f"stage{stage}_normalization")(x)
        x = keras.layers.ReLU(name=f"stage{stage}_block3_relu2")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x))


def refusal(capsys, *arguments):
    with pytest.raises(SystemExit):
        nos.main(arguments)
    return capsys.readouterr().err


@WITHOUT_WEIGHTS
def test_a_guided_search_is_measured_and_kept(
    images, few_operations, tmp_path, monkeypatch, capsys
):
    def accuracy(model, data):  # predict would trace a graph
        return float(np.mean(np.argmax(model(nos_training.normalize(data[0])), -1) == data[1]))

    monkeypatch.setattr(nos_training, "accuracy", accuracy)
    made = []

    def network(genotype, *arguments, **options):  # trained in another test
        made.append((genotype, *arguments, options))
        inputs = keras.Input(arguments[2])
        x = keras.layers.GlobalAveragePooling2D()(inputs)
        return keras.Model(inputs, keras.layers.Dense(arguments[3])(x))

    monkeypatch.setattr(keras_xd.models, "nos_network", network)
    arguments = ["search", *SMALL, "--methods", "nos_guided", "random", "--seeds", "3"]
    arguments += ["--drop-path", "0"]
    arguments += ["--output", str(tmp_path / "new"), "--keep", str(tmp_path / "kept")]
    results = nos.main(arguments)
    files = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert set(files) == {"nos_search.json", "nos_search.md"}
    kept = json.loads(files["nos_search.json"])
    assert (kept["settings"], kept["runs"]) == (results.settings, results.runs)
    guided, random = kept["runs"]
    assert [guided["method"], random["method"]] == ["nos_guided", "random"]
    found = Genotype.from_dict(guided["genotype"])
    assert set(found.normal.operations + found.reduction.operations) <= set(few_operations)
    assert 0.9 < guided["search"]["normal_entropy"][0] <= 1
    drawn = random_genotype(np.random.default_rng(3), few_operations)
    assert Genotype.from_dict(random["genotype"]) == drawn
    given = {"auxiliary": False, "drop_path": results.settings["drop_path"], "seed": 3}
    assert made == [(which, 3, 2, (8, 8, 3), 10, given) for which in (found, drawn)]
    assert guided["parameters"] == 3 * 10 + 10
    for run in (guided, random):
        assert run["seconds"] > 0
        assert run["accuracy"] in [n / 5 for n in range(6)]
    page = files["nos_search.md"].decode()
    assert "nos/nos.py search --methods nos_guided random --seeds 3 --batch-size 8 " in page
    assert str(drawn) in page and "all operations, guided" in page
    assert len(list((tmp_path / "kept").glob("teacher_11_3_1_8_3.weights.h5"))) == 1

    # Neither what is finished nor a search that is kept is run again.
    monkeypatch.setattr(nos_training, "retrain", None)
    assert nos.main(arguments).runs == kept["runs"]
    monkeypatch.setattr(nos_training, "search", None)
    options, train, evaluation, _ = nos.parse(arguments)
    again = nos.searched("nos_guided", 3, train, evaluation, options)
    assert again["genotype"] == guided["genotype"]
    assert "not overwritten" in refusal(capsys, *arguments, "--epochs", "3")
    assert (tmp_path / "new" / "nos_search.json").read_bytes() == files["nos_search.json"]


def test_calibration_by_hand(rng, monkeypatch):
    x = rng.normal(size=(2, 8, 8, 3)).astype("float32")
    # Every operation, and every gate; the last in ResNet-20.
    methods = ("dynamic_3_paper", "spatial_attention", "channel_attention", "dynamic_5_tanh")
    assert set(methods) < set(nos_training.CALIBRATIONS)
    resnet20 = keras_xd.models.resnet20
    for method in methods:
        network = resnet20 if method == methods[-1] else three_stages
        monkeypatch.setattr(keras_xd.models, "resnet20", network)
        keras.utils.set_random_seed(0)
        without = nos_training.calibrated_resnet("none", (8, 8, 3))
        keras.utils.set_random_seed(0)
        model = nos_training.calibrated_resnet(method, (8, 8, 3))
        added = [layer for layer in model.layers if isinstance(layer, layers.SelfCalibration)]
        assert [layer.name for layer in added] == [f"stage{s}_calibration" for s in (1, 2, 3)]
        operation = method.removesuffix("_paper").removesuffix("_tanh")
        assert {layer.operation for layer in added} == {operation}
        gates = {"": "zero", "_tanh": "tanh", "_paper": None}
        assert {layer.gate for layer in added} == {gates[method.removeprefix(operation)]}
        sizes = [int(np.prod(v.shape)) for layer in added for v in layer.trainable_variables]
        assert nos_training.count(model) == nos_training.count(without) + sum(sizes)
        # Networks of one seed begin alike, and with the gate are the plain one.
        same = np.array_equal(model(x), without(x))
        assert same == (not method.endswith("_paper"))
        for layer in without.layers:
            begun = model.get_layer(layer.name).get_weights()
            keras.tree.map_structure(np.testing.assert_array_equal, begun, layer.get_weights())
        if method != "dynamic_5_tanh":
            continue
        inside = keras.Model(
            model.input, [model.get_layer("stage2_block3_relu2").output, added[1].output]
        )
        before, after = map(np.array, inside(x, training=False))
        np.testing.assert_allclose(after, added[1](before), rtol=1e-5, atol=1e-6)


def test_the_network_of_table_1():
    model = nos_training.calibrated_resnet("none", (32, 32, 3), "resnet18")
    assert nos_training.count(model) == 11_173_962  # 11.17 million in the paper
    channels = [model.get_layer(name).output.shape[-1] for name in nos_training.ENDS["resnet18"]]
    assert channels == [64, 128, 256]
    # Differences of millions with two digits. That of channel attention, 0.15, is not that of the
    # program in the appendix, which adds 10,752.
    added = {"dynamic_3": 0.03, "dynamic_5": 0.04, "spatial_attention": 0.01}
    added |= {"dynamic_dilated_3": 0.03, "dynamic_dilated_5": 0.04}
    for operation, millions in added.items():
        total = nos_training.count(model)
        for number in channels:
            layer = layers.SelfCalibration(operation, gate=None)
            layer.build((None, 8, 8, number))
            total += nos_training.count(layer)
        assert round(total / 1e6, 2) - 11.17 == pytest.approx(millions)


def test_found_cells_are_trained_on_other_images(rng, tmp_path, monkeypatch, capsys):
    def load(name, data_dir, subset):
        number, classes = {"cifar10": (6, 10), "cifar100": (4, 100)}[name]
        inputs = rng.integers(256, size=(number, 8, 8, 3)).astype("float32") / 255
        return ((inputs, rng.integers(classes, size=number)),) * 3

    def retrain(genotype, train, evaluation, seed, options):
        seen.append((len(train[0]), len(evaluation[0]), options.classes))
        return {"accuracy": 0.5, "parameters": 1, "seconds": 1.0}

    seen = []
    monkeypatch.setattr(nos.cifar10.images, "load", load)
    monkeypatch.setattr(nos_training, "retrain", retrain)
    arguments = ["search", "--methods", "random", "--seeds", "0", "1", "--output", str(tmp_path)]
    nos.main([*arguments, "--transfer", "cifar100"])
    nos.main(arguments)
    assert seen == [(8, 4, 100)] * 2 + [(12, 6, 10)] * 2
    page = (tmp_path / "nos_search_cifar100.md").read_text()
    assert "trained on CIFAR-100" in page and "--transfer cifar100" in page
    assert "CIFAR-100" not in (tmp_path / "nos_search.md").read_text()
    wrong = ["calibration", "--transfer", "cifar100"]
    assert "--transfer is of the experiment search" in refusal(capsys, *wrong)
    wrong = ["search", "--backbone", "resnet18"]
    assert "--backbone is of the experiment calibration" in refusal(capsys, *wrong)


def test_pixels_are_means_of_squares(rng):
    images = rng.integers(256, size=(2, 4, 6, 3)).astype("uint8")
    found = nos_training.pooled(images, 2)
    assert found.shape == (2, 2, 3, 3) and found.dtype == np.uint8
    expected = np.round(images[1, 2:4, 4:6, 0].astype(float).mean())
    assert found[1, 1, 2, 0] == expected
    assert nos_training.pooled(images, 1) is images


def test_a_calibration_is_measured_without_touching_the_statistics(images, tmp_path, monkeypatch):
    monkeypatch.setattr(keras_xd.models, "resnet20", three_stages)
    arguments = ["calibration", "--epochs", "1", "--batch-size", "8", "--pool", "2"]
    arguments += ["--methods", "none", "channel_attention", "--output", str(tmp_path)]
    none, attention = nos.main(arguments).runs
    assert none["gates"] == [] and len(attention["gates"]) == 3
    assert any(attention["gates"])  # which started at zero
    assert none["deviation_at_start"] == pytest.approx(attention["deviation_at_start"])
    keras.utils.set_random_seed(0)
    model = nos_training.calibrated_resnet("none", (4, 4, 3))
    before = model.get_weights()
    data = (np.zeros((2, 4, 4, 3), "uint8"),)
    assert nos_training.deviation_at_start(model, data) >= 0
    keras.tree.map_structure(np.testing.assert_array_equal, model.get_weights(), before)
    page = (tmp_path / "nos_calibration.md").read_text()
    assert "Each pixel is the mean of 2 × 2 of the image." in page and "--pool 2" in page


def test_nonsense_is_refused(images, capsys, tmp_path):
    assert "at least 3" in refusal(capsys, "search", "--cells", "2")
    assert "--methods of calibration are" in refusal(capsys, "calibration", "--methods", "nos")
    assert "--pool must divide" in refusal(capsys, "calibration", "--pool", "3")
    assert "0 to below 1" in refusal(capsys, "search", "--drop-path", "1")
    assert "invalid choice" in refusal(capsys, "train")
