import re
import types

import keras
import numpy as np
import pytest

from keras_xd.core import validation


@pytest.mark.parametrize("value", [1, 7, np.int64(3)])
def test_positive_integer(value):
    assert validation.positive_integer(value, "depth") == value
    assert type(validation.positive_integer(value, "depth")) is int


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True])
def test_no_positive_integer(value):
    message = f"`depth` must be an integer of at least 1. Received: depth={value!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        validation.positive_integer(value, "depth")


def test_integer_tuple():
    assert validation.integer_tuple(3, 2, "strides") == (3, 3)
    assert validation.integer_tuple([1, np.int32(2)], 2, "strides") == (1, 2)


@pytest.mark.parametrize("value", [0, (1,), (1, 2, 3), (1, 0), (1, 2.5), "12", None])
def test_no_integer_tuple(value):
    message = f"tuple of 2 positive integers. Received: strides={value!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        validation.integer_tuple(value, 2, "strides")


def test_one_of():
    assert validation.one_of("a", ("a", "b"), "mode") == "a"
    with pytest.raises(ValueError, match="`mode` must be one of 'a', 'b'. Received: mode='c'"):
        validation.one_of("c", ("a", "b"), "mode")


def test_known_dimensions():
    validation.known_dimensions((None, 4, 5, 3), (1, 2), "layer")
    with pytest.raises(ValueError, match=r"'layer'.*input_shape=\(None, 4, None, 3\)"):
        validation.known_dimensions((None, 4, None, 3), (1, 2), "layer")


@pytest.mark.parametrize(
    "selection, names",
    [
        (None, ""),
        ("a", "a"),
        ("a.*", "a aa"),
        (re.compile("b|aa"), "aa b"),
        (["a", "b"], "a b"),
        (lambda layer: layer.name != "a", "aa b"),
        (("b", lambda layer: layer.name == "a"), "a b"),
        ([], ""),
    ],
)
def test_matcher(selection, names):
    layers = [types.SimpleNamespace(name=name) for name in ("a", "aa", "b")]
    matches = validation.matcher(selection, "only")
    assert [layer.name for layer in layers if matches(layer)] == names.split()


def test_matcher_takes_a_name_with_special_characters():
    layer = keras.layers.Dense(1, name="block.1_(conv)")
    assert validation.matcher("block.1_(conv)", "only")(layer)


@pytest.mark.parametrize("selection", [3, 2.5, [1]])
def test_no_selection(selection):
    with pytest.raises(ValueError, match="`only` must be a layer name.*Received: only="):
        validation.matcher(selection, "only")


@pytest.mark.parametrize("value", [True, np.bool_(False), 0, 1])
def test_boolean(value):
    assert validation.boolean(value, "use_bias") is bool(value)


@pytest.mark.parametrize("value", [2, 0.0, "yes", None])
def test_no_boolean(value):
    message = f"`use_bias` must be True or False. Received: use_bias={value!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        validation.boolean(value, "use_bias")


def test_real_number():
    assert validation.real_number(np.float32(0.5), "centre") == 0.5
    for value in ("0.5", None, True, 1j):
        with pytest.raises(ValueError, match="`centre` must be a number. Received: centre="):
            validation.real_number(value, "centre")


def test_positive_number():
    found = validation.positive_number(np.float32(0.5), "temperature")
    assert found == 0.5 and type(found) is float
    for value in (0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="`temperature` must be above 0 and finite. Received"):
            validation.positive_number(value, "temperature")
    with pytest.raises(ValueError, match="must be a number"):
        validation.positive_number("1", "temperature")


def test_seed():
    assert validation.seed(None) is None and validation.seed(np.int64(3)) == 3
    for value in ("a", -1, 0.5, True):
        with pytest.raises(ValueError, match="`seed` must be an integer of at least 0 or None"):
            validation.seed(value)


def test_depth():
    assert validation.depth(3, 3) == (3, 3, 3) and validation.depth(3) == 3
    for value in (65, 10**4):
        with pytest.raises(ValueError, match=f"`depth` must be at most 64.*depth={value}"):
            validation.depth(value, 3)
        with pytest.raises(ValueError, match=f"`depth` must be at most 64.*depth={value}"):
            validation.depth(value)


def test_collection():
    assert validation.collection(["a"], "candidates") == ("a",)
    for value in ("a", 3, None, {"a": 1}):
        with pytest.raises(ValueError, match="`candidates` must be a list or tuple"):
            validation.collection(value, "candidates")


def test_letters():
    assert validation.letters("RK", "KRW", "learn") == "RK"
    assert validation.letters("", "KRW", "learn") == ""
    for value in ("KK", "k", None, 3):
        with pytest.raises(ValueError, match="different letters among 'KRW'. Received: learn="):
            validation.letters(value, "KRW", "learn")
