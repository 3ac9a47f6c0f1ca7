"""The search spaces of this package, and those of others."""

from collections.abc import Iterable, Mapping

import keras

from keras_xd import layers
from keras_xd.core.argument_types import check_types
from keras_xd.rewriting.masked import MaskedSpace
from keras_xd.rewriting.search_space import SearchSpace
from keras_xd.rewriting.structured import StructuredSpace
from keras_xd.rewriting.twins import check_twin, named_twins

CONVOLUTIONS = ("Conv1D", "Conv2D", "Conv3D")
XD_CONVOLUTIONS = (
    *(*CONVOLUTIONS, "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
    *("DepthwiseConv1D", "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D"),
)
# Each recipe is a setting that the repository has measured, or the one nearest to it:
# docs/choosing.md has the measurements.
XD = SearchSpace(
    "xd",
    named_twins("XD", XD_CONVOLUTIONS),
    causal_twin=layers.XDCausalConv1D,
    operators={1: layers.XDConv1D, 2: layers.XDConv2D, 3: layers.XDConv3D},
    recipe={"rate": 1e-3, "rewrite_options": {"depth": 1}},
    data_recipes={
        "images": {"rate": 1e-4, "rewrite_options": {"depth": 3}},
        "unordered": {"rate": 1e-3, "rewrite_options": {"depth": 3}},
        "fields": {"rate": 1e-3, "rewrite_options": {"depth": 1, "padding": "circular"}},
        "sequences": {
            "rate": 2e-4,
            "rewrite_options": {"depth": 1},
            "phases": {"warmup_epochs": 0.2},
        },
    },
)
K_OPERATION = SearchSpace(
    "k_operation",
    named_twins("KOp", CONVOLUTIONS),
    causal_twin=layers.KOpCausalConv1D,
    recipe={"rate": 1e-3, "rewrite_options": {"depth": 1}},
)
PERTURBED = {"rate": 0.1, "rewrite_options": {"other_weight": 0.1}}
DARTS = SearchSpace(
    "darts",
    {
        keras.layers.Conv1D: layers.MixedOperation1D,
        keras.layers.Conv2D: layers.MixedOperation2D,
    },
    recipe=PERTURBED,
)
DASH = SearchSpace("dash", named_twins("Dash", CONVOLUTIONS), recipe=PERTURBED)
SEARCH_SPACES = {
    space.name: space for space in (XD, K_OPERATION, DARTS, DASH, MaskedSpace(), StructuredSpace())
}


@check_types
def register_search_space(
    name: str | SearchSpace, twins: Mapping[type, type] | None = None
) -> None:
    """Add a search space of your own, for `rewrite(model, to=name)` and what builds on it.

    Args:
        name: the `SearchSpace`, or the name of one.
        twins: with a name, the classes of new layers, as in `SearchSpace`.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> class Searched(keras_xd.layers.XDConv2D):
    ...     pass
    >>> keras_xd.register_search_space("my_space", {keras.layers.Conv2D: Searched})
    >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3)])
    >>> type(keras_xd.rewrite(model, to="my_space").layers[0]).__name__
    'Searched'
    """
    if isinstance(name, SearchSpace) != (twins is None):
        raise ValueError(
            f"A name needs `twins`, a SearchSpace has its own. Received: name={name!r}, {twins=}"
        )
    space = name if isinstance(name, SearchSpace) else SearchSpace(name, twins or {})
    if not space.name or SEARCH_SPACES.get(space.name, space).twins != space.twins:
        raise ValueError(
            "`name` must not be empty or the name of another search space. Received: "
            f"name={space.name!r}, and there are {sorted(SEARCH_SPACES)}"
        )
    if not space.twins:
        raise ValueError(f"`twins` must have a class to replace. Received: twins={space.twins}")
    for keras_class, twin in space.twins.items():
        check_twin(keras_class, twin)
    SEARCH_SPACES[space.name] = space


def space_of(layer: keras.layers.Layer, spaces: Iterable[SearchSpace]) -> SearchSpace | None:
    """Return the first of some search spaces that a layer is of, or `None`."""
    for kind in type(layer).__mro__:
        for space in spaces:
            if kind in space.classes:
                return space
    return None
