"""Settings shared by all tests: one thread, fixed seeds, parts and skips by name, real data."""

import gc
import importlib
import json
import os
import pathlib
import zlib

import hypothesis
import numpy as np
import pytest

from keras_xd_tests import programs

TESTS = pathlib.Path(__file__).parent
SETTINGS = {
    "KERAS_BACKEND": "tensorflow",
    "TF_ENABLE_ONEDNN_OPTS": "1",  # some processors have no channels-first convolution without it
    **{f"{name}_THREADS": "1" for name in ("TF_NUM_INTRAOP", "TF_NUM_INTEROP", "OPENBLAS_NUM")},
    "MPLBACKEND": "Agg",
    "JAX_ENABLE_X64": "1",  # or float64 is float32
}
os.environ.update({name: os.environ.get(name, value) for name, value in SETTINGS.items()})
BACKEND = os.environ["KERAS_BACKEND"]
hypothesis.settings.register_profile("any", deadline=None)
hypothesis.settings.load_profile("any")
pytest.register_assert_rewrite("keras_xd.testing")


def pytest_addoption(parser):
    parser.addoption("--part", default="1/1", help="run one of N parts of the files: --part=2/4")


def pytest_collection_modifyitems(config, items):
    part, parts = map(int, config.getoption("--part").split("/"))
    files = {item: item.path.relative_to(TESTS).as_posix() for item in items}
    items[:] = [i for i in items if zlib.crc32(files[i].encode()) % parts == part - 1]
    listed = json.loads((TESTS / "data" / "unsupported.json").read_text(encoding="utf-8"))
    reasons = {name: why for why, names in listed.get(BACKEND, {}).items() for name in names}
    for item in items:
        name = f"{files[item]}::{item.nodeid.partition('::')[2]}"
        if reason := reasons.get(name) or reasons.get(name.partition("[")[0]):
            item.add_marker(pytest.mark.skip(reason=f"not on {BACKEND}: {reason}"))


def pytest_runtest_setup(item):
    if BACKEND != "tensorflow" and (marker := item.get_closest_marker("tensorflow")):
        pytest.skip(f"TensorFlow alone: {marker.args[0]}")
    if item.get_closest_marker("real_data") and not (path := _real_data(item)).exists():
        pytest.skip(f"real data: {path} does not exist")


def _real_data(item):
    variable, *parts = item.get_closest_marker("real_data").args
    return pathlib.Path(os.environ.get(variable, f"${variable}"), *parts)


data_path = pytest.fixture(lambda request: _real_data(request.node), name="data_path")


@pytest.fixture(scope="session")
def on_backends(tmp_path_factory):
    return programs.on_all_backends("backend_results_program", tmp_path_factory.mktemp("saved"))


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture(autouse=True, scope="module")
def frozen():
    gc.collect()
    gc.freeze()  # Keras and KerasTuner collect garbage with each model


@pytest.fixture(autouse=True)
def fixed_seed():
    importlib.import_module("keras").utils.set_random_seed(20)
