"""`compress`: a trained model made smaller in one call."""

import collections
import dataclasses
import inspect
import math
import warnings
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd import auto, one_call
from keras_xd.compressing import allocation, training
from keras_xd.compressing.importance import BATCH, METHODS, magnitude, taylor
from keras_xd.compressing.latency import MEASURED, RUNTIMES, LatencyTable
from keras_xd.compressing.report import CompressionReport, LayerCut
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import check_finite, flatten_layers, named_layers
from keras_xd.core.warning_location import stacklevel
from keras_xd.finalizing.report import SearchReport
from keras_xd.graph import cloning, cost
from keras_xd.graph.channel_units import HEADS, ChannelUnits, unfolded
from keras_xd.graph.sequence_counts import products_of_heads
from keras_xd.graph.size_counts import tensor_bytes, weight_bytes
from keras_xd.rewriting.candidates import check_graph, reason_of_state
from keras_xd.training import checks
from keras_xd.training.callbacks.non_finite import RaiseOnNonFinite

MEASURES = ("multiply_adds", "parameters", "latency")
KERNELS = ("kernel", "depthwise_kernel", "pointwise_kernel")
TRIES = 4  # cuts for a latency, which the table tells about


@dataclasses.dataclass(frozen=True)
class CompressionResult:
    """What `keras_xd.compress` returns; its docstring says what the attributes are."""

    model: keras.Model
    history: keras.callbacks.History
    report: CompressionReport


