import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd.layers import StructuredDense
from keras_xd.testing import assert_close


def vit_block(x, heads=2, name="block", attention=layers.MultiHeadAttention):
    """A transformer block as of ViT and BERT, pre-normalized."""
    size = x.shape[-1]
    y = layers.LayerNormalization(name=f"{name}_norm1")(x)
    if attention is layers.MultiHeadAttention:
        attention_layer = attention(heads, size // heads, name=f"{name}_attention")
    else:
        attention_layer = attention(size // heads, heads, 1, name=f"{name}_attention")
    x = layers.Add()([x, attention_layer(y, y)])
    y = layers.LayerNormalization(name=f"{name}_norm2")(x)
    y = layers.Dense(4 * size, activation="gelu", name=f"{name}_mlp1")(y)
    return layers.Add()([x, layers.Dense(size, name=f"{name}_mlp2")(y)])


def vit(**options):
    inputs = keras.Input((16, 16, 3))
    x = layers.Conv2D(24, 4, 4, name="patches")(inputs)
    x = layers.Reshape((16, 24))(x)
    x = vit_block(x, **options)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(6, name="head")(x))


def bert():
    """Token and position embeddings with a mask, an attention block made in a layer's `build`."""
    inputs = keras.Input((7,), dtype="int32")
    x = layers.Embedding(11, 12, mask_zero=True, name="tokens")(inputs)
    x = Encoder(name="encoder")(x)
    return keras.Model(inputs, layers.Dense(3, name="head")(x))


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Encoder(layers.Layer):
    """Post-normalized, all of its layers made in `build`, as those of keras_hub."""

    supports_masking = True

    def build(self, input_shape):
        size = input_shape[-1]
        self.attention = layers.MultiHeadAttention(2, 6, dropout=0.1, name="attention")
        self.attention.build(input_shape, input_shape)
        self.norm = layers.LayerNormalization(name="norm")
        self.norm.build(input_shape)
        self.mlp = [layers.Dense(24, activation="relu", name="mlp1"), layers.Dense(size)]
        self.mlp[0].build(input_shape)
        self.mlp[1].build((*input_shape[:-1], 24))

    def call(self, inputs):
        x = self.norm(inputs + self.attention(inputs, inputs))
        for layer in self.mlp:
            x = layer(x) if layer is self.mlp[0] else x + layer(x)[..., :1]
        return x


def outputs(model, x):
    return keras.ops.convert_to_numpy(model(x, training=False))


def assert_same_after_saving(model, x, tmp_path):
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    assert_close(outputs(restored, x), outputs(model, x))
    return restored


def test_exact_where_the_budget_allows(tmp_path, rng):
    model = vit()
    x = rng.normal(size=(2, 16, 16, 3)).astype("float32")
    for layer in model.layers:
        if isinstance(layer, layers.Dense) and layer.name != "head":
            left, right = rng.normal(size=(layer.kernel.shape[0], 3)), rng.normal(size=(3, 1))
            layer.kernel.assign(0.1 * left @ (right * rng.normal(size=(3, layer.units))))
            layer.bias.assign(rng.normal(size=layer.units))
    only = ["block_mlp.*"]
    space = keras_xd.rewrite(model, to="structured", family="low_rank", density=0.25, only=only)
    assert [row.error for row in space.report.rows] == [pytest.approx(0, abs=1e-6)] * 2
    assert_close(outputs(space, x), outputs(model, x), 2e-5)
    assert space.count_params() < model.count_params()
    restored = assert_same_after_saving(space, x, tmp_path)
    assert [type(layer).__name__ for layer in restored.layers].count("StructuredDense") == 2
    assert keras_xd.complexity(space) < keras_xd.complexity(model)


@pytest.mark.parametrize("attention", [layers.MultiHeadAttention, layers.GroupQueryAttention])
def test_projections_of_attention(attention, tmp_path, rng):
    model = vit(attention=attention)
    x = rng.normal(size=(2, 16, 16, 3)).astype("float32")
    exact = keras_xd.rewrite(model, to="structured", family="dense")
    assert_close(outputs(exact, x), outputs(model, x))
    assert keras_xd.complexity(exact) == keras_xd.complexity(model)
    space = keras_xd.rewrite(model, to="structured", family="low_rank", density=0.5)
    names = {row.name for row in space.report.rows}
    parts = {"query", "key", "value"} | {
        layer.name
        for layer in keras_xd.core.searchable.sublayers(model.get_layer("block_attention"))
        if "output" in layer.name
    }
    assert names == {f"block_attention/{part}" for part in parts} | {
        "block_mlp1",
        "block_mlp2",
        "head",
    }
    kernels = sum(row.parameters_before for row in space.report.rows)
    after = sum(row.parameters_after for row in space.report.rows)
    assert 0.3 * kernels < after <= 0.5 * kernels
    assert model.count_params() - space.count_params() == kernels - after
    if attention is layers.MultiHeadAttention:  # the other one is saved where it was searched
        restored = assert_same_after_saving(space, x, tmp_path)
        assert restored.count_params() == space.count_params()
    counted = [keras_xd.complexity(m) for m in (model, space)]
    positions = {name: 1 if name == "head" else 16 for name in names}
    lost = sum(
        positions[row.name] * (row.parameters_before - row.parameters_after)
        for row in space.report.rows
    )
    assert counted[0] - counted[1] == lost
    comparison = keras_xd.compare(model, space, x)
    assert {row.name for row in comparison.rows if row.left_because is None} == names
    assert all(0 < row.relative_error < 2 for row in comparison.rows)
    assert str(space.report).count("low_rank") == len(names)


def test_errors_of_outputs_are_lowered_by_data(rng):
    inputs = keras.Input((24,))
    x = layers.Dense(36, name="first")(inputs)
    model = keras.Model(inputs, layers.EinsumDense("ab,cb->ac", 24, name="second")(x))
    data = (rng.normal(size=(300, 24)) * np.geomspace(1, 0.01, 24)).astype("float32")
    options = {"to": "structured", "family": "low_rank", "density": 0.3}
    plain = keras_xd.rewrite(model, **options)
    space = keras_xd.rewrite(model, calibration_data=data, **options)
    losses = [np.linalg.norm(outputs(m, data) - outputs(model, data)) for m in (plain, space)]
    assert losses[1] < 0.7 * losses[0]
    assert [row.output_error is None for row in plain.report.rows] == [True, True]
    assert all(row.output_error < row.error for row in space.report.rows)


def sequential(*more, **options):
    return keras.Sequential([keras.Input((12,)), layers.Dense(20, name="dense", **options), *more])


def test_what_cannot_become_structured_is_refused_by_name():
    lora = sequential(layers.Dense(8, name="other"))
    lora.get_layer("dense").enable_lora(2)
    with pytest.raises(ValueError, match="leave it out by `skip`.*'dense': LoRA is enabled"):
        keras_xd.rewrite(lora, to="structured", family="low_rank")
    space = keras_xd.rewrite(lora, to="structured", family="low_rank", skip="dense")
    assert type(space.get_layer("other")) is StructuredDense
    quantized = sequential(layers.Dense(8, name="other"))
    quantized.get_layer("dense").quantize("int8")
    with pytest.raises(ValueError, match=r"'dense': it is quantized \(int8\)"):
        keras_xd.rewrite(quantized, to="structured", family="low_rank")

    class Tied(layers.Layer):
        def __init__(self, first, **kwargs):
            super().__init__(**kwargs)
            self.weight = first.kernel

        def call(self, inputs):
            return keras.ops.matmul(inputs, keras.ops.transpose(self.weight))

    inputs = keras.Input((12,))
    first = layers.Dense(20, name="first")
    x = first(inputs)
    tied = keras.Model(inputs, Tied(first, name="tied")(x))
    with pytest.raises(ValueError, match=r"'first': its weights are those of \['tied'\] too"):
        keras_xd.rewrite(tied, to="structured", family="low_rank")
    constrained = sequential(kernel_constraint="non_neg")
    with pytest.raises(ValueError, match="Nothing is left .*its kernel has a constraint"):
        keras_xd.rewrite(constrained, to="structured")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "sparse"}, "family='sparse'"),
        ({"family": "monarch", "sizes": {"rank": 2}}, "of the family 'monarch' must be"),
        ({"density": 0.5, "budget": 100}, "Only one of .* Received: density=0.5, budget=100"),
        ({"density": 1.5}, "density=1.5"),
        ({"budget": -1}, "budget=-1"),
        ({"radix": 2}, "takes the options"),
        ({"family": "blast", "calibration_data": np.ones((2, 12))}, "is for the families"),
        (
            {"family": "monarch", "density": 0.1},
            "no layer has one.*'dense': The smallest monarch matrix .* has 64 numbers",
        ),
        ({"family": "low_rank", "budget": 20}, "'dense': The smallest low_rank matrix"),
        ({"family": "monarch", "sizes": {"blocks": 5}}, "'dense': `blocks` must divide"),
        ({"only": "missing"}, "only='missing'"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        keras_xd.rewrite(sequential(), to="structured", **options)


def test_models_without_dense_kernels():
    model = keras.Sequential([keras.Input((8, 8, 1)), layers.Conv2D(2, 3)])
    with pytest.raises(ValueError, match="none with a dense kernel was found"):
        keras_xd.rewrite(model, to="structured")
    with pytest.raises(ValueError, match="need no forecast"):
        keras_xd.forecast(sequential(), to="structured")


def reader(rng, **options):
    inputs = keras.Input((7,), dtype="int32")
    x = layers.Embedding(90, 24, name="words", mask_zero=True, **options)(inputs)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(24, name="dense")(x))


