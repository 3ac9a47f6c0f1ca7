"""Searches on several devices and workers, and searches that were killed.

Those marked `backends` run in other processes, which set their devices up before use.
"""

import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd.training import distributed
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.device_program import MODES, MODES_OF_WORKERS
from keras_xd_tests.training.gated_dense import classification_data, small_model

FIT = {"batch_size": 4, "shuffle": False, "verbose": 0}


def search_model(mode="joint", seed=4):
    keras.utils.set_random_seed(seed)
    search = SearchModel(small_model())
    optimizers = keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.Adam(0.01)
    options = {"mode": mode, "warmup_epochs": 1}
    search.compile(*optimizers, "sparse_categorical_crossentropy", **options)
    return search


def values(search):
    return [variable.numpy() for variable in [*search.model.variables, *search.optimizer.variables]]


class Stop(keras.callbacks.Callback):
    """Ends training in the middle of an epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if self.model.search_optimizer.epochs == 1:
            raise KeyboardInterrupt


def resume(train):
    """Stop training in its second epoch, then train again; return search and history."""
    with pytest.raises(KeyboardInterrupt):
        train(search_model("first_order"), [Stop()])
    resumed = search_model("first_order", seed=5)
    return resumed, train(resumed, None)


def test_stopped_training_goes_on_to_the_bit(tmp_path):
    x, y = classification_data(16)
    data = {"x": x, "y": y, "architecture_validation_split": 0.5, "epochs": 2, **FIT}

    def ours(search, callbacks):
        options = {"backup_dir": tmp_path / "ours", "callbacks": callbacks}
        return distributed.fit(search, **data, **options)

    def keras_backup(search, callbacks):
        backup = keras.callbacks.BackupAndRestore(tmp_path / "keras")
        return search.fit(**data, callbacks=[backup, *(callbacks or [])])

    whole = search_model("first_order")
    expected = whole.fit(**data).history
    resumed, history = resume(ours)
    assert history.history == expected and history.epoch == [0, 1]
    for one, other in zip(values(resumed), values(whole), strict=True):
        np.testing.assert_array_equal(one, other)
    # Training that is complete stays so.
    assert ours(resumed, None).history == expected
    for one, other in zip(values(resumed), values(whole), strict=True):
        np.testing.assert_array_equal(one, other)
    resumed, history = resume(keras_backup)
    assert history.history == {name: losses[1:] for name, losses in expected.items()}
    for one, other in zip(values(resumed), values(whole), strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_the_last_whole_backup_is_kept_and_read(tmp_path):
    x, y = classification_data(8)
    distributed.fit(search_model(), x, y, backup_dir=tmp_path, epochs=2, **FIT)
    assert {path.name for path in tmp_path.iterdir()} == {"latest.json", "epoch_2.weights.h5"}
    # What a kill leaves of a later one.
    (tmp_path / "unfinished.weights.h5").write_bytes(b"half")
    (tmp_path / "epoch_3.weights.h5").write_bytes(b"not yet on record")
    history = distributed.fit(search_model(), x, y, backup_dir=tmp_path, epochs=3, **FIT)
    expected = search_model().fit(x, y, epochs=3, **FIT).history
    assert history.history == expected
    assert "epoch_2.weights.h5" not in {path.name for path in tmp_path.iterdir()}


class TwoWorkers:
    """A strategy of two workers as far as the rules about data go."""

    class cluster_resolver:
        task_type, task_id = "worker", 1

        @staticmethod
        def cluster_spec():
            return tf.train.ClusterSpec({"worker": ["a:1", "b:1"]})


def test_several_workers_do_not_shuffle_arrays(monkeypatch):
    x, y = classification_data(8)
    search = search_model()
    monkeypatch.setattr(SearchModel, "distribute_strategy", TwoWorkers())
    with pytest.raises(ValueError, match="same order.*shuffle=True, data of types.*ndarray"):
        search.fit(x, y)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    with pytest.raises(ValueError, match=r"same order.*\['tuple'\]"):
        distributed.check_order(search, (dataset, (x, y)), True)
    distributed.check_order(search, (dataset, None), True)
    distributed.check_order(search, (x, (x, y)), False)


def assert_equal_but_for_rounding(found, expected, devices, modes=MODES):
    for mode in modes:
        ours, theirs = found[mode], expected[mode]
        assert ours["history"].keys() == theirs["history"].keys()
        for name, losses in theirs["history"].items():
            np.testing.assert_allclose(ours["history"][name], losses, rtol=1e-5)
        for parts, (value,) in zip(ours["all"], theirs["all"], strict=True):
            assert len(parts) == devices
            for part in parts:
                assert part == parts[0]
                np.testing.assert_allclose(part, value, rtol=1e-4, atol=1e-5)


@pytest.mark.backends
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_two_devices_train_as_one(backend, on_backends):
    devices = on_backends[backend]["devices"]
    if backend == "tensorflow":
        assert (devices["one"]["replicas"], devices["two"]["replicas"]) == (1, 2)
    assert_equal_but_for_rounding(devices["two"], devices["one"], 2)
    for found in devices.values():
        start, *architectures = found["joint"]["architectures"]
        assert architectures[0] == start != architectures[1]  # the first epoch is warm-up
        np.testing.assert_allclose(
            [start, *architectures], devices["one"]["joint"]["architectures"], rtol=1e-4, atol=1e-6
        )
        assert found["joint"]["iterations"] == 6  # of two in each other epoch
        assert found["joint"]["history"]["restarts"] == [0, 0, 1, 1]


@pytest.mark.backends
def test_two_workers_train_as_one_also_after_one_was_killed(on_backends):
    """The second kills itself in the third epoch; the first cannot go on without it."""
    workers = on_backends["tensorflow"]["workers"]
    assert workers["killed"] == -signal.SIGKILL and workers["failed"] != 0
    assert workers["left"] == {"second_order": 2}
    assert workers["statuses"] == [0, 0]
    found = workers["found"]
    assert found[0] == found[1] and found[0]["replicas"] == 2
    one = on_backends["tensorflow"]["devices"]["one"]
    assert_equal_but_for_rounding(found[0], one, 1, MODES_OF_WORKERS)
