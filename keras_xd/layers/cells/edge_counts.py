"""How many multiply–adds each operation on each edge of a cell takes."""

from collections.abc import Sequence

import numpy as np

from keras_xd.core.type_aliases import Shape
from keras_xd.layers.cells.genotypes import INPUTS, XD_OPERATIONS
from keras_xd.layers.cells.operator_cell import OperatorCell


def edge_counts(
    cell: OperatorCell, input_shape: Sequence[Shape], sources: Sequence[int | None]
) -> np.ndarray:
    """Return the multiply–adds of one sample, an array `(edges, number of operations)`.

    Args:
        cell: a cell with `operation_names`.
        input_shape: the shapes of its inputs.
        sources: the node that each edge comes from, `None` for surrogate nodes.
    """
    counts, known = np.zeros((len(sources), len(cell.operation_names))), {}
    for edge, column in np.ndindex(counts.shape):
        name, source = cell.operation_names[column], sources[edge]
        strides = cell.strides_from(source)
        key = name, strides, source is None or source >= INPUTS
        if key not in known:
            if name in XD_OPERATIONS:  # which are counted when they are built
                operation = cell.edge_operation(edge, name)
            else:
                operation = cell.make_operation(name, strides, name)
            known[key] = cell.operation_multiply_adds(operation, name, input_shape, source)
        counts[edge, column] = known[key]
    return counts
