"""Models rewritten to mixtures of the DARTS operations."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd.layers.mixed.discrete_operation import DARTS_OPERATIONS
from keras_xd.testing import assert_close
from keras_xd_tests import sample_models


def backbone(rng):
    """A small ResNet of unusual convolutions, with random weights."""
    inputs = keras.Input((9, 8, 2), name="images")
    x = keras.layers.Conv2D(4, 3, padding="same", activation="relu", name="first")(inputs)
    y = keras.layers.Conv2D(6, 3, 2, padding="same", groups=2, use_bias=False, name="strided")(x)
    y = keras.layers.BatchNormalization(name="norm")(y)
    shortcut = keras.layers.Conv2D(6, 1, 2, name="shortcut")(x)
    x = keras.layers.Add(name="add")([y, shortcut])
    x = keras.layers.Conv2D(3, (2, 4), dilation_rate=(2, 1), name="odd")(x)
    model = keras.Model(inputs, x)
    sample_models.randomize(model, rng)
    return model


def chain(rng, *arguments, **options):
    """The first one of them, and one more."""
    inputs = keras.Input((9, 8, 2))
    x = keras.layers.Conv2D(4, 3, padding="same", activation="relu", name="first")(inputs)
    x = keras.layers.Conv2D(*arguments, **options)(x)
    return sample_models.randomize(keras.Model(inputs, x), rng)


CONVOLUTIONS = ("first", "strided", "shortcut", "odd")


def test_without_perturbation_it_is_the_same_function(rng):
    model = backbone(rng)
    space = keras_xd.rewrite(model, to="darts", perturb=0)
    x = rng.standard_normal((3, 9, 8, 2)).astype("float32")
    assert_close(keras.ops.convert_to_numpy(space(x)), keras.ops.convert_to_numpy(model(x)), 1e-6)
    assert_close(
        keras.ops.convert_to_numpy(keras_xd.finalize(space)(x)),
        keras.ops.convert_to_numpy(model(x)),
        1e-6,
    )
    for name in CONVOLUTIONS:
        assert type(space.get_layer(name)) is keras_xd.layers.MixedOperation2D
        assert type(keras_xd.finalize(space).get_layer(name)) is keras.layers.Conv2D
    assert type(space.get_layer("norm")) is keras.layers.BatchNormalization
    names = {name: space.get_layer(name).operation_names for name in CONVOLUTIONS}
    assert names["first"] == names["strided"] == DARTS_OPERATIONS
    assert names["shortcut"] == names["odd"] == ("convolution", *DARTS_OPERATIONS)


@pytest.mark.parametrize("perturb", [0.1, 0.01])
def test_outputs_begin_as_documented(perturb, rng):
    """(1 - perturb) · convolution + perturb · mean of the others + bias."""
    inputs = keras.Input((9, 2))
    model = keras.Model(inputs, keras.layers.Conv1D(3, 5, 2, name="layer")(inputs))
    sample_models.randomize(model, rng)
    space = keras_xd.rewrite(model, to="darts", perturb=perturb)
    x = rng.standard_normal((2, 9, 2)).astype("float32")
    layer = space.get_layer("layer")
    tensor = keras.ops.convert_to_tensor(x)
    others = [
        np.asarray(o.operate(tensor)) for o in layer.operations if o.operation != "convolution_5"
    ]
    bias = np.asarray(model.get_layer("layer").bias)
    expected = (1 - perturb) * (keras.ops.convert_to_numpy(model(x)) - bias) + bias
    expected += perturb * np.mean(others, axis=0)
    assert len(others) == 7
    assert_close(keras.ops.convert_to_numpy(space(x)), expected)


def test_weights_flags_and_shared_layers_are_carried_over(rng):
    inputs = keras.Input((9, 2))
    shared = keras.layers.Conv1D(2, 3, padding="causal", kernel_regularizer="l2", name="shared")
    frozen = keras.layers.Conv1D(2, 3, padding="same", name="frozen", dtype="mixed_bfloat16")
    model = keras.Model(inputs, frozen(shared(shared(inputs))))
    sample_models.randomize(model, rng)
    frozen.trainable = False
    space = keras_xd.rewrite(model, to="darts", candidates=("convolution_5", "skip"))
    new_shared, new_frozen = space.get_layer("shared"), space.get_layer("frozen")
    for old, new in ((shared, new_shared), (frozen, new_frozen)):
        np.testing.assert_array_equal(new.kernel, old.kernel)
        np.testing.assert_array_equal(new.bias, old.bias)
        assert new.dtype_policy == old.dtype_policy
    assert new_shared.operation_names == ("convolution", "convolution_5", "skip")
    assert len(new_shared.losses) == 2 and not new_frozen.trainable_variables
    assert [v.name for v in keras_xd.architecture_variables(space)] == ["logits", "logits"]
    assert len(space.trainable_variables) == 4


def test_saved_space_and_compare_and_forecast(rng, tmp_path):
    model = chain(rng, 3, (2, 4), dilation_rate=(2, 1), name="odd")
    space = keras_xd.rewrite(model, to="darts", perturb=0.3, update="exponentiated_gradient")
    x = rng.standard_normal((2, 9, 8, 2)).astype("float32")
    space.save(tmp_path / "space.keras")
    again = keras.models.load_model(tmp_path / "space.keras")
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(again(x)), keras.ops.convert_to_numpy(space(x))
    )
    assert again.get_layer("odd").update == "exponentiated_gradient"
    described = keras_xd.describe(again)
    np.testing.assert_allclose(described["first"]["share/convolution_3"], 0.7, rtol=1e-6)
    np.testing.assert_allclose(described["odd"]["share/zero"], 0.3 / 8, rtol=1e-6)
    table = keras_xd.compare(model, space, x)
    forecast = keras_xd.forecast(model, to="darts", perturb=0.3)
    rows = {row.name: row for row in table.rows}
    assert {row.name for row in forecast.rows} == {"first", "odd"}
    for row in forecast.rows:
        actual = rows[row.name].__dict__
        known = {
            name: value
            for name, value in row.__dict__.items()
            if name != "keep" and not name.endswith("_finalized")
        }
        assert known == {name: actual[name] for name in known}
    assert forecast.parameters_after == space.count_params()
    expected = float(keras_xd.complexity(space))
    np.testing.assert_allclose(forecast.multiply_adds_after, expected, atol=2)


def test_a_target_for_the_complexity_moves_the_shares(rng):
    model = keras.Sequential([keras.Input((9, 2)), keras.layers.Conv1D(3, 5, padding="same")])
    space = keras_xd.rewrite(model, to="darts", perturb=0.5, candidates=("convolution_3", "skip"))
    before = float(keras_xd.complexity(space))
    search = keras_xd.SearchModel(space)
    search.compile(
        keras.optimizers.SGD(0.0),
        keras.optimizers.Adam(0.1),
        keras.losses.MeanSquaredError(),
        complexity_target=before / 2,
        complexity_weight=1e4,
        jit_compile=False,
    )
    x = rng.standard_normal((2, 9, 2))
    history = search.fit(x, np.zeros((2, *space.output_shape[1:])), epochs=30, verbose=0)
    np.testing.assert_allclose(history.history["complexity"][0], 2, rtol=1e-5)
    np.testing.assert_allclose(float(keras_xd.complexity(space)), before / 2, rtol=0.1)


class Block(keras.Model):
    """A residual block with a convolution in an attribute."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.convolution = keras.layers.Conv1D(2, 3, padding="same", name="conv")

    def call(self, inputs):
        return inputs + self.convolution(inputs)


