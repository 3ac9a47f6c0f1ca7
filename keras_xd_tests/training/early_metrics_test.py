import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests.training.gated_dense import GatedDense


class Counted(keras.layers.Layer):
    """Counts how often it is traced."""

    traces = 0

    def call(self, inputs):
        type(self).traces += 1
        return inputs


def search(metrics, **options):
    result = keras_xd.SearchModel(keras.Sequential([keras.Input((6,)), Counted(), GatedDense(3)]))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    result.compile("sgd", "sgd", loss, metrics=metrics, **options)
    Counted.traces = 0
    return result


def data():
    return np.random.default_rng(0).normal(size=(8, 6)), np.arange(8) % 3


pytestmark = pytest.mark.tensorflow("traces again for new variables")


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_step_is_traced_once(jit_compile):
    model = search(["accuracy"], weighted_metrics=["accuracy"], jit_compile=jit_compile)
    model.fit(*data(), batch_size=4, epochs=2, verbose=0)
    assert Counted.traces == 1
    model.compile("sgd", "sgd", model.loss, metrics=["accuracy"])
    model.train_on_batch(*data())
    assert Counted.traces == 2


def test_metrics_begin_at_zero():
    model = search(["accuracy"])
    x, y = data()
    weights = model.get_weights()
    found = model.fit(x, y, batch_size=4, verbose=0, shuffle=False).history["accuracy"]
    model.set_weights(weights)
    model.reset_metrics()
    again = model.fit(x, y, batch_size=4, verbose=0, shuffle=False).history["accuracy"]
    assert found == again
    expected = model.evaluate(x, y, batch_size=8, verbose=0)[1]
    assert expected == np.mean(model.predict(x, verbose=0).argmax(axis=-1) == y)
