"""Warnings name the line of the program that called the package."""

import warnings

import keras

import keras_xd


def test_a_warning_names_the_line_of_the_user():
    model = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.ConvLSTM1D(2, 3)])
    for call in (keras_xd.complexity, lambda model: keras_xd.complexity(model)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(model)
        assert [warning.filename for warning in caught] == [__file__]
