"""Data of the learned architectures, ListOps among them, and how answers are scored."""

import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

dnarch = example_scripts.load("experiments.dnarch.dnarch")
training = example_scripts.load("experiments.dnarch.dnarch_training")
listops = example_scripts.load("datasets.listops")

TINY = ["--blocks", "1", "--channels", "4", "--epochs", "2", "--batch-size", "9"]


def parsed(tokens):
    """Return the value, the depth and the numbers of arguments of an expression."""
    token = tokens.pop(0)
    if token.isdigit():
        return int(token), 0, []
    values, depths, counts = [], [], []
    while tokens[0] != "]":
        value, depth, inner = parsed(tokens)
        values.append(value)
        depths.append(depth)
        counts += inner
    tokens.pop(0)
    compute = {"[MIN": np.min, "[MAX": np.max, "[MED": np.median, "[SM": lambda v: np.sum(v) % 10}
    return int(compute[token](values)), 1 + max(depths), [*counts, len(values)]


def test_listops_by_the_recipe():
    parts = listops.load((60, 10, 5), 20, 40, seed=1)
    assert [part[0].shape for part in parts] == [(60, 40), (10, 40), (5, 40)]
    inputs, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    assert len({row.tobytes() for row in inputs}) == 75
    arguments = []
    for row, value in zip(inputs, values, strict=True):
        end = int(np.argmax(row == listops.END))
        assert 20 <= end < 40 and not row[end + 1 :].any() and row[:end].min() > listops.END
        tokens = [listops.TOKENS[number] for number in row[:end]]
        found, depth, counts = parsed(tokens)
        assert found == value and depth <= 9 and not tokens
        arguments += counts
    assert min(arguments) == 2 and max(arguments) == 10
    assert set(inputs.ravel()) == set(range(16)) | {16} == set(range(len(listops.TOKENS)))
    again = listops.load((60, 10, 5), 20, 40, seed=1)
    np.testing.assert_array_equal(again[0][0], parts[0][0])
    assert not np.array_equal(listops.load((60, 10, 5), 20, 40, seed=2)[0][0], parts[0][0])


def test_answers_are_decoded_by_the_network(tmp_path):
    """The networks of Darcy flow answer with solutions, and errors are those of solutions."""
    arguments = ["darcy", *TINY, "--size", "8", "--subset", "10", "--output", str(tmp_path)]
    options, data, _ = dnarch.parse(arguments)
    for method in ("plain", "K"):
        model = training.network(method, data, 0, options)
        decoding = model.layers[-1]
        assert isinstance(decoding, keras_xd.layers.PointNormalization) and decoding.invert
    answers = training.outputs(model, data.inputs)
    expected = [
        np.linalg.norm(p - t) / np.linalg.norm(t)
        for t, p in zip(data.targets, answers, strict=True)
    ]
    assert data.score(answers) == pytest.approx(np.mean(expected), rel=1e-5)
    # The mean of the solutions is the answer of a network that is zero.
    model.layers[-2].set_weights([0 * w for w in model.layers[-2].get_weights()])
    mean = training.outputs(model, data.inputs)[0]
    np.testing.assert_allclose(mean, decoding.mean, rtol=1e-5, atol=1e-7)
