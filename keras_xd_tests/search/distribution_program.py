"""A search on one device and on two, in a process of its own: devices are set up before use.

`python -m keras_xd_tests.search.distribution_program`
"""

import json

import keras
import numpy as np
import tensorflow as tf

import keras_xd
from keras_xd.core.searchable import architecture_variables
from keras_xd.search import SearchModel
from keras_xd_tests.search.gated_dense import GatedDense, classification_data


def train(strategy, **options):
    keras.utils.set_random_seed(4)
    with strategy.scope():
        search = SearchModel(
            keras.Sequential(
                [keras.Input((4,)), GatedDense(5), keras.layers.Dense(3, activation="softmax")]
            )
        )
        search.compile(
            keras.optimizers.Adam(0.01),
            keras.optimizers.SGD(0.05, momentum=0.9),
            "sparse_categorical_crossentropy",
            warmup_epochs=1,
            complexity_target=10.0,
            complexity_weight=0.1,
            jit_compile=False,
            **options,
        )
    x, y = classification_data(16)
    gates = architecture_variables(search)[0]
    fit = {"batch_size": 8, "shuffle": False, "verbose": 0}
    logs = search.fit(x, y, **fit).history
    warm = gates.numpy().tolist()
    # Weights start from scratch with the second of these epochs.
    callbacks = [
        keras_xd.callbacks.WarmRestarts(2, learning_rate=0.01, seed=5),
        keras_xd.callbacks.CollapseGuard(),
        keras_xd.callbacks.TerminateOnNonFinite(),
    ]
    later = search.fit(x, y, epochs=2, callbacks=callbacks, **fit).history
    iterations = search.search_optimizer.architecture_optimizer.iterations
    return {
        "replicas": strategy.num_replicas_in_sync,
        "loss": logs["loss"] + later["loss"],
        "complexity": logs["complexity"] + later["complexity"],
        "restarts": later["restarts"],
        "weights": [np.ravel(v.numpy()).tolist() for v in search.model.trainable_variables],
        "warm": warm,
        "gates": gates.numpy().tolist(),
        "iterations": int(iterations.numpy()),
    }


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    one = train(tf.distribute.get_strategy(), run_eagerly=True)
    two = train(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    print("RESULT " + json.dumps([one, two]))


if __name__ == "__main__":
    main()
