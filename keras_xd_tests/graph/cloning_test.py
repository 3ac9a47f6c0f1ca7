"""Copies of models: everything is carried over, and the original is left untouched."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd.core.searchable import flatten_layers
from keras_xd.graph import cloning
from keras_xd.testing import assert_close
from keras_xd_tests import sample_models


def keep(layer):
    return None


def layer_calls(*args, **kwargs):
    """Return `(layer, first argument)` of each call."""
    calls = cloning.graph_calls(*args, **kwargs)
    return [(layer, [*args, *kwargs.values()][0]) for layer, args, kwargs in calls]


@pytest.mark.parametrize("make", sample_models.ALL)
def test_copy_is_equal_and_separate(make, rng):
    model = sample_models.randomize(make(), rng)
    before = sample_models.fingerprint(model)
    copy, replaced = cloning.clone(model, keep)
    assert not replaced
    assert type(copy) is type(model)
    inputs = sample_models.inputs_of(model, rng)
    sample_models.assert_same_outputs(model, copy, inputs, 1e-6)
    assert [layer.name for layer in copy.layers] == [layer.name for layer in model.layers]
    assert not {id(w) for w in copy.variables} & {id(w) for w in model.variables}
    for weight in copy.weights:
        weight.assign(weight * 0.0)
    assert sample_models.fingerprint(model) == before


@pytest.mark.parametrize("make", sample_models.ALL)
def test_no_inbound_node_is_added(make, rng):
    """Keras shows the nodes of a layer nowhere in public, so this looks at what it keeps."""
    model = make()

    def nodes():
        return [len(vars(layer)["_inbound_nodes"]) for layer in flatten_layers(model)]

    before = nodes()
    assert sum(before) > 0
    cloning.clone(model, keep)
    layer_calls(model)
    layer_calls(model, inputs=sample_models.inputs_of(model, rng))
    assert nodes() == before
    model(model.inputs[0] if isinstance(model, keras.Sequential) else model.input)
    assert nodes() != before


def test_masks_reach_the_layers_of_traced_calls(rng):
    words = keras.Input((5,), dtype="int32")
    x = layers.LSTM(3, return_sequences=True)(layers.Embedding(9, 4, mask_zero=True)(words))
    model = keras.Model(words, layers.LSTM(2, name="last")(x))
    inputs = np.array([[1, 2, 0, 0, 0], [3, 4, 5, 6, 0]], "int32")
    ((_, argument),) = [
        call for call in layer_calls(model, inputs=inputs) if call[0].name == "last"
    ]
    expected = keras.Model(words, x)(inputs)
    np.testing.assert_allclose(argument, expected, atol=1e-6)


def test_replacement_keeps_sharing(rng):
    model = sample_models.randomize(sample_models.shared(), rng)
    made = []

    def replace(layer):
        if not isinstance(layer, layers.Conv2D):
            return None
        made.append(layers.Conv2D.from_config(layer.get_config()))
        return made[-1]

    copy, replaced = cloning.clone(model, replace)
    assert replaced == [(model.get_layer("twin"), made[0])]
    made[0].set_weights(model.get_layer("twin").get_weights())
    inputs = sample_models.inputs_of(model, rng)
    sample_models.assert_same_outputs(model, copy, inputs, 1e-6)
    assert list(copy.input) == ["left", "right"] and list(copy.output) == ["map", "pooled"]


def test_random_states_are_carried_over(rng):
    inputs = keras.Input((50,), name="x")
    model = keras.Model(inputs, layers.Dropout(0.5)(layers.GaussianNoise(1.0)(inputs)))
    x = rng.normal(size=(2, 50)).astype("float32")
    model(x, training=True)  # so that the states are not those of a fresh layer
    copy, _ = cloning.clone(model, keep)
    np.testing.assert_array_equal(copy(x, training=True), model(x, training=True))


def test_trainable_flags_of_models_layers_and_variables():
    model = sample_models.nested()
    model.get_layer("block").trainable = False
    model.get_layer("conv").kernel.trainable = False
    copy, _ = cloning.clone(model, keep)
    assert [v.path for v in copy.trainable_variables] == ["conv/bias"]
    assert not copy.get_layer("block").trainable
    model.trainable = False
    assert not cloning.clone(model, keep)[0].trainable
    model.trainable = True
    model.get_layer("block").trainable = False
    model.get_layer("block").get_layer("stack").layers[0].trainable = True
    copy, _ = cloning.clone(model, keep)
    inner = copy.get_layer("block").get_layer("stack").layers[0]
    assert inner.trainable and not copy.get_layer("block").trainable


def test_dtype_policies_are_carried_over():
    inputs = keras.Input((4, 4, 1))
    x = layers.Conv2D(2, 3, dtype="mixed_bfloat16", name="low")(inputs)
    model = keras.Model(inputs, layers.Dense(2, dtype="float64", name="high")(x))
    copy, _ = cloning.clone(model, keep)
    for name in ("low", "high"):
        assert copy.get_layer(name).dtype_policy == model.get_layer(name).dtype_policy
    assert copy.output.dtype == "float64"


def test_automatic_input_names_are_kept():
    model = keras.Model(inputs := [keras.Input((2,)), keras.Input((2,))], layers.Add()(inputs))
    names = [layer.name for layer in model.layers]
    copy, _ = cloning.clone(model, keep)
    assert [layer.name for layer in copy.layers] == names


def test_inputs_can_be_renamed():
    model = keras.Model(inputs := [keras.Input((2,)), keras.Input((2,))], layers.Add()(inputs))
    copy, _ = cloning.clone(model, keep, rename_inputs=lambda names: ["a", "b"])
    assert [tensor.name for tensor in copy.inputs] == ["a", "b"]
    taken = keras.Model(x := keras.Input((2,)), layers.ReLU(name="a")(x))
    copy, _ = cloning.clone(taken, keep, rename_inputs=lambda names: ["a"])
    assert copy.layers[0].name == taken.layers[0].name


def test_compiled_model_is_copied_uncompiled():
    """Its compilation may hold what no configuration can, such as a local function."""
    model = sample_models.residual()
    model.compile("adam", loss=lambda y_true, y_pred: y_pred, metrics=["mae"])
    copy, _ = cloning.clone(model, keep)
    assert not copy.compiled and model.compiled


def test_lambda_layers_keep_their_function(rng):
    factor = 3.0
    model = keras.Sequential(
        [keras.Input((2,)), layers.Lambda(lambda x: keras.ops.exp(x) * factor)]
    )
    copy, _ = cloning.clone(model, keep)
    x = rng.normal(size=(2, 2)).astype("float32")
    np.testing.assert_array_equal(copy(x), model(x))


def test_adapted_normalization_is_carried_over(rng):
    x = rng.normal(3.0, 5.0, size=(50, 2)).astype("float32")
    normalization = layers.Normalization()
    normalization.adapt(x)
    model = keras.Sequential([keras.Input((2,)), normalization])
    copy, _ = cloning.clone(model, keep)
    np.testing.assert_allclose(copy(x), model(x))
    assert abs(float(np.mean(copy(x)))) < 1e-5


def test_model_built_on_data_takes_any_batch_size(rng):
    model = keras.Sequential([layers.Conv1D(2, 3)])
    model(rng.normal(size=(2, 8, 1)))
    copy, _ = cloning.clone(model, keep)
    assert copy.input_shape == (None, 8, 1)


def test_layer_that_cannot_be_copied_is_named():
    class Opaque(layers.Layer):
        def __init__(self, function):
            super().__init__(name="opaque")
            self.applied = function

        def call(self, x):
            return self.applied(x)

    scale = layers.Dense(2)  # that of the original, which a copy must not call
    model = keras.Sequential([keras.Input((2,)), Opaque(lambda x: scale(x))])
    with pytest.raises(ValueError, match="made again.*Received: Opaque 'opaque'"):
        cloning.clone(model, keep)


def test_layer_calls_at_shapes_and_on_data(rng):
    model = sample_models.shared()
    calls = layer_calls(model)
    shapes = [argument.shape for layer, argument in calls if layer.name == "twin"]
    assert shapes == [(None, 7, 5, 1)] * 2
    inputs = sample_models.inputs_of(model, rng, batch=4)
    arguments = [
        keras.ops.convert_to_numpy(argument)
        for layer, argument in layer_calls(model, inputs=inputs)
        if layer.name == "twin"
    ]
    np.testing.assert_array_equal(arguments[0], inputs["left"])
    np.testing.assert_array_equal(arguments[1], inputs["right"])


def test_layer_calls_at_other_shapes():
    inputs = keras.Input((None, None, 1))
    model = keras.Model(inputs, layers.Conv2D(1, 3)(layers.MaxPooling2D()(inputs)))
    ((_, argument),) = [
        call for call in layer_calls(model, [(None, 8, 12, 1)]) if "conv" in call[0].name
    ]
    assert argument.shape == (None, 4, 6, 1)


def test_arguments_by_keyword():
    inputs = keras.Input((6, 2))
    x = layers.Conv1D(2, 3, name="conv")(inputs=inputs)
    outputs = layers.MultiHeadAttention(1, 2, name="attention")(query=x, value=x)
    calls = layer_calls(keras.Model(inputs, outputs))
    shapes = [(layer.name, cloning.shapes_of(argument)) for layer, argument in calls]
    assert shapes == [("conv", [(None, 6, 2)]), ("attention", [(None, 4, 2)])]
    assert cloning.shapes_of({"a": [inputs, None]}) == [(None, 6, 2)]


def test_inserted_layers(rng):
    """One before the second call of a shared layer, seen by `layer_calls` too."""
    inputs = keras.Input((3,), name="x")
    dense = layers.Dense(3, name="dense")
    model = keras.Model(inputs, dense(dense(inputs)))
    scale = layers.Rescaling(2.0, name="scale")

    def insert(graph, operation, number):
        assert graph is model
        return {0: scale} if (operation, number) == (dense, 1) else {}

    x = rng.normal(size=(2, 3)).astype("float32")
    calls = layer_calls(model, inputs=x, insert=insert)
    assert [layer for layer, _ in calls] == [dense, scale, dense]
    np.testing.assert_allclose(calls[2][1], 2 * dense(x), atol=1e-6)
    copy, _ = cloning.clone(model, keep, insert=insert)
    np.testing.assert_allclose(copy(x), dense(2 * dense(x)), atol=1e-5)
    assert copy.get_layer("scale") is scale and len(model.layers) == 2


def test_traced_graph():
    inputs = keras.Input((None, 2))
    x = layers.Conv1D(2, 3, name="conv")(inputs)
    model = keras.Model(inputs, layers.Add(name="sum")([x, x * 2.0]))
    copy, (convolution, product, addition) = cloning.traced_graph(model, [(None, 8, 2)])
    assert convolution.operation is model.get_layer("conv")
    assert addition.operation is model.get_layer("sum")
    assert product.tensors[0] is addition.tensors[0] is convolution.outputs[0]
    assert addition.tensors[1] is product.outputs[0]
    assert addition.outputs[0] is copy.output and copy.output.shape == (None, 6, 2)


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Unconfigured(layers.Layer):
    """Has no `get_config`, and Keras makes none, as its policy is no plain value."""

    def __init__(self, width, activation="gelu", half=False, **kwargs):
        super().__init__(**kwargs)
        self.width, self.half = width // 2 if half else width, half
        self.activation = keras.activations.get(activation)

    def build(self, input_shape):
        self.wide = layers.Dense(self.width, name="wide", dtype=self.dtype_policy)
        self.wide.build(input_shape)
        self.narrow = layers.Dense(input_shape[-1], name="narrow", dtype=self.dtype_policy)
        self.narrow.build((*input_shape[:-1], self.width))

    def call(self, inputs):
        return inputs + self.narrow(self.activation(self.wide(inputs)))


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Misconfigured(layers.Layer):
    """Its `get_config` reads an attribute that there is not; makes its layers in `build`."""

    def __init__(self, width, count=2, **kwargs):
        super().__init__(**kwargs)
        self.width, self.count = width, count

    def build(self, input_shape):
        self.blocks = [
            Unconfigured(self.width, name=f"block{number}", dtype=self.dtype_policy)
            for number in range(self.count)
        ]
        for block in self.blocks:
            block.build(input_shape)

    def call(self, inputs):
        for block in self.blocks:
            inputs = block(inputs)
        return inputs

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "depth": self.depth}


POLICY = keras.DTypePolicy("float32")


def test_a_configuration_that_says_more_than_the_constructor_takes():
    class Talkative(layers.Dense):
        def __init__(self, units, twice=False, **kwargs):
            super().__init__(units, **kwargs)
            self.twice = twice

        def get_config(self):
            return {**super().get_config(), "twice": self.twice, "half": self.units // 2}

    layer = Talkative(4, twice=True, name="layer", activation="relu")
    copy = cloning.copy_layer(layer)
    assert copy.twice and (copy.name, copy.units) == ("layer", 4)
    assert copy.activation is keras.activations.relu


def test_a_class_without_configuration_is_made_again_by_its_attributes():
    policy = keras.DTypePolicy("mixed_bfloat16")
    layer = Unconfigured(8, "tanh", name="layer", dtype=policy)
    with pytest.raises(NotImplementedError):
        layer.get_config()
    copy = cloning.copy_layer(layer)
    assert (copy.name, copy.width, copy.half) == ("layer", 8, False)
    assert copy.activation is keras.activations.tanh and copy.dtype_policy == policy
    broken = Misconfigured(6, count=3, name="broken")
    copy = cloning.copy_layer(broken)
    assert (copy.name, copy.width, copy.count) == ("broken", 6, 3)


def test_attributes_that_do_not_tell():
    class Missing(layers.Layer):
        def __init__(self, size, **kwargs):
            super().__init__(**kwargs)

    class Holding(layers.Layer):
        def __init__(self, inner, **kwargs):
            super().__init__(**kwargs)
            self.inner = inner

    class Checking(layers.Layer):
        def __init__(self, sizes, **kwargs):
            super().__init__(**kwargs)
            self.sizes = tuple(sizes) if len(sizes) == 2 else None

    kept_as_half = Unconfigured(8, half=True, name="kept", dtype=POLICY)
    assert kept_as_half.width == 4
    for layer in (
        kept_as_half,
        Missing(3, name="kept", dtype=POLICY),
        Holding(layers.ReLU(), name="kept", dtype=POLICY),
        Checking((1, 2, 3), name="kept", dtype=POLICY),
    ):
        copy = cloning.copy_layer(layer)  # by its attributes
        assert type(copy) is type(layer) and copy.name == "kept"
        with pytest.raises(ValueError, match="def get_config"):
            cloning.serialized(layer)


def test_networks_of_such_layers_are_rewritten_and_saved(tmp_path, rng):
    """As the MLP of keras_hub's ViT, its DeiT encoder and its Llama decoder."""
    inputs = keras.Input((5, 12))
    x = Misconfigured(24, name="encoder")(inputs)
    model = keras.Model(inputs, layers.Dense(3, name="head")(x))
    x = rng.normal(size=(2, 5, 12)).astype("float32")
    exact = keras_xd.rewrite(model, to="structured", family="dense")
    assert_close(np.array(exact(x)), np.array(model(x)))
    small = keras_xd.rewrite(model, to="structured", family="low_rank", share=0.5, skip="head")
    assert len(small.report.rows) == 4 and small.count_params() < model.count_params()
    small.save(tmp_path / "small.keras")
    restored = keras.models.load_model(tmp_path / "small.keras")
    assert_close(np.array(restored(x)), np.array(small(x)))
