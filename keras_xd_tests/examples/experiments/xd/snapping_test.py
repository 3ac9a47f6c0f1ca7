"""The experiment on snapping runs in a tiny setting."""

import importlib

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    snapping = importlib.import_module("experiments.xd.snapping")

TINY = ["--size", "16", "--subset", "8", "--validation-subset", "2", "--test-subset", "6"]
TINY += ["--batch-size", "8", "--depth", "1"]
TINY += ["--free-epochs", "1", "--epochs", "1", "--more-epochs", "1", "--seeds", "3"]
TINY += ["--kinds", "plain"]


@pytest.fixture
def images(rng, monkeypatch):
    def load(name, data_dir, subset):
        shapes = [(number, 32, 32, 3) for number in (10, 2, 7)]
        return tuple((rng.uniform(size=s).astype("float32"), np.arange(s[0]) % 10) for s in shapes)

    monkeypatch.setattr(snapping.images, "load", load)


def backbone(options):
    return keras.Sequential(
        [
            keras.Input((options.size, options.size, 3)),
            keras.layers.MaxPooling2D(2),  # which stays as it is
            keras.layers.Conv2D(2, 3),
            keras.layers.AveragePooling2D(2),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(10),
        ]
    )


@pytest.mark.parametrize("rate, lost, snapped", [("0.3", 0, 0), ("1e-6", 0, 2), ("0.3", 1, 0)])
def test_what_is_near_a_plain_layer_snaps(images, tmp_path, monkeypatch, rate, lost, snapped):
    monkeypatch.setattr(snapping, "backbone", backbone)
    monkeypatch.setattr(snapping.timing, "ROUNDS", 1)
    monkeypatch.setattr(snapping, "difference", lambda *_: (0.1 * (2 * lost - 1), 0.04))
    if snapped or lost:
        monkeypatch.setattr(snapping, "draw", lambda *_: None)  # takes time, once is enough
    spaces, weights = [], []
    train = snapping.train

    def watched(model, *arguments, **options):
        weights.append(model.get_weights())
        train(model, *arguments, **options)
        weights.append(model.get_weights())
        spaces.append((type(model).__name__, len(model.losses)))

    monkeypatch.setattr(snapping, "train", watched)
    arguments = [*TINY, "--weights", "0.5", "--output", str(tmp_path), "--architecture-rate", rate]
    results = snapping.main(arguments)
    trained, found = results.runs
    assert "distances" not in trained and found["snapped"] == snapped
    assert found["at once"] == found["searched"] and found["kept"] == (not lost)
    names = [name for name, _ in spaces]
    last = ["SearchModel"] * lost + ["Functional"] * bool(snapped)
    assert names == ["Sequential", "SearchModel", "SearchModel", *last]
    if lost:  # it begins again where the free search ended, without the penalty
        assert spaces[-1][1] == 0 < spaces[-2][1]
        for value, other in zip(weights[6], weights[3], strict=True):
            np.testing.assert_array_equal(value, other)
    if snapped:
        assert found["operations"] == ["convolution 3×3", "average pooling 2×2"]
        assert max(found["distances"]) < 1e-3
    else:
        assert min(found["distances"]) > 0.05
    page = (tmp_path / "snapping_cifar10.md").read_text(encoding="utf-8")
    assert f"| {1 - lost} of 1 | {snapped} of 2 |" in page
    if not (snapped or lost):
        assert (tmp_path / "snapping_cifar10.svg").read_bytes().startswith(b"<?xml")


def test_difference_of_networks_on_the_same_images():
    before, after = (np.array([c == "1" for c in text]) for text in ("11110000", "10110001"))
    assert snapping.difference(before, after) == (0.0, pytest.approx(0.5 / 8**0.5))
    lost, error = snapping.difference(before, np.zeros(8, bool))
    assert lost == 0.5 and error == pytest.approx(0.5 / 8**0.5)


def test_the_penalty_is_on_the_distance_from_the_start():
    space = keras_xd.rewrite(keras.Sequential([keras.Input((4, 1)), keras.layers.Conv1D(1, 1)]))
    starts = snapping.values(space)
    moved = [start + 0.5 for start in starts]
    for variable, value in zip(keras_xd.architecture_variables(space), moved, strict=True):
        variable.assign(value)
    snapping.penalize(space, starts, 2.0)
    np.testing.assert_array_equal(snapping.values(space)[0], moved[0])
    expected = 2.0 * 0.25 * sum(value.size for value in moved)
    assert float(sum(space.losses)) == pytest.approx(expected, rel=1e-5)


def test_rows_and_columns_are_permuted_alike_in_all_images(images, tmp_path):
    options = snapping.parse([*TINY, "--output", str(tmp_path)])[0]
    data = snapping.load(options)
    (x, y), (held_out, _), (test_x, _) = data["plain"]
    (permuted, labels), _, _ = data["permuted"]
    assert x.shape == (8, 16, 16, 3) and test_x.shape == (6, 16, 16, 3)
    assert held_out.shape == (2, 16, 16, 3)
    np.testing.assert_array_equal(y, labels)
    np.testing.assert_array_equal(np.sort(x, axis=None), np.sort(permuted, axis=None))
    assert not np.array_equal(x, permuted)


def test_settings_are_checked(tmp_path):
    for wrong in (["--weights", "-1"], ["--kinds", "odd"], ["--tolerance", "0"]):
        with pytest.raises(SystemExit):
            snapping.parse([*wrong, "--output", str(tmp_path)])
