"""Every search space in every float type: rewritten, counted and finalized."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd

TOLERANCES = {
    "float16": 0.02,
    "bfloat16": 0.1,
    "float64": 1e-5,
    "mixed_bfloat16": 0.1,
}
OPTIONS = {
    "xd": {},
    "k_operation": {},
    "darts": {"other_weight": 0},
    "dash": {"other_weight": 0, "kernel_sizes": (3, 5), "dilations": (1,)},
    "masked": {},
    "structured": {"family": ("dense", "low_rank"), "density": 0.8},
}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("space", OPTIONS)
def test_every_space_in_every_float_type(space, dtype, rng):
    inputs = keras.Input((8, 2), dtype="float32")
    options = {"dtype": dtype, "padding": "same"}
    x = layers.Conv1D(4, 3, **options)(inputs)
    x = layers.Conv1D(4, 3, activation="tanh", **options)(x)
    model = keras.Model(inputs, layers.Dense(4, dtype=dtype)(x))
    space_model = keras_xd.rewrite(model, to=space, **OPTIONS[space])
    x = rng.standard_normal((2, 8, 2)).astype("float32")
    if space == "structured":  # all of the mixture is the dense kernel, as finalized
        (logits,) = keras_xd.architecture_variables(space_model)
        logits.assign([200.0, 0.0])
    expected, found, finalized = (
        keras.ops.convert_to_numpy(keras.ops.cast(m(x), "float32"))
        for m in (model, space_model, keras_xd.finalize(space_model))
    )
    for outputs in (found, finalized):
        error = np.max(np.abs(outputs - expected)) / np.max(np.abs(expected))
        assert error <= TOLERANCES[dtype], error
    assert 0 < float(keras_xd.complexity(space_model)) < 10_000