def test_tables_of_embeddings_are_replaced_when_asked_for(tmp_path, rng):
    model = reader(rng)
    x = rng.integers(90, size=(4, 7)).astype("int32")
    space = keras_xd.rewrite(model, to="structured", density=0.5)
    assert type(space.get_layer("words")) is layers.Embedding
    assert [row.name for row in space.report.rows] == ["dense"] and not space.report.left
    low = rng.normal(size=(90, 4)) @ rng.normal(size=(4, 24))
    model.get_layer("words").set_weights([low])
    options = {"family": "low_rank", "density": 0.5, "embeddings": True}
    space = keras_xd.rewrite(model, to="structured", skip="dense", **options)
    assert_close(outputs(space, x), outputs(model, x), 1e-5)
    (row,) = space.report.rows
    assert (row.name, row.parameters_before, row.shape) == ("words", 90 * 24, (96, 24))
    assert row.parameters_after <= 0.5 * 96 * 24 and row.error < 1e-5
    assert space.get_layer("words").mask_zero
    space.save(tmp_path / "space.keras")
    again = keras.models.load_model(tmp_path / "space.keras")
    assert_close(outputs(again, x), outputs(space, x))
    mixed = keras_xd.rewrite(
        model, to="structured", family=("low_rank", "monarch"), density=(0.5, 0.3), embeddings=True
    )
    small = keras_xd.finalize(mixed, complexity_target=1500, complexity_measure="parameters")
    assert small.count_params() <= 1500 and small.report.rows[0].kind_before == "MixedEmbedding"
    budget = keras_xd.rewrite(model, to="structured", budget=1000, embeddings=True)
    assert budget.count_params() <= 1000 + 24


