"""Batches of small arrays without the functions that Keras traces for every dataset of them.

To trace them takes longer than most trainings in the tests.
"""

import numpy as np
import tensorflow as tf
from keras.src import tree
from keras.src.trainers.data_adapters import array_slicing
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

OF_KERAS = ArrayDataAdapter.get_tf_dataset


def batches(adapter):
    """Return the dataset of Keras' adapter of arrays.

    Samples are shuffled by `tf.data.Dataset.shuffle`, another order from the same seed.
    """
    inputs = array_slicing.convert_to_sliceable(adapter._inputs, target_backend="tensorflow")
    inputs = tree.lists_to_tuples(inputs)
    arrays = all(isinstance(leaf, (np.ndarray, tf.Tensor)) for leaf in tree.flatten(inputs))
    if adapter._shuffle == "batch" or not arrays:
        return OF_KERAS(adapter)
    dataset = tf.data.Dataset.from_tensor_slices(inputs)
    if adapter._shuffle:
        dataset = dataset.shuffle(adapter._num_samples)
    whole = not adapter._partial_batch_size
    dataset = dataset.batch(adapter._batch_size, drop_remainder=whole)
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)
