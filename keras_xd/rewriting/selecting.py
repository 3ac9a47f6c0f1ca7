"""Checks of what `only` and `skip` select."""

import re

from keras_xd.core import validation
from keras_xd.core.searchable import named_layers
from keras_xd.rewriting.explaining import listing


def check_selection(model, found, layers, selection, argument):
    """Raise `ValueError` if a name or pattern in `selection` does not find what it should.

    Args:
        model: the model.
        found: the candidates in it.
        layers: for the path of each candidate that can be rewritten, the layer to select it by.
        selection: the value of the argument.
        argument: its name, `"only"` or `"skip"`.
    """
    items = selection if isinstance(selection, (list, tuple, set)) else [selection]
    for item in items:
        if not isinstance(item, (str, re.Pattern)):
            continue
        everything = [*(layer for _, layer in named_layers(model)[1:]), *layers.values()]
        matches = validation.matcher(item, argument)
        existing = [layer for layer in everything if matches(layer)]
        if not existing:
            raise ValueError(
                f"`{argument}` must name layers of the model. Received: {argument}={item!r}, which "
                f"does not exist; the model has {listing(found)}"
            )
        if argument == "only" and not any(map(matches, layers.values())):
            reasons = [
                f"'{c.path}': {c.reason}" for c in found if c.layer is not None and matches(c.layer)
            ]
            reasons = reasons or [f"'{existing[0].name}' is a {type(existing[0]).__name__}"]
            raise ValueError(
                f"`only` must name layers that can be rewritten. Received: only={item!r}, which "
                f"cannot be ({'; '.join(reasons)}); the model has {listing(found)}"
            )
