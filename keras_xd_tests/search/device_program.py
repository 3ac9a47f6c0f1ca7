"""A search on one device, two devices or as one of two workers; prints what it came to as JSON.

`python -m keras_xd_tests.search.device_program KINDS MODES [--backup FOLDER] [--die EPOCH]`, with
KINDS one, mirrored, workers, data_parallel, or several of them joined by commas, one after the
other. Workers are told apart by `TF_CONFIG`.
"""

import argparse
import json
import os
import signal

import keras
import numpy as np

import keras_xd
from keras_xd.layers import XDConv1D
from keras_xd.search import SearchModel
from keras_xd_tests.search.gated_dense import GatedDense

parser = argparse.ArgumentParser()
parser.add_argument("kinds")
parser.add_argument("modes", nargs="+")
parser.add_argument("--backup")
parser.add_argument("--die", type=int)
given = parser.parse_args()


def split_cpu():
    """Make two devices of TensorFlow's only one, which is possible before it has computed."""
    import tensorflow as tf

    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)


def make_strategy(kind):
    if keras.backend.backend() != "tensorflow":
        if kind == "data_parallel":
            keras.distribution.set_distribution(keras.distribution.DataParallel())
        return None
    import tensorflow as tf

    if kind == "mirrored":
        return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    if kind == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.get_strategy()


def make_search(mode):
    keras.utils.set_random_seed(4)
    model = keras.Sequential(
        [
            keras.Input((6, 1)),
            XDConv1D(2, 3, padding="circular"),
            keras.layers.BatchNormalization(synchronized=keras.backend.backend() == "tensorflow"),
            keras.layers.Flatten(),
            GatedDense(3),
            keras.layers.Softmax(),
        ]
    )
    generator = np.random.default_rng(4)
    for variable in model.trainable_variables:
        start = keras.ops.convert_to_numpy(variable)
        variable.assign(start + 0.3 * generator.normal(size=variable.shape))
    search = SearchModel(model)
    search.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        keras.optimizers.Adam(0.01),
        "sparse_categorical_crossentropy",
        mode=mode,
        warmup_epochs=1 if mode == "joint" else 0,
        complexity_target=100.0,
        complexity_weight=0.1,
    )
    return search


class Die(keras.callbacks.Callback):
    """Kills the process in the middle of an epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 0 and self.model.search_optimizer.epochs == given.die:
            os.kill(os.getpid(), signal.SIGKILL)


def values_of(strategy, variable):
    """Return the values of a variable on each of this process' devices."""
    if strategy:
        parts = strategy.experimental_local_results(variable.value)
    elif keras.backend.backend() == "jax":
        parts = [shard.data for shard in variable.value.addressable_shards]
    else:
        parts = [variable.value]
    return [np.ravel(keras.ops.convert_to_numpy(part)).tolist() for part in parts]


def run(mode, strategy):
    generator = np.random.default_rng(3)
    x = generator.normal(size=(24, 6, 1)).astype("float32")
    y = np.argmax(x[:, :3, 0], axis=1)
    with strategy.scope() if strategy else keras.name_scope("one"):
        search = make_search(mode)
    held_out = {} if mode == "joint" else {"architecture_data": (x[16:], y[16:])}
    history = keras_xd.distributed.fit(
        search,
        x[:16],
        y[:16],
        backup_dir=given.backup and os.path.join(given.backup, mode),
        validation_data=(x[:8], y[:8]) if mode == "second_order" else None,
        callbacks=[Die()] if given.die is not None else None,
        batch_size=8,
        epochs=4,
        shuffle=False,
        verbose=0,
        **held_out,
    )
    variables = [*search.model.variables, *search.optimizer.variables]
    return {
        "history": history.history,
        "all": [values_of(strategy, v) for v in variables],
    }


if __name__ == "__main__":
    if "mirrored" in given.kinds:
        split_cpu()
    results = {}
    for kind in given.kinds.split(","):
        strategy = make_strategy(kind)
        replicas = strategy.num_replicas_in_sync if strategy else 1
        found = {mode: run(mode, strategy) for mode in given.modes}
        results[kind] = {"replicas": replicas, **found}
    print("RESULT " + json.dumps(results))
