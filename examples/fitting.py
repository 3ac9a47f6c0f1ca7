"""What trainings of the examples share: optimizers, the compilation of searches, accuracy."""

import keras
import numpy as np

import keras_xd


def adam(rate, steps, **options):
    """Return Adam whose rate falls to 0 along a cosine."""
    return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(rate, steps), **options)


def accuracy_metric():
    """Return the accuracy; TensorFlow traces a step twice that makes it from its name."""
    return keras.metrics.SparseCategoricalAccuracy("accuracy")


def compiled(model, weights, architecture=None, **options):
    """Return a compiled network or, with an optimizer of its architecture, the search of one."""
    if architecture is not None:
        model = keras_xd.SearchModel(model)
        options["architecture_optimizer"] = architecture
    model.compile(weights, **options)
    if architecture is None:
        model.optimizer.build(model.trainable_variables)  # else TensorFlow traces the step twice
    return model


def accuracy(model, inputs, labels):
    """Return the share of samples whose class is found."""
    answers = model.predict(inputs, batch_size=250, verbose=0).argmax(axis=-1)
    return float(np.mean(answers == labels))
