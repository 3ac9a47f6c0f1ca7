"""Proteins: channels and distances by plain loops, crops, bad files."""

import importlib

import numpy as np

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets.nas_bench_360 import tiny_files

with example_scripts.on_path():
    proteins = importlib.import_module("datasets.nas_bench_360.proteins")


def test_channels_by_a_loop(rng):
    protein = tiny_files.protein(5, rng)
    found = proteins.channels(protein)
    assert found.shape == (5, 5, 57) and found.dtype == "float32"
    features = [*protein["ss"], *protein["pssm"].T, protein["sa"], protein["entropy"]]
    for i in range(5):
        for j in range(5):
            pair = [value for row in features for value in (row[j], row[i])]
            pair += [protein[name][i, j] for name in ("ccmpred", "freecon", "potential")]
            np.testing.assert_allclose(found[i, j], pair, rtol=1e-6)


def test_distances_by_a_loop(rng):
    protein = tiny_files.protein(6, rng)
    protein["distance"][2, 3] = 0.2
    expected = [[max(1.0, d) for d in row] for row in protein["distance"]]
    raw = [row[:] for row in expected]
    for q in range(6):
        near = [raw[q][k] for k in (q - 1, q + 1) if 0 <= k < 6]
        expected[q][q] = sum(near) / len(near)
    np.testing.assert_allclose(proteins.distances(protein)[..., 0], expected, rtol=1e-6)
    assert protein["distance"][2, 3] == 0.2  # what was read is not changed


def test_parts(tmp_path):
    found = tiny_files.psicov(tmp_path)
    train, validation, test = proteins.psicov(tmp_path)
    assert (len(train), len(validation), len(test)) == (5, 1, 2)
    # The first of the list is for validation: 40 residues behind five pixels of zeros.
    first = found["1d0A"]
    inputs, outputs = validation.inputs[0], validation.outputs[0]
    np.testing.assert_allclose(inputs[5:45, 5:45], proteins.channels(first))
    assert not inputs[:5].any() and not inputs[45:].any()
    clipped = np.minimum(proteins.distances(first), 16)
    np.testing.assert_allclose(outputs[5:45, 5:45], clipped)
    assert (outputs[45:] == 16).all() and outputs.max() == 16
    # Test maps are not clipped; what the metric sees of them is the protein.
    assert test.lengths.tolist() == [40, 50] and test.outputs[0].max() == 100
    whole = proteins.distances(found["1p1A"])[..., 0]
    np.testing.assert_array_equal(proteins.window_of(test.outputs[1], 50), whole)
    np.testing.assert_array_equal(test.inputs[:][1, 5:55, 5:55, -1], test.inputs[1][5:55, 5:55, -1])
