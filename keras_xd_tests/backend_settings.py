"""How tests run Keras and its backend: seeded, and without what costs more than it gives.

`conftest` loads it where tests run, so not in a process that hands them to others.
"""

import functools
import gc
import itertools
import random

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import numpy as tensorflow_numpy
from keras.src.backend.tensorflow import random as tensorflow_random
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context
from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import array_ops_stack, gen_array_ops, gen_resource_variable_ops
from tensorflow.python.ops import gen_stateless_random_ops_v2 as gen_random
from tensorflow.python.util import tf_stack

from keras_xd_tests import array_batches, example_scripts, quick_layers

FINISHED = itertools.count(1)
gc.set_threshold(20_000, 20, 50)  # by default it looks for cycles after every 700 new objects

# What TensorFlow says where it computes a convolution on the CPU with oneDNN alone.
WITHOUT_ONEDNN = (
    "only supports the NHWC tensor format on the CPU",
    "not yet support dilation rates larger than 1",
    "only supports equal length strides in the row and column dimensions",
)

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
quick_layers.make_layers_quickly(pytest.MonkeyPatch())  # for the whole session


class _TensorLike(type):
    """What TensorFlow asks of all that is no tensor, without the slow check of a protocol."""

    def __instancecheck__(cls, value):
        return hasattr(value, "is_tensor_like")


*TENSORS, _ = tensor_util.tf_type_classes
tensor_util.tf_type_classes = (*TENSORS, _TensorLike("IsTensorLike", (), {}))

# Shapes, orders of axes and ends of slices as tensors that are made once: with numbers of Python
# TensorFlow takes four times as long for an operation that is not in a graph.
CONSTANT = functools.lru_cache(4096)(tf.constant)
RESHAPE, TRANSPOSE, STACK = gen_array_ops.reshape, gen_array_ops.transpose, array_ops_stack.stack


def _constant(numbers):
    plain = type(numbers) in (tuple, list) and numbers and all(type(n) is int for n in numbers)
    return CONSTANT(tuple(numbers)) if plain and tf.executing_eagerly() else numbers


def _stack(values, axis=0, name="stack"):
    constant = values if axis else _constant(values)
    return STACK(values, axis, name) if constant is values else constant


gen_array_ops.reshape = lambda tensor, shape, name=None: RESHAPE(tensor, _constant(shape), name)
gen_array_ops.transpose = lambda x, perm, name=None: TRANSPOSE(x, _constant(perm), name)
array_ops_stack.stack = _stack

# Random weights by half as many operations: the same numbers.
UNIFORM = tensorflow_random.uniform
SEEDS, PHILOX = tf.int32.max - 1, tf.constant(1)


def _uniform(shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
    plain = type(seed) is int and type(shape) is tuple and dtype == "float32"
    if not plain or not tf.executing_eagerly():
        return UNIFORM(shape, minval, maxval, dtype, seed)
    seed = tf.constant([seed % SEEDS, 0], tf.int32)
    key, counter = gen_random.stateless_random_get_key_counter(seed)
    shape = _constant(shape) if shape else np.zeros(0, "int32")
    numbers = gen_random.stateless_random_uniform_v2(shape, key, counter, PHILOX)
    least, most = np.float32(minval), np.float32(maxval)
    return tf.constant(numbers.numpy() * (most - least) + least)


tensorflow_random.uniform = _uniform


def _once(function):
    """Return a function of a shape and type that makes the same tensor once, if not in a graph."""
    once = functools.lru_cache(1024)(function)

    def made(shape, dtype=None):
        plain = type(shape) is tuple and isinstance(dtype, str) and tf.executing_eagerly()
        return (once if plain else function)(shape, dtype)

    return made


tensorflow_numpy.zeros, tensorflow_numpy.ones = map(
    _once, (tensorflow_numpy.zeros, tensorflow_numpy.ones)
)

# Where an optimizer makes its variables within a graph, TensorFlow traces that again without them.
MAKE_TRAIN_FUNCTION = TensorFlowTrainer.make_train_function


def _make_train_function(model, force=False):
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and model.built and not (optimizer.built or model.run_eagerly):
        optimizer.build(model.trainable_variables)
    return MAKE_TRAIN_FUNCTION(model, force)


TensorFlowTrainer.make_train_function = _make_train_function
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
        if context.context()._context_handle is not None:
            FORGET_KERNELS(context.context()._context_handle)
        if keras.backend.backend() == "jax":
            jax.clear_caches()  # of programs, which grow to gigabytes


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


@functools.cache
def _has_onednn():
    one = tf.ones((1, 1, 1, 1))
    try:
        tf.nn.conv2d(one, one, 1, "SAME", data_format="NCHW")
    except tf.errors.UnimplementedError:
        return False
    return True


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
