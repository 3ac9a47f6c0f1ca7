"""The errors of NAS-Bench-360: scikit-learn and plain loops as oracles."""

import importlib
import math

import numpy as np
import pytest
from sklearn import metrics as oracle

from keras_xd_tests import example_scripts

with example_scripts.on_path():
    metrics = importlib.import_module("datasets.nas_bench_360.metrics")


def test_relative_l2_by_a_loop(rng):
    expected, predicted = rng.normal(size=(2, 5, 4, 3, 1))
    errors = []
    for y, answer in zip(expected.reshape(5, -1), predicted.reshape(5, -1), strict=True):
        square = sum((a - b) ** 2 for a, b in zip(answer, y, strict=True))
        errors.append(math.sqrt(square / sum(b**2 for b in y)))
    assert metrics.relative_l2(expected, predicted) == pytest.approx(sum(errors) / 5)
    with pytest.raises(ValueError, match=r"one shape. Received: \(5, 4, 3, 1\) and \(5, 4, 3\)"):
        metrics.relative_l2(expected, predicted[..., 0])


def test_error_of_contacts_by_a_loop(rng):
    expected = [rng.integers(2, 20, size=(n, n)) + 0.0 for n in (40, 10, 30)]  # many at 8 exactly
    predicted = [rng.uniform(-2, 20, size=y.shape) for y in expected]
    means = []
    for y, answer in zip(expected, predicted, strict=True):
        errors = []
        for i in range(len(y)):
            for j in range(i + 24, len(y)):
                if y[i, j] <= 8:
                    mean = max(0.01, (answer[i, j] + answer[j, i]) / 2)
                    errors.append(abs(mean - y[i, j]))
        if errors:
            means.append(sum(errors) / len(errors))
    assert len(means) == 2  # the protein of ten residues has none so far apart
    found = metrics.contact_distance_error(expected, predicted)
    assert found == pytest.approx(sum(means) / 2)
    with pytest.raises(ValueError, match="24 places .* 8 Å apart. Received: 1 proteins"):
        metrics.contact_distance_error(expected[1:2], predicted[1:2])


@pytest.mark.parametrize("levels", [1000, 7], ids=["distinct", "ties"])
def test_area_and_precision_are_those_of_scikit_learn(levels, rng):
    labels = rng.integers(2, size=(60, 5))
    scores = rng.integers(levels, size=labels.shape) + 0.3 * labels * levels
    area = oracle.roc_auc_score(labels, scores, average="macro")
    assert metrics.auroc_error(labels, scores) == pytest.approx(1 - area)
    precision = oracle.average_precision_score(labels, scores, average="macro")
    assert metrics.precision_error(labels, scores) == pytest.approx(1 - precision)
    # A column without ones has neither, one without zeros has no area.
    more = np.concatenate([labels, np.zeros((60, 1), int), np.ones((60, 1), int)], axis=1)
    scores = np.concatenate([scores, scores[:, :2]], axis=1)
    assert metrics.auroc_error(more, scores) == pytest.approx(1 - area)
    assert metrics.precision_error(more, scores) == pytest.approx(1 - (5 * precision + 1) / 6)


def test_masks_are_scored_by_decisions(rng):
    masks = rng.integers(2, size=(3, 4, 4, 1))
    logits = rng.normal(size=masks.shape) + masks
    area = oracle.roc_auc_score(masks.ravel(), (logits > 0.5).ravel())
    assert metrics.decided_auroc_error(masks, logits) == pytest.approx(1 - area)
    assert metrics.decided_auroc_error(masks, masks) == 0
    recall = oracle.recall_score(masks.ravel(), (logits > 0.5).ravel())
    assert metrics.false_negative_rate(masks, logits) == pytest.approx(1 - recall)


def test_groups_vote(rng):
    groups = np.repeat(np.arange(12), 4)
    classes = np.repeat(np.arange(12) % 3, 4)
    scores = rng.normal(size=(48, 4)) + np.eye(4)[classes]
    chosen = scores.argmax(1).reshape(12, 4).tolist()
    votes = [max(row, key=lambda label: (row.count(label), -row.index(label))) for row in chosen]
    expected = oracle.f1_score(
        np.arange(12) % 3, votes, labels=range(4), average="macro", zero_division=0
    )
    found = metrics.voted_f1_error(classes, scores, groups, 4)
    assert found == pytest.approx(1 - expected)
    assert not np.isclose(found, metrics.voted_f1_error(classes, scores, np.arange(48), 4))