@check_types
def compress(
    model: keras.Model,
    x: Any = None,
    y: Any = None,
    *,
    target: Mapping[str, float],
    epochs: int = 10,
    validation_data: Any = None,
    max_loss: float | None = None,
    metric: str | None = None,
    importance: str = "taylor",
    samples: int = 512,
    rounds: int = 1,
    multiple_of: int | None = None,
    distillation: float = 0.5,
    temperature: float = 4.0,
    runtime: str = "tensorflow",
    optimizer: str | keras.optimizers.Optimizer | None = None,
    loss: Any = None,
    metrics: Any = None,
    batch_size: int | None = None,
    callbacks: Any = None,
    verbose: str | int = "auto",
    **fit_options: Any,
) -> CompressionResult:
    """Make a trained model smaller and faster: cut channels and blocks, then train on.

    - Channels that belong together, as those that residual additions tie, are cut together, in
      whole layers: the result is a plain Keras model of the same layers with fewer channels.
      Of `MultiHeadAttention` and `GroupQueryAttention` whole heads are cut.
    - A layer of layers without weights of its own, such as the block of an encoder, is replaced by
      what it calls, unless the outputs for `x` are others then.
    - A layer that no rule is known for, such as one of your own that adds learned positions, is
      tried with half of its channels: if these come out the same, they are cut with the others.
    - What is cut is what the loss depends on least for what it costs, over all layers, residual
      blocks included.
    - What is left is trained on the labels and on the outputs of the given model. With `epochs=0`
      nothing is trained: only the statistics of batch normalizations are set anew. Its report says
      beforehand what a target comes to, layer by layer.

    `model` is not changed. Outputs, inputs and what no rule is known for stay as they are; the
    report says why.

    Args:
        model: a trained Functional or Sequential model.
        x, y: as in `keras.Model.fit`. Of `importance="magnitude"` with `epochs=0` none is needed.
        target: what is to be left, a share between 0 and 1 of one measure:
            `{"multiply_adds": 0.5}`, `{"parameters": 0.25}` or `{"latency": 0.5}`. It is met within
            2 %, a latency by the table of layers that is measured first.
        epochs: number of epochs of all training together.
        validation_data: as in `keras.Model.fit`; the report has the metrics on it.
        max_loss: how much of `metric` may be lost on the validation data. If the result loses more,
            the smallest model of an earlier round that does not is returned, or a copy of the given
            one, with a warning.
        metric: name of the metric of `max_loss`; by default the first accuracy, else the loss.
        importance: `"taylor"`: the change of the loss of each sample to first order, squared, if
            channels become 0, and that of the mean loss without a block; `"magnitude"`: the norm of
            the filters, of channels alone.
        samples: how many of the samples measure the importance and the statistics.
        rounds: how often something is cut. The importance is measured anew before each, and half of
            the epochs are divided among those before the last.
        multiple_of: what the channels that belong together are cut in multiples of; by default 8,
            and fewer where they are less than 64 or the target is not met otherwise; heads by one.
        distillation: share of the outputs of the given model in the loss, from 0 to 1: their
            divergence for a loss of classes, else the mean squared error.
        temperature: that the outputs are divided by for the divergence.
        runtime: where latency is measured: `"tensorflow"`, `"onnx"` or `"litert"`, each with a
            batch of one sample.
        optimizer, loss, metrics: as in `keras.Model.compile`, where `None` takes what `model` was
            compiled with. A constant learning rate falls to 0 along a cosine.
        batch_size, callbacks, verbose: as in `keras.Model.fit`. The report is printed unless
            `verbose=0`.
        **fit_options: the other arguments of `keras.Model.fit`.

    Returns:
        A `CompressionResult` with the attributes

        - `model`: the smaller `keras.Model`, compiled.
        - `history`: the `keras.callbacks.History` of all training.
        - `report`: `str()` of it are tables. Its `rows` are the layers before and after, `left` the
          layers whose channels stayed, with the reasons, `removed_blocks` the additions whose
          branch is cut, `models` a table of the given model and of that of each round, as cut and
          as trained, and `reached` the share of the `target`'s measure that is left.

    Raises:
        ValueError: for a `target` that is no share, that cannot be reached (with the smallest that
            can), or that steps of channels miss by over 2 %; for a metric that does not exist, with
            those that do; for sizes that are unknown; for samples that do not fit the loss.

    Warns:
        UserWarning: if training samples validate; if more than `max_loss` is lost.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> images, labels = np.random.rand(32, 8, 8, 1), np.random.randint(3, size=32)
    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((8, 8, 1)),
    ...         keras.layers.Conv2D(16, 3, activation="relu"),
    ...         keras.layers.Conv2D(32, 3, activation="relu"),
    ...         keras.layers.GlobalAveragePooling2D(),
    ...         keras.layers.Dense(3, activation="softmax"),
    ...     ]
    ... )
    >>> model.compile("adam", "sparse_categorical_crossentropy")
    >>> result = keras_xd.compress(
    ...     model, images, labels, target={"multiply_adds": 0.5}, epochs=1, verbose=0
    ... )
    >>> round(keras_xd.complexity(result.model) / keras_xd.complexity(model), 1)
    0.5

    Reference:
        Molchanov et al., "Importance estimation for neural network pruning", CVPR 2019; Liu et al.,
        "Group Fisher pruning for practical network compression", ICML 2021; Hinton et al.,
        "Distilling the knowledge in a neural network", 2015.
    """
    measure, share = _checked_target(target)
    options = _Options(
        measure,
        share,
        epochs=validation.nonnegative_integer(epochs, "epochs"),
        importance=validation.one_of(importance, METHODS, "importance"),
        samples=validation.positive_integer(samples, "samples"),
        rounds=validation.positive_integer(rounds, "rounds"),
        multiple_of=multiple_of,
        distillation=validation.number_within(distillation, "[]", 0, 1, "distillation"),
        temperature=validation.positive_number(temperature, "temperature"),
        verbose=verbose,
    )
    if multiple_of is not None:
        validation.positive_integer(multiple_of, "multiple_of")
    validation.one_of(runtime, RUNTIMES, "runtime")
    for name in fit_options:
        validation.one_of(name, list(inspect.signature(keras.Model.fit).parameters), "fit_options")
    check_graph(model)
    check_finite(model)
    data = {**fit_options, "validation_data": validation_data, "batch_size": batch_size}
    validates = validation_data is not None or "validation_split" in fit_options
    needs_loss = bool(epochs or importance == "taylor" or validates)
    options = dataclasses.replace(options, needs_loss=needs_loss)
    _check_given(options, x, y, max_loss, metric, validates)
    compiling = {"optimizer": optimizer, "loss": loss, "metrics": metrics}
    setup = auto.Setup(
        model, x, y, data, compiling, {}, keras.tree.flatten(callbacks or []), epochs
    )
    if x is not None and needs_loss:
        loss = setup.compiled()["loss"]
        checks.check_samples(model, x, y, loss, data)
        x, y, data = one_call.held_out(x, y, data, None, 0)
        if epochs:
            checks.check_parts(model, y, loss, data)
        _warn_of_same(x, data["validation_data"])
        setup = dataclasses.replace(setup, x=x, y=y, data=data)
    found = _Compression(setup, options, runtime).run(max_loss, metric)
    if verbose:
        print(found.report)
    return found


