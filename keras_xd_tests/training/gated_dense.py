"""A searchable layer small enough for many tests of training, and models and data for it."""

import keras
import numpy as np
from keras import ops

from keras_xd.core.searchable import SearchableLayer
from keras_xd.training.search_model import SearchModel


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class GatedDense(SearchableLayer):
    """`x · diag(gates) · kernel + bias`, where the gates are the architecture.

    `traces` counts how often Python runs through `call` in training.
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.traces = 0

    def build(self, input_shape):
        size = input_shape[-1]
        self.gates = self.add_weight(shape=(size,), initializer="ones", name="gates")
        self.kernel = self.add_weight(shape=(size, self.units), name="kernel")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")

    @property
    def architecture_variables(self):
        return [self.gates]

    def call(self, inputs, training=None):
        self.traces += bool(training)
        return ops.matmul(inputs * self.gates, self.kernel) + self.bias

    def complexity(self, input_shape):
        """Counts one column of the kernel for each gate, in proportion to its square."""
        return ops.sum(ops.square(ops.convert_to_tensor(self.gates))) * self.units

    def describe(self):
        return {"gates": ops.convert_to_numpy(self.gates)}

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class Uncounted(keras.layers.Layer):
    """A layer whose multiply–adds nobody knows."""

    def build(self, input_shape):
        self.scale = self.add_weight(shape=input_shape[-1:], name="scale")

    def call(self, inputs):
        return inputs * self.scale


def gated_model(**kwargs):
    """Return a small classifier of 4 features into 3 classes, with batch normalization."""
    return keras.Sequential(
        [
            keras.Input((4,)),
            GatedDense(5, **kwargs),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )


def small_model():
    """Return the smallest such classifier, for tests to which the layers are all the same."""
    return keras.Sequential([keras.Input((4,)), GatedDense(3), keras.layers.Softmax()])


def gated_search(optimizer=None, architecture_optimizer=None, seed=4, **options):
    """Return a compiled search of a single unit, by SGD with momentum."""
    keras.utils.set_random_seed(seed)
    search = SearchModel(keras.Sequential([keras.Input((4,)), GatedDense(1)]))
    given = (optimizer, architecture_optimizer)
    search.compile(
        *(one or keras.optimizers.SGD(0.01, momentum=0.9) for one in given), "mse", **options
    )
    return search


def small_search(optimizer="sgd", architecture_optimizer="sgd", seed=4, **options):
    """Return a compiled search of `small_model`."""
    keras.utils.set_random_seed(seed)
    search = SearchModel(small_model())
    search.compile(optimizer, architecture_optimizer, "sparse_categorical_crossentropy", **options)
    return search


def classification_data(samples=20):
    """Return inputs and integer labels of a learnable problem."""
    generator = np.random.default_rng(3)
    x = generator.normal(size=(samples, 4)).astype("float32")
    return x, np.argmax(x[:, :3] + 0.5 * x[:, 1:], axis=1)
