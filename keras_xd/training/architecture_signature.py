"""Signatures of a model's architecture, which files record."""

import json
import re

import numpy as np

from keras_xd.core.searchable import searchable_layers
from keras_xd.core.validation import is_integer


def signature(model):
    """Return the numbers in the configuration and the weights of every searchable layer,
    as text.
    """

    def describe(variable):
        # An automatic name ends in a number that differs from one process to the next.
        return f"{re.sub(r'_[0-9]+$', '', variable.name)}: {tuple(variable.shape)}"

    def numbers_in(layer):
        config = {name: _numbers(value) for name, value in layer.get_config().items()}
        if hasattr(layer, "axis_radices"):
            # One for each axis, however the user has written it; also files of 0.1 have these.
            config["radix"] = _numbers(layer.axis_radices)
        for name in ("trainable", "seed"):
            config.pop(name, None)
        return [f"{name}={value}" for name, value in config.items() if value is not None]

    return [
        [type(layer).__name__, *numbers_in(layer), *map(describe, layer.weights)]
        for layer in searchable_layers(model)
    ]


def check_signature(model, saved):
    """Raise `ValueError` unless the signature in a file is that of a model."""
    current = signature(model)
    if len(saved) != len(current):
        raise ValueError(
            "The architecture in a file must match the model's. Received: a file of "
            f"{len(saved)} searchable layers, model {len(current)}"
        )
    for number, (old, new) in enumerate(zip(saved, current, strict=True)):
        # The order of numbers is that of the configuration, which versions differ in.
        if sorted(old, key=_place) != sorted(new, key=_place):
            raise ValueError(
                "The architecture in a file must match the model's. Received: for searchable "
                f"layer {number}, '{searchable_layers(model)[number].name}', "
                f"file {[v for v in old if v not in new]}, "
                f"model {[v for v in new if v not in old]}"
            )


def _place(text):
    """Return the key by which numbers are sorted; weights stay in their order behind them."""
    return (0, text) if "=" in text else (1, "")


def _numbers(value):
    """Return `value`, lists as tuples, if it is made of whole numbers or booleans, else `None`."""
    if is_integer(value) or isinstance(value, bool):
        return value
    if isinstance(value, (list, tuple)):
        items = tuple(_numbers(item) for item in value)
        return None if None in items else items
    return None


def store_signature(model, store):
    """Write the signature of the search space into what `save_own_variables` is given."""
    text = json.dumps(signature(model))
    store["architecture"] = np.frombuffer(text.encode(), dtype="uint8")


def check_stored_signature(model, store):
    """Raise `ValueError` unless what `load_own_variables` is given has the model's signature."""
    if "architecture" not in store.keys():
        raise ValueError(
            "The file must be one of a SearchModel; load a file of the model in it by "
            "`search_model.model.load_weights`. Received: a file with no record of a search"
        )
    check_signature(model, json.loads(bytes(bytearray(store["architecture"])).decode()))