@dataclasses.dataclass(frozen=True)
class _Options:
    """The checked arguments of `compress`."""

    measure: str
    share: float
    epochs: int
    importance: str
    samples: int
    rounds: int
    multiple_of: int | None
    distillation: float
    temperature: float
    verbose: str | int
    needs_loss: bool = True


class _Compression:
    """The steps of `compress`."""

    def __init__(self, setup, options, runtime):
        self.setup, self.options = setup, options
        self.x, self.y = (None, None)
        if setup.x is not None:
            self.x, self.y = training.samples(setup.x, setup.y, options.samples)
        self.table = None
        if options.measure == "latency":
            one = keras.tree.map_structure(lambda value: np.asarray(value[:1]), self.x)
            self.table = LatencyTable(runtime, one)
        self.given = _unfolded_alike(setup.model, self.x)
        self.history = collections.defaultdict(list)
        self.removed: list[str] = []

    def run(self, max_loss, metric):
        """Return the result."""
        options, setup = self.options, self.setup
        self.whole = self.cost(self.given)
        rows = [self.row("given", self.compiled(self.given))]
        metric = _checked_metric(metric, max_loss, rows[0].metrics)
        units = self.units(self.given)
        self.check_reachable(units)
        model, kept = self.given, None
        for number in range(1, options.rounds + 1):
            share = options.share ** (number / options.rounds)
            units = self.units(model) if number > 1 else units
            model, removed = self.cut(model, units, share)
            self.removed += removed
            if self.x is not None:
                training.recalibrate(model, self.x, setup.data.get("batch_size") or BATCH)
            rows.append(self.row(f"cut to {share:.3g}", self.compiled(model)))
            epochs = self.epochs_of(number)
            if epochs:
                self.train(model, epochs)
                rows.append(self.row(f"trained, {share:.3g}", self.compiled(model)))
            if max_loss is not None and _lost(metric, rows[0], rows[-1]) <= max_loss:
                kept = model, rows[-1].model, list(self.removed)
        return self.result(model, rows, kept, max_loss, metric)

    def result(self, model, rows, kept, max_loss, metric):
        """Return the result, of an earlier round if the last one loses too much."""
        name, reason = rows[-1].model, None
        if max_loss is not None:
            lost = _lost(metric, rows[0], rows[-1])
            if lost > max_loss:
                model, name, self.removed = kept or (self.given, "given", [])
                reason = (
                    f"Kept is '{name}': the last model loses {lost:.3g} of val_{metric}, more than "
                    f"max_loss={max_loss:g}."
                )
                warnings.warn(reason, stacklevel=stacklevel())
        history = keras.callbacks.History()
        history.history = dict(self.history)
        history.epoch = list(range(len(next(iter(self.history.values()), ()))))
        report = CompressionReport(
            SearchReport(tuple(rows), name, reason),
            tuple(self.layer_rows(model)),
            tuple(self.removed),
            self.options.measure,
            self.options.share,
            self.cost(model) / self.whole,
        )
        return CompressionResult(self.compiled(model), history, report)

    # Steps

    def units(self, model):
        """Return the channels of a model."""
        held = {id(x): reason for _, x in named_layers(model) if (reason := reason_of_state(x))}
        return ChannelUnits(model, held)

    def cut(self, model, units, share):
        """Return a model that costs a share of the given one, and the names of cut blocks."""
        options = self.options
        scores, of_blocks = magnitude(units), None
        if options.importance == "taylor":
            compiling = self.setup.compiled()
            weights = compiling.get("loss_weights")
            scores, of_blocks = taylor(model, units, self.x, self.y, compiling["loss"], weights)
        costs, aim, tries = self.costs(model, units), share, []
        steps = allocation.multiples(units, options.multiple_of)
        least = allocation.smallest(units, costs, steps, of_blocks is not None) / self.whole
        for _ in range(TRIES):
            alive, removed = allocation.allocate(
                units,
                costs,
                scores,
                of_blocks,
                aim * self.whole,
                steps,
                options.multiple_of is None,
            )
            small = units.cut(alive, removed)
            if self.table is None:
                break
            # What the table of layers says is not all of the latency.
            tries.append(self.cost(small) / self.whole)
            if abs(tries[-1] / share - 1) < allocation.TOLERANCE:
                break
            aim = max(aim * share / tries[-1], least)
        else:
            raise ValueError(
                f"`target` must be met within {100 * allocation.TOLERANCE:.0f} %, which no cut was "
                "when its latency was measured: give one that was reached, or measure on a machine "
                f"that does nothing else. Received: {share:.4g} of the latency, beside which "
                f"were measured {[round(one, 3) for one in tries]}"
            )
        return small, [block.name for block in removed]

    def epochs_of(self, number):
        """Return the epochs of training after a round."""
        before = self.options.epochs // (2 * self.options.rounds)
        if number < self.options.rounds:
            return before
        return self.options.epochs - before * (self.options.rounds - 1)

    def train(self, model, epochs):
        """Train a model on the labels and the outputs of the given one."""
        setup, options = self.setup, self.options
        compiling = setup.compiled()
        classes = training.kind_of_classes(model, compiling["loss"])
        student = training.Student(
            model, self.given, options.distillation, options.temperature, classes
        )
        student.compile(**compiling)
        falling = training.falling_rate(student.optimizer, epochs)
        history = student.fit(
            setup.x,
            setup.y,
            epochs=epochs,
            callbacks=[*falling, *setup.callbacks, RaiseOnNonFinite()],
            verbose=options.verbose,
            **setup.data,
        )
        for name, values in history.history.items():
            self.history[name].extend(values)

    def check_reachable(self, units):
        """Raise `ValueError` for a target below what is left if all is cut that can be."""
        steps = allocation.multiples(units, self.options.multiple_of)
        blocks = self.options.importance == "taylor"
        least = allocation.smallest(units, self.costs(self.given, units), steps, blocks)
        if self.options.share * self.whole < least:
            left = [f"{name} ({why})" for name, why in self.left(units).items()]
            raise ValueError(
                "`target` must be what can be reached: "
                f"{math.ceil(1e4 * least / self.whole) / 1e4} or more of the "
                f"{self.options.measure}. Received: target="
                f"{ {self.options.measure: self.options.share} }, and layers that stay: {left}"
            )

    # What models cost

    def cost(self, model):
        """Return what a model costs in the measure of the target."""
        if self.options.measure == "parameters":
            return model.count_params()
        if self.table is not None:
            return self.table.whole(model)
        return float(cost.counted_multiply_adds(model))

    def costs(self, model, units):
        """Return the `Costs` of a model."""
        if self.table is not None:
            terms, _ = self.table.terms(model, units)
            return allocation.Costs(units, terms, self.cost(model))
        sizes = collections.defaultdict(list)
        for slot in units.slots.values():
            sizes[id(slot.weight)].append(slot)
        factors = _factors(model, units, self.options.measure)
        terms = []
        for slots in sizes.values():
            weight, layer = slots[0].weight, slots[0].layer
            others = math.prod(weight.shape) / math.prod(len(slot.units) for slot in slots)
            factor = others * factors.get(id(weight), 0.0)
            if factor:
                terms.append(allocation.Term(layer, factor, tuple(slots)))
            for slot in slots:
                if slot.heads and slot.reads and id(layer) in factors:  # products of heads
                    factor = factors[id(layer)] / len(slot.units)
                    terms.append(allocation.Term(layer, factor, (slot,)))
        return allocation.Costs(units, terms, self.cost(model))

    # Reports

    def compiled(self, model):
        """Return a model, compiled as the given one."""
        if self.options.needs_loss:
            model.compile(**self.setup.compiled())
        return model

    def row(self, name, model):
        """Return the row of a model."""
        row = one_call.report_row(name, model, model, self.setup.data)
        if self.table is None:
            return row
        return dataclasses.replace(row, milliseconds=self.table.whole(model))

    def left(self, units):
        """Return why layers of the given model stay, by their paths."""
        found = {path: units.reason(layer) for path, layer, _, _ in cost.model_calls(self.given)}
        return {path: reason for path, reason in found.items() if reason is not None}

    def layer_rows(self, model):
        """Yield the rows of all layers of the given model that something is counted of."""
        units, left = self.units(self.given), dict(named_layers(model))
        after = {path: shape for path, _, shape, _ in cost.model_calls(model)}
        seen = set()
        for path, layer, shape, _ in cost.model_calls(self.given):
            if path in seen:
                continue
            seen.add(path)
            small = left.get(path)
            pairs = [(layer, shape), (small, after.get(path))]
            counts = [_counts(one, at) for one, at in pairs]
            reason = units.reason(layer)
            if reason is None and counts[0] == counts[1]:
                reason = "all its channels matter more than others for what they cost"
            row: dict[str, Any] = {}
            for when, (one, at), count in zip(("before", "after"), pairs, counts, strict=True):
                row |= {f"{key}_{when}": value for key, value in count.items()}
                row[f"kind_{when}"] = "removed" if one is None else type(one).__name__
                if self.table is not None and type(layer) in MEASURED:
                    row[f"milliseconds_{when}"] = (
                        0.0 if one is None else self.table.of_layer(one, at)
                    )
            yield LayerCut(name=path, left_because=reason, **row)


