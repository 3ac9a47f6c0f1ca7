"""Sizes of a finalized XD-operation in each form, and the choice of the form."""

import dataclasses
import math

from keras_xd.core import validation
from keras_xd.kmatrix import radix, transform
from keras_xd.layers.xd import functional

KEEPS = ("spectrum", "kernel", "auto")
# The form whose size is known after the search alone, and the error that it may have by default.
LOW_RANK, TOLERANCE = "low_rank", 0.01
# The rule of "auto": how much smaller the kernel must be, and what forming it may cost.
LEAST_SAVING, MOST_FORMING = 0.5, 1.0


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of a finalized XD-operation.

    Attributes:
        form: the form, `"spectrum"` or `"kernel"`.
        parameters: number of weights.
        multiply_adds: of one sample, without forming the spectrum.
        forming: multiply–adds of forming the spectrum `L w`, once a call; 0 where it is stored.
    """

    form: str
    parameters: int
    multiply_adds: int
    forming: int


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
    """Return the `Sizes` of an operation."""
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
    return found[form] if form != "auto" else _choice(**found)


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


def _choice(spectrum, kernel):
    """Return the form that "auto" takes."""
    smaller = kernel.parameters <= LEAST_SAVING * spectrum.parameters
    cheap = kernel.forming <= MOST_FORMING * kernel.multiply_adds
    return kernel if smaller and cheap else spectrum


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
