"""Retracing the compiled functions of models."""

import keras


def force_retrace(layers):
    """Force Keras to retrace the train, test and predict functions of models at their next call.

    Args:
        layers: list of layers; those that are no models are left alone.
    """
    for layer in layers:
        if isinstance(layer, keras.Model):
            if layer.compiled:
                layer.make_train_function(force=True)
                layer.make_test_function(force=True)
            layer.make_predict_function(force=True)
