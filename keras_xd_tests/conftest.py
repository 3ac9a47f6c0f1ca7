"""Settings shared by all tests: quiet one-thread backends, fixed seeds, real data by path."""

import argparse
import fcntl
import functools
import gc
import itertools
import json
import operator as op
import os
import pathlib
import random
import re
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

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context
from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import gen_resource_variable_ops
from tensorflow.python.util import tf_stack

from keras_xd_tests import array_batches, example_scripts

TESTS = pathlib.Path(__file__).parent
FINISHED = itertools.count(1)
LONGEST = ("examples", "quickstart_test.py", "tuner_integration")

# What TensorFlow says where it computes a convolution on the CPU with oneDNN alone.
WITHOUT_ONEDNN = (
    "only supports the NHWC tensor format on the CPU",
    "not yet support dilation rates larger than 1",
    "only supports equal length strides in the row and column dimensions",
)

pytest.register_assert_rewrite("keras_xd_tests.layer_checks")
# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")
# Graphs of tests are small and run a few times, so TensorFlow takes longer to optimize than to run
# them. Tests that start a program of their own optimize graphs, as users do. Without it TensorFlow
# 2.21 crashes on a SavedModel with a table of lookups, which no test has.
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
# The place in the source of every operation of a graph takes a sixth of the time of tracing it, and
# is for messages of errors in graphs alone.
PLACE = tf_stack.extract_stack()
tf_stack.extract_stack = lambda *arguments, **options: PLACE
# TensorFlow compiles every operation that it runs for the first time: half a millisecond, thirty
# times what it takes later. It forgets them whenever a seed is set, and makes another one for each
# name of a variable, which is for messages alone.
FORGET_KERNELS = pywrap_tfe.TFE_ContextClearCaches
MAKE_HANDLE = gen_resource_variable_ops.var_handle_op
pywrap_tfe.TFE_ContextClearCaches = lambda handle: None
gen_resource_variable_ops.var_handle_op = lambda *arguments, debug_name="", **options: MAKE_HANDLE(
    *arguments, **options
)
ArrayDataAdapter.get_tf_dataset = array_batches.batches


class _TensorLike(type):
    """What TensorFlow asks of all that is no tensor, without the slow check of a protocol."""

    def __instancecheck__(cls, value):
        return hasattr(value, "is_tensor_like")


*TENSORS, _ = tensor_util.tf_type_classes
tensor_util.tf_type_classes = (*TENSORS, _TensorLike("IsTensorLike", (), {}))
if keras.backend.backend() == "jax":
    import jax
if keras.backend.backend() == "torch":
    import torch

    def _as_array(tensor, dtype=None, copy=None):
        """Return the values of a tensor, for the tests that read outputs with `np.array`."""
        return np.array(tensor.detach().cpu().numpy(), dtype)

    def _as_it_is(tensor, array, context=None, return_scalar=False):
        """Return what NumPy computes of a tensor as NumPy's own, such as `np.abs(tensor)`."""
        return array[()] if return_scalar else array

    torch.Tensor.__array__ = _as_array
    torch.Tensor.__array_priority__ = -1  # NumPy computes what has an array and a tensor
    torch.Tensor.__array_wrap__ = _as_it_is


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


def pytest_collection_modifyitems(config, items):
    """Leave out other parts than the one asked for.

    Skip what a backend cannot run, by name and with the reason.

    Run the folders with the longest tests first, so that no worker ends with one of them.
    """
    if config.getoption("--part"):
        inside = [_in_part(item.path, *config.getoption("--part")) for item in items]
        config.hook.pytest_deselected(items=list(itertools.compress(items, map(op.not_, inside))))
        items[:] = itertools.compress(items, inside)
    reasons = _unsupported(keras.backend.backend())
    for item in items:
        name = item.nodeid.partition("keras_xd_tests/")[2]
        reason = reasons.get(name) or reasons.get(name.partition("[")[0])
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"not on {keras.backend.backend()}: {reason}"))
    items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0] not in LONGEST)


def pytest_collection_finish():
    """Spare the garbage collector all modules and tests: KerasTuner runs it for every model."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish():
    """Spare it what outlives the tests, too, which makes the last tests slower than the first.

    The kernels of functions that are gone are forgotten then, too.
    """
    if next(FINISHED) % 100 == 0:
        gc.collect()
        gc.freeze()
        if context.context()._context_handle is not None:  # not in the process that reports
            FORGET_KERNELS(context.context()._context_handle)
        if keras.backend.backend() == "jax":
            jax.clear_caches()  # of programs, which grow to gigabytes


def pytest_runtest_setup(item):
    marker = item.get_closest_marker("tensorflow")
    if marker is not None and keras.backend.backend() != "tensorflow":
        pytest.skip(f"TensorFlow alone: {marker.args[0]}")
    marker = item.get_closest_marker("real_data")
    if marker is not None:
        missing = _missing_data(*marker.args)
        if missing:
            pytest.skip(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip, with the reason, what TensorFlow cannot compute on this processor.

    It leaves oneDNN off on some, and has no other kernels for convolutions with channels first,
    for dilated transposed ones, and for depthwise ones of unequal strides, also in Keras' layers.
    """
    try:
        return (yield)
    except Exception as error:
        rules = [rule for rule in WITHOUT_ONEDNN if rule in str(error)]
        if not rules or _has_onednn():
            raise
        pytest.skip(f"TensorFlow without oneDNN, as on this processor: {rules[0]}")


def _unsupported(backend):
    """Return the reason of each test that a backend cannot run, by its name.

    They are those of data/unsupported.json: for each backend and reason names as pytest has them,
    below this folder, without brackets for all cases of a function.
    """
    listed = json.loads((TESTS / "data" / "unsupported.json").read_text(encoding="utf-8"))
    return {name: reason for reason, names in listed.get(backend, {}).items() for name in names}


@functools.cache
def _has_onednn():
    one = tf.ones((1, 1, 1, 1))
    try:
        tf.nn.conv2d(one, one, 1, "SAME", data_format="NCHW")
    except tf.errors.UnimplementedError:
        return False
    return True


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


@pytest.fixture(autouse=True)
def fixed_seed(monkeypatch):
    """Seed Python and NumPy before every test, TensorFlow before the first use of its generator.

    Seeding TensorFlow clears its cache of kernels, which takes a seventh of the time of tests of
    layers. Layers draw their seeds from Python; samples are shuffled by TensorFlow. A test that
    sets other seeds keeps them.
    """
    random.seed(20)
    np.random.seed(20)
    set_seed, shuffles = tf.random.set_seed, ((keras.Model, "fit"), (tf.data.Dataset, "shuffle"))
    originals = [(tf.random, "set_seed", set_seed)]
    originals += [(owner, name, getattr(owner, name)) for owner, name in shuffles]

    def seed_once(seed):
        for original in originals:
            monkeypatch.setattr(*original)
        set_seed(seed)

    def seeded(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            seed_once(20)
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(tf.random, "set_seed", seed_once)
    for owner, name, function in originals[1:]:
        monkeypatch.setattr(owner, name, seeded(function))


@pytest.fixture
def eager(monkeypatch):
    """Run Keras' functions eagerly, as `example_scripts.run_eagerly` says."""
    example_scripts.run_eagerly(monkeypatch)


@pytest.fixture
def blank_pictures(monkeypatch):
    """Write pictures with nothing on them, as `example_scripts.blank_pictures` says."""
    example_scripts.blank_pictures(monkeypatch)


@pytest.fixture
def rng():
    """A NumPy generator with a fixed seed."""
    return np.random.default_rng(20)
