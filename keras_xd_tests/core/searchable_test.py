"""The protocol's walk through models, and the model-level functions."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd import visualization
from keras_xd.core import searchable
from keras_xd.core.searchable import SearchableLayer
from keras_xd.layers.xd.conv import XDConv1D, XDConv2D
from keras_xd.training.search_model import SearchModel
from keras_xd.visualization.operators import operator_matrix
from keras_xd_tests.training.gated_dense import GatedDense, classification_data, gated_model


class Holder(layers.Layer):
    """Holds layers in every kind of container, some of them cyclic or shared."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attribute = GatedDense(4, name="attribute")
        self.list = [GatedDense(4, name="list"), [GatedDense(4, name="list_in_list")]]
        self.tuple = (GatedDense(4, name="tuple"), self.attribute)
        self.dictionary = {"a": GatedDense(4, name="dictionary"), "b": {"c": 1}}
        self.wrapped = layers.TimeDistributed(GatedDense(4, name="wrapped"))

    def call(self, x):
        for layer in (*self.list[:1], *self.list[1], *self.tuple, self.dictionary["a"]):
            x = layer(x)
        return self.wrapped(x)


INSIDE = {"attribute", "list", "list_in_list", "tuple", "dictionary", "wrapped"}


def nested_model():
    """Two searchable layers of one name, one of them called twice in a model called twice."""
    inside = keras.Input((4,))
    gate = GatedDense(4, name="gate")
    block = keras.Model(inside, gate(gate(inside)), name="block")
    inputs = keras.Input((4,), name="x")
    outputs = GatedDense(3, name="gate")(block(block(inputs)))
    return keras.Model(inputs, outputs, name="nested")


def test_walk_reaches_every_container():
    holder = Holder()
    holder(np.ones((2, 3, 4)))
    found = searchable.searchable_layers(holder)
    assert sorted(layer.name for layer in found) == sorted(INSIDE)
    assert len(searchable.architecture_variables(holder)) == len(INSIDE)


def test_walk_ends_in_cycles():
    class Cyclic(layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = GatedDense(2, name="inner")
            self.inner.owner = [self]
            loop = {"layer": self.inner}
            loop["loop"] = loop
            self.set_loop = lambda: loop
            vars(self)["loop"] = loop  # past Keras' tracking, which would not end

    assert [type(x) for x in searchable.flatten_layers(Cyclic())][1:] == [GatedDense]


def test_paths_are_those_of_nested_models():
    paths = [path for path, _ in searchable.named_layers(nested_model())]
    inside = [path for path in paths if path.startswith("block/input")]
    assert paths == ["", "x", "block", *inside, "block/gate", "gate"]
    sequential = keras.Sequential([keras.Input((4,)), nested_model()])
    assert "nested/block/gate" in dict(searchable.named_layers(sequential))


def test_variables_are_divided_into_two_groups():
    model = nested_model()
    architecture = searchable.architecture_variables(model)
    weights = searchable.model_variables(model)
    assert [v.path.split("/")[-1] for v in architecture] == ["gates"] * 2
    ids = [id(v) for v in architecture + weights]
    assert sorted(ids) == sorted(id(v) for v in model.trainable_variables)


def test_protocol_must_be_implemented():
    layer = SearchableLayer()
    for use in (
        lambda: layer.architecture_variables,
        lambda: layer.complexity((None, 1)),
        layer.finalize,
        layer.describe,
    ):
        with pytest.raises(TypeError, match="SearchableLayer must implement"):
            use()


def test_describe_is_keyed_by_path():
    inside = keras.Input((6, 2))
    block = keras.Model(inside, XDConv1D(2, 3, padding="same", name="conv")(inside), name="block")
    inputs = keras.Input((6, 2))
    model = keras.Model(inputs, XDConv1D(2, 3, name="conv")(block(block(inputs))))
    told = searchable.describe(model)
    assert list(told) == ["block/conv", "conv"]
    assert told["conv"]["distance_from_start/K"] == 0.0
    assert list(searchable.describe(SearchModel(model))) == list(told)
    assert list(searchable.describe(model.get_layer("conv"))) == ["conv"]


READERS = {
    "describe": keras_xd.describe,
    "nearest of a model": keras_xd.nearest_operation,
    "nearest": lambda model: keras_xd.nearest_operation(model.layers[0]),
    "distance": lambda model: keras_xd.operation_distance(model.layers[0], "convolution", "fitted"),
    "save_architecture": lambda model: keras_xd.save_architecture(model, "nowhere.npz"),
    "resize": lambda model: keras_xd.resize(model, (12, 1)),
    "compare": lambda model: keras_xd.compare(model, model, np.ones((1, 9, 1))),
    "operator_matrix": lambda model: operator_matrix(model.layers[0]),
    "plot_operators": lambda model: visualization.plot_operators(model.layers[0]),
    **{
        f"finalize {options}": lambda model, options=options: keras_xd.finalize(model, **options)
        for options in (
            *({"form": form} for form in ("spectrum", "kernel", "auto", "low_rank")),
            {"snap": 0.05},
            {"weight_dtype": "float16"},
        )
    },
}


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("reader", READERS)
def test_what_reads_an_architecture_names_the_layers_that_have_diverged(reader, value):
    convolution = XDConv1D(2, 3, padding="circular", name="conv")
    model = keras.Sequential([keras.Input((9, 1)), convolution])
    for weight in (*convolution.architecture_variables[:1], convolution.kernel):
        spoilt = weight.numpy().copy()
        spoilt.flat[1] = value
        weight.assign(spoilt)
    names = "K0" if reader == "save_architecture" else "K0, kernel|kernel, K0"
    with pytest.raises(ValueError, match=rf"NaN or infinity in layers 'conv' \(({names})"):
        READERS[reader](SearchModel(model) if "model" in reader else model)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_frozen_architecture_stays_in_a_compiled_model(optimizer):
    """Keras would go on with the train step that it traced before."""
    x, y = classification_data()
    model = gated_model()
    model.compile(optimizer, "sparse_categorical_crossentropy")
    model.optimizer.build(model.trainable_variables)  # or the graph is made twice
    model.fit(x, y, verbose=0)
    assert searchable.freeze_architecture(model) is model
    (gates,) = searchable.architecture_variables(model)
    before, kernel = gates.numpy(), model.layers[0].kernel.numpy()
    model.fit(x, y, verbose=0)
    np.testing.assert_array_equal(gates.numpy(), before)
    assert not np.array_equal(model.layers[0].kernel.numpy(), kernel)


DRAWN = 15  # embeddings, kernels and recurrent kernels of the model below


def network():
    """One of every kind of layer whose weights have to be initialised again."""
    words = keras.Input((8,), dtype="int32", name="words")
    inside = keras.Input((8, 4))
    block = keras.Model(
        inside,
        layers.BatchNormalization(name="norm")(XDConv1D(4, 3, padding="same", name="xd")(inside)),
        name="block",
    )
    x = block(block(layers.Embedding(10, 4, name="embedding")(words)))
    x = layers.Conv1D(4, 3, name="conv", bias_initializer="ones")(x)
    x = layers.MultiHeadAttention(2, 3, name="attention")(x, x)
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True), name="both")(x)
    x = layers.TimeDistributed(layers.Dense(4), name="steps")(x)
    x = layers.GRU(3, name="gru", recurrent_dropout=0.1)(x)
    return keras.Model(words, layers.Dense(2, name="dense")(x), name="network")


