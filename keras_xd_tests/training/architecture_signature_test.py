"""Signatures tell architectures apart; how files use them is in search_model_saving_test."""

import keras
import pytest

from keras_xd.layers import XDConv2D
from keras_xd.training.architecture_signature import signature


@pytest.mark.parametrize("radix", [6, (3, 2)])
def test_a_radix_of_all_axes_is_that_of_each_axis(radix):
    def describe(radix):
        layer = XDConv2D(2, 3, radix=radix, padding="circular")
        return signature(keras.Sequential([keras.Input((6, 6, 1)), layer]))[0]

    assert f"radix={(radix, radix)}" in describe(radix)
    assert not any(text.startswith("radix") for text in describe(None))
    assert describe(((3, 2), (3, 2))) == describe((3, 2)) != describe(((2, 3), (3, 2)))
