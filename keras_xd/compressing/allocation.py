"""Which channels and blocks to cut for a budget."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_xd.graph.channel_units import ChannelUnits, Slot

TOLERANCE = 0.02  # by which a budget may be missed


@dataclasses.dataclass(frozen=True)
class Term:
    """A part of a cost: a factor times the numbers of channels on some axes.

    Attributes:
        layer: the layer it is of.
        factor: the factor.
        slots: one or two axes.
    """

    layer: object
    factor: float
    slots: tuple[Slot, ...] = ()


class Costs:
    """What a model costs with some of its channels and blocks.

    Args:
        units: the channels of the model.
        terms: the parts of the cost that depend on what is left.
        whole: the cost of the whole model, the rest of which stays.
    """

    def __init__(self, units: ChannelUnits, terms: Sequence[Term], whole: float):
        groups = units.groups
        group_of = np.full(units.count, len(groups))
        for number, group in enumerate(groups):
            group_of[group.units] = number
        self.sizes = np.array([len(group.units) for group in groups], int)

        def row(slot):
            """Return how many channels of an axis a unit of each group has, and those left."""
            counts = np.bincount(group_of[slot.units], minlength=len(groups) + 1)
            return np.append(counts[:-1] / np.maximum(self.sizes, 1), counts[-1])

        ones = np.append(np.zeros(len(groups)), 1.0)
        rows = [[row(slot) for slot in term.slots] + [ones, ones] for term in terms]
        self.factors = np.array([term.factor for term in terms])
        self.first, self.second = (
            np.array([pair[place] for pair in rows]).reshape(len(terms), len(ones))
            for place in (0, 1)
        )
        inside = [{id(layer) for layer in block.layers} for block in units.blocks]
        self.inside = np.array(
            [[id(term.layer) in ids for term in terms] for ids in inside], bool
        ).reshape(len(inside), len(terms))
        self.rest = whole - self._of_terms(self.sizes, self.factors).sum()

    def total(self, counts: np.ndarray, removed: np.ndarray) -> float:
        """Return the cost with so many units of each group, without some blocks."""
        return self.rest + self._of_terms(counts, self._left(removed)).sum()

    def savings(
        self, counts: np.ndarray, removed: np.ndarray, steps: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what it saves to cut `steps` units of each group, and to cut each block."""
        factors = self._left(removed)
        first, second = self._axes(counts)
        a, b = self.first[:, :-1], self.second[:, :-1]
        of_one = a.T @ (factors * second) + b.T @ (factors * first)
        of_two = (a * b).T @ factors
        return steps * of_one - steps**2 * of_two, self.inside @ (factors * first * second)

    def _left(self, removed):
        """Return the factors of terms, 0 inside blocks that are removed."""
        return np.where(self.inside[removed].any(0), 0.0, self.factors)

    def _axes(self, counts):
        counts = np.append(counts, 1)
        return self.first @ counts, self.second @ counts

    def _of_terms(self, counts, factors):
        first, second = self._axes(counts)
        return factors * first * second


def multiples(units: ChannelUnits, multiple_of: int | None) -> np.ndarray:
    """Return of how many units at once each group loses some: 8, fewer of small groups, 1 head."""
    sizes = [1 if group.heads else len(group.units) for group in units.groups]
    if multiple_of is not None:
        return np.array([min(multiple_of, max(size, 1)) for size in sizes], int)
    return np.array([max(1, min(8, 2 ** ((size // 8).bit_length() - 1))) for size in sizes], int)


def smallest(units: ChannelUnits, costs: Costs, steps: np.ndarray, blocks: bool = True) -> float:
    """Return the least cost that can be reached."""
    return costs.total(_least(units, steps), np.full(len(units.blocks), blocks))


def allocate(
    units: ChannelUnits,
    costs: Costs,
    importance: np.ndarray,
    of_blocks: np.ndarray | None,
    target: float,
    steps: np.ndarray,
    finer: bool,
) -> tuple[np.ndarray, list]:
    """Return which units are left and which blocks are removed for a cost.

    In turn the channels of a group, or the block, that matter least for what they cost are cut. The
    channels that are left of a group do the work of all of it: those of a share `s` matter `1 / s`
    times as much as they did. Of norms, which say nothing of the loss, those of the least mean are
    cut.

    Args:
        units: the channels of the model.
        costs: what they cost.
        importance: that of each unit.
        of_blocks: that of each block; `None` where the importance is a norm, which no block has.
        target: the cost, to be met within `TOLERANCE`, from below where that can be.
        steps: how many units of each group are cut at once.
        finer: whether fewer may be where the target is not met otherwise.
    """
    order = [group.units[np.argsort(importance[group.units])] for group in units.groups]
    sums = [np.append(0.0, np.cumsum(importance[one])) for one in order]
    counts, least = costs.sizes.copy(), _least(units, steps)
    removed = np.zeros(len(units.blocks), bool)
    blocks = np.full(len(removed), np.inf) if of_blocks is None else of_blocks
    cost = costs.total(counts, removed)
    while cost > target:
        taken = np.minimum(np.where(counts % steps, counts % steps, steps), counts - least)
        savings = np.concatenate(costs.savings(counts, removed, taken))
        begun = costs.sizes - counts
        of_groups = [s[n + k] - s[n] for s, n, k in zip(sums, begun, taken, strict=True)]
        if of_blocks is not None:
            of_groups = np.array(of_groups) * costs.sizes / np.maximum(counts - taken, 1)
        lost = np.append(of_groups, np.where(removed, np.inf, blocks))
        able = (savings > 1e-9 * cost) & np.isfinite(lost)
        fits = able & (cost - savings >= (1 - TOLERANCE) * target)
        if not fits.any():
            if finer and (steps > 1).any():
                steps = np.maximum(steps // 2, 1)
                continue
            if cost <= (1 + TOLERANCE) * target:
                break
            raise ValueError(_missed(costs, target, cost, cost - savings[able]))
        gains = savings if of_blocks is not None else np.append(taken, np.ones(len(removed)))
        rates = np.where(fits, lost / np.where(fits, gains, 1.0), np.inf)
        best = int(np.argmin(rates))
        if best < len(counts):
            counts[best] -= taken[best]
        else:
            removed[best - len(counts)] = True
        cost = costs.total(counts, removed)
    alive = np.ones(units.count, bool)
    for one, number, size in zip(order, counts, costs.sizes, strict=True):
        alive[one[: size - number]] = False
    return alive, [block for block, gone in zip(units.blocks, removed, strict=True) if gone]


def _least(units, steps):
    """Return how many units of each group stay: a step, and none of what no layer makes."""
    return np.array(
        [
            min(step, len(g.units)) if g.makers else 0
            for g, step in zip(units.groups, steps, strict=True)
        ]
    )


def _missed(costs, target, cost, reached):
    whole = costs.total(costs.sizes, np.zeros(len(costs.inside), bool))
    below = max((one for one in reached if one < target), default=None)
    near = f"{cost / whole:.4f}" + ("" if below is None else f" and {below / whole:.4f}")
    return (
        f"`target` must be met within {100 * TOLERANCE:.0f} %, which multiples of channels do not: "
        f"give one that they reach, or a smaller `multiple_of`. Received: {target / whole:.4f} of "
        f"the model, beside which they reach {near}"
    )
