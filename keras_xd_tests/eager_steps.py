"""Steps without graphs that take less of the processor, for tests of scripts.

Keras computes an update of Adam by thirty operations for each variable, and makes graphs of the
functions that draw batches whenever a model is fit, is evaluated or predicts. Where steps are few
and small, these take longer than the network.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import optimizer as tensorflow_optimizer
from keras.src.backend.tensorflow import trainer
from keras.src.trainers.data_adapters import array_data_adapter, array_slicing, py_dataset_adapter
from keras.src.trainers.epoch_iterator import EpochIterator
from tensorflow.python.eager import context

from keras_xd.core import tracing


def faster(patch):
    """Let Keras' optimizers and batches do what they do by fewer operations, on TensorFlow.

    Where there is a strategy of distribution or a graph, nothing changes.

    Args:
        patch: pytest's `MonkeyPatch` that undoes it.
    """
    if keras.backend.backend() != "tensorflow":
        return
    for owner, name, function in (
        (keras.optimizers.Adam, "update_step", adam_step),
        (keras.optimizers.SGD, "update_step", gradient_step),
        (tensorflow_optimizer.TFOptimizer, "_backend_update_step", update),
        (tensorflow_optimizer.TFOptimizer, "_apply_weight_decay", decay),
    ):
        patch.setattr(owner, name, _where_eager(function, getattr(owner, name)))
    trace_in_graphs_alone(patch)
    prepare = trainer.TFEpochIterator.__init__

    def prepare_batches(self, distribute_strategy=None, *args, **kwargs):
        EpochIterator.__init__(self, *args, **kwargs)
        self._distribute_strategy = distribute_strategy
        kind = BATCHES.get(type(self.data_adapter))
        if kind is None or tf.distribute.has_strategy() or not kind.suits(self.data_adapter):
            prepare(self, distribute_strategy, *args, **kwargs)
        else:
            self._distributed_dataset = kind(self.data_adapter)

    patch.setattr(trainer.TFEpochIterator, "__init__", prepare_batches)


@pytest.fixture(autouse=True, scope="module")
def faster_steps():
    """Do so in all tests of a folder whose conftest imports this."""
    with pytest.MonkeyPatch.context() as patch:
        faster(patch)
        yield


def trace_in_graphs_alone(patch):
    """Call functions of cells as they are where steps run eagerly: most of them run once."""
    in_xla = tracing._in_xla
    patch.setattr(tracing, "_in_xla", lambda: tf.executing_eagerly() or in_xla())


def _where_eager(function, other):
    def chosen(*arguments):
        eager = tf.executing_eagerly() and not tf.distribute.has_strategy()
        return (function if eager else other)(*arguments)

    chosen.of_keras = other
    return chosen


def update(optimizer, gradients, variables, rate):
    """Update variables one by one."""
    for gradient, variable in zip(gradients, map(_value, variables), strict=True):
        optimizer.update_step(gradient, variable, rate)


def decay(optimizer, variables):
    """Make weights smaller by the rate of this step, which is computed once."""
    if optimizer.weight_decay is None:
        return
    factor = float(optimizer.learning_rate) * optimizer.weight_decay
    for variable in map(_value, variables):
        if optimizer._use_weight_decay(variable):
            variable.assign_sub(variable * tf.cast(factor, variable.dtype))


def adam_step(optimizer, gradient, variable, rate):
    """Update a variable as Adam does, by one operation if its gradient is dense."""
    if optimizer.amsgrad or isinstance(gradient, tf.IndexedSlices):
        keras.optimizers.Adam.update_step.of_keras(optimizer, gradient, variable, rate)
        return
    index, step = optimizer._get_variable_index(variable), int(optimizer.iterations) + 1
    numbers = {"beta1": optimizer.beta_1, "beta2": optimizer.beta_2, "epsilon": optimizer.epsilon}
    numbers |= {f"{name}_power": numbers[name] ** step for name in ("beta1", "beta2")}
    numbers = {name: tf.constant(number, variable.dtype) for name, number in numbers.items()}
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=_value(optimizer._momentums[index]).handle,
        v=_value(optimizer._velocities[index]).handle,
        lr=tf.cast(rate, variable.dtype),
        grad=tf.cast(gradient, variable.dtype),
        **numbers,
    )


def gradient_step(optimizer, gradient, variable, rate):
    """Update a variable as SGD does, by one operation if its gradient is dense."""
    if isinstance(gradient, tf.IndexedSlices):
        keras.optimizers.SGD.update_step.of_keras(optimizer, gradient, variable, rate)
        return
    rate, gradient = tf.cast(rate, variable.dtype), tf.cast(gradient, variable.dtype)
    if not optimizer.momentum:
        tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=gradient)
        return
    tf.raw_ops.ResourceApplyKerasMomentum(
        var=variable.handle,
        accum=_value(optimizer.momentums[optimizer._get_variable_index(variable)]).handle,
        lr=rate,
        grad=gradient,
        momentum=tf.constant(optimizer.momentum, variable.dtype),
        use_nesterov=optimizer.nesterov,
    )


def _value(variable):
    return variable.value if isinstance(variable, keras.Variable) else variable


ARRAYS = (np.ndarray, tf.Tensor)


class ArrayBatches:
    """Batches of arrays; if Keras shuffles them, their orders follow from TensorFlow's seed."""

    def __init__(self, adapter):
        self.adapter, self.epoch = adapter, 0
        inputs = array_slicing.convert_to_sliceable(adapter._inputs, target_backend="tensorflow")
        self.inputs = keras.tree.traverse(_tensor, keras.tree.lists_to_tuples(inputs))

    @staticmethod
    def suits(adapter):
        arrays = keras.tree.flatten(adapter._inputs)
        return adapter._shuffle != "batch" and all(isinstance(x, ARRAYS) for x in arrays)

    def __iter__(self):
        number, size = self.adapter._num_samples, self.adapter._batch_size
        order, seed = np.arange(number), context.global_seed()
        if self.adapter._shuffle:
            rng = np.random.default_rng(None if seed is None else (seed, self.epoch))
            order, self.epoch = rng.permutation(number), self.epoch + 1
        for start in range(0, number, size):
            chosen = order[start : start + size]
            yield keras.tree.traverse(lambda x, chosen=chosen: _rows(x, chosen), self.inputs)


def _tensor(x):
    return None if isinstance(x, (list, tuple, dict)) else tf.convert_to_tensor(x)


def _rows(x, chosen):
    return tf.gather(x, chosen) if tf.is_tensor(x) else None


class SequenceBatches:
    """Batches of a `keras.utils.PyDataset` of a known length."""

    def __init__(self, adapter):
        self.adapter = adapter

    @staticmethod
    def suits(adapter):
        return adapter.enqueuer is None and adapter.py_dataset.num_batches is not None

    def __iter__(self):
        for batch in self.adapter._get_iterator():
            yield keras.tree.map_structure(tf.convert_to_tensor, batch)


BATCHES = {
    array_data_adapter.ArrayDataAdapter: ArrayBatches,
    py_dataset_adapter.PyDatasetAdapter: SequenceBatches,
}
