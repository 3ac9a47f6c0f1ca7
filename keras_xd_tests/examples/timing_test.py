"""Calls of several networks are timed in turns."""

import importlib

import keras

from keras_xd_tests import example_scripts

with example_scripts.on_path():
    timing = importlib.import_module("timing")


def test_times_are_of_all_networks_and_batches(monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 2)
    calls = []

    class Counted(keras.layers.Layer):
        def call(self, inputs):
            calls.append(inputs.shape)  # in tracing
            return inputs

    models = [
        keras.Sequential([keras.Input((3,)), *([keras.layers.Dense(2000)] * wide), Counted()])
        for wide in (0, 1)
    ]
    calls.clear()
    found = timing.milliseconds(models, (3,), (1, 64))
    assert calls == [(None, 3), (None, 2000)]  # one function for all batches
    assert list(found) == ["1", "64"]
    assert all(len(times) == 2 and min(times) > 0 for times in found.values())
