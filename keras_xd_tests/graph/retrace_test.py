import keras
import numpy as np

from keras_xd.graph.retrace import force_retrace


class Factor(keras.layers.Layer):
    """Multiplies by a Python number, which is read while a function is traced."""

    factor = 1.0

    def call(self, inputs):
        return inputs * self.factor


def test_functions_see_what_changed_after_they_were_traced():
    layer = Factor()
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile("sgd", "mse")
    x, y = np.ones((2, 1)), np.zeros((2, 1))
    model.predict(x, verbose=0), model.evaluate(x, y, verbose=0)
    layer.factor = 3.0
    assert model.predict(x, verbose=0)[0, 0] == 1
    force_retrace([layer, model])
    assert model.predict(x, verbose=0)[0, 0] == 3
    assert model.evaluate(x, y, verbose=0) == 9
