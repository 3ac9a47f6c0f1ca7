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
