"""The search space of structured matrices in place of dense kernels."""

import collections
import dataclasses
import itertools
import logging
import math
from collections.abc import Sequence
from typing import Any

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import constructor_parameters
from keras_xd.core.configured import config_with_functions
from keras_xd.core.searchable import named_layers, sublayers
from keras_xd.core.tables import aligned
from keras_xd.graph.replacing import every_call, reachable_layers
from keras_xd.kmatrix import families
from keras_xd.layers.structured import base, mixture
from keras_xd.rewriting.candidates import (
    Candidate,
    check_model,
    reason_of_class,
    reason_of_state,
)
from keras_xd.rewriting.explaining import nothing_found
from keras_xd.rewriting.search_space import Plan, SearchSpace, given_options
from keras_xd.rewriting.selecting import pick
from keras_xd.rewriting.twins import named_twins

logger = logging.getLogger("keras_xd.rewriting")
_SEVERAL = (list, tuple, set)


@dataclasses.dataclass(frozen=True)
class StructuredOptions:
    """The options of `rewrite(model, to="structured")`.

    Attributes:
        family: name of the family, as in `keras_xd.layers.StructuredDense`, or a list of several:
            each layer becomes a mixture to search, such as `keras_xd.layers.MixedDense`.
        density: most numbers of each kernel, as a part of those that it has, or a list of several,
            for mixtures too.
        budget: most numbers of all these kernels together, in place of `density`: each gets the
            same density.
        sizes: the sizes of every kernel, in place of `density`.
        calibration_data: an input batch in the structure of the model's inputs. The errors of the
            layers' outputs for it are then lowered, in place of those of the kernels. Of the
            families `"monarch"`, `"block_tensor_train"` and `"low_rank"`; of mixtures only these
            candidates use it.
        learning_rates: as in `keras_xd.layers.StructuredDense`.
        embeddings: whether the tables of `Embedding` layers become structured too.
    """

    family: str | Sequence[str] = "block_tensor_train"
    density: float | Sequence[float] = 0.25
    budget: int | None = None
    sizes: dict | None = None
    calibration_data: Any = None
    learning_rates: str = "spectral"
    embeddings: bool = False

    @property
    def searches(self) -> bool:
        """Whether layers become mixtures, of which a search chooses."""
        return isinstance(self.family, _SEVERAL) or isinstance(self.density, _SEVERAL)

    @classmethod
    def checked(cls, options: dict) -> "StructuredOptions":
        """Return the options of a dictionary."""
        several = [name for name in ("density", "budget", "sizes") if options.get(name) is not None]
        if len(several) > 1:
            raise ValueError(
                "Only one of `density`, `budget` and `sizes` may be given. "
                f"Received: {', '.join(f'{name}={options[name]!r}' for name in several)}"
            )
        result = given_options(cls, options, "structured")
        validation.boolean(result.embeddings, "embeddings")
        if result.searches:
            result.check_mixture()
            return result
        base.StructuredOptions(result.family, result.density, result.sizes, result.learning_rates)
        if result.budget is not None:
            validation.positive_integer(result.budget, "budget")
        if result.calibration_data is not None and result.family not in families.WITH_INPUTS:
            raise ValueError(
                f"`calibration_data` is for the families {', '.join(families.WITH_INPUTS)}. "
                f"Received: family={result.family!r}"
            )
        return result

    def check_mixture(self) -> None:
        """Raise `ValueError` for options that a search cannot have."""
        given = {name: getattr(self, name) for name in ("budget", "sizes")}
        wrong = {name: value for name, value in given.items() if value is not None}
        if wrong:
            raise ValueError(
                "Several families or densities are a search: `complexity_target` of "
                "`SearchModel.compile` is its budget, and the densities are its sizes. "
                f"Received: family={self.family!r}, density={self.density!r}, {wrong}"
            )
        mixture.MixtureOptions(**self.chosen([]))

    def chosen(self, kernels: list[tuple[int, int]]) -> dict[str, Any]:
        """Return the arguments of the new layers, of kernels of these shapes."""
        rates = {"learning_rates": self.learning_rates}
        if self.searches:
            families = self.family if isinstance(self.family, _SEVERAL) else [self.family]
            densities = self.density if isinstance(self.density, _SEVERAL) else [self.density]
            return {"families": families, "densities": densities, **rates}
        if self.budget is None:
            return {"family": self.family, "density": self.density, "sizes": self.sizes, **rates}
        density = min(1.0, self.budget / sum(map(math.prod, kernels)))
        return {"family": self.family, "density": density, **rates}


