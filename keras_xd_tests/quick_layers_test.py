"""What is made in less time is what Keras and TensorFlow make."""

import functools
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd_tests import quick_layers

pytestmark = pytest.mark.tensorflow("The backend whose layers they are.")


def variable_of(initial_value, **options):
    with tf.name_scope("outer"), keras.name_scope("inner"), tf.GradientTape() as tape:
        found = tf.Variable(initial_value, dtype="float32", **options)
    assert tape.watched_variables() == ()
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"name": "kernel"},
        {"trainable": False},
        {"name": "state", "aggregation": tf.VariableAggregation.MEAN},
        {"shape": tf.TensorShape((None, 2))},
        {"constraint": tf.abs},
    ],
)
def test_variables_are_those_of_tensorflow(options, monkeypatch):
    def attributes(variable):
        unlike = ("_handle", "_unique_id")
        return {key: x for key, x in vars(variable).items() if key not in unlike}

    found = []
    for make in (quick_layers.MAKE_VARIABLE, quick_layers.make_variable):
        monkeypatch.setattr(quick_layers.ResourceVariable, "_init_from_args", make)
        found.append(variable_of(lambda: np.eye(2), **options))
    expected, variable = found
    assert attributes(variable) == attributes(expected)
    assert variable._unique_id != expected._unique_id
    assert variable.name == expected.name == f"outer/inner/{options.get('name', 'Variable')}:0"
    handles = [v.handle for v in found]
    assert handles[0]._handle_data == handles[1]._handle_data
    assert handles[0]._name == handles[1]._name
    assert handles[1]._parent_trackable() is variable
    expected.assign_add([[1, 1], [1, 1]])
    np.testing.assert_array_equal(variable, np.eye(2))


def test_variables_are_made_out_of_graphs_alone(monkeypatch):
    quick_layers.make_layers_quickly(monkeypatch)
    made = []

    @tf.function
    def step():
        if not made:
            made.append(tf.Variable(lambda: tf.ones(2)))
        return made[0] * 2

    np.testing.assert_array_equal(step(), [2, 2])
    restored = tf.Variable(1.0), tf.Module()
    restored[1].value = tf.Variable(lambda: 2.0)
    np.testing.assert_array_equal(tf.stack([restored[0], restored[1].value]), [1, 2])


class Sized(keras.layers.Layer):
    """A layer with parts, numbers and properties."""

    def __init__(self, size, *, activation=None, **kwargs):
        super().__init__(**kwargs)
        self.size, self.half, self.empty = size, size / 2, None
        self.part = keras.layers.Dense(size, activation)
        self.parts = [keras.layers.Dense(1), 3]
        self.pair, self.sizes = (keras.layers.Dense(2), 1), (size, "same", None)
        self.start, self.function = keras.initializers.Zeros(), keras.ops.sin
        self.mean, self.seeds = keras.metrics.Mean(), keras.random.SeedGenerator(1, name="seeds")
        self.scale = self.add_weight(shape=(size,), initializer="ones", name="scale")

    @property
    def fixed(self):
        """What cannot be set."""
        return 3

    @property
    def both(self):
        """What can be set."""
        return self.size

    @both.setter
    def both(self, value):
        self.size = value


def test_layers_are_those_of_keras(monkeypatch):
    monkeypatch.setattr(keras.Layer, "__setattr__", quick_layers.SET_ATTRIBUTE)
    layers = [Sized(3, activation="relu", name="sized")]
    quick_layers.make_layers_quickly(monkeypatch)
    layers.append(Sized(3, activation="relu", name="sized"))
    for layer in layers:
        layer.fixed = 3  # as it is
        with pytest.raises(AttributeError):
            layer.fixed = 4
        layer.both = 5
        layer.scale = None
    expected, layer = layers
    assert layer.size == 5 and layer.sizes == expected.sizes == (3, "same", None)
    assert len(layer._layers) == len(expected._layers) == 3
    assert len(layer._metrics) == len(layer._seed_generators) == 1
    assert vars(layer).keys() == vars(expected).keys()
    assert layer.get_config() == expected.get_config()
    assert [v.path for v in layer.variables] == [v.path for v in expected.variables]
    children = [list(each._trackable_children()) for each in layers]
    assert children[0] == children[1] and "part" in children[0]


def test_signatures_are_those_of_the_functions():
    found = quick_layers.Inspect("inspect")
    dense = keras.layers.Dense(2)
    half = functools.partial(dense.call, training=True)
    for function in (Sized.__init__, dense.call, half, Sized, len):
        for _ in range(2):
            assert found.signature(function) == inspect.signature(function)
    for function in (Sized.__init__, dense.call):
        assert found.getfullargspec(function) == inspect.getfullargspec(function)
    assert found.Parameter is inspect.Parameter


def test_tracebacks_are_whole(monkeypatch):
    quick_layers.make_layers_quickly(monkeypatch)
    with pytest.raises(ValueError, match="of layer") as error:
        keras.layers.Conv2D(2, 3)(np.ones((2, 3)))
    assert any("traceback_utils" in str(frame.path) for frame in error.traceback)
