"""What takes less of the processor does what Keras does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd_tests import eager_steps

pytestmark = pytest.mark.tensorflow("The backend whose steps they are.")


def start():
    """Return a network and samples, the same ones each time."""
    keras.utils.set_random_seed(0)
    embedding = keras.layers.Embedding(4, 2), keras.layers.Flatten()
    model = keras.Sequential([keras.Input((3,)), *embedding, keras.layers.Dense(2)])
    rng = np.random.default_rng(0)
    return model, rng.integers(4, size=(7, 3)), rng.normal(size=(7, 2)).astype("float32")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("AdamW", {"beta_1": 0.8, "epsilon": 1e-3}),
        ("AdamW", {"amsgrad": True}),
        ("SGD", {"weight_decay": 0.01}),
        ("SGD", {"momentum": 0.7}),
        ("SGD", {"momentum": 0.7, "nesterov": True, "weight_decay": 0.01}),
    ],
)
def test_optimizers_do_the_same_steps(kind, options, monkeypatch):
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 8)
    found = []
    for fast in (False, True):
        if fast:
            eager_steps.faster(monkeypatch)
        model, x, y = start()
        optimizer = getattr(keras.optimizers, kind)(schedule, **options)
        optimizer.exclude_from_weight_decay(var_names=["bias"])
        model.compile(optimizer, "mse", run_eagerly=True)
        model.fit(x, y, batch_size=3, epochs=2, shuffle=False, verbose=0)
        assert int(optimizer.iterations) == 6
        found.append(model.get_weights())
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


class Recorder(keras.Model):
    """Notes the first column of the samples of every step."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def train_step(self, data):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        assert tf.is_tensor(x["a"]) and x["a"].dtype == "float32"
        np.testing.assert_array_equal(x["a"][:, 0], y)
        if weights is not None:
            np.testing.assert_array_equal(weights, 2 * y)
        self.seen.append(y.numpy().tolist())
        return {"loss": 0.0}

    def predict_step(self, data):
        return keras.utils.unpack_x_y_sample_weight(data)[0]["a"]


class Pairs(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.begun = 0

    def __len__(self):
        return 2

    def __getitem__(self, index):
        y = np.arange(3.0, dtype="float32") + 3 * index
        return {"a": np.stack([y, y], axis=1)}, y

    def on_epoch_begin(self):
        self.begun += 1


def test_batches_are_those_of_keras(monkeypatch):
    y = np.arange(7.0, dtype="float32")
    x = {"a": np.stack([y, y], axis=1)}
    options = {"batch_size": 3, "epochs": 2, "verbose": 0}
    for fast in (False, True):
        if fast:
            eager_steps.faster(monkeypatch)
        model = Recorder()
        model.compile(run_eagerly=True)
        model.fit(x, y, sample_weight=2 * y, shuffle=False, **options)
        assert model.seen == 2 * [[0, 1, 2], [3, 4, 5], [6]]
        model.seen = []
        model.fit(x, y, **options)
        assert [len(batch) for batch in model.seen] == [3, 3, 1] * 2
        first, second = (sum(model.seen[i : i + 3], []) for i in (0, 3))
        assert sorted(first) == sorted(second) == list(range(7)) != first
        assert not fast or first != second
        model.seen, pairs = [], Pairs()
        model.fit(pairs, epochs=2, shuffle=False, verbose=0)
        assert model.seen == 2 * [[0, 1, 2], [3, 4, 5]] and pairs.begun == 2
        np.testing.assert_array_equal(model.predict(x, batch_size=2, verbose=0), x["a"])


def test_graphs_and_strategies_are_left_alone(monkeypatch):
    eager = []
    monkeypatch.setattr(
        keras.optimizers.Adam, "update_step", lambda *_: eager.append(tf.executing_eagerly())
    )
    eager_steps.faster(monkeypatch)
    model, x, y = start()
    model.compile("adam", "mse", jit_compile=False)
    model.fit(x, y, batch_size=7, verbose=0)
    assert eager and not any(eager)
    with tf.distribute.OneDeviceStrategy("cpu:0").scope():
        model, x, y = start()
        model.compile("adam", "mse", run_eagerly=True)
        before = len(eager)
        model.fit(x, y, batch_size=7, verbose=0)
    assert len(eager) == before + 3
