"""Compiled functions of models that have to be made anew."""

import keras


def trace_anew(layers):
    """Let models trace the functions by which they train, evaluate and predict at the next call.

    Args:
        layers: layers, of which those that are models are meant.
    """
    for layer in layers:
        if isinstance(layer, keras.Model):
            if layer.compiled:
                layer.make_train_function(force=True)
                layer.make_test_function(force=True)
            layer.make_predict_function(force=True)