def values(model):
    return {variable.path: variable.numpy() for variable in model.variables}


def test_reset_weights_of_every_kind_of_layer(rng):
    model = network()
    initial = values(model)
    for variable in model.weights:
        variable.assign(rng.normal(size=variable.shape) + 5.0)
    changed = values(model)
    architecture = {variable.path for variable in searchable.architecture_variables(model)}
    assert searchable.reset_weights(model, seed=3) is model
    seen = 0
    for path, value in values(model).items():
        if path in architecture or "seed" in path:
            np.testing.assert_array_equal(value, changed[path], path)
        elif "bias" in path or np.ptp(initial[path]) == 0:  # not drawn, batch-norm statistics too
            np.testing.assert_array_equal(value, initial[path], path)
        else:
            assert not np.array_equal(value, initial[path]), path
            assert not np.array_equal(value, changed[path]), path
            assert np.std(value) == pytest.approx(np.std(initial[path]), rel=0.7), path
            seen += 1
    assert seen == DRAWN and len(architecture) == 5


def test_reset_weights_keeps_what_was_not_trained(rng):
    normalization = layers.Normalization()
    normalization.adapt(rng.normal(4.0, size=(20, 4)))
    frozen = layers.Dense(4, trainable=False)
    model = keras.Sequential([keras.Input((4,)), normalization, frozen, layers.Dense(4)])
    before = [weight.numpy() for weight in model.weights]
    searchable.reset_weights(model)
    after = [weight.numpy() for weight in model.weights]
    same = [np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
    names = [weight.path.split("/")[-2] for weight in model.weights]
    assert [n for n, s in zip(names, same, strict=True) if not s] == [model.layers[-1].name]


def test_reset_weights_changes_all_or_nothing():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(2)
            self.scale = self.add_weight(shape=(), name="scale")

        def call(self, x):
            return self.dense(x) * self.scale

    model = Own()
    model(np.ones((1, 2)))
    before = values(model)
    with pytest.raises(ValueError, match="made again.*'own/scale'"):
        searchable.reset_weights(model)
    for path, value in values(model).items():
        np.testing.assert_array_equal(value, before[path])


def test_reset_weights_refuses_finalized_layers():
    layer = XDConv2D(2, 3, name="xd")
    layer.build((None, 6, 6, 1))
    with pytest.raises(ValueError, match="finalized layer.*'xd'"):
        searchable.reset_weights(keras.Sequential([keras.Input((6, 6, 1)), layer.finalize()]))