def test_tables_that_cannot_become_structured(rng):
    constrained = reader(rng, embeddings_constraint="non_neg")
    space = keras_xd.rewrite(constrained, to="structured", density=0.5, embeddings=True)
    assert space.report.left == {"words": "its table has a constraint"}
    lora = reader(rng)
    lora.get_layer("words").enable_lora(2)
    with pytest.raises(ValueError, match="'words': LoRA is enabled"):
        keras_xd.rewrite(lora, to="structured", density=0.5, embeddings=True)
    with pytest.raises(ValueError, match="embeddings.*'yes'"):
        keras_xd.rewrite(lora, to="structured", embeddings="yes")
    words = keras.Sequential([keras.Input((7,), dtype="int32"), layers.Embedding(90, 24)])
    with pytest.raises(ValueError, match="rewritten with `embeddings=True`"):
        keras_xd.rewrite(words, to="structured")


def test_projections_of_attention_get_fresh_weights(rng):
    space = keras_xd.rewrite(vit(), to="structured", family="low_rank", density=0.5)
    before = {
        variable.path: keras.ops.convert_to_numpy(variable).copy()
        for variable in space.trainable_variables
    }
    keras_xd.reset_weights(space, 0)
    fresh = {
        variable.path: keras.ops.convert_to_numpy(variable).copy()
        for variable in space.trainable_variables
    }
    kernels = [path for path in before if "kernel" in path]
    assert len(kernels) == 2 * 7 + 1
    for path in kernels:
        assert np.abs(fresh[path] - before[path]).max() > 1e-3, path
    for variable in space.trainable_variables:
        variable.assign(np.ones(variable.shape))
    keras_xd.reset_weights(space, 0)
    for variable in space.trainable_variables:
        value = keras.ops.convert_to_numpy(variable)
        np.testing.assert_array_equal(value, fresh[variable.path], err_msg=variable.path)


def test_layers_without_such_a_matrix_are_left(rng, caplog):
    inputs = keras.Input((6, 32))
    x = keras.layers.LSTM(4, name="small")(keras.layers.Dense(32, name="large")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1, name="head")(x))
    space = keras_xd.rewrite(model, to="structured", density=0.25)
    assert {row.name for row in space.report.rows} == {"large"}
    assert "The smallest" in space.report.left["head"] and "small" in space.report.left
    assert "head (" in caplog.text
    wide = keras.Sequential(
        [keras.Input((16, 16, 4)), keras.layers.Conv2D(64, 3), keras.layers.GlobalMaxPooling2D()]
        + [keras.layers.Dense(16, name="classes")]
    )
    keras_xd.rewrite(wide, to="structured", density=0.5)
    assert "took the place of 30.0 % of the parameters" in caplog.text
