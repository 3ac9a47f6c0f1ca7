"""The ten tasks of NAS-Bench-360: their published files and their errors.

Tu, Roberts, Khodak, Shen, Sala and Talwalkar, "NAS-Bench-360: Benchmarking Neural Architecture
Search on Diverse Tasks", 2022. `examples/datasets/README.md` lists the files, and shows how pickled
ones are converted once.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from datasets.nas_bench_360 import metrics
from datasets.nas_bench_360.audio import fsd50k
from datasets.nas_bench_360.images import cifar100, ninapro, spherical
from datasets.nas_bench_360.maps import cosmic, darcy
from datasets.nas_bench_360.parts import Part
from datasets.nas_bench_360.proteins import psicov, window_of
from datasets.nas_bench_360.sequences import deepsea, ecg, satellite
from datasets.plain_files import check_subset


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of the benchmark: classes, labels (several of several), a field or a mask."""

    load: Callable
    kind: str
    metric: str
    error: Callable
    outputs: int | None


def _directly(metric):
    """Return the error of a part by a metric of what is expected and what is predicted."""
    return lambda part, outputs: metric(part.outputs, outputs)


def _contact_error(part, outputs):
    """Return the error of the contacts of whole proteins; for crops the mean absolute error."""
    if part.lengths is None:
        return float(np.mean(np.abs(part.outputs[:] - outputs)))
    expected = [window_of(part.outputs[index], length) for index, length in enumerate(part.lengths)]
    predicted = [window_of(*pair) for pair in zip(outputs, part.lengths, strict=True)]
    return metrics.contact_distance_error(expected, predicted)


def _rhythm_error(part, outputs):
    return metrics.voted_f1_error(part.outputs, outputs, part.groups, 4)


def _sound_error(part, outputs):
    labels, scores = (metrics.group_means(v, part.groups) for v in (part.outputs, outputs))
    return metrics.precision_error(labels, scores)


ZERO_ONE = ("classes", "0-1 error", _directly(metrics.zero_one_error))
TASKS = {
    "cifar100": Task(cifar100, *ZERO_ONE, 100),
    "spherical": Task(spherical, *ZERO_ONE, 100),
    "ninapro": Task(ninapro, *ZERO_ONE, 18),
    "fsd50k": Task(fsd50k, "labels", "1 - mAP", _sound_error, None),
    "darcy": Task(darcy, "field", "relative l2", _directly(metrics.relative_l2), 1),
    "psicov": Task(psicov, "field", "MAE of 8 Angstrom contacts", _contact_error, 1),
    "cosmic": Task(cosmic, "mask", "1 - AUROC", _directly(metrics.decided_auroc_error), 1),
    "ecg": Task(ecg, "classes", "1 - F1", _rhythm_error, 4),
    "satellite": Task(satellite, *ZERO_ONE, 24),
    "deepsea": Task(deepsea, "labels", "1 - AUROC", _directly(metrics.auroc_error), 36),
}


def load(name, data_dir, subset=None, seed=0):
    """Return `(train, validation, test)`, `Part`s of a task; a subset is of samples or groups."""
    if name not in TASKS:
        raise ValueError(f"`name` must be one of {tuple(TASKS)}. Received: name={name!r}")
    check_subset(subset)
    return TASKS[name].load(data_dir, subset=subset, seed=seed)


__all__ = ["TASKS", "Part", "Task", "load"]
