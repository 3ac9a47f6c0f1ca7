"""The ten tasks as a whole: shapes, subsets, errors, and what is not loaded."""

import importlib

import numpy as np
import pytest

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets.nas_bench_360.tiny_files import WRITERS
from keras_xd_tests.examples.datasets.object_files import object_array

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
def test_published_files_are_read(name, tmp_path):
    WRITERS[name](tmp_path)
    parts = tasks.load(name, tmp_path)
    inputs, outputs, numbers = SHAPES[name]
    for index, part in enumerate(parts):
        larger = name == "psicov" and index == 2
        square = ((512, 512, 57), (512, 512, 1))
        assert part.inputs.shape[1:] == (square[0] if larger else inputs)
        assert part.outputs.shape[1:] == (square[1] if larger else outputs)
        assert len(part.inputs) == len(part.outputs) == len(part) > 0
        assert np.isfinite(part.inputs[0]).all() and np.isfinite(part.outputs[0]).all()
    assert numbers is None or tuple(map(len, parts)) == numbers


@pytest.mark.parametrize("name", tasks.TASKS)
def test_the_seed_decides(name, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks.proteins, "TEST_WINDOW", 256)  # 512 take longer
    WRITERS[name](tmp_path)
    first, again, other = (tasks.load(name, tmp_path, seed=seed) for seed in (0, 0, 1))
    for part, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(part.inputs[:], same.inputs[:])
        np.testing.assert_array_equal(part.outputs[:], same.outputs[:])
    equal = np.array_equal(first[0].inputs[:], other[0].inputs[:])
    assert equal == (name not in ("cosmic", "psicov", "fsd50k"))


@pytest.mark.parametrize("name", tasks.TASKS)
def test_a_subset(name, tmp_path):
    WRITERS[name](tmp_path)
    parts, whole = tasks.load(name, tmp_path, subset=1), tasks.load(name, tmp_path)
    for part, all_ in zip(parts, whole, strict=True):
        if part.groups is None:
            assert len(part) == 1
        else:
            assert len(set(part.groups)) == 1 and len(part) <= len(all_)
    with pytest.raises(ValueError, match="`subset` must be at least 1. Received: subset=0"):
        tasks.load(name, tmp_path, subset=0)


def right_answer(task, part):
    """Return outputs of a network that knows everything."""
    if task.kind == "classes":
        return 9.0 * np.eye(task.outputs)[part.outputs]
    return part.outputs[:]


@pytest.mark.parametrize("name", tasks.TASKS)
def test_the_right_answer_has_no_error(name, tmp_path):
    WRITERS[name](tmp_path)
    task = tasks.TASKS[name]
    for part in tasks.load(name, tmp_path)[1:]:
        answer = right_answer(task, part)
        lowest = task.error(part, answer)
        # The tenth of the few records that the tests write lack some of the four rhythms.
        missing = 4 - len(set(part.outputs)) if name == "ecg" else 0
        assert lowest == pytest.approx(missing / 4)
        assert task.error(part, -answer) > lowest + 0.2


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


@pytest.mark.parametrize("name", ["ninapro", "cosmic"])
def test_pickled_arrays_are_not_loaded(name, tmp_path):
    WRITERS[name](tmp_path)
    files = {"ninapro": "ninapro_val.npy", "cosmic": "npy_test/f435w/10760/2/1_crop.npy"}
    (tmp_path / files[name]).write_bytes(object_array())
    with pytest.raises(ValueError, match="pickled objects are not loaded"):
        tasks.load(name, tmp_path)


def test_names():
    with pytest.raises(ValueError, match="one of .*'deepsea'.* Received: name='mnist'"):
        tasks.load("mnist", None)
    assert set(tasks.TASKS) == set(WRITERS) == set(SHAPES)
