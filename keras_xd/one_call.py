"""What `keras_xd.search` does with one space and with several: samples, compiling, report."""

import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_xd.core.validation import UnknownSizeError
from keras_xd.finalizing.report import SearchReportRow
from keras_xd.graph.cost import complexity
from keras_xd.training import budget as complexity_budget
from keras_xd.training import weight_groups
from keras_xd.training.search_model import SearchModel


def fresh(metrics: Any) -> Any:
    """Return a structure of metrics with a new object for each that keeps values."""

    def copy(metric):
        if not isinstance(metric, keras.metrics.Metric):
            return metric
        try:
            return metric.from_config(metric.get_config())
        except (TypeError, ValueError):  # a class of one's own without a whole configuration
            return metric

    return keras.tree.map_structure(copy, metrics)


def compile_plain(plain: keras.Model, search: SearchModel, options: dict[str, Any]) -> None:
    """Compile a finalized model, with a fresh optimizer like that of the search's weights."""
    optimizer = weight_groups.joined(search.search_optimizer, plain)
    optimizer = optimizer.from_config(optimizer.get_config())
    plain.compile(**{**fresh(options), "optimizer": optimizer})
    if isinstance(optimizer.get_config().get("learning_rate"), dict):  # a schedule goes on
        optimizer.iterations.assign(search.search_optimizer.iterations)


def penalties(model: keras.Model, compiled: keras.Model) -> float:
    """Return what is in a loss beside data and outputs, which differs from one row to the next."""
    weights = [weight for weight in model.trainable_variables if weight.regularizer is not None]
    found = [weight.regularizer(weight) for weight in weights]
    if isinstance(compiled, SearchModel) and compiled.complexity_target is not None:
        found.append(complexity_budget.complexity_term(compiled))
    return sum(map(float, found))


def report_row(
    name: str, model: keras.Model, compiled: keras.Model, data: Mapping[str, Any]
) -> SearchReportRow:
    """Return a row of the report; `data` are arguments of `fit`."""
    metrics, validation = {}, data.get("validation_data")
    if validation is not None:
        options = {"steps": data.get("validation_steps"), "verbose": 0, "return_dict": True}
        if isinstance(validation, (tuple, list)):
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(tuple(validation))
            size = data.get("validation_batch_size") or data.get("batch_size")
            options |= {"y": y, "sample_weight": sample_weight, "batch_size": size}
        else:
            x = validation
        found = compiled.evaluate(x, **options)
        metrics = {key: float(value) for key, value in found.items()}
        metrics["loss"] -= penalties(model, compiled)
    try:
        multiply_adds = int(complexity(model))
    except UnknownSizeError:
        multiply_adds = None
    return SearchReportRow(name, model.count_params(), multiply_adds, metrics)


def held_out(
    x: Any, y: Any, data: dict[str, Any], default: float | None, seed: int
) -> tuple[Any, Any, dict[str, Any]]:
    """Return samples and arguments of `fit` with `validation_data` in place of a split.

    As in Keras the last samples validate, or by default a share that is drawn.
    """
    split = data.get("validation_split") or None
    if data.get("validation_data") is not None or y is None or (split or default) is None:
        return x, y, data
    parts = x, y, data.get("sample_weight")
    count = len(keras.tree.flatten(y)[0])
    kept = math.floor(count * (1 - (split or default)))
    if not 0 < kept < count:
        raise ValueError(
            "Some samples must train and some must validate. "
            f"Received: {count} samples, validation_split={split or default}"
        )
    order = np.random.default_rng(seed).permutation(count)
    rows = (slice(kept), slice(kept, None)) if split else (order[:kept], order[kept:])
    train, held = (mapped(lambda value, r=r: np.asarray(value)[r], parts) for r in rows)
    data = {name: value for name, value in data.items() if name != "validation_split"}
    if parts[2] is not None:
        data["sample_weight"] = train[2]
    data["validation_data"] = held if parts[2] is not None else held[:2]
    return train[0], train[1], data


def mapped(function, structure):
    """Return a structure of what a function makes of its values, but for `None`."""
    return keras.tree.map_structure(lambda v: None if v is None else function(v), structure)