def _checked_target(target):
    """Return measure and share of a target."""
    if len(target) != 1 or not set(target) <= set(MEASURES):
        raise ValueError(
            f"`target` must be a share of one of {list(MEASURES)}, such as "
            f"{{'multiply_adds': 0.5}}. Received: target={dict(target)!r}"
        )
    ((measure, share),) = target.items()
    if not validation.is_number(share) or not 0 < share < 1:
        raise ValueError(
            "`target` must be the share that is to be left, above 0 and below 1. "
            f"Received: target={dict(target)!r}"
        )
    return measure, float(share)


def _check_given(options, x, y, max_loss, metric, validates):
    """Raise `ValueError` if samples are missing that something is to be done with."""
    if x is None and options.measure == "latency":
        raise ValueError(
            "A latency is measured with an example input: give `x`. "
            f"Received: x=None, target={{'latency': {options.share}}}"
        )
    arrays = hasattr(x, "shape") or isinstance(x, (list, dict))
    if x is None or (y is None and arrays):
        if options.epochs or options.importance == "taylor":
            raise ValueError(
                "Training, and importance='taylor', need samples: give `x` and `y`, or "
                "importance='magnitude' with epochs=0. Received: "
                f"x={None if x is None else type(x).__name__}, y=None, "
                f"importance={options.importance!r}, epochs={options.epochs}"
            )
    if (max_loss is not None or metric is not None) and not validates:
        raise ValueError(
            "`max_loss` and `metric` need `validation_data`. "
            f"Received: max_loss={max_loss}, metric={metric!r}, validation_data=None"
        )
    if max_loss is not None:
        validation.nonnegative_number(max_loss, "max_loss")


