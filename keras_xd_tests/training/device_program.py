"""A search on one device, two devices or two workers, for `backend_results_program`.

One and two devices are those of TensorFlow and JAX, workers have TensorFlow.
"""

import contextlib
import functools
import json
import os
import signal

import keras
import numpy as np

import keras_xd
from keras_xd.core.searchable import architecture_variables
from keras_xd.layers import XDConv1D
from keras_xd.training.callbacks import training_state
from keras_xd.training.search_model import SearchModel
from keras_xd_tests import programs
from keras_xd_tests.training.gated_dense import GatedDense

MODES = ("joint", "second_order")
# Workers share the mode with two streams of data; two devices have both.
MODES_OF_WORKERS = ("second_order",)


@functools.cache
def make_strategy(kind):
    """Return a strategy, one for all of a process: collective operations of two would be mixed."""
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
    # One with the layer that takes longest to trace is enough.
    operations = [XDConv1D(2, 3, padding="circular")] if mode == "joint" else []
    model = keras.Sequential(
        [
            keras.Input((6, 1)),
            *operations,
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
    """Kills the process in the middle of the third epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 0 and self.model.search_optimizer.epochs == 2:
            os.kill(os.getpid(), signal.SIGKILL)


class Watch(keras.callbacks.Callback):
    """Notes the architecture before the first epoch and after each."""

    def on_train_begin(self, logs=None):
        self.architectures = []
        self.on_epoch_end(None)

    def on_epoch_end(self, epoch, logs=None):
        training_state.synchronize(self.model)
        values = map(keras.ops.convert_to_numpy, architecture_variables(self.model))
        self.architectures.append(np.concatenate([np.ravel(value) for value in values]).tolist())


def joint_callbacks():
    """Return callbacks that read and change the state of training; all start anew in the middle."""
    return [
        keras_xd.callbacks.WarmRestarts(2, learning_rate=0.05, seed=5),
        keras_xd.callbacks.CollapseGuard(),
        keras_xd.callbacks.TerminateOnNonFinite(),
    ]


def values_of(strategy, variable):
    """Return the values of a variable on each of this process' devices."""
    if strategy:
        parts = strategy.experimental_local_results(variable.value)
    elif keras.backend.backend() == "jax":
        parts = [shard.data for shard in variable.value.addressable_shards]
    else:
        parts = [variable.value]
    return [np.ravel(keras.ops.convert_to_numpy(part)).tolist() for part in parts]


def run(mode, strategy, backup=None, dies=False):
    generator = np.random.default_rng(3)
    x = generator.normal(size=(24, 6, 1)).astype("float32")
    y = np.argmax(x[:, :3, 0], axis=1)
    with strategy.scope() if strategy else keras.name_scope("one"):
        search = make_search(mode)
    watch = Watch()
    held_out = {} if mode == "joint" else {"architecture_validation_data": (x[16:], y[16:])}
    history = keras_xd.distributed.fit(
        search,
        x[:16],
        y[:16],
        backup_dir=backup and backup / mode,
        validation_data=(x[:8], y[:8]) if mode == "joint" else None,
        callbacks=[Die() if dies else watch, *(joint_callbacks() if mode == "joint" else [])],
        batch_size=8,
        epochs=4,
        shuffle=False,
        verbose=0,
        **held_out,
    )
    variables = [*search.model.variables, *search.optimizer.variables]
    return {
        "history": history.history,
        "architectures": watch.architectures,
        "iterations": int(search.search_optimizer.architecture_optimizer.iterations.numpy()),
        "all": [values_of(strategy, v) for v in variables],
    }


def run_all(kind, *options, modes=MODES):
    """Return what comes of `one` device, two `mirrored` (TensorFlow) or `data_parallel` ones (JAX).

    There must be two devices for the latter, and JAX keeps both from then on.
    """
    strategy = make_strategy(kind)
    replicas = strategy.num_replicas_in_sync if strategy else 1
    return {"replicas": replicas, **{mode: run(mode, strategy, *options) for mode in modes}}


def be_worker(index, folder, dies):
    found = run_all("workers", folder, dies, modes=MODES_OF_WORKERS)
    (folder / f"worker_{index}.json").write_text(json.dumps(found))


def start_workers(folder, dies):
    """Start two workers, the second of which dies if told so."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in programs.free_ports(2)]}
    tasks = [{"type": "worker", "index": index} for index in range(2)]
    configs = [json.dumps({"cluster": cluster, "task": task}) for task in tasks]
    return [
        programs.fork(be_worker, index, folder, dies and index == 1, TF_CONFIG=config)
        for index, config in enumerate(configs)
    ]


def run_workers(folder):
    """Run two workers with backups in a folder, which is made; write what came of it to found.json.

    The second is killed in the third epoch; then two go on. Only in a process in which TensorFlow
    has computed nothing.
    """
    folder.mkdir()
    first, second = start_workers(folder, dies=True)
    killed = programs.wait(second)
    # Without the second, the first fails, or waits for it.
    with contextlib.suppress(ProcessLookupError):
        os.kill(first, signal.SIGKILL)
    failed = programs.wait(first)
    left = {
        path.parent.name: json.loads(path.read_text())["next_epoch"]
        for path in folder.glob("*/latest.json")
    }
    statuses = [programs.wait(process) for process in start_workers(folder, dies=False)]
    found = [json.loads((folder / f"worker_{index}.json").read_text()) for index in range(2)]
    result = {"killed": killed, "failed": failed, "left": left, "statuses": statuses}
    (folder / "found.json").write_text(json.dumps({**result, "found": found}))
