"""The ten tasks as a whole: shapes, subsets, errors, and what is not loaded."""

import importlib

import numpy as np
import pytest

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets.nas_bench_360.tiny_files import WRITERS

with example_scripts.on_path():
    tasks = importlib.import_module("datasets.nas_bench_360")

# Of a sample's input and output, and the numbers of samples of the three parts of tiny files.
SHAPES = {
    "cifar100": ((32, 32, 3), (), (8, 2, 4)),
    "spherical": ((60, 60, 3), (), (8, 2, 4)),
    "ninapro": ((16, 52, 1), (), (8, 4, 4)),
    "fsd50k": ((96, 101, 1), (3,), (4, 6, 6)),
    "darcy": ((3, 3, 3), (3, 3, 1), (9, 1, 4)),
    "psicov": ((128, 128, 57), (128, 128, 1), (5, 1, 2)),
    "cosmic": ((128, 128, 1), (128, 128, 1), (5, 1, 2)),
    "ecg": ((1000, 1), (), None),
    "satellite": ((46, 1), (), (5, 3, 3)),
    "deepsea": ((1000, 4), (36,), (8, 4, 4)),
}
# Files that are pickled where they are published, and what to convert them to.
PICKLED = {
    "cifar100": ("cifar-100-python", "binary version"),
    "spherical": ("s2_cifar100.gz", "converted to s2_cifar100.npz"),
    "psicov": ("1d1A.pkl", "converted to deepcov/proteins/1d1A.npz"),
    "ecg": ("challenge2017.pkl", "converted to challenge2017.npz"),
    "satellite": ("satellite_train.npy", "converted to satellite_train.npz"),
}


@pytest.mark.parametrize("name", tasks.TASKS)
def test_a_folder_without_files_is_refused(name, tmp_path):
    for folder in (None, tmp_path):
        with pytest.raises(ValueError, match="Received: data_dir=") as caught:
            tasks.load(name, folder)
        assert ("None" if folder is None else repr(str(tmp_path))) in str(caught.value)


@pytest.mark.parametrize("name", PICKLED)
def test_what_is_pickled_where_it_is_published_is_to_be_converted(name, tmp_path):
    published, way_out = PICKLED[name]
    if name == "psicov":
        WRITERS[name](tmp_path)
        (tmp_path / "deepcov" / "proteins" / "1d1A.npz").unlink()
    (tmp_path / published).write_bytes(b"\x80\x04N.")
    with pytest.raises(ValueError, match="not loaded") as caught:
        tasks.load(name, tmp_path)
    assert way_out in str(caught.value) and "pickle" in str(caught.value)


@pytest.mark.parametrize("name", tasks.TASKS)
def test_published_files_are_read(name, tmp_path, monkeypatch):
    """With the shapes, seeds, subsets and errors that the benchmark has."""
    monkeypatch.setattr(tasks.proteins, "TEST_WINDOW", 256)  # 512 take longer
    WRITERS[name](tmp_path)
    parts, again, other = (tasks.load(name, tmp_path, seed=seed) for seed in (0, 0, 1))
    inputs, outputs, numbers = SHAPES[name]
    task = tasks.TASKS[name]
    for index, (part, same) in enumerate(zip(parts, again, strict=True)):
        if name == "psicov" and index == 2:
            inputs, outputs = (256, 256, 57), (256, 256, 1)
        assert part.inputs.shape[1:] == inputs and part.outputs.shape[1:] == outputs
        assert len(part.inputs) == len(part.outputs) == len(part) > 0
        np.testing.assert_array_equal(part.inputs[:], same.inputs[:])
        np.testing.assert_array_equal(part.outputs[:], same.outputs[:])
        answer = part.outputs[:]
        if task.kind == "classes":
            answer = 9.0 * np.eye(task.outputs)[part.outputs]
        # The tenth of the few records that the tests write lack some of the four rhythms.
        missing = 4 - len(set(part.outputs)) if name == "ecg" else 0
        assert task.error(part, answer) == pytest.approx(missing / 4)
        assert task.error(part, -answer) > missing / 4 + 0.2
    assert numbers is None or tuple(map(len, parts)) == numbers
    equal = np.array_equal(parts[0].inputs[:], other[0].inputs[:])
    assert equal == (name not in ("cosmic", "psicov", "fsd50k"))
    for part in tasks.load(name, tmp_path, subset=1):
        assert len(part) == 1 if part.groups is None else len(set(part.groups)) == 1
