"""The ten tasks of NAS-Bench-360: their published files and their errors.

Tu, Roberts, Khodak, Shen, Sala and Talwalkar, "NAS-Bench-360: Benchmarking Neural Architecture
Search on Diverse Tasks", 2022. Nothing is downloaded, and no pickle is loaded: `docs/tasks.md`
shows how pickled files are converted once.
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


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of the benchmark.

    Attributes:
        load: function of the data folder, `subset` and `seed` that returns three `Part`s.
        kind: `"classes"`, one of several; `"labels"`, several of several; `"field"`, numbers at
            each place; `"mask"`, zero or one at each place.
        metric: name of the error.
        error: function of a part and the network's outputs, all logits or numbers, that returns the
            error.
        outputs: number of classes, labels or channels; `None` where the files tell.
    """

    load: Callable
    kind: str
    metric: str
    error: Callable
    outputs: int | None


def _classification(part, outputs):
    return metrics.zero_one_error(part.outputs, outputs)


def _darcy_error(part, outputs):
    return metrics.relative_l2(part.outputs, outputs)


def _contact_error(part, outputs):
    """Return the error of the contacts of whole proteins; for crops the mean absolute error."""
    if part.lengths is None:
        return float(np.mean(np.abs(part.outputs[:] - outputs)))
    expected = [window_of(part.outputs[index], length) for index, length in enumerate(part.lengths)]
    predicted = [window_of(*pair) for pair in zip(outputs, part.lengths, strict=True)]
    return metrics.contact_distance_error(expected, predicted)


def _mask_error(part, outputs):
    return metrics.decided_auroc_error(part.outputs, outputs)


def _rhythm_error(part, outputs):
    return metrics.voted_f1_error(part.outputs, outputs, part.groups, 4)


def _sound_error(part, outputs):
    labels, scores = (metrics.group_means(v, part.groups) for v in (part.outputs, outputs))
    return metrics.precision_error(labels, scores)


def _track_error(part, outputs):
    return metrics.auroc_error(part.outputs, outputs)


ZERO_ONE = "0-1 error"
TASKS = {
    "cifar100": Task(cifar100, "classes", ZERO_ONE, _classification, 100),
    "spherical": Task(spherical, "classes", ZERO_ONE, _classification, 100),
    "ninapro": Task(ninapro, "classes", ZERO_ONE, _classification, 18),
    "fsd50k": Task(fsd50k, "labels", "1 - mAP", _sound_error, None),
    "darcy": Task(darcy, "field", "relative l2", _darcy_error, 1),
    "psicov": Task(psicov, "field", "MAE of 8 Angstrom contacts", _contact_error, 1),
    "cosmic": Task(cosmic, "mask", "1 - AUROC", _mask_error, 1),
    "ecg": Task(ecg, "classes", "1 - F1", _rhythm_error, 4),
    "satellite": Task(satellite, "classes", ZERO_ONE, _classification, 24),
    "deepsea": Task(deepsea, "labels", "1 - AUROC", _track_error, 36),
}


def load(name, data_dir, subset=None, seed=0):
    """Return `(train, validation, test)`, each a `Part`, of a task.

    Args:
        name: one of `TASKS`.
        data_dir: folder of the task's files.
        subset: use at most this many samples (records, clips, proteins) of each part.
        seed: what is drawn follows from.

    Raises:
        ValueError: if the name is unknown, or as the task's loader.
    """
    if name not in TASKS:
        raise ValueError(f"`name` must be one of {tuple(TASKS)}. Received: name={name!r}")
    return TASKS[name].load(data_dir, subset=subset, seed=seed)


__all__ = ["TASKS", "Part", "Task", "load"]
