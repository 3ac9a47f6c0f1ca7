"""The page on tasks lists what there is, and its conversions make files that the loaders read."""

import importlib
import pathlib
import re
import types

import numpy as np
from scipy import io

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets.nas_bench_360 import tiny_files

with example_scripts.on_path():
    tasks = importlib.import_module("datasets.nas_bench_360")
    unseen = importlib.import_module("datasets.unseen")

PAGE = (example_scripts.EXAMPLES / "datasets" / "README.md").read_text(encoding="utf-8")
CONVERSIONS = [code for code in re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL) if "pickle" in code]


def test_tasks_are_those_of_the_loaders():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert list(rows) == [*unseen.CLASSES, *tasks.TASKS]
    for name, classes in unseen.CLASSES.items():
        assert f"{unseen.SIDES[name]} × {unseen.SIDES[name]} × 3 | {classes} |" in rows[name]
        assert rows[name].endswith(", ".join(f"{size:,}" for size in unseen.SIZES[name]))
    metrics = {"0-1 error": 4, "1 − AUROC": 2, "1 − mAP": 1, "1 − F1": 1, "MAE₈": 1, "relative": 1}
    for metric, number in metrics.items():
        assert sum(f"| {metric}" in rows[name] for name in tasks.TASKS) == number


def convert(code, folder, contents, monkeypatch):
    """Run a block of the page in the folder; what it would unpickle is taken from `contents`."""

    def load(file):
        return contents[pathlib.Path(file.name).name]

    def load_array(path, allow_pickle):
        assert allow_pickle
        return contents[pathlib.Path(path).name]

    for name in contents:
        next(iter(folder.rglob(name)), folder / name).touch()
    numpy = types.SimpleNamespace(**{**vars(np), "load": load_array})
    names = {"pickle": types.SimpleNamespace(load=load), "np": numpy}
    monkeypatch.chdir(folder)
    code = re.sub(r"^import (pickle|numpy as np)$", "", code, flags=re.MULTILINE)
    exec(compile(code, "README.md", "exec"), names)


def samples(parts):
    """Return all arrays of a task's parts."""
    return [array for part in parts for array in (part.inputs[:], part.outputs[:])]


def check(name, folder, expected):
    """Check that converted files give the same samples as those that the tests write."""
    for found, array in zip(samples(tasks.load(name, folder)), expected, strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-5)


def conversion(name):
    (code,) = [code for code in CONVERSIONS if name in code]
    return code


def test_conversion_of_spheres(tmp_path, monkeypatch):
    arrays = tiny_files.spherical(tmp_path)
    expected = samples(tasks.load("spherical", tmp_path))
    (tmp_path / "s2_cifar100.npz").unlink()
    content = {
        part: {kind: arrays[f"{part}_{kind}"] for kind in ("images", "labels")}
        for part in ("train", "test")
    }
    convert(conversion("s2_cifar100"), tmp_path, {"s2_cifar100.gz": content}, monkeypatch)
    check("spherical", tmp_path, expected)


def test_conversion_of_proteins(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks.proteins, "TEST_WINDOW", 256)  # 512 take longer
    proteins = tiny_files.psicov(tmp_path, ((12, 14) * 4, (10,)))
    expected = samples(tasks.load("psicov", tmp_path))
    contents = {}
    for group in ("deepcov", "psicov"):
        (tmp_path / group / "features").mkdir()
        (tmp_path / group / "distance").mkdir()
    for name, protein in proteins.items():
        (tmp_path / {"d": "deepcov", "p": "psicov"}[name[1]] / "features" / f"{name}.pkl").touch()
        features = {key: value for key, value in protein.items() if key != "distance"}
        contents[f"{name}.pkl"] = {**features, "seq": "A" * len(protein["sa"])}
        contents[f"{name}-cb.npy"] = (len(protein["sa"]), "A", protein["distance"])
    for path in tmp_path.rglob("proteins/*.npz"):
        path.unlink()
    convert(conversion("proteins"), tmp_path, contents, monkeypatch)
    check("psicov", tmp_path, expected)


def test_conversion_of_records(tmp_path, monkeypatch):
    tiny_files.ecg(tmp_path)
    expected = samples(tasks.load("ecg", tmp_path))
    files = sorted((tmp_path / "training2017").glob("*.mat"))
    records = [io.loadmat(path)["val"][0] for path in files]
    (tmp_path / "REFERENCE-v3.csv").unlink()
    content = {"data": records, "label": list(tiny_files.RHYTHMS)}
    convert(conversion("challenge2017"), tmp_path, {"challenge2017.pkl": content}, monkeypatch)
    check("ecg", tmp_path, expected)


def test_conversion_of_series(tmp_path, monkeypatch):
    tiny_files.satellite(tmp_path)
    expected, contents = samples(tasks.load("satellite", tmp_path)), {}
    for part in ("train", "test"):
        with np.load(tmp_path / f"satellite_{part}.npz") as arrays:
            held = np.empty((), object)
            held[()] = dict(arrays)
        contents[f"satellite_{part}.npy"] = held
        (tmp_path / f"satellite_{part}.npz").unlink()
    convert(conversion("satellite"), tmp_path, contents, monkeypatch)
    check("satellite", tmp_path, expected)
