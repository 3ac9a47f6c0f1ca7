"""What a process of its own shows: first imports, serving without the package, killed saving.

All of it is found by one, `first_import_program`, whose copies begin without the package.
"""

import ast
import json
import os
import re
import signal

import keras
import numpy as np
import pytest

from keras_xd import rewrite
from keras_xd.finalizing.finalizer import FinalizedModel, finalize
from keras_xd_tests import programs, sample_models
from keras_xd_tests.core import saving_test
from keras_xd_tests.finalizing.finalizer_test import RELATIVE_ERROR, SOME, searched
from keras_xd_tests.imports_test import MODULES, tree

BATCHES = (1, 3)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder, and models that are exported to it, by their names, with the inputs of batches."""
    folder, rng = tmp_path_factory.mktemp("served"), np.random.default_rng(20)
    found = {}
    if keras.backend.backend() == "torch":  # which writes none
        return folder, found
    for name, space in (
        ("tensor", searched(sample_models.nested(), rng, depth=1)),
        ("dictionary", searched(sample_models.shared(), rng, depth=1)),
    ):
        plain = finalize(space, form="spectrum")
        batches = {n: sample_models.inputs_of(plain, rng, n) for n in BATCHES}
        plain.export(folder / name / "exported", verbose=False)
        arrays = {
            f"{key}_{n}": x
            for n, inputs in batches.items()
            for key, x in (inputs if isinstance(inputs, dict) else {"image": inputs}).items()
        }
        np.savez(folder / name / "inputs.npz", **arrays)
        found[name] = space, batches
    return folder, found


@pytest.fixture(scope="module")
def snapped(exported):
    """Models that are saved to the folder and need no layers of the package, by their names.

    And one that does.
    """
    folder, rng = exported[0], np.random.default_rng(20)
    volumes = rewrite(sample_models.volumes(), depth=1)
    finalize(volumes, form="kernel").save(folder / "finalized.keras")
    found = {}
    for make in (sample_models.residual, sample_models.nested):
        space = rewrite(sample_models.randomize(make(), rng), depth=1, **SOME.get(make, {}))
        plain = finalize(space, snap=0.01)
        inputs = sample_models.inputs_of(space, rng)
        plain.save(folder / f"{make.__name__}.keras")
        np.save(folder / f"{make.__name__}_inputs.npy", inputs)
        found[make.__name__] = (space, plain, inputs)
    return found


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Models with the files that processes are killed saving others to, by case."""
    models = {}
    for name, (make, ending, kind) in saving_test.CASES.items():
        path, model = str(tmp_path_factory.mktemp(name) / f"model{ending}"), make()
        if kind == "save":
            model.save(path)
        models[name] = model, path
    return models


@pytest.fixture(scope="module")
def imported(exported, snapped, saved):
    """What functions of `first_import_program` return, each where nothing has been imported."""
    folder, models = exported
    names = {"served": list(models), "snapped": list(snapped), "batches": BATCHES}
    names["killed"] = [
        (make.__name__, saved[name][1], kind) for name, (make, _, kind) in saving_test.CASES.items()
    ]
    (folder / "models.json").write_text(json.dumps(names))
    return programs.run("first_import_program", folder)


def test_pictures_alone_need_matplotlib(imported):
    names, error, plot, matplotlib = imported["pictures"]
    assert names == [False, True]
    assert "matplotlib" in error and "extra `plot`" in error and "keras_xd[plot]" in error
    assert plot == "plot_operators" and matplotlib


def test_files_load_after_a_mere_import(imported):
    layer, search, registered = imported["files"]
    assert layer == "XDConv1D" and search
    assert set(registered) == decorated_names()


def decorated_names():
    """Return the names by which the package's classes and functions are registered for saving."""
    decorators = [
        (node.name, ast.unparse(decorator))
        for path in MODULES
        if "register_keras_serializable" in path.read_text(encoding="utf-8")
        for node in tree(path).body
        for decorator in getattr(node, "decorator_list", ())
    ]
    pattern = re.compile(r".*register_keras_serializable\(package='keras_xd'(?:, name='(\w+)')?\)")
    found = ((name, pattern.fullmatch(text)) for name, text in decorators)
    return {match.group(1) or name for name, match in found if match}


def test_exports_are_served_without_the_package(exported, imported):
    folder, models = exported
    keys, modules = imported["served"]
    assert modules == []
    assert keys == {"tensor": ["image"], "dictionary": ["left", "right"]}
    space, batches = models["tensor"]
    outputs = np.load(folder / "tensor" / "outputs.npz")
    for n, inputs in batches.items():
        expected = space(inputs, training=False)
        scale = np.max(np.abs(expected))
        (name,) = [name for name in outputs if name.endswith(f"_{n}")]
        np.testing.assert_allclose(outputs[name], expected, rtol=0, atol=RELATIVE_ERROR * scale)

    space, batches = models["dictionary"]
    outputs = np.load(folder / "dictionary" / "outputs.npz")
    for n, inputs in batches.items():
        for name, expected in space(inputs, training=False).items():
            scale = np.max(np.abs(expected))
            actual = outputs[f"{name}_{n}"]
            np.testing.assert_allclose(actual, expected, rtol=0, atol=RELATIVE_ERROR * scale)


def test_only_wholly_snapped_models_load_without_the_package(exported, snapped, imported):
    folder, _ = exported
    assert imported["snapped"].startswith("Could not locate class 'FinalizedModel'")
    for name, (space, plain, inputs) in snapped.items():
        assert type(plain) is not FinalizedModel and len(plain.report.snapped) > 1
        sample_models.assert_same_outputs(space, plain, inputs, 1e-4)
        outputs = np.load(folder / f"{name}_outputs.npy")
        np.testing.assert_allclose(outputs, plain(inputs), atol=1e-5)


@pytest.mark.parametrize("name", saving_test.CASES)
def test_a_killed_process_leaves_the_earlier_file(name, saved, imported):
    assert imported["killed"] == [-signal.SIGKILL] * len(saving_test.CASES)
    model, path = saved[name]
    make, ending, kind = saving_test.CASES[name]
    folder = os.path.dirname(path)
    assert len(os.listdir(folder)) == 2
    loaded = saving_test.load(make, path)
    if kind == "save":
        for old, new in zip(model.get_weights(), loaded.get_weights(), strict=True):
            np.testing.assert_array_equal(old, new)
    else:
        assert int(loaded.search_optimizer.epochs) == 1
    save = loaded.save if ending == ".keras" else loaded.save_weights
    save(path)
    assert os.listdir(folder) == [os.path.basename(path)]
    saving_test.load(make, path)
