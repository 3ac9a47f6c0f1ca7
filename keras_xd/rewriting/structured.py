"""From a Keras model to one whose dense kernels are structured matrices."""

import collections
import dataclasses
import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import constructor_parameters
from keras_xd.core.searchable import named_layers, sublayers
from keras_xd.core.tables import aligned
from keras_xd.graph.replacing import LayerReplacer, every_call
from keras_xd.kmatrix import families
from keras_xd.layers.structured import base, mixture
from keras_xd.rewriting import kinds
from keras_xd.rewriting.candidates import check_model, find_candidates, reason_of_state
from keras_xd.rewriting.explaining import described_layers, listing, searched_already
from keras_xd.rewriting.selecting import check_selection

logger = logging.getLogger("keras_xd.rewriting")
_SEVERAL = (list, tuple, set)


@dataclasses.dataclass(frozen=True)
class StructuredOptions:
    """The options of `rewrite(model, to="structured")`.

    Attributes:
        family: name of the family, as in `keras_xd.layers.StructuredDense`, or a list of several:
            each layer becomes a mixture to search, such as `keras_xd.layers.MixedDense`.
        share: most numbers of each kernel, as a share of those that it has, or a list of several,
            for mixtures too.
        budget: most numbers of all these kernels together, in place of `share`: each gets the same
            share.
        sizes: the sizes of every kernel, in place of `share`.
        calibration_data: an input batch in the structure of the model's inputs. The errors of the
            layers' outputs for it are then lowered, in place of those of the kernels. Of the
            families `"monarch"`, `"block_tensor_train"` and `"low_rank"`; of mixtures only these
            candidates use it.
        learning_rates: as in `keras_xd.layers.StructuredDense`.
        embeddings: whether the tables of `Embedding` layers become structured too.
    """

    family: str | Sequence[str] = "block_tensor_train"
    share: float | Sequence[float] = 0.25
    budget: int | None = None
    sizes: dict | None = None
    calibration_data: Any = None
    learning_rates: str = "spectral"
    embeddings: bool = False

    @property
    def searches(self) -> bool:
        """Whether layers become mixtures, of which a search chooses."""
        return isinstance(self.family, _SEVERAL) or isinstance(self.share, _SEVERAL)

    @classmethod
    def checked(cls, options: dict) -> "StructuredOptions":
        """Return the options of a dictionary.

        Raises:
            ValueError: for one that does not exist, or a value that it cannot have.
        """
        allowed = [field.name for field in dataclasses.fields(cls)]
        wrong = {name: value for name, value in options.items() if name not in allowed}
        if wrong:
            raise ValueError(f"`to='structured'` takes the options {allowed}. Received: {wrong}")
        several = [name for name in ("share", "budget", "sizes") if options.get(name) is not None]
        if len(several) > 1:
            raise ValueError(
                "Only one of `share`, `budget` and `sizes` may be given. "
                f"Received: {', '.join(f'{name}={options[name]!r}' for name in several)}"
            )
        result = cls(**options)
        validation.boolean(result.embeddings, "embeddings")
        if result.searches:
            result._check_mixture()
            return result
        base.StructuredOptions(result.family, result.share, result.sizes, result.learning_rates)
        if result.budget is not None:
            validation.positive_integer(result.budget, "budget")
        if result.calibration_data is not None and result.family not in families.WITH_INPUTS:
            raise ValueError(
                f"`calibration_data` is for the families {', '.join(families.WITH_INPUTS)}. "
                f"Received: family={result.family!r}"
            )
        return result

    def _check_mixture(self):
        given = {name: getattr(self, name) for name in ("budget", "sizes")}
        wrong = {name: value for name, value in given.items() if value is not None}
        if wrong:
            raise ValueError(
                "Several families or shares are a search: `complexity_target` of "
                "`SearchModel.compile` is its budget, and the shares are its sizes. "
                f"Received: family={self.family!r}, share={self.share!r}, {wrong}"
            )
        mixture.MixtureOptions(**self.chosen([]))

    def chosen(self, kernels: list[tuple[int, int]]) -> dict[str, Any]:
        """Return the arguments of the new layers, of kernels of these shapes."""
        rates = {"learning_rates": self.learning_rates}
        if self.searches:
            families = self.family if isinstance(self.family, _SEVERAL) else [self.family]
            shares = self.share if isinstance(self.share, _SEVERAL) else [self.share]
            return {"families": families, "shares": shares, **rates}
        if self.budget is None:
            return {"family": self.family, "share": self.share, "sizes": self.sizes, **rates}
        share = min(1.0, self.budget / sum(map(math.prod, kernels)))
        return {"family": self.family, "share": share, **rates}

    def twins(self) -> Mapping[type, type]:
        """Return the classes of the new layers by those of the old ones."""
        return kinds.MIXED_STRUCTURES if self.searches else kinds.STRUCTURED


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
        bound, low_rank_error, output_error: as in `keras_xd.kmatrix.Projection`.
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

    In the table a mixture has one line, with the errors of its nearest candidate.

    Attributes:
        rows: a `KernelReport` for each kernel.
        left: the layers that were left as they are, and why, by their paths.
    """

    rows: tuple[KernelReport, ...]
    left: dict[str, str]

    def __str__(self) -> str:
        table = [("kernel", "shape", "sizes", "parameters", "error", "bound", "low rank")]
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
            errors = (f"{e:.3f}" for e in (row.error, row.bound, row.low_rank_error))
            shape = f"{row.shape[0]} × {row.shape[1]}"
            table.append((row.name, shape, sizes, counts, *errors))
        lines = aligned(table)
        lines += [f"left: {path} ({reason})" for path, reason in self.left.items()]
        return "\n".join(lines)


def rewrite_structured(model: keras.Model, options: dict, only=None, skip=None) -> keras.Model:
    """Return `model` with structured kernels: `rewrite(model, to="structured")`.

    Args:
        model: a built model.
        options: those of `StructuredOptions`, as a dictionary.
        only, skip: as in `rewrite`.

    Raises:
        ValueError: as `rewrite`, and for a chosen layer with LoRA, quantization or a kernel that
            another layer has too, or if no kernel fits the family and its sizes.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> inputs = keras.Input((16, 64))
    >>> x = keras.layers.MultiHeadAttention(4, 16, name="attention")(inputs, inputs)
    >>> model = keras.Model(inputs, keras.layers.Dense(256, name="dense")(x))
    >>> space = keras_xd.rewrite(model, to="structured", family="low_rank", share=0.5)
    >>> [row.name for row in space.report.rows][-2:]
    ['attention/attention_output', 'dense']
    >>> model.count_params(), space.count_params()
    (33280, 16704)
    """
    options = StructuredOptions.checked(options)
    check_model(model)
    found = find_candidates(model, "structured")
    if not options.embeddings:
        found = [c for c in found if not isinstance(c.layer, keras.layers.Embedding)]
    if not found:
        raise ValueError(
            "`model` must have layers to rewrite, and none with a dense kernel was found (tables "
            f"of embeddings are rewritten with `embeddings=True`).{searched_already(model)} "
            f"Received: model '{model.name}' of the layers {described_layers(model)}"
        )
    picked = _picked(model, found, only, skip)
    _check_state(model, picked)
    new_layers, without = _new_layers(picked, options)
    picked = [candidate for candidate in picked if id(candidate.layer) in new_layers]
    calls = _calibration(model, options.calibration_data, new_layers)
    replacer = LayerReplacer(
        lambda layer: id(layer) in new_layers, lambda layer: new_layers[id(layer)], build_time=True
    )
    result = replacer(model)
    rows = []
    for candidate in picked:
        old, new = candidate.layer, new_layers[id(candidate.layer)]
        rows += [_row(candidate.path, start) for start in new.start_from(old, calls.get(id(old)))]
    left = {c.path: c.reason for c in found if c.reason is not None} | without
    if left:
        texts = (f"{path} ({reason})" for path, reason in left.items())
        logger.warning("keras_xd.rewrite: left as they are: %s", "; ".join(texts))
    changed = sum(
        row.parameters_before for row in rows if row.candidate in (None, rows[0].candidate)
    )
    if 2 * changed < model.count_params():
        logger.warning(
            "keras_xd.rewrite: structured matrices took the place of %.1f %% of the parameters of "
            "model '%s'; convolutions are none of their kernels",
            100 * changed / model.count_params(),
            model.name,
        )
    result.report = StructuredReport(tuple(rows), left)
    return result


def _picked(model, found, only, skip):
    """Return the candidates that are chosen."""
    able = [candidate for candidate in found if candidate.reason is None]
    layers = {candidate.path: candidate.layer for candidate in able}
    check_selection(model, found, layers, only, "only")
    check_selection(model, found, layers, skip, "skip")
    wanted = validation.matcher(only, "only") if only is not None else lambda layer: True
    unwanted = validation.matcher(skip, "skip")
    picked = [c for c in able if wanted(c.layer) and not unwanted(c.layer)]
    if not picked:
        raise ValueError(
            f"Nothing is left to rewrite. Received: only={only!r}, skip={skip!r}, and a model with "
            f"{listing(found)}"
        )
    return picked


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


def _new_layers(picked, options):
    """Return the new layers, not yet built, by the ids of the old ones, and why others are left."""
    kernels = {id(c.layer): kinds.STRUCTURED[type(c.layer)].kernels_of(c.layer) for c in picked}
    arguments = options.chosen([shape for shapes in kernels.values() for shape in shapes])
    result, left = {}, {}
    for candidate in picked:
        layer = candidate.layer
        try:
            new = _new_layer(layer, options.twins()[type(layer)], arguments)
            new.structure.check(kernels[id(layer)])
        except ValueError as error:
            left[candidate.path] = str(error)
        else:
            result[id(layer)] = new
    if not result:
        wrong = "; ".join(f"'{path}': {reason}" for path, reason in left.items())
        raise ValueError(
            "A kernel must have a structured matrix of the family and size, and no layer has one. "
            f"Choose others. Received: {arguments}, and {wrong}"
        )
    return result, left


def _new_layer(layer, twin, arguments):
    """Return the structured layer, not yet built, in place of a layer of Keras."""
    if issubclass(twin, keras.layers.RNN):
        allowed = twin.argument_names()
    else:
        allowed = {*constructor_parameters(twin), "name", "dtype"} - {"kwargs"}
    config = {name: value for name, value in layer.get_config().items() if name in allowed}
    config["activity_regularizer"] = layer.activity_regularizer
    if hasattr(twin, "arguments_from"):
        config |= twin.arguments_from(layer)
    return twin.from_config({**config, **arguments})


def _calibration(model, data, new_layers):
    """Return the arguments of the calls of the chosen layers, by the layers' ids."""
    calls = collections.defaultdict(list)
    if data is None:
        return calls
    data = keras.tree.map_structure(keras.ops.convert_to_tensor, data)
    for layer, argument in every_call(model, lambda x: id(x) in new_layers, data, build_time=True):
        calls[id(layer)].append(keras.ops.convert_to_numpy(argument).astype("float32"))
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
