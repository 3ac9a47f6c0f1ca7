"""Signatures tell architectures apart; how files use them is in search_model_saving_test."""

import keras
import pytest

from keras_xd.layers import XDConv2D
from keras_xd.training.architecture_signature import check_signature, signature
from keras_xd_tests.training.gated_dense import GatedDense


def model(*units):
    return keras.Sequential([keras.Input((4,)), *[GatedDense(count) for count in units]])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ((5,), "a file of 1 searchable layers, model 2"),
        ((5, 3), r"layer 1, .*file \['units=3', 'kernel: \(5, 3\)', 'bias: \(3,\)'\], model"),
    ],
)
def test_other_signatures_are_refused(other, message):
    with pytest.raises(ValueError, match=message):
        check_signature(model(5, 2), signature(model(*other)))


@pytest.mark.parametrize("radix", [6, (3, 2)])
def test_a_radix_of_all_axes_is_that_of_each_axis(radix):
    def describe(radix):
        layer = XDConv2D(2, 3, radix=radix, padding="circular")
        return signature(keras.Sequential([keras.Input((6, 6, 1)), layer]))[0]

    assert f"radix={(radix, radix)}" in describe(radix)
    assert not any(text.startswith("radix") for text in describe(None))
    assert describe(((3, 2), (3, 2))) == describe((3, 2)) != describe(((2, 3), (3, 2)))
