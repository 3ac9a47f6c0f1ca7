"""Tasks of the Long Range Arena and Cosmic in a tiny setting."""

import numpy as np

import keras_xd
from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets import cosmic_files

dnarch = example_scripts.load("experiments.dnarch.dnarch")
training = example_scripts.load("experiments.dnarch.dnarch_training")

TINY = ["--blocks", "1", "--channels", "4", "--epochs", "1", "--batch-size", "8"]


def write_pairs(folder):
    lines = [f"{i % 2}.0\t1\t2\t{'ab' * 20}\t{('ba', 'cc')[i % 2] * 20}\n" for i in range(16)]
    for part in ("train", "eval", "test"):
        (folder / f"new_aan_pairs.{part}.tsv").write_text("".join(lines))


def test_pairs_are_read_by_one_network(tmp_path):
    write_pairs(tmp_path)
    arguments = ["retrieval", *TINY, "--size", "48", "--data-dir", str(tmp_path)]
    options, data, _ = dnarch.parse([*arguments, "--output", str(tmp_path / "out")])
    model = training.network("plain", data, 0, options)
    features, head = model.get_layer("features"), model.layers[-2:]
    a, b = (features.predict(data.inputs[:3, place], verbose=0) for place in (0, 1))
    (first, bias), (second, last) = (layer.get_weights() for layer in head)
    hidden = np.maximum(np.concatenate([a, b, a * b, a - b], axis=1) @ first + bias, 0)
    found = model.predict(data.inputs[:3], verbose=0)
    np.testing.assert_allclose(found, hidden @ second + last, rtol=1e-4, atol=1e-5)
    # The features are counted for both.
    counts = keras_xd.complexity(model), keras_xd.complexity(features)
    assert counts[0] > 2 * counts[1]


def test_cosmic_rays_are_searched_for(tmp_path):
    cosmic_files.write(tmp_path)
    arguments = ["cosmic", *TINY, "--methods", "K", "--data-dir", str(tmp_path)]
    results = dnarch.main([*arguments, "--output", str(tmp_path / "out")])
    (run,) = results.runs
    assert 0 <= run["score"] <= 1 and 0 <= run["false_negatives"] <= 1
    assert run["difference"] < 1e-4 and results.settings["training_samples"] == 5
    page = results.paths["md"].read_text()
    assert "\n1 − AUROC of the pruned network" in page and "| false negatives |" in page


def test_pressures_at_85_points(tmp_path, rng):
    names = [f"{kind}_{part}" for kind in "au" for part in ("train", "test")]
    fields = {name: rng.uniform(size=(2, 85, 85)).astype("float32") for name in names}
    np.savez(tmp_path / "darcy85.npz", **fields)
    arguments = ["darcy", "--size", "85", "--data-dir", str(tmp_path), "--subset", "1"]
    _, data, _ = dnarch.parse([*arguments, "--output", str(tmp_path)])
    assert data.inputs.shape == (1, 85, 85, 3) and data.targets.shape == (1, 85, 85, 1)
    np.testing.assert_array_equal(data.targets[0, ..., 0], fields["u_test"][0])