def _warn_of_same(x, validation_data):
    """Warn if a model is validated on the samples that it is trained on."""
    same = validation_data is x
    if isinstance(validation_data, (tuple, list)) and validation_data:
        pairs = [keras.tree.flatten(part) for part in (x, validation_data[0])]
        same = len(pairs[0]) == len(pairs[1]) and all(map(_equal, *pairs))
    if same:
        warnings.warn(
            "`validation_data` should be other samples than those of training: what is lost on "
            "these tells nothing. Received: the training samples as validation_data",
            stacklevel=stacklevel(),
        )


def _equal(one: Any, two: Any) -> bool:
    shapes = [tuple(getattr(value, "shape", ())) for value in (one, two)]
    alike = shapes[0] == shapes[1] != ()
    return one is two or (alike and np.array_equal(np.asarray(one), np.asarray(two)))


def _checked_metric(metric, max_loss, found):
    """Return the name of the metric that may not lose too much, `None` if none is asked for."""
    if metric is None:
        accuracies = [name for name in found if name == "acc" or "accuracy" in name]
        return None if max_loss is None else [*accuracies, "loss"][0]
    return validation.one_of(metric, list(found), "metric")


def _lost(metric, first, last):
    """Return by how much a metric is worse."""
    change = first.metrics[metric] - last.metrics[metric]
    falling = ("loss", "error", "entropy", "divergence", "mae", "mse", "mape", "msle")
    return -change if any(part in metric for part in falling) else change


