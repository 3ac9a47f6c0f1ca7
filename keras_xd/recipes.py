"""Settings of a good first search, space by space.

Each is a setting that the repository has measured, or the one nearest to it: `docs/choosing.md` has
the measurements.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras

from keras_xd import layers
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import searchable_layers
from keras_xd.layers.masked.branch import MaskedBranch
from keras_xd.rewriting import kinds

__all__ = [
    "Recipe",
    "recipe",
]

DATA = ("images", "unordered", "fields", "sequences")
# Of a model whose layers have no recipe, such as those of a search space of one's own.
DEFAULT_RATE = 1e-3


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Settings of a first search.

    Attributes:
        space: the search space, `to` of `keras_xd.rewrite`; `"ccnn"` is `keras_xd.models.ccnn`.
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


@dataclasses.dataclass(frozen=True)
class _Setting:
    """What a space needs: rate, options, and the shares of the epochs of its fixed phases."""

    rate: float
    rewrite: dict = dataclasses.field(default_factory=dict)
    compile: dict = dataclasses.field(default_factory=dict)
    warmup: float = 0.0
    cooldown: float = 0.0


SETTINGS = {
    "xd": _Setting(1e-3, {"depth": 1}),
    "k_operation": _Setting(1e-3, {"depth": 1}),
    "darts": _Setting(0.1, {"perturb": 0.1}),
    "dash": _Setting(0.1, {"perturb": 0.1}),
    "structured": _Setting(
        0.05,
        {"family": ("low_rank", "monarch", "block_tensor_train", "blast")},
        {"complexity_measure": "parameters", "complexity_weight": 10.0},
    ),
    "masked": _Setting(0.03, {}, {"complexity_weight": 5.0}, warmup=6 / 11, cooldown=2 / 11),
    "ccnn": _Setting(5e-3),
}
# Of XD-operations, whose best settings depend on the data.
XD_SETTINGS = {
    "images": _Setting(1e-4, {"depth": 3}),
    "unordered": _Setting(1e-3, {"depth": 3}),
    "fields": _Setting(1e-3, {"depth": 1, "padding": "circular"}),
    "sequences": _Setting(
        2e-4, {"depth": 1, "frequency_bias": True, "channel_gates": True}, warmup=0.2
    ),
}


@check_types
def recipe(space: str = "xd", data: str | None = None, epochs: int | None = None) -> Recipe:
    """Return the settings to begin a search with.

    `SearchModel.compile` without an architecture optimizer uses the rate of
    `recipe(space, None)`, whatever the data.

    Args:
        space: `"xd"`, `"k_operation"`, `"darts"`, `"dash"`, `"structured"`, `"masked"` or `"ccnn"`
            (the networks of `keras_xd.models.ccnn`, which are not rewritten).
        data: for `"xd"`, what the data are. `"images"`: natural ones, for which a convolution is
            probably right. `"unordered"`: images or signals whose order is unknown or permuted.
            `"fields"`: solutions of differential equations. `"sequences"`: music, sensors. `None`:
            not known. The other spaces have one setting for all data.
        epochs: the number of epochs of `fit`, of which warm-up and cool-down are shares. `None`:
            the recipe has neither.

    Returns:
        A `Recipe`.

    Raises:
        ValueError: if there is no recipe for a space or data.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> recipe = keras_xd.recipes.recipe("xd", data="unordered", epochs=2)
    >>> recipe.rate, dict(recipe.rewrite_options)
    (0.001, {'depth': 3})
    >>> backbone = keras.Sequential([
    ...     keras.Input((8, 8, 1)),
    ...     keras.layers.Conv2D(2, 3, activation="relu"),
    ...     keras.layers.GlobalAveragePooling2D(),
    ... ])
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
    validation.one_of(space, tuple(SETTINGS), "space")
    setting = SETTINGS[space]
    if data is not None:
        validation.one_of(data, DATA, "data")
        setting = XD_SETTINGS[data] if space == "xd" else setting
    options = dict(setting.compile)
    if epochs is not None:
        epochs = validation.positive_integer(epochs, "epochs")
        phases = {"warmup_epochs": setting.warmup, "cooldown_epochs": setting.cooldown}
        options |= {name: int(share * epochs) for name, share in phases.items() if share}
    return Recipe(space, setting.rate, dict(setting.rewrite), options)


@check_types
def space_of(layer: keras.layers.Layer) -> str | None:
    """Return the search space with a recipe that a searchable layer is of, or `None`.

    Example:

    >>> import keras
    >>> from keras_xd import layers, recipes
    >>> recipes.space_of(layers.DashConv1D(2, 3)), recipes.space_of(keras.layers.Dense(2))
    ('dash', None)
    """
    names = {kind: name for name, classes in _classes().items() for kind in classes}
    return next((names[kind] for kind in type(layer).__mro__ if kind in names), None)


@check_types
def default_rate(model: keras.Model) -> float:
    """Return the architecture's rate for a model that comes without one.

    It is that of the recipe of its search space; of several spaces the lowest.

    Example:

    >>> import keras
    >>> from keras_xd import layers, recipes
    >>> model = keras.Sequential([keras.Input((9, 1)), layers.XDConv1D(2, 3)])
    >>> recipes.default_rate(model)
    0.001
    """
    spaces = {space_of(layer) for layer in searchable_layers(model)} - {None}
    return min((SETTINGS[name].rate for name in spaces), default=DEFAULT_RATE)


def _classes():
    """Return the classes of the layers of each space."""
    found = {name: kinds.classes_of(name) for name in SETTINGS if name != "ccnn"}
    found["structured"] += tuple(kinds.MIXED_STRUCTURES.values())
    found["masked"] = (*kinds.MASKED.values(), MaskedBranch)
    return {**found, "ccnn": (layers.CCNNBlock, layers.CKConv)}