@dataclasses.dataclass(frozen=True)
class KernelReport:
    """One kernel that became structured.

    Attributes:
        name: path of the layer, and what the kernel is called there if there are several.
        family: its family.
        sizes: its sizes.
        shape: inputs and units.
        parameters_before, parameters_after: how many numbers it had and has.
        error: relative error in the Frobenius norm.
        bound, low_rank_error, output_error: as in `keras_xd.kmatrix.structured.Projection`.
        candidate: its name in a mixture, which has a report of each; `None` elsewhere.
    """

    name: str
    family: str
    sizes: dict[str, Any]
    shape: tuple[int, int]
    parameters_before: int
    parameters_after: int
    error: float
    bound: float
    low_rank_error: float
    output_error: float | None
    candidate: str | None = None


@dataclasses.dataclass(frozen=True)
class StructuredReport:
    """The kernels that `rewrite(to="structured")` has replaced; `str()` of it is a table.

    Attributes:
        rows: a `KernelReport` for each kernel.
        left: the layers that were left as they are, and why, by their paths.
    """

    rows: tuple[KernelReport, ...]
    left: dict[str, str]

    def __str__(self) -> str:
        table: list[tuple[str, ...]] = [
            ("kernel", "shape", "sizes", "parameters", "error", "bound", "low rank")
        ]
        for _, group in itertools.groupby(self.rows, lambda row: row.name):
            candidates = list(group)
            row = min(candidates, key=lambda row: row.error)
            sizes = ", ".join(f"{name} {value}" for name, value in row.sizes.items())
            sizes = f"{row.family} {sizes}".strip()
            after = [one.parameters_after for one in candidates]
            counts = f"{row.parameters_before:,} → {min(after):,}"
            if row.candidate is not None:
                sizes = f"{len(candidates)} candidates, nearest {row.candidate}"
                counts += f" to {max(after):,}"
            errors = [f"{e:.3f}" for e in (row.error, row.bound, row.low_rank_error)]
            shape = f"{row.shape[0]} × {row.shape[1]}"
            table.append((row.name, shape, sizes, counts, *errors))
        lines = aligned(table)
        lines += [f"left: {path} ({reason})" for path, reason in self.left.items()]
        return "\n".join(lines)


class StructuredSpace(SearchSpace):
    """The search space of `rewrite(model, to="structured")`: layers that are a matrix."""

    build_time = True
    no_forecast = (
        "Structured layers need no forecast: `rewrite` computes them at once, and its `report` "
        "tells their sizes."
    )

    def __init__(self):
        names = ("Dense", "EinsumDense", "Embedding", "LSTM", "GRU")
        self.mixtures = named_twins("Mixed", names)
        super().__init__(
            "structured",
            named_twins("Structured", names),
            layers=list(self.mixtures.values()),
            recipe={
                "rate": 0.05,
                "rewrite_options": {
                    "family": ("low_rank", "monarch", "block_tensor_train", "blast")
                },
                "compile_options": {"complexity_measure": "parameters", "complexity_weight": 10.0},
            },
        )

    def candidates(self, model, operations=(), windowed=True):
        """Return every layer that is a matrix and what surrounds it, at any sizes."""
        paths = named_layers(model)
        places = dict(paths)

        def wanted(layer):
            return self.operation_of(layer) is not None

        reachable = {id(layer) for layer in reachable_layers(model, wanted)}
        result = []
        for path, layer in filter(lambda pair: wanted(pair[1]), paths):
            holder = places.get(path.rpartition("/")[0])
            reason = reason_of_class(layer, id(layer) in reachable, holder, self)
            reason = reason or self._reason_of_matrix(layer)
            result.append(Candidate(path, "layer", layer, None, reason))
        return result

    def plan(self, model, options, only=None, skip=None):
        """Decide which kernels become structured matrices."""
        options = StructuredOptions.checked(options)
        check_model(model)
        found = self.candidates(model)
        if not options.embeddings:
            found = [c for c in found if not isinstance(c.layer, keras.layers.Embedding)]
        if not found:
            tables = " (tables of embeddings are rewritten with `embeddings=True`)"
            raise nothing_found(model, f"none with a dense kernel was found{tables}")
        able = {c.path: c.layer for c in found if c.reason is None}
        picked = pick(model, found, able, only, skip)
        _check_state(model, picked)
        chosen, left = self._new_layers(picked, options)
        found = [dataclasses.replace(c, reason=c.reason or left.get(c.path)) for c in found]
        return Plan(found, chosen, options)

    def start(self, model, rewritten, plan):
        """Set new layers to what is nearest to those they replace, and write the report."""
        new_layers = {id(candidate.layer) for candidate, _ in plan.chosen}
        calls = _calibration(model, plan.options.calibration_data, new_layers)
        rows = []
        for candidate, new in plan.chosen:
            started = new.start_from(candidate.layer, calls.get(id(candidate.layer)))
            rows += [_row(candidate.path, start) for start in started]
        changed = sum(
            row.parameters_before for row in rows if row.candidate in (None, rows[0].candidate)
        )
        if 2 * changed < model.count_params():
            logger.warning(
                "keras_xd.rewrite: structured matrices took the place of %.1f %% of the parameters "
                "of model '%s'; convolutions are none of their kernels",
                100 * changed / model.count_params(),
                model.name,
            )
        left = {c.path: c.reason for c in plan.found if c.reason is not None}
        rewritten.report = StructuredReport(tuple(rows), left)

    def _reason_of_matrix(self, layer):
        """Return why a layer cannot become a structured one, or `None`."""
        for name in ("kernel_constraint", "recurrent_constraint", "embeddings_constraint"):
            if getattr(layer, name, None) is not None:
                return f"its {'table' if name.startswith('emb') else 'kernel'} has a constraint"
        if getattr(layer, "recurrent_dropout", 0):
            return "it has recurrent dropout"
        if not getattr(layer, "reset_after", True):
            return "its reset gate comes before the product with the recurrent kernel"
        if isinstance(layer, keras.layers.EinsumDense):
            try:
                self.twins[keras.layers.EinsumDense].kernels_of(layer)
            except ValueError as error:
                return f"it is no product with a matrix: {error}"
        return None

    def _new_layers(self, picked, options):
        """Return candidates with their new layers, not yet built, and why others are left."""
        kernels = [self.twins[type(c.layer)].kernels_of(c.layer) for c in picked]
        arguments = options.chosen([shape for shapes in kernels for shape in shapes])
        twins = self.mixtures if options.searches else self.twins
        chosen, left = [], {}
        for candidate, shapes in zip(picked, kernels, strict=True):
            try:
                new = _new_layer(candidate.layer, twins[type(candidate.layer)], arguments)
                new.structure.check(shapes)
            except ValueError as error:
                left[candidate.path] = str(error)
            else:
                chosen.append((candidate, new))
        if not chosen:
            wrong = "; ".join(f"'{path}': {reason}" for path, reason in left.items())
            raise ValueError(
                "A kernel must have a structured matrix of the family and size, and no layer has "
                f"one. Choose others. Received: {arguments}, and {wrong}"
            )
        return chosen, left


