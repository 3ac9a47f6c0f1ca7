"""Messages about models that are rewritten only in part, or not at all."""

import collections
import warnings

from keras_xd.core.searchable import is_graph, named_layers, searchable_layers
from keras_xd.core.warning_location import stacklevel
from keras_xd.layers import SpectralConv

SIZES_HINT = (
    ". Layers called at unknown spatial sizes are left: give the model's Input complete sizes, "
    "such as input_shape=(224, 224, 3)"
)
LONGEST_LIST = 12


def listing(found, able=None):
    """Return what can be rewritten, and what cannot, for a message."""
    able = [c.path for c in found if c.reason is None] if able is None else list(able)
    unable = [f"'{c.path}': {c.reason}" for c in found if c.reason is not None]
    noun = noun_of(found)
    text = f"the {noun}s {able}" if able else f"no {noun} that can be rewritten"
    return f"{text} (not: {'; '.join(unable)})" if unable else text


def searched_already(model):
    """Return a sentence for a model that is a search space itself, else an empty text."""
    layers = searchable_layers(model)
    if not layers:
        return ""
    return (
        f" The model is a search space already, with {len(layers)} searchable layers such as "
        f"{type(layers[0]).__name__} '{layers[0].name}': rewrite the original."
    )


def _instead_of_spectral(model):
    """Return what to search in place of a Fourier operator, else an empty text."""
    if not any(isinstance(layer, SpectralConv) for _, layer in named_layers(model)):
        return ""
    return (
        " A SpectralConv is not rewritten, because its weights, factorised or not, are not those "
        'of a convolution: `keras_xd.models.fno(operation="xd")` begins as a Fourier operator.'
    )


def nothing_found(model, what, received=""):
    """Return the error of a model without layers to rewrite."""
    return ValueError(
        f"`model` must have layers to rewrite, and {what}.{searched_already(model)}"
        f"{_instead_of_spectral(model)} Received: {received}model '{model.name}' of the layers "
        f"{described_layers(model)}"
    )


def noun_of(found):
    """Return what a candidate is called: a convolution where all are."""
    return "convolution" if {c.operation for c in found} <= {"convolution"} else "layer"


def described_layers(model):
    """Return how many layers of each class a model has, as text."""
    counts = collections.Counter(
        type(layer).__name__
        for _, layer in named_layers(model)[1:]
        if not is_graph(layer) and type(layer).__name__ != "InputLayer"
    )
    texts = [f"{kind} × {count}" if count > 1 else kind for kind, count in counts.items()]
    return ", ".join(texts) or "none"


def warn_of_unknown_sizes(found, model):
    """Warn if some candidates are left as they are because their sizes are unknown."""
    paths = [c.path for c in found if c.size_unknown]
    if not paths:
        return
    more = len(paths) - LONGEST_LIST
    names = ", ".join(paths[:LONGEST_LIST]) + (f" and {more} more" if more > 0 else "")
    warnings.warn(
        f"Of the {len(found)} {noun_of(found)}s of model '{model.name}' {len(paths)} are left as "
        "they are, because their spatial size is unknown. Give the model's Input complete sizes, "
        f"such as input_shape=(224, 224, 3). Left: {names}",
        stacklevel=stacklevel(),
    )
