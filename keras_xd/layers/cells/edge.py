"""What is fixed about the edges of a relaxed cell: the same for all of equal shapes."""

import dataclasses

from keras_xd.layers.cells.genotypes import BLOCKS, SOURCES

DYNAMIC_REDUCTION, ATTENTION_REDUCTION = 8, 16
# Kernel size and dilation rate; the separable ones are done twice.
DEPTHWISE = {
    "separable_3": (3, 1),
    "separable_5": (5, 1),
    "dilated_3": (3, 2),
    "dilated_5": (5, 2),
}
POOLING = ("max_pooling_3", "average_pooling_3")
# The node that each edge comes from, `None` for surrogate nodes.
EDGE_SOURCES = (*(source for sources in SOURCES for source in sources), *([None] * BLOCKS))
# The same where the surrogate nodes of all blocks come after the others.
SURROGATE = len(SOURCES[-1])
EDGE_NODES = (*EDGE_SOURCES[:-BLOCKS], *range(SURROGATE, SURROGATE + BLOCKS))


@dataclasses.dataclass(frozen=True)
class Edge:
    """What is fixed about an edge, or the node that it comes from, and the same for many.

    Attributes:
        filters: number of channels of the node and of what the operations make.
        strides: 1 or 2.
        operations: names of the operations.
        training: whether normalisations use the batch's statistics.

    Example:

    >>> from keras_xd.layers.cells.edge import Edge
    >>> Edge(4, 1, ("identity", "dynamic_3"), False).statistics
    {'bottleneck': slice(0, 1, None)}
    """

    filters: int
    strides: int
    operations: tuple[str, ...]
    training: bool

    @property
    def statistics(self) -> dict[str, slice]:
        """Where the mean and variance of what is normalised lie in a vector, in this order."""
        names, c = self.operations, self.filters
        sizes = {f"pointwise_{step}": c * len(depthwise_names(names, step)) for step in (0, 1)}
        sizes["reduction"] = c * ("identity" in names and self.strides > 1)
        sizes["spatial"] = max(c // ATTENTION_REDUCTION, 1) * ("spatial_attention" in names)
        sizes["bottleneck"] = max(c // DYNAMIC_REDUCTION, 1) * len(kernel_sizes(names))
        found, start = {}, 0
        for name, size in sizes.items():
            if size:
                found[name] = slice(start, start + size)
                start += size
        return found


def is_separable(name: str) -> bool:
    """Return whether an operation is two depthwise separable convolutions in a row."""
    return name.startswith("separable")


def depthwise_names(operations: tuple[str, ...], step: int = 0) -> list[str]:
    """Return the names of the depthwise separable operations that have a step, 0 or 1."""
    return [name for name in operations if name in DEPTHWISE and step <= is_separable(name)]


def kernel_sizes(operations: tuple[str, ...]) -> list[int]:
    """Return the sizes of the dynamic kernels among the operations, in their order."""
    return [int(name[-1]) for name in operations if name.startswith("dynamic")]