def _unfolded_alike(model, x):
    """Return a copy of a model with layers of layers unfolded if the outputs for `x` stay."""
    found = unfolded(model)
    names, left = ({layer.name for layer in flatten_layers(one)} for one in (model, found))
    if x is None or names == left:  # nothing was unfolded
        return found
    some = keras.tree.map_structure(lambda value: value[:8], x)
    outputs = [keras.tree.flatten(one(some, training=False)) for one in (model, found)]
    pairs = zip(*(map(ops.convert_to_numpy, values) for values in outputs), strict=True)
    alike = all(np.allclose(one, two, rtol=1e-3, atol=1e-5) for one, two in pairs)
    return found if alike else cloning.clone(model, lambda layer: None)[0]


def _factors(model, units, measure):
    """Return the cost of each number in weights, and of the products of heads, by ids."""
    if measure == "parameters":
        return {id(slot.weight): 1.0 for slot in units.slots.values()}
    factors: dict[int, float] = collections.defaultdict(float)
    for _, layer, shape, times in cost.model_calls(model):
        heads = type(layer) in HEADS
        counts = products_of_heads(layer, shape) if heads else {layer: None}
        for part, count in counts.items():
            if heads and part is layer:
                factors[id(layer)] += times * count
                continue
            kernels: list[Any] = [getattr(part, name, None) for name in KERNELS]
            kernels = [kernel for kernel in kernels if isinstance(kernel, keras.Variable)]
            for kernel in kernels:
                whole = cost.multiply_adds(layer, shape) if count is None else count
                size = sum(math.prod(kernel.shape) for kernel in kernels)
                factors[id(kernel)] += times * whole / size
    return factors


def _counts(layer, shape):
    """Return the sizes of a layer, 0 of none."""
    if layer is None:
        return dict.fromkeys(("channels", "heads", "parameters", "multiply_adds", "memory"), 0)
    several = isinstance(shape[0], (list, tuple))
    tensors = [keras.KerasTensor(one) for one in (shape if several else [shape])]
    apart = not several or type(layer) in HEADS
    spec = layer.compute_output_spec(*(tensors if apart else [tensors]))
    outputs = keras.tree.flatten(spec)[0]
    axis = 1 if getattr(layer, "data_format", None) == "channels_first" else -1
    held = 0 if None in outputs.shape[1:] else tensor_bytes(outputs.shape[1:], outputs.dtype)
    return {
        "channels": outputs.shape[axis],
        "heads": getattr(layer, HEADS.get(type(layer), ("",))[0], None),
        "parameters": layer.count_params(),
        "multiply_adds": cost.multiply_adds(layer, shape),
        "memory": weight_bytes(layer) + held,
    }
