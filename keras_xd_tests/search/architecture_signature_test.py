"""Signatures tell architectures apart; how files use them is in search_model_saving_test."""

import json

import keras
import pytest

from keras_xd.search.architecture_signature import check_signature, signature
from keras_xd_tests.search.gated_dense import GatedDense


def model(*units):
    return keras.Sequential([keras.Input((4,)), *[GatedDense(count) for count in units]])


def test_signature_names_numbers_and_shapes_and_survives_json():
    found = signature(model(5, 2))
    assert found[0] == ["GatedDense", "units=5", "gates: (4,)", "kernel: (4, 5)", "bias: (5,)"]
    assert found[1][1:4] == ["units=2", "gates: (5,)", "kernel: (5, 2)"]
    check_signature(model(5, 2), json.loads(json.dumps(found)))


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
