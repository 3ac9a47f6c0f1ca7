import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers.structured.embedding import FAMILIES, rows_of
from keras_xd.testing import assert_close, check_config, check_file

every_family = pytest.mark.parametrize("family", FAMILIES)
TOKENS = 90  # 96 rows


def plain_array(tensor):
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))


@every_family
def test_rows_of_a_projected_table(family, rng):
    table = rng.normal(size=(TOKENS, 24)).astype("float32")
    layer = layers.StructuredEmbedding(TOKENS, 24, family, density=0.6)
    tokens = rng.integers(TOKENS, size=(3, 5)).astype("int32")
    assert tuple(layer(tokens).shape) == (3, 5, 24)
    projection = layer.project(table)
    assert_close(plain_array(layer(tokens)), projection.matrix.T[tokens].astype("float32"))
    assert layer.count_params() <= (0.6 if family != "dense" else 1) * rows_of(TOKENS) * 24
    if family == "dense":
        assert_close(plain_array(layer(tokens)), table[tokens])
    with pytest.raises(ValueError, match=r"must have shape \(90, 24\).*\(24, 90\)"):
        layer.project(table.T)


@every_family
def test_training_files_configurations_and_precision(family, rng):
    arguments = {
        "input_dim": TOKENS,
        "output_dim": 8,
        "family": family,
        "density": 0.7,
        "embeddings_stddev": 0.2,
        "embeddings_regularizer": keras.regularizers.L2(1e-3),
        "mask_zero": True,
        "learning_rates": "equal",
        "seed": 3,
    }
    check_config(layers.StructuredEmbedding, arguments)
    tokens = rng.integers(TOKENS, size=(4, 6)).astype("int32")
    inputs = keras.Input((6,), dtype="int32")
    layer = layers.StructuredEmbedding(TOKENS, 8, family, density=0.7)
    model = keras.Model(inputs, keras.layers.Flatten()(layer(inputs)))
    eager = family != "blast"
    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=eager)
    before = [plain_array(variable) for variable in layer.trainable_variables]
    losses = model.fit(tokens, rng.normal(size=(4, 48)), epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    for old, variable in zip(before, layer.trainable_variables, strict=True):
        assert np.abs(plain_array(variable) - old).max() > 0
    check_file(model, tokens)
    half = layers.StructuredEmbedding(TOKENS, 8, family, density=0.7, dtype="mixed_bfloat16")
    half.build((None, 6))
    half.set_weights(layer.get_weights())
    outputs = half(tokens)
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    assert_close(plain_array(outputs), plain_array(layer(tokens)), 1e-2)


def test_tokens_of_any_type_and_shape_and_their_mask(rng):
    layer = layers.StructuredEmbedding(TOKENS, 8, "low_rank", mask_zero=True)
    tokens = np.array([0, 7, 89])
    expected = plain_array(layer(tokens.astype("int64")))
    for other in (tokens.astype("int32"), tokens.astype("float32"), tokens.astype("uint8")):
        assert_close(plain_array(layer(other)), expected)
    assert_close(plain_array(layer(tokens[None, :, None]))[0, :, 0], expected)
    mask = layer.compute_mask(keras.ops.convert_to_tensor(tokens))
    assert keras.ops.convert_to_numpy(mask).tolist() == [False, True, True]
    assert layers.StructuredEmbedding(TOKENS, 8).compute_mask(tokens) is None


@every_family
@pytest.mark.parametrize("deviation", [0.03, 0.5])
def test_the_start_has_the_deviation_asked_for(family, deviation):
    tokens, found = np.arange(1024, dtype="int32"), []
    for seed in range(6):
        options = {"embeddings_stddev": deviation, "density": 0.5, "seed": seed}
        layer = layers.StructuredEmbedding(1024, 64, family, **options)
        found.append(np.std(plain_array(layer(tokens))))
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(deviation, rel=0.15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_dim": 0}, "input_dim.*0"),
        ({"output_dim": 2.5}, "output_dim.*2.5"),
        ({"family": "kaleidoscope"}, "family.*'kaleidoscope'"),
        ({"embeddings_stddev": 0}, "embeddings_stddev.*0"),
        ({"mask_zero": "yes"}, "mask_zero.*'yes'"),
        ({"family": "monarch", "sizes": {"blocks": 5}}, "`blocks` must divide.*96"),
        ({"family": "monarch", "density": 0.01}, "The smallest monarch matrix"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        arguments = {"input_dim": TOKENS, "output_dim": 24, **options}
        layers.StructuredEmbedding(**arguments)(np.zeros((1, 2), "int32"))
    if options.get("family") == "kaleidoscope":
        with pytest.raises(ValueError, match=message):
            layers.MixedEmbedding(TOKENS, 24, families=("low_rank", "kaleidoscope"))


@pytest.mark.parametrize("candidate", range(4))
def test_mixtures_of_tables(candidate, rng):
    options = {
        "families": ("low_rank", "blast", "monarch", "dense"),
        "densities": (0.5,),
        "seed": 1,
    }
    check_config(layers.MixedEmbedding, {"input_dim": TOKENS, "output_dim": 24, **options})
    layer = layers.MixedEmbedding(TOKENS, 24, **options)
    tokens = rng.integers(TOKENS, size=(3, 5)).astype("int32")
    rows, table = plain_array(layer(tokens)), plain_array(layer.kernel.dense())
    assert_close(rows, table[tokens])
    layer.logits.assign(200.0 * np.eye(4, dtype="float32")[candidate])
    plain = layer.finalize()
    assert type(plain) is (keras.layers.Embedding if candidate == 3 else layers.StructuredEmbedding)
    assert_close(plain_array(plain(tokens)), plain_array(layer(tokens)))
    parameters = float(keras.ops.convert_to_numpy(layer.parameters()))
    assert parameters == (96 * 24 if candidate == 3 else plain.count_params())
    counted = float(keras.ops.convert_to_numpy(layer.complexity((None, 5))))
    assert counted == (0 if candidate == 3 else plain.multiply_adds((None, 5)))
