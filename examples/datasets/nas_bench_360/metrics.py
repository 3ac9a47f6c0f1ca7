"""The errors that NAS-Bench-360 reports; of all of them less is better."""

import collections

import numpy as np
from scipy import stats


def zero_one_error(classes, scores):
    """Return the share of samples whose class has not the highest score."""
    return float(np.mean(np.argmax(scores, axis=-1) != classes))


def relative_l2(expected, predicted):
    """Return the mean of `‖predicted − expected‖ / ‖expected‖` over the samples."""
    _check_shapes(expected, predicted)
    expected = np.asarray(expected, "float64").reshape(len(expected), -1)
    difference = np.asarray(predicted, "float64").reshape(expected.shape) - expected
    return float(np.mean(np.linalg.norm(difference, axis=1) / np.linalg.norm(expected, axis=1)))


def contact_distance_error(expected, predicted, largest=8.0, separation=24):
    """Return the mean absolute error of the distances of contacts, in Angstrom (MAE of 8 Å).

    Contacts are two residues that are at least `separation` places apart in the sequence and at
    most `largest` Angstrom in space. A predicted distance is the mean of both triangles of the map
    and at least 0.01. The error is the mean over proteins of the mean over contacts; proteins
    without any are left out.
    """
    errors = []
    for distances, answer in zip(expected, predicted, strict=True):
        _check_shapes(distances, answer)
        answer = np.maximum((answer + answer.T) / 2, 0.01)
        upper = np.triu(np.ones(distances.shape, bool), k=separation)
        contacts = upper & (distances <= largest)
        if contacts.any():
            errors.append(np.mean(np.abs(answer - distances)[contacts]))
    if not errors:
        raise ValueError(
            f"Some protein must have residues at least {separation} places and at most {largest:g} "
            f"Å apart. Received: {len(expected)} proteins without any"
        )
    return float(np.mean(errors))


def auroc_error(labels, scores):
    """Return one minus the mean area under the curve of true and false positives of the columns."""
    labels, scores = _informative(labels, scores, (0, 1))
    positives = labels.sum(axis=0)
    ranks = stats.rankdata(scores, axis=0)  # ties share their mean rank
    pairs = (ranks * labels).sum(axis=0) - positives * (positives + 1) / 2
    return float(1 - np.mean(pairs / (positives * (len(labels) - positives))))


def decided_auroc_error(labels, scores, threshold=0.5):
    """Return `auroc_error` of the decisions `scores > threshold`, of all places at once.

    NAS-Bench-360 scores the masks of Cosmic like this, where the scores are logits.
    """
    _check_shapes(labels, scores)
    decided = np.asarray(scores).reshape(-1, 1) > threshold
    return auroc_error(np.asarray(labels).reshape(-1, 1), decided)


def false_negative_rate(labels, scores, threshold=0.5):
    """Return which share of the places of label 1 has a score of at most the threshold."""
    _check_shapes(labels, scores)
    return float(np.mean(np.asarray(scores)[np.asarray(labels) == 1] <= threshold))


def precision_error(labels, scores):
    """Return one minus the mean average precision of the columns."""
    labels, scores = _informative(labels, scores, (1,))
    columns = zip(labels.T, scores.T, strict=True)
    return float(1 - np.mean([_average_precision(*column) for column in columns]))


def _average_precision(labels, scores):
    """Return the precision at each threshold, weighted by the recall that the threshold adds."""
    order = np.argsort(-scores, kind="stable")
    found = np.cumsum(labels[order])
    # The last of those with the same score: a threshold lets in all of them.
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    precision, recall = found[last] / (last + 1), found[last] / found[-1]
    return np.sum(np.diff(recall, prepend=0) * precision)


def voted_f1_error(classes, scores, groups, number):
    """Return one minus the mean over classes of the F1 of groups.

    The class of a group is the one that most of its samples are given; of equally many the one that
    comes first.
    """
    chosen = np.argmax(scores, axis=-1)
    pairs = []
    for group in np.unique(groups):
        votes = collections.Counter(chosen[groups == group].tolist())
        pairs.append((classes[groups == group][0], votes.most_common(1)[0][0]))
    expected, given = np.array(pairs).T
    found = []
    for label in range(number):
        right = np.sum((expected == label) & (given == label))
        both = np.sum(expected == label) + np.sum(given == label)
        found.append(2 * right / both if both else 0.0)
    return float(1 - np.mean(found))


def group_means(values, groups):
    """Return the mean of the values of each group, ordered by the groups' numbers."""
    return np.stack([values[groups == group].mean(axis=0) for group in np.unique(groups)])


def _informative(labels, scores, needed):
    """Return the columns whose labels hold all of `needed`, as float64 arrays."""
    _check_shapes(labels, scores)
    labels, scores = np.asarray(labels, "float64"), np.asarray(scores, "float64")
    kept = np.all([(labels == value).any(axis=0) for value in needed], axis=0)
    if not kept.any():
        raise ValueError(
            f"Some column of the labels must hold {' and '.join(map(str, needed))}. Received: "
            f"labels of shape {labels.shape}, from {labels.min():g} to {labels.max():g}"
        )
    return labels[:, kept], scores[:, kept]


def _check_shapes(expected, predicted):
    if np.shape(expected) != np.shape(predicted):
        raise ValueError(
            "What is expected and what is predicted must have one shape. Received: "
            f"{np.shape(expected)} and {np.shape(predicted)}"
        )
