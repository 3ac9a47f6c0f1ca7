import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd import testing as layer_checks
from keras_xd.testing import assert_close, check_file

PAIRS = [
    (keras.layers.LSTM, layers.StructuredLSTM),
    (keras.layers.GRU, layers.StructuredGRU),
]


@pytest.mark.parametrize(("keras_class", "structured"), PAIRS)
def test_equals_the_layer_of_keras(keras_class, structured, rng):
    options = {"return_sequences": True, "bias_initializer": "normal", "go_backwards": True}
    inputs = keras.Input((4, 6))
    masked = keras.layers.Masking()(inputs)
    model = keras.Model(inputs, keras_class(8, name="recurrent", **options)(masked))
    x = rng.normal(size=(3, 4, 6)).astype("float32")
    x[:, 2:] = 0
    space = keras_xd.rewrite(model, to="structured", family="dense")
    new = space.get_layer("recurrent")
    assert type(new) is structured and new.go_backwards
    assert_close(np.array(space(x)), np.array(model(x)))
    assert keras_xd.complexity(space) == keras_xd.complexity(model)
    check_file(space, x)
    small = keras_xd.rewrite(model, to="structured", family="low_rank", density=0.5)
    names = [row.name for row in small.report.rows]
    assert names == ["recurrent/kernel", "recurrent/recurrent_kernel"]
    assert small.count_params() < 0.7 * model.count_params()
    assert keras_xd.complexity(small) < 0.6 * keras_xd.complexity(model)


def test_layer(rng):
    structured = layers.StructuredLSTM
    arguments = {"units": 4, "family": "low_rank", "sizes": {"rank": 2}, "seed": 3}
    arguments |= {"recurrent_sizes": {"rank": 3}, "return_sequences": True}
    layer_checks.check_config(structured, arguments)
    layer = structured(**arguments)
    x = rng.normal(size=(3, 2, 6)).astype("float32")
    model, outputs = layer_checks.check_calls(layer, x)
    layer_checks.check_checkpoint(model, layer_checks.check_file(model, x, outputs))
    layer_checks.check_mixed_precision(structured, arguments, layer, x, outputs)
    before = model.get_weights()
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(x, np.ones((3, 2, 4)), verbose=0)
    for old, new in zip(before, model.get_weights(), strict=True):
        assert np.abs(new - old).max() > 0


def test_bad_input():
    with pytest.raises(ValueError, match="without recurrent dropout. Received: recurrent_dropout"):
        layers.StructuredLSTM(4, recurrent_dropout=0.1)
    with pytest.raises(ValueError, match="Received: reset_after=False"):
        layers.StructuredGRU(4, reset_after=False)
    with pytest.raises(ValueError, match="`recurrent_sizes` of the family 'monarch'"):
        layers.StructuredGRU(4, "monarch", recurrent_sizes={"rank": 2})
    inputs = keras.Input((5, 6))
    x = keras.layers.LSTM(4, recurrent_dropout=0.1, name="drops", return_sequences=True)(inputs)
    x = keras.layers.GRU(4, reset_after=False, name="before", return_sequences=True)(x)
    model = keras.Model(inputs, keras.layers.Dense(8, name="dense")(x))
    left = keras_xd.rewrite(model, to="structured", density=0.9).report.left
    assert left["drops"] == "it has recurrent dropout"
    assert left["before"].startswith("its reset gate")
    assert set(left) == {"drops", "before"}


def test_both_directions(tmp_path, rng):
    inputs = keras.Input((2, 6))
    x = keras.layers.Bidirectional(keras.layers.LSTM(4, name="lstm"), name="both")(inputs)
    model = keras.Model(inputs, x)
    x = rng.normal(size=(3, 2, 6)).astype("float32")
    space = keras_xd.rewrite(model, to="structured", family="dense")
    assert_close(np.array(space(x)), np.array(model(x)))
    assert keras_xd.complexity(space) == keras_xd.complexity(model)
    assert {row.name for row in space.report.rows} == {
        f"both/{way}_lstm/{kernel}"
        for way in ("forward", "backward")
        for kernel in ("kernel", "recurrent_kernel")
    }
    space.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    assert_close(np.array(restored(x)), np.array(model(x)))
