import keras
import pytest

import keras_xd


@pytest.mark.parametrize("to", ["xd", "darts", "masked", "structured"])
@pytest.mark.parametrize("argument", ["only", "skip"])
def test_a_glob_is_no_pattern_in_any_space(to, argument):
    inputs = keras.Input((8, 2))
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Conv1D(4, 3)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(16)(x))
    with pytest.raises(ValueError, match=rf"Received: {argument}='\*conv', which is not a pattern"):
        keras_xd.rewrite(model, to, **{argument: "*conv"})
