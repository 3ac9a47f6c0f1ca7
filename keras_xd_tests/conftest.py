"""Settings shared by all tests: quiet one-thread backends, fixed seeds, real data by path."""

import os
import pathlib

from keras_xd_tests.programs import COMPILE_QUICKLY

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# The tests run in several processes, so more threads in each would only get in each other's way.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", COMPILE_QUICKLY)
os.environ.setdefault("MPLBACKEND", "Agg")

import keras
import numpy as np
import pytest

pytest.register_assert_rewrite("keras_xd_tests.layer_checks")


def pytest_runtest_setup(item):
    marker = item.get_closest_marker("real_data")
    if marker is not None:
        missing = _missing_data(*marker.args)
        if missing:
            pytest.skip(missing)


def _missing_data(variable, *parts):
    """Return why the file `$variable/part/…` cannot be used, or `None` if it is there."""
    folder = os.environ.get(variable)
    if not folder:
        return f"real data: set {variable} to the folder that holds {'/'.join(parts)}"
    path = pathlib.Path(folder, *parts)
    return None if path.exists() else f"real data: {path} does not exist ({variable}={folder})"


@pytest.fixture
def data_path(request):
    """Path of the file that the test's mark names.

    `@pytest.mark.real_data("KERAS_XD_DATA_DIR", "burgers1d.npz")` above a test gives the file
    `$KERAS_XD_DATA_DIR/burgers1d.npz`; without it the test counts as skipped.
    """
    variable, *parts = request.node.get_closest_marker("real_data").args
    return pathlib.Path(os.environ[variable], *parts)


@pytest.fixture(autouse=True)
def fixed_seed():
    """Seed Python, NumPy and the backend before every test."""
    keras.utils.set_random_seed(20)


@pytest.fixture
def eager(monkeypatch):
    """Run Keras' functions eagerly: for scripts, whose tests would mostly compile graphs."""
    compile_model = keras.Model.compile

    def compile_eagerly(self, *args, jit_compile=False, **kwargs):
        return compile_model(self, *args, run_eagerly=True, jit_compile=False, **kwargs)

    monkeypatch.setattr(keras.Model, "compile", compile_eagerly)


@pytest.fixture
def rng():
    """A NumPy generator with a fixed seed."""
    return np.random.default_rng(20)
