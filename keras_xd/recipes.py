"""Settings of a good first search, space by space, and those of the papers."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import keras

from keras_xd import layers
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import searchable_layers
from keras_xd.layers.ccnn.ck_conv import CKConv
from keras_xd.paper_settings import PAPERS
from keras_xd.rewriting import spaces
from keras_xd.rewriting.search_space import SearchSpace

__all__ = [
    "Recipe",
    "paper",
    "recipe",
]

DATA = ("images", "unordered", "fields", "sequences")
# Of a model whose layers have no recipe, such as those of a search space of your own.
DEFAULT_RATE = 1e-3


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Settings of a first search.

    Attributes:
        space: the search space, `to` of `keras_xd.rewrite`; `"ccnn"` is `keras_xd.models.ccnn`,
            `"nos"` is `keras_xd.models.nos_search_network`.
        rate: learning rate of the architecture, by Adam. It is no multiple of the weights' rate: a
            step of Adam has the size of the rate, and the numbers of an architecture begin with a
            size that does not depend on the network.
        rewrite_options: dictionary of further arguments of `rewrite`.
        compile_options: dictionary of further arguments of `SearchModel.compile`. One with a
            `complexity_weight` goes with the `complexity_target` that you want.
    """

    space: str
    rate: float
    rewrite_options: Mapping[str, Any]
    compile_options: Mapping[str, Any]

    def architecture_optimizer(self, steps: int | None = None) -> keras.optimizers.Adam:
        """Return a new optimizer of the architecture.

        Args:
            steps: the number of steps in which the architecture moves. The rate falls to 0 in
                them along a cosine. `None`: it is constant.
        """
        if steps is None:
            return keras.optimizers.Adam(self.rate)
        steps = validation.positive_integer(steps, "steps")
        return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(self.rate, steps))


# Networks that are made and not rewritten.
CCNN = SearchSpace("ccnn", {}, layers=[layers.CCNNBlock, CKConv], recipe={"rate": 5e-3})
NOS = SearchSpace(
    "nos",
    {},
    layers=[layers.HeterogeneousCell],
    recipe={"rate": PAPERS["nos"]["search"]["architecture_rate"]},
)


@check_types
def recipe(space: str = "xd", data: str | None = None, epochs: int | None = None) -> Recipe:
    """Return the settings to begin a search with.

    `SearchModel.compile` without an architecture optimizer uses the rate of
    `recipe(space, None)`, whatever the data.

    Args:
        space: `"xd"`, `"k_operation"`, `"darts"`, `"dash"`, `"structured"`, `"masked"`, `"ccnn"`
            and `"nos"` (the networks of `keras_xd.models.ccnn` and `nos_search_network`, which are
            not rewritten), or the name of one of your own.
        data: for `"xd"`, what the data are. `"images"`: natural ones, for which a convolution is
            probably right. `"unordered"`: images or signals whose order is unknown or permuted.
            `"fields"`: solutions of differential equations. `"sequences"`: music, sensors. `None`:
            not known. The other spaces have one setting for all data.
        epochs: the number of epochs of `fit`, of which warm-up and cool-down are shares. `None`:
            the recipe has neither.

    Returns:
        A `Recipe`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> recipe = keras_xd.recipes.recipe("xd", data="unordered", epochs=2)
    >>> recipe.rate, dict(recipe.rewrite_options)
    (0.001, {'depth': 3})
    >>> backbone = keras.Sequential(
    ...     [
    ...         keras.Input((8, 8, 1)),
    ...         keras.layers.Conv2D(2, 3, activation="relu"),
    ...         keras.layers.GlobalAveragePooling2D(),
    ...     ]
    ... )
    >>> space = keras_xd.rewrite(backbone, recipe.space, **recipe.rewrite_options)
    >>> search = keras_xd.SearchModel(space)
    >>> search.compile(
    ...     keras.optimizers.Adam(1e-3),
    ...     recipe.architecture_optimizer(steps=2 * 2),
    ...     loss="mse",
    ...     **recipe.compile_options,
    ... )
    >>> images, targets = np.ones((8, 8, 8, 1)), np.zeros((8, 2))
    >>> history = search.fit(images, targets, batch_size=4, epochs=2, verbose=0)
    """
    known = {known.name: known for known in _spaces()}
    validation.one_of(space, tuple(known), "space")
    setting = known[space].recipe
    if data is not None:
        validation.one_of(data, DATA, "data")
        setting = known[space].data_recipes.get(data, setting)
    options = dict(setting["compile_options"])
    if epochs is not None:
        epochs = validation.positive_integer(epochs, "epochs")
        options |= {name: int(share * epochs) for name, share in setting["phases"].items()}
    return Recipe(space, setting["rate"], dict(setting["rewrite_options"]), options)


@check_types
def paper(name: str, experiment: str | None = None) -> dict[str, Any]:
    """Return the settings of a paper's experiment, as plain data.

    Args:
        name: `"xd"`, `"chrysalis"` (K-operations), `"dnarch"`, `"nos"` or `"algebraic"`.
        experiment: one of the paper. `None`: all of them.

    Returns:
        Dictionary of the settings by their names. `"sources"` has the section or table of each, or
        "published code"; `"unstated"` the names of settings that the paper does not say, which are
        left out. For all experiments, a dictionary from their names to such dictionaries.

    Example:

    >>> import keras_xd
    >>> settings = keras_xd.recipes.paper("dnarch", "cifar10")
    >>> settings["learning_rate"], settings["sources"]["learning_rate"]
    (0.01, 'appendix E.2, table 6')
    >>> keras_xd.recipes.paper("nos")["search"]["architecture_rate"]
    0.0006
    """
    found = PAPERS[validation.one_of(name, tuple(PAPERS), "name")]
    if experiment is None:
        return copy.deepcopy(found)
    return copy.deepcopy(found[validation.one_of(experiment, tuple(found), "experiment")])


@check_types
def default_rate(model: keras.Model) -> float:
    """Return the architecture's rate for a model that comes without one."""
    found = {spaces.space_of(layer, _spaces()) for layer in searchable_layers(model)} - {None}
    return min((space.recipe["rate"] for space in found), default=DEFAULT_RATE)


def _spaces():
    """Return the search spaces with a recipe."""
    return [*spaces.SEARCH_SPACES.values(), CCNN, NOS]
