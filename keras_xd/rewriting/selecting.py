"""Selection of layers by `only` and `skip`."""

import re

from keras_xd.core import validation
from keras_xd.core.searchable import named_layers
from keras_xd.rewriting.explaining import SIZES_HINT, listing, warn_of_unknown_sizes


def pick(model, found, layers, only, skip):
    """Return the candidates that are selected of those that can be rewritten."""
    wanted = selection(model, found, layers, only, skip)
    picked = [c for c in found if c.path in layers and wanted(layers[c.path])]
    if not picked:
        raise ValueError(
            f"Nothing is left to rewrite. Received: only={only!r}, skip={skip!r}, and a model with "
            f"{listing(found)}{SIZES_HINT if any(c.size_unknown for c in found) else ''}"
        )
    warn_of_unknown_sizes([c for c in found if c.layer is None or wanted(c.layer)], model)
    return picked


def selection(model, found, layers, only, skip):
    """Return a function that tells whether a layer is selected."""
    check_selection(model, found, layers, only, "only")
    check_selection(model, found, layers, skip, "skip")
    wanted = validation.matcher(only, "only") if only is not None else lambda layer: True
    unwanted = validation.matcher(skip, "skip")
    return lambda layer: wanted(layer) and not unwanted(layer)


def check_selection(model, found, layers, selection, argument):
    """Raise `ValueError` if a name or pattern in `selection` does not find what it should."""
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
                f"does not exist; the model has {listing(found, layers)}"
            )
        if argument == "only" and not any(map(matches, layers.values())):
            left = [c for c in found if c.reason and c.layer is not None and matches(c.layer)]
            reasons = [f"'{c.path}': {c.reason}" for c in left]
            reasons = reasons or [f"'{existing[0].name}' is a {type(existing[0]).__name__}"]
            raise ValueError(
                f"`only` must name layers that can be rewritten. Received: only={item!r}, which "
                f"cannot be ({'; '.join(reasons)}); the model has {listing(found, layers)}"
            )
