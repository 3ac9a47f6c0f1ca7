"""Settings shared by all tests: one thread, parts and skips by name, real data by path.

Those of Keras and its backend are in `backend_settings`.
"""

import argparse
import fcntl
import importlib.util
import itertools
import json
import operator as op
import os
import pathlib
import re
import sys
import zlib

from keras_xd_tests import programs

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# The tests run in several processes, so more threads in each would only get in each other's way.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", programs.COMPILE_QUICKLY)
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("JAX_ENABLE_X64", "1")  # or float64 is float32

import pytest

TESTS = pathlib.Path(__file__).parent
FIRST_WORKER = pytest.StashKey()  # the lock of a worker that compiles for all
LONGEST = ("examples", "quickstart_test.py", "tuner_integration")

pytest.register_assert_rewrite("keras_xd_tests.layer_checks")


def pytest_addoption(parser):
    shown = "run the K-th of N fixed parts of the suite, by files: --part=2/4"
    parser.addoption("--part", metavar="K/N", type=_part, help=shown)


def _part(text):
    """Return what `--part` is given as: which part, from 1, and of how many."""
    numbers = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    part, parts = map(int, numbers.groups()) if numbers else (2, 1)
    if part > parts:
        raise argparse.ArgumentTypeError(f"--part must be K/N with 1 ≤ K ≤ N. Received: {text!r}")
    return part, parts


def _in_part(path, part, parts):
    """Return whether a file is in a part, which depends on its name alone."""
    name = path.relative_to(TESTS).as_posix()
    return zlib.crc32(name.encode()) % parts == part - 1


def pytest_configure(config):
    """Import Keras and its backend only where tests run, not where they are handed out.

    If nothing has been compiled to bytecode yet, the first worker imports and collects alone: the
    others would only compile the same.
    """
    if config.getoption("dist", "no") != "no" and not config.option.collectonly:
        return
    if hasattr(config, "workerinput") and not _is_compiled():
        path = pathlib.Path(config.option.basetemp).parent / "first_worker.lock"
        config.stash[FIRST_WORKER] = open(path, "w", encoding="utf-8")
        fcntl.flock(config.stash[FIRST_WORKER], fcntl.LOCK_EX)
    config.pluginmanager.import_plugin("keras_xd_tests.backend_settings")


def pytest_collection_finish(session):
    if FIRST_WORKER in session.config.stash:
        session.config.stash[FIRST_WORKER].close()


def _is_compiled():
    """Return whether the last test file has bytecode, so all that is imported before, or never."""
    last = max(TESTS.glob("*_test.py"))
    folder = pathlib.Path(importlib.util.cache_from_source(str(last))).parent
    return sys.dont_write_bytecode or any(folder.glob(f"{last.stem}.*-pytest-*.pyc"))


def pytest_collection_modifyitems(config, items):
    """Leave out other parts than the one asked for.

    Skip what a backend cannot run, by name and with the reason.

    Run the folders with the longest tests first, so that no worker ends with one of them.
    """
    if config.getoption("--part"):
        inside = [_in_part(item.path, *config.getoption("--part")) for item in items]
        config.hook.pytest_deselected(items=list(itertools.compress(items, map(op.not_, inside))))
        items[:] = itertools.compress(items, inside)
    backend = os.environ["KERAS_BACKEND"]
    reasons = _unsupported(backend)
    for item in items:
        name = item.nodeid.partition("keras_xd_tests/")[2]
        reason = reasons.get(name) or reasons.get(name.partition("[")[0])
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"not on {backend}: {reason}"))
    items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0] not in LONGEST)


def pytest_runtest_setup(item):
    marker = item.get_closest_marker("tensorflow")
    if marker is not None and os.environ["KERAS_BACKEND"] != "tensorflow":
        pytest.skip(f"TensorFlow alone: {marker.args[0]}")
    marker = item.get_closest_marker("real_data")
    if marker is not None:
        missing = _missing_data(*marker.args)
        if missing:
            pytest.skip(missing)


def _unsupported(backend):
    """Return the reason of each test that a backend cannot run, by its name.

    They are those of data/unsupported.json: for each backend and reason names as pytest has them,
    below this folder, without brackets for all cases of a function.
    """
    listed = json.loads((TESTS / "data" / "unsupported.json").read_text(encoding="utf-8"))
    return {name: reason for reason, names in listed.get(backend, {}).items() for name in names}


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


@pytest.fixture(scope="session")
def on_backends(tmp_path_factory):
    """What `backend_results_program` found on each backend, by name; once for all workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    path = folder / "on_backends.json"
    with open(folder / "on_backends.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_text(json.dumps(_run_on_backends(tmp_path_factory.mktemp("saved"))))
    return json.loads(path.read_text())


def _run_on_backends(folder):
    """Return the results of the programs of all backends, which run at once."""
    flags = f"{programs.COMPILE_QUICKLY} --xla_force_host_platform_device_count=2"  # for JAX
    processes = {
        name: programs.start("backend_results_program", folder, backend=name, XLA_FLAGS=flags)
        for name in programs.BACKENDS
    }
    try:
        return {name: programs.result(process) for name, process in processes.items()}
    finally:
        for process in processes.values():
            programs.stop(process)
