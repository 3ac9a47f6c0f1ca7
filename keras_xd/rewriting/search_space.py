"""The search space: which layers it replaces, by which, and how."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types, constructor_parameters
from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import Selection
from keras_xd.rewriting import twins as twin_layers
from keras_xd.rewriting.candidates import Candidate, check_model, find_candidates
from keras_xd.rewriting.explaining import nothing_found
from keras_xd.rewriting.selecting import pick

# A dataclass of the options of a space.
Options = TypeVar("Options")
RECIPE = {"rate": 1e-3, "rewrite_options": {}, "compile_options": {}, "phases": {}}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is rewritten."""

    found: list[Candidate]
    chosen: list[tuple[Candidate, keras.layers.Layer]]
    options: Any = None


class SearchSpace:
    """A search space: which layers of Keras it replaces, by which, and how.

    `keras_xd.register_search_space` makes it known to `rewrite`, `forecast`, `compare`, `search`
    and `recipes`. A subclass may change the steps of `rewrite`: `operation_of`, `candidates`,
    `plan` and `start`.

    Args:
        name: `to` of `keras_xd.rewrite`.
        twins: dictionary from classes of Keras' layers to the subclasses of
            `keras_xd.layers.SearchableLayer` that take their place. A twin takes all arguments of
            the layer by their names, and has its weights by theirs. Its further keyword-only
            arguments are options of `rewrite`.
        recipe: what to begin a search with: `"rate"` (1e-3), the architecture's learning rate;
            `"rewrite_options"` and `"compile_options"`, as in `keras_xd.recipes.Recipe`;
            `"phases"`, the shares of the epochs that are `"warmup_epochs"` and `"cooldown_epochs"`.
        data_recipes: the same for kinds of data, by their names in `keras_xd.recipes.recipe`.
        causal_twin: the class in place of a causal `Conv1D` whose twin would see all steps. Without
            one, layers in place of causal ones are tried and must be causal.
        operators: by the number of spatial axes, the class in skip connections and in place of
            average poolings.
        layers: further classes of layers that tell that a model is of this space.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> class Searched(keras_xd.layers.XDConv2D):
    ...     pass
    >>> twins = {keras.layers.Conv2D: Searched}
    >>> space = keras_xd.SearchSpace("searched", twins, recipe={"rate": 0.01})
    >>> keras_xd.register_search_space(space)
    >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3)])
    >>> type(keras_xd.rewrite(model, to="searched").layers[0]).__name__
    'Searched'
    >>> keras_xd.recipes.recipe("searched").rate
    0.01
    """

    # Whether layers that others make in their `build` are replaced too.
    build_time = False
    # Why `forecast` has nothing to say.
    no_forecast: str | None = None

    @check_types
    def __init__(
        self,
        name: str,
        twins: Mapping[type, type],
        *,
        recipe: Mapping[str, Any] | None = None,
        data_recipes: Mapping[str, Mapping[str, Any]] | None = None,
        causal_twin: type | None = None,
        operators: Mapping[int, type] | None = None,
        layers: Sequence[type] = (),
    ) -> None:
        self.name = name
        self.twins: dict[type, Any] = dict(twins)
        self.recipe = _completed(recipe)
        self.data_recipes = {data: _completed(own) for data, own in (data_recipes or {}).items()}
        self.causal_twin, self.operators = causal_twin, dict(operators or {})
        added = {*self.operators.values(), *layers, causal_twin} - {None}
        self.classes = {*self.twins.values(), *added}
        self.replaced = (*self.twins, *(twin_layers.AVERAGE_POOLING if operators else ()))
        classes = [keras_class for keras_class in self.twins if isinstance(keras_class, type)]
        self.convolves = any(issubclass(c, twin_layers.ANY_CONVOLUTION) for c in classes)

    def operation_of(self, layer: keras.layers.Layer) -> str | None:
        """Return what a layer is to this space, `None` for nothing.

        It is `"convolution"`, `"pooling"`, or `"layer"` for another one that has a twin.
        """
        if isinstance(layer, SearchableLayer):  # which may be a convolution too
            return None
        if self.convolves and isinstance(layer, twin_layers.ANY_CONVOLUTION):
            return "convolution"
        if self.operators and isinstance(layer, twin_layers.POOLING):
            return "pooling"
        return "layer" if isinstance(layer, tuple(self.twins)) else None

    def candidates(
        self,
        model: keras.Model,
        operations: Sequence[str] = twin_layers.OPERATIONS,
        windowed: bool = False,
    ) -> list[Candidate]:
        """Return the places of a model where layers of this space may stand, as a list.

        Args:
            model: a built model.
            operations: as in `rewrite`.
            windowed: whether layers in place of causal ones may see later steps.
        """
        return find_candidates(model, self, operations, windowed)

    def plan(
        self,
        model: keras.Model,
        options: Mapping[str, Any],
        only: Selection = None,
        skip: Selection = None,
    ) -> Plan:
        """Decide what of a model is rewritten to what, without building anything.

        Args:
            model, only, skip: as in `rewrite`.
            options: the other arguments of `rewrite` that are not what they are by default.
        """
        options = dict(options)
        operations = self._checked_operations(options.pop("operations", ("convolution",)))
        padding = options.pop("padding", "exact")
        validation.one_of(padding, ("exact", "circular"), "padding")
        check_model(model)
        causal = options.pop("causal", "triangular")
        windowed = validation.one_of(causal, ("triangular", "windowed"), "causal") == "windowed"
        found = self.candidates(model, operations, windowed)
        if not found:
            wanted = operations if self.convolves else [c.__name__ for c in self.twins]
            raise nothing_found(
                model, f"no {' or '.join(wanted)} was found", f"operations={operations!r}, "
            )
        data_format = twin_layers.data_format_of(model)

        def new_layer(candidate, options):
            return self._new_layer(candidate, data_format, padding, options)

        able = [candidate for candidate in found if candidate.reason is None]
        examples = {self._twin_class(candidate): candidate for candidate in able}
        twin_layers.check_options(options, [new_layer(c, {}) for c in examples.values()])
        seed = validation.seed(options.pop("seed", None))
        # Selections are made by layers, and that of a skip is the new one.
        layers = {c.path: c.layer or new_layer(c, options) for c in able}
        chosen = []
        for number, candidate in enumerate(pick(model, found, layers, only, skip)):
            seeded = {} if seed is None else {"seed": seed + number}
            chosen.append((candidate, new_layer(candidate, {**options, **seeded})))
        return Plan(found, chosen)

    def start(self, model: keras.Model, rewritten: keras.Model, plan: Plan) -> None:
        """Give new layers, which are built, the weights of those they replace.

        Args:
            model: the original model.
            rewritten: the new model.
            plan: what `plan` returned.
        """
        for candidate, new in plan.chosen:
            if candidate.layer is not None:
                twin_layers.copy_weights(candidate.layer, new)
                if candidate.causal and type(new) is not self.causal_twin:  # causal by construction
                    twin_layers.check_stays_causal(new, candidate.shape)

    def _checked_operations(self, operations):
        """Return a tuple of operations, each of which the space has."""
        names = (operations,) if isinstance(operations, str) else tuple(operations)
        able = twin_layers.OPERATIONS if self.operators else ("convolution",)
        if not names or not set(names) <= set(able):
            raise ValueError(
                f"`operations` must be one or several of {able} with to='{self.name}'. Received: "
                f"operations={operations!r}"
            )
        return names

    def _twin_class(self, candidate):
        """Return the class of the new layer of a candidate."""
        if candidate.operation in ("pooling", "skip"):
            return self.operators[len(candidate.shape) - 2]
        if candidate.operation == "convolution" and candidate.causal and self.causal_twin:
            return self.causal_twin
        return self.twins[type(candidate.layer)]

    def _new_layer(self, candidate, data_format, padding, options):
        """Return the new layer, not yet built, of a candidate."""
        twin = self._twin_class(candidate)
        try:
            if candidate.skip is None:
                new = twin_layers.twin_of(candidate, twin, padding, options)
            else:
                new = twin_layers.skip_layer(candidate, twin, data_format, padding, options)
            if candidate.operation != "layer":  # which may be given several tensors
                new.compute_output_shape(candidate.shape)
        except ValueError as error:
            raise ValueError(
                f"The options do not fit the layer '{candidate.path}': {error}"
            ) from error
        return new


def given_options(kind: type[Options], options: Mapping[str, Any], name: str) -> Options:
    """Return the options of a space, a dataclass, from a dictionary of some of them."""
    allowed = list(constructor_parameters(kind))
    wrong = {name: value for name, value in options.items() if name not in allowed}
    if wrong:
        raise ValueError(f"`to='{name}'` takes the options {allowed}. Received: {wrong}")
    return kind(**options)


def _completed(recipe):
    """Return a recipe with what it leaves out."""
    recipe = dict(recipe or {})
    if not set(recipe) <= set(RECIPE):
        raise ValueError(f"A recipe may have {list(RECIPE)}. Received: recipe={recipe!r}")
    return {**RECIPE, **recipe}
