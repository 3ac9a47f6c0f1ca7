"""Calibration behind the stages of a network, by hand."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd_tests import example_scripts
from keras_xd_tests.examples.experiments.small_runs_test import three_stages

nos = example_scripts.load("experiments.nos.nos")
reporting = example_scripts.load("reporting")
nos_training = example_scripts.load("experiments.nos.nos_training")


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
        more = [v for layer in added for v in layer.trainable_variables]
        before, after = (reporting.count(m.trainable_variables) for m in (without, model))
        assert after == before + reporting.count(more)
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
    assert reporting.count(model.trainable_variables) == 11_173_962  # 11.17 million in the paper
    channels = [model.get_layer(name).output.shape[-1] for name in nos_training.ENDS["resnet18"]]
    assert channels == [64, 128, 256]
    # Differences of millions with two digits. That of channel attention, 0.15, is not that of the
    # program in the appendix, which adds 10,752.
    added = {"dynamic_3": 0.03, "dynamic_5": 0.04, "spatial_attention": 0.01}
    added |= {"dynamic_dilated_3": 0.03, "dynamic_dilated_5": 0.04}
    for operation, millions in added.items():
        total = reporting.count(model.trainable_variables)
        for number in channels:
            layer = layers.SelfCalibration(operation, gate=None)
            layer.build((None, 8, 8, number))
            total += reporting.count(layer.trainable_variables)
        assert round(total / 1e6, 2) - 11.17 == pytest.approx(millions)


def test_found_cells_are_trained_on_other_images(rng, tmp_path, monkeypatch):
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


def test_the_settings_of_the_paper(rng, tmp_path, monkeypatch):
    images = rng.integers(256, size=(6, 8, 8, 3)).astype("float32") / 255
    monkeypatch.setattr(nos.cifar10.images, "load", lambda *_: ((images, np.arange(6)),) * 3)
    arguments = ["search", "--paper", "--epochs", "9", "--output", str(tmp_path)]
    options, *_, results = nos.parse(arguments)
    expected = {"guidance_form": "literal", "architecture_rate": 6e-4, "guidance_weight": 1e3}
    expected |= {"drop_path": 0.3, "search_epochs": 25, "search_cells": 8, "teacher_depth": 110}
    expected |= {"training_rate": 0.25, "batch_size": 128, "cells": 20, "channels": 36, "epochs": 9}
    assert {name: getattr(options, name) for name in expected} == expected
    assert options.command.endswith("search --paper --epochs 9")
    assert results.paths["json"].stem == "nos_search_paper_literal"
    # The form of the guidance is what the search is compiled with; no operation has a gate.
    compiled = {}

    def compile(search, *arguments, **keywords):
        compiled.update(keywords)
        raise InterruptedError

    monkeypatch.setattr(keras_xd.SearchModel, "compile", compile)
    options.search_cells, options.search_channels = 3, 1
    made, network = [], keras_xd.models.nos_search_network
    monkeypatch.setattr(
        keras_xd.models,
        "nos_search_network",
        lambda *a, **k: made.append(network(*a, **k)) or made[0],
    )
    train = (images * 255).astype("uint8"), np.arange(6)
    with pytest.raises(InterruptedError):
        nos_training.search("nos_guided", train, train, 0, options, three_stages((8, 8, 3), 10))
    assert compiled["guidance"].form == "literal" and compiled["guidance"].weight == 1e3
    cells = [layer for layer in made[0].layers if isinstance(layer, layers.HeterogeneousCell)]
    assert len(cells) == 3 and all(cell.calibration_gate is None for cell in cells)
