import keras
import pytest

import keras_xd
from keras_xd.rewriting.selecting import check_selection
from keras_xd.rewriting.spaces import XD


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("missing", "`only` must name layers of the model. Received: only='missing'"),
        ("pool", "'pool' is a AveragePooling1D"),
        ("co(nv", "which is not a pattern"),
    ],
)
def test_selections_that_find_nothing(selection, message):
    model = keras.Sequential(
        [
            keras.Input((9, 1)),
            keras.layers.Conv1D(2, 3, name="conv"),
            keras.layers.AveragePooling1D(2, name="pool"),
        ]
    )
    found = XD.candidates(model, operations=("convolution",))
    layers = {candidate.path: candidate.layer for candidate in found}
    with pytest.raises(ValueError, match=message):
        check_selection(model, found, layers, selection, "only")
    check_selection(model, found, layers, ["co.*", lambda layer: False], "only")


@pytest.mark.parametrize("to", ["xd", "darts", "masked", "structured"])
@pytest.mark.parametrize("argument", ["only", "skip"])
def test_a_glob_is_no_pattern_in_any_space(to, argument):
    inputs = keras.Input((8, 2))
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Conv1D(4, 3)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(16)(x))
    with pytest.raises(ValueError, match=rf"Received: {argument}='\*conv', which is not a pattern"):
        keras_xd.rewrite(model, to, **{argument: "*conv"})
