"""Saves models, each in a copy of the process that kills itself at the fourth weight it writes."""

import os
import signal

import h5py
import keras

from keras_xd_tests import programs
from keras_xd_tests.core import saving_test
from keras_xd_tests.training.gated_dense import classification_data


def train(model, path):
    checkpoint = keras.callbacks.ModelCheckpoint(path, save_weights_only=path.endswith(".h5"))
    model.fit(*classification_data(), callbacks=[checkpoint], verbose=0)


def save_and_die(make, path, kind):
    model, written, create = make(), [], h5py.Group.create_dataset

    def create_or_die(*arguments, **options):
        written.append(arguments)
        if len(written) > 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return create(*arguments, **options)

    if kind == "checkpoint":
        train(model, path)
    h5py.Group.create_dataset = create_or_die
    if kind == "checkpoint":
        train(model, path)
    elif path.endswith(".h5"):
        model.save_weights(path)
    else:
        model.save(path)


def statuses(cases):
    """Return how the copies of this process end that save models.

    Args:
        cases: for each a function of `saving_test` that makes a model, its file, and how it is
            saved.
    """
    return [
        programs.in_child(save_and_die, getattr(saving_test, make), path, kind)
        for make, path, kind in cases
    ]