def test_subclassed_models(rng):
    block, x = Block(), rng.standard_normal((2, 8, 2)).astype("float32")
    expected = np.asarray(block(x))
    space = keras_xd.rewrite(block, to="darts", perturb=0)
    assert type(space.model.convolution) is keras_xd.layers.MixedOperation1D
    assert_close(np.asarray(space(x)), expected)
    found = keras_xd.finalize(space)
    assert type(found.model.convolution) is keras.layers.Conv1D
    assert_close(np.asarray(found(x)), expected)


def test_exported_resized_and_frozen(rng, tmp_path):
    model = chain(rng, 6, 3, 2, padding="same", groups=2, name="strided")
    space = keras_xd.rewrite(model, to="darts")
    space.get_layer("first").logits.assign([0, 0, 0, 0, 9, 0, 0, 0])
    space.get_layer("strided").logits.assign([0, 0, 9, 0, 0, 0, 0, 0])
    found = keras_xd.finalize(space)
    kinds = [type(found.get_layer(name)).__name__ for name in ("first", "strided")]
    assert kinds == ["DiscreteOperation", "DiscreteOperation"]
    x = rng.standard_normal((2, 9, 8, 2)).astype("float32")
    found.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    assert_close(np.asarray(served.serve(x)), np.asarray(found(x)))
    larger = keras_xd.resize(space, (15, 14, 2))
    assert larger.count_params() == space.count_params()
    for old, new in zip(space.get_weights(), larger.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    keras_xd.freeze_architecture(space).save(tmp_path / "frozen.keras")
    again = keras.models.load_model(tmp_path / "frozen.keras")
    trainable = {id(variable) for variable in again.trainable_variables}
    assert not trainable & {id(v) for v in keras_xd.architecture_variables(again)}
    assert len(trainable) == len(space.trainable_variables) > 0


def test_what_has_no_mixture_is_left():
    inputs = keras.Input((6, 6, 6, 1))
    x = keras.layers.Conv3D(1, 3, name="volume")(inputs)
    model = keras.Model(inputs, x)
    with pytest.raises(ValueError, match="to='darts' has no Conv3D"):
        keras_xd.rewrite(model, to="darts")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 3}, r"takes the options \['candidates', 'perturb', 'update'\].*'depth': 3"),
        ({"partial_channels": 4}, "takes the options.*'partial_channels': 4"),
        ({"kernel_size": 5}, "takes the options.*'kernel_size': 5"),
        ({"perturb": 2}, "do not fit the layer 'first': `perturb` must be a number"),
        ({"candidates": ("conv",)}, "do not fit the layer 'first': `candidates` must be"),
        ({"padding": "circular"}, "do not fit the layer 'first': `padding` must be"),
        ({"operations": "pooling"}, r"must be one or several of \('convolution',\)"),
    ],
)
def test_bad_options(options, message, rng):
    with pytest.raises(ValueError, match=message):
        keras_xd.rewrite(backbone(rng), to="darts", **options)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_dash_begins_as_the_model_and_its_result_goes_on_as_xd(rank, rng):
    convolution = getattr(keras.layers, f"Conv{rank}D")
    shape = (8, 7, 6)[:rank]
    model = keras.Sequential(
        [
            keras.Input((*shape, 2)),
            convolution(3, 3, padding="same", activation="relu", name="first"),
            convolution(2, 3, 2, padding="same", name="strided"),
        ]
    )
    sample_models.randomize(model, rng)
    x = rng.standard_normal((2, *shape, 2)).astype("float32")
    expected = keras.ops.convert_to_numpy(model(x))
    options = {"kernel_sizes": (3, 5), "dilations": (1, 2)}
    same = keras_xd.rewrite(model, to="dash", perturb=0, **options)
    assert_close(keras.ops.convert_to_numpy(same(x)), expected, 1e-5)

    space = keras_xd.rewrite(model, to="dash", **options)
    first, strided = space.get_layer("first"), space.get_layer("strided")
    assert type(first) is getattr(keras_xd.layers, f"DashConv{rank}D")
    forecast = keras_xd.forecast(model, to="dash", **options)
    assert forecast.parameters_after == space.count_params()
    for layer, name in ((first, "convolution_5_dilated_2"), (strided, "convolution_5")):
        layer.logits.assign(150.0 * (np.array(layer.operation_names) == name))
    expected = keras.ops.convert_to_numpy(space(x))
    found = keras_xd.finalize(space)
    assert [type(found.get_layer(name)) for name in ("first", "strided")] == [convolution] * 2
    assert_close(keras.ops.convert_to_numpy(found(x)), expected, 1e-5)
    searched = keras_xd.rewrite(found, to="xd")
    assert_close(keras.ops.convert_to_numpy(searched(x)), expected, 1e-5)


def test_dash_refuses_what_the_convolutions_have():
    model = keras.Sequential([keras.Input((8, 2)), keras.layers.Conv1D(3, 3)])
    with pytest.raises(ValueError, match="`rewrite` takes the options .*'dilations'"):
        keras_xd.rewrite(model, to="dash", kernel_size=5)