def _check_state(model, picked):
    """Raise `ValueError` for layers in a state that a structured layer cannot take over."""
    owners = collections.defaultdict(list)
    for path, layer in named_layers(model):
        inside = {id(v) for inner in sublayers(layer) for v in inner.variables}
        for variable in layer.variables:
            if id(variable) not in inside:
                owners[id(variable)].append(path or layer.name)
    for candidate in picked:
        reason = reason_of_state(candidate.layer)
        tied = {path for v in candidate.layer.variables for path in owners[id(v)]}
        if reason is None and len(tied) > 1:
            reason = f"its weights are those of {sorted(tied - {candidate.path})} too"
        if reason is not None:
            raise ValueError(
                "A layer with LoRA, quantization, an activation with weights, or weights that "
                "another layer has too cannot become structured; leave it out by `skip`. "
                f"Received: layer '{candidate.path}': {reason}"
            )


def _new_layer(layer, twin, arguments):
    """Return the structured layer, not yet built, in place of a layer of Keras."""
    if issubclass(twin, keras.layers.RNN):
        allowed = twin.argument_names()
    else:
        allowed = {*constructor_parameters(twin), "name", "dtype"} - {"kwargs"}
    config = config_with_functions(layer)
    config = {name: value for name, value in config.items() if name in allowed}
    config["activity_regularizer"] = layer.activity_regularizer
    if hasattr(twin, "arguments_from"):
        config |= twin.arguments_from(layer)
    return twin.from_config({**config, **arguments})


def _calibration(model, data, new_layers):
    """Return the arguments of the calls of the chosen layers, by the layers' ids."""
    calls: dict[int, list] = collections.defaultdict(list)
    if data is None:
        return calls
    data = keras.tree.map_structure(keras.ops.convert_to_tensor, data)
    for call in every_call(model, lambda x: id(x) in new_layers, data, build_time=True):
        if id(call.operation) in new_layers:
            inputs = keras.ops.convert_to_numpy(call.argument).astype("float32")
            calls[id(call.operation)].append(inputs)
    return calls


def _row(path, start):
    product, projection = start.kernel.product, start.projection
    return KernelReport(
        path + start.ending,
        product.family,
        product.sizes,
        (product.inputs, product.units),
        product.inputs * product.units if start.numbers is None else start.numbers,
        product.parameters,
        projection.error,
        projection.bound,
        projection.low_rank_error,
        projection.output_error,
        start.candidate,
    )
