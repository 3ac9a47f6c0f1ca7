"""Sizes of a finalized XD-operation in each form, and the choice of the form."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence

import keras

from keras_xd.core import devices, tracing, validation
from keras_xd.core.type_aliases import Shape
from keras_xd.kmatrix import radix, transform
from keras_xd.layers.xd import functional

KEEPS = ("auto", "spectrum", "kernel")
# The forms whose sizes are known after the search alone, and the error that they may have by
# default; an error of rounding is none.
LOW_RANK, FREQUENCIES, TOLERANCE, ROUNDING = "low_rank", "frequencies", 0.01, 1e-6
# The rule of "auto": times the parameters of the smallest form, and times the milliseconds of the
# fastest, for a batch of so many samples.
MOST_GROWTH, MOST_TIME, BATCH = 2, 1.5, 32
_CALLS = 3


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of a finalized XD-operation."""

    form: str
    parameters: int
    multiply_adds: int
    forming: int


@dataclasses.dataclass(frozen=True)
class FormCost:
    """What one exact form of an operation costs.

    Attributes:
        form: its name.
        parameters: how many numbers it has.
        milliseconds: of a call with 32 samples on this machine, the least of three: of CPU time,
            on an accelerator by the clock.
    """

    form: str
    parameters: int
    milliseconds: float


def best_form(costs: Sequence[FormCost]) -> FormCost:
    """Return what "auto" takes: the fastest form of at most twice the fewest parameters.

    Or the fastest of all, if that one takes more than 1.5 times as long.
    """
    fewest = min(cost.parameters for cost in costs)
    fastest = min(costs, key=lambda cost: cost.milliseconds)
    small = [cost for cost in costs if cost.parameters <= MOST_GROWTH * fewest]
    found = min(small, key=lambda cost: cost.milliseconds)
    return fastest if found.milliseconds > MOST_TIME * fastest.milliseconds else found


_measured: dict[str, float] = {}  # operations of equal sizes are measured once in a process


def milliseconds(key: str, make: Callable[[], keras.layers.Layer], shape: Shape) -> float:
    """Return the time of a call of the layer that `make` returns, measured once for a key."""
    if key not in _measured:
        layer, x = make(), keras.ops.ones((BATCH, *shape[1:]))
        variables = layer.trainable_variables, layer.non_trainable_variables
        weights = [[variable.value for variable in some] for some in variables]
        call = tracing.compiled(functools.partial(_stateless_outputs, layer))
        clock = time.perf_counter if devices.has_accelerator() else time.process_time
        times = []
        for _ in range(1 + _CALLS):  # the first call makes the graph
            begin = clock()
            keras.ops.convert_to_numpy(call(*weights, x))
            times.append(1e3 * (clock() - begin))
        _measured[key] = min(times[1:])
    return _measured[key]


def _stateless_outputs(layer, trainable, others, inputs):
    """Return the outputs of a layer with these weights."""
    return layer.stateless_call(trainable, others, inputs)[0]


def is_low_rank(form, tolerance):
    """Return whether a form is that of low ranks."""
    validation.one_of(form, (*KEEPS, LOW_RANK), "form")
    if tolerance is not None:
        validation.number_within(tolerance, "()", 0, 1, "tolerance")
    if tolerance is not None and form != LOW_RANK:
        raise ValueError(
            '`tolerance` is that of `form="low_rank"`; the other forms have the same outputs. '
            f"Received: tolerance={tolerance!r}, form={form!r}"
        )
    return form == LOW_RANK


def sizes(form, geometry, plans, depths, widths, *, use_bias, frequency_bias, channel_gates):
    """Return the `Sizes` of an operation, for "auto" those of the smaller form."""
    validation.one_of(form, KEEPS, "form")
    channels, filters, groups = widths
    connections = channels // groups * filters
    frequencies = math.prod(plan.n for plan in plans)
    bias = filters * bool(use_bias)
    found = {}
    if form != "kernel":
        stored = _numbers(geometry, plans, depths, [axis > 0 for axis in range(len(plans))])
        stored += 2 * frequencies * connections
        count = functional.multiply_adds(plans, geometry, depths, *widths)
        found["spectrum"] = Sizes("spectrum", stored + bias, count, 0)
    if form != "spectrum":
        compact = compact_plans(geometry, plans, depths)
        stored = _numbers(geometry, compact, depths, [True] * len(plans)) // 2
        stored += sum(2 * plan.n * g.kernel_size for plan, g in zip(plans, geometry, strict=True))
        stored += math.prod(g.kernel_size for g in geometry) * connections
        if frequency_bias:
            stored += 2 * frequencies + connections * bool(channel_gates)
        count = functional.multiply_adds(compact, geometry, depths, *widths)
        sizes, kernel_size = [plan.n for plan in plans], [g.kernel_size for g in geometry]
        forming = functional.forming_multiply_adds(sizes, kernel_size, connections)
        found["kernel"] = Sizes("kernel", stored + bias, count, forming)
    return min(found.values(), key=lambda sizes: sizes.parameters)


def compact_plans(geometry, plans, depths):
    """Return the plans by which `K` and `M` are stored beside a kernel."""
    return tuple(_compact_plan(g, plan, depths) for g, plan in zip(geometry, plans, strict=True))


def _compact_plan(g, plan, depths):
    allowed = radix.parameter_count(plan.n, plan.radices, sum(depths))
    allowed -= 2 * plan.n * g.kernel_size

    def stored(candidate):
        return _numbers([g], [candidate], depths, [True]) // 2

    counts = range(1, len(plan.radices) + 1)
    candidates = [radix.balanced(plan.n, plan.radices, count) for count in counts]
    fitting = [candidate for candidate in candidates if stored(candidate) <= allowed]
    return fitting[0] if fitting else min(candidates, key=stored)


def _numbers(geometry, plans, depths, pairs):
    """Return how many numbers the matrices of `K` and `M` have, multiplied out in use."""
    return sum(
        transform.multiply_adds(plan, depth, size=size, stride=stride, pair=pair, columns=1)
        for g, plan, pair in zip(geometry, plans, pairs, strict=True)
        for depth, size, stride in (
            (depths[2], g.size, g.input_stride),
            (depths[0], g.output_size, g.stride),
        )
    )
