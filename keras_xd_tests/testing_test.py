"""The shared layer check accepts a sound layer and finds each defect that it looks for."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_xd.core.searchable import SearchableLayer
from keras_xd.testing import check_layer


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Scale(SearchableLayer):
    """Scale the input by a searched and a trained factor."""

    def __init__(self, factor=2.0, defect=None, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor
        self.defect = defect

    def build(self, input_shape):
        self.architecture = self.add_weight(name="architecture", initializer="ones")
        scale = self.add_weight(name="scale", initializer="ones")
        # TensorFlow's checkpoints reach what is in tuples, nothing in lists.
        self.scales = [scale] if self.defect == "checkpoint" else (scale,)

    @property
    def scale(self):
        return self.scales[0]

    @property
    def architecture_variables(self):
        return [] if self.defect == "architecture" else [self.architecture]

    def call(self, inputs):
        scale = self.architecture if self.defect == "gradient" else self.architecture * self.scale
        outputs = inputs * scale * self.factor
        if self.defect == "type":
            outputs = ops.cast(outputs, "float32")
        if self.defect == "batch":
            outputs = outputs - ops.mean(outputs, axis=0, keepdims=True)
        if self.defect == "infinite":
            outputs = outputs / 0.0
        if self.defect == "graph" and hasattr(inputs, "numpy"):
            outputs = outputs + 0.01
        return outputs

    def compute_output_shape(self, input_shape):
        return input_shape[:-1] if self.defect == "shape" else input_shape

    def complexity(self, input_shape):
        return 0.0 if self.defect == "complexity" else float(np.prod(input_shape[1:]))

    def finalize(self):
        if self.defect == "searchable":
            return self
        change = 0.01 if self.defect == "finalize" else 0.0
        factor = float(self.architecture.numpy() * self.scale.numpy()) * self.factor + change
        if self.defect == "side effect":
            self.scale.assign(0.0)
        static = keras.layers.Rescaling(factor)
        static.build((None, 1))
        return static

    def describe(self):
        return {"factor": "2" if self.defect == "describe" else float(self.architecture.numpy())}

    def save_own_variables(self, store):
        super().save_own_variables(store)
        if self.defect == "unbuilt":
            assert self.scale.shape == ()

    def get_config(self):
        config = {**super().get_config(), "factor": self.factor, "defect": self.defect}
        if self.defect == "config":
            del config["factor"]
        if self.defect == "lossy":
            config["factor"] = 1.0
        return config


def test_accepts_a_sound_layer():
    layer = check_layer(Scale, {"factor": 3.0}, (3, 4))
    assert layer.factor == 3.0


@pytest.mark.parametrize(
    ("defect", "check"),
    [
        ("config", "check_config"),
        ("lossy", "check_another"),
        ("unbuilt", "check_unbuilt"),
        ("checkpoint", "check_checkpoint"),
        ("shape", "check_calls"),
        ("type", "check_mixed_precision"),
        ("batch", "check_calls"),
        ("infinite", "check_calls"),
        ("graph", "check_calls"),
        ("gradient", "check_training"),
        ("architecture", "check_protocol"),
        ("complexity", "check_protocol"),
        ("describe", "check_protocol"),
        ("finalize", "check_protocol"),
        ("searchable", "check_protocol"),
        ("side effect", "check_protocol"),
    ],
)
def test_finds(defect, check):
    # Keras warns of a variable that no gradient reaches, and warnings are errors.
    with pytest.raises((AssertionError, AttributeError, UserWarning)) as error:
        check_layer(Scale, {"factor": 3.0, "defect": defect}, (3, 4), run_jit=False)
    assert check in [entry.name for entry in error.traceback]


def test_needs_a_batch():
    with pytest.raises(ValueError, match="batch of at least 2"):
        check_layer(Scale, {}, (1, 4))
