"""Checks of arguments: what they return, and what they refuse with the rule and the value."""

import re
import types

import keras
import numpy as np
import pytest

from keras_xd.core import shapes, validation


def pair(value, name):
    return validation.integer_tuple(value, 2, name)


def letters(value, name):
    return validation.letters(value, "KRW", name)


def share(value, name):
    return validation.number_within(value, "(]", 0, 1, name)


def probability(value, name):
    return validation.number_within(value, "[)", 0, 1, name)


def one_of(value, name):
    return validation.one_of(value, ("a", "b"), name)


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (validation.positive_integer, np.int64(3), 3),
        (pair, 3, (3, 3)),
        (pair, [1, np.int32(2)], (1, 2)),
        (one_of, "a", "a"),
        (validation.boolean, np.bool_(False), False),
        (validation.boolean, 1, True),
        (validation.real_number, np.float32(0.5), 0.5),
        (validation.positive_number, np.float32(0.5), 0.5),
        (share, np.float32(0.5), 0.5),
        (share, 1, 1.0),
        (probability, 0, 0.0),
        (validation.different, ["a", [1], 1], ("a", [1], 1)),
        (validation.seed, None, None),
        (validation.seed, np.int64(3), 3),
        (lambda value, _: validation.depth(value, 3), 3, (3, 3, 3)),
        (lambda value, _: validation.depth(value), 3, 3),
        (validation.collection, ["a"], ("a",)),
        (letters, "RK", "RK"),
        (letters, "", ""),
    ],
)
def test_what_is_taken(check, value, expected):
    found = check(value, "argument")
    assert found == expected
    assert not isinstance(found, np.generic) or check is validation.real_number


@pytest.mark.parametrize(
    ("check", "rule", "values"),
    [
        (validation.positive_integer, "an integer of at least 1", (0, -1, 1.0, "1", None, True)),
        (pair, "a tuple of 2 positive", (0, (1,), (1, 2, 3), (1, 0), (1, 2.5), "12", None)),
        (one_of, "one of 'a', 'b'", ("c", None)),
        (validation.boolean, "True or False", (2, 0.0, "yes", None)),
        (validation.real_number, "a number", ("0.5", None, True, 1j)),
        (validation.positive_number, "above 0 and finite", (0, -1.0, np.inf, np.nan)),
        (share, "a number in (0, 1]", (0, 1.1, -1, np.nan, "0.5", True)),
        (probability, "a number in [0, 1)", (1, -0.1, np.inf, None)),
        (validation.different, "different ones", ((), (1, 2, 1))),
        (validation.seed, "an integer of at least 0 or None", ("a", -1, 0.5, True)),
        (lambda value, name: validation.depth(value, 3, name), "at most 64", (65, 10**4)),
        (lambda value, name: validation.depth(value, None, name), "at most 64", (65,)),
        (validation.collection, "a list or tuple", ("a", 3, None, {"a": 1})),
        (letters, "different letters among 'KRW'", ("KK", "k", None, 3)),
    ],
)
def test_what_is_refused(check, rule, values):
    for value in values:
        message = rf"`argument` must be .*{re.escape(rule)}.*argument={re.escape(repr(value))}"
        with pytest.raises(ValueError, match=message):
            check(value, "argument")


def test_shapes_are_split_and_must_be_known():
    assert shapes.split_shape((None, 4, 5, 3), 2, "channels_last", "layer") == (3, (4, 5))
    assert shapes.split_shape([None, 3, 4, 5], 2, "channels_first", "layer") == (3, (4, 5))
    for shape, rule in (((None, 4, None, 3), "to be known"), ((None, 4, 3), "inputs of 4 axes")):
        message = rf"'layer' needs .*{rule}.*input_shape={re.escape(str(shape))}"
        with pytest.raises(ValueError, match=message):
            shapes.split_shape(shape, 2, "channels_last", "layer")


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


@pytest.mark.parametrize(
    ("wrap", "named"),
    [
        (np.asarray, "x"),
        (keras.ops.convert_to_tensor, "x"),
        (lambda fields: [np.ones((9, 2)), fields], r"x\[1\]"),
        (lambda fields: {"labels": np.arange(9), "a": (fields,)}, r"x\['a'\]\[0\]"),
    ],
)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_what_is_not_finite_is_named(wrap, named, value, monkeypatch):
    monkeypatch.setattr(validation, "_CHECKED_AT_ONCE", 70)  # several parts of two samples
    fields = np.zeros((9, 5, 6, 2), "float32")
    validation.check_finite_data(wrap(fields), "x")
    fields[7, 4, 0, 1] = fields[8] = value
    place = rf"`{named}` must be finite. Received: {value} in sample 7, channel 1: {named}"
    with pytest.raises(ValueError, match=place + r"\[7, 4, 0, 1\]"):
        validation.check_finite_data(wrap(fields), "x")
    with pytest.raises(ValueError, match=rf"{value} in sample 107, channel 1"):
        validation.check_finite_data(wrap(fields), "x", before=100)


def test_other_data_are_not_read():
    def generator():
        raise AssertionError("must not be read")
        yield

    words = np.array(["a", "b"]), np.array([None, 1.0], dtype=object)
    for data in (None, 0.5, np.float32(np.nan), np.zeros((0, 3)), generator(), *words):
        validation.check_finite_data(data, "x")
