"""What all edges from one node of a relaxed cell have in common, computed once for the node.

A graph holds `node_values` once for all nodes of equal shapes.
"""

import math

import keras
from keras import ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.dynamic_conv import EPSILON
from keras_xd.layers.cells.edge import DEPTHWISE, POOLING, Edge, depthwise_names, kernel_sizes
from keras_xd.layers.mixed import window_padding


def node_values(
    edge: Edge, x: Tensor, weights: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return what all edges from a node need, and the statistics of its pooled features.

    Args:
        edge: the `Edge` that they all are.
        x: features of the node, `(batch, height, width, filters)`.
        weights: the moving statistics of poolings, `pooling_moving_mean` and
            `pooling_moving_variance`.

    Returns:
        Two dictionaries: the values for `outcomes`, and of the batch, in training, the means and
        variances by the names that `weights` has.
    """
    x = ops.convert_to_tensor(x)
    names, found, statistics = edge.operations, {"features": x}, {}
    steps = (edge.strides, edge.strides)
    depthwise, reduces = depthwise_names(names), "identity" in names and edge.strides > 1
    rectified = ops.relu(x) if depthwise or reduces else None
    if depthwise:
        found["rectified"] = rectified
        if any(DEPTHWISE[name][1] > 1 for name in depthwise) and _has_phases(edge, x):
            found["phases"] = _phases(rectified, edge.strides)
    # One operation alone is in a branch, where TensorFlow cannot compute it again.
    again = edge.training and len(names) > 1
    shared = [flattened(_pooled(name, x, steps, again)) for name in names if name in POOLING]
    if shared:
        pooled = joined(shared, -1)
        if edge.training:
            of_batch = ops.moments(ops.cast(pooled, "float32"), 0, keepdims=True)
            kinds = zip(("mean", "variance"), of_batch, strict=True)
            statistics = {f"pooling_moving_{kind}": ops.reshape(m, (-1,)) for kind, m in kinds}
        else:
            kinds = (weights[f"pooling_moving_{kind}"] for kind in ("mean", "variance"))
            of_batch = [ops.reshape(kind, (1, -1)) for kind in kinds]
        scale, offset = (ops.cast(v, pooled.dtype) for v in scale_and_offset(*of_batch))
        shared = [pooled * scale + offset]
    if "identity" in names and edge.strides == 1:
        shared.append(flattened(x))
    if shared:
        found["shared"] = joined(shared, -1)
    if reduces:
        whole = window_padding.extended(rectified, [(0, n % 2) for n in x.shape[1:3]])
        halves = [
            window_padding.every(rectified, steps),
            window_padding.every(whole, steps, (1, 1)),
        ]
        found["halves"] = flattened(ops.concatenate(halves, axis=-1))
    if "spatial_attention" in names and edge.strides > 1:
        found["strided"] = flattened(window_padding.every(x, steps))
    if kernel_sizes(names):
        images = ops.reshape(x, (-1, math.prod(x.shape[1:-1]), x.shape[-1]))
        found["images"] = ops.transpose(images, (0, 2, 1))
    if edge.training:
        squeezed = "spatial_attention" in names and edge.strides == 1
        wanted = {"halves", "strided"} | (
            {"features"} if squeezed or kernel_sizes(names) else set()
        )
        for name in ("features", "halves", "strided"):
            if name in found and name in wanted:
                found[f"{name}_moments"] = moments(flattened(found[name]))
    return found, statistics


def flattened(x: Tensor) -> Tensor:
    """Return features with all places of all samples along the first axis."""
    return x if len(x.shape) == 2 else ops.reshape(x, (-1, x.shape[-1]))


def moments(flat: Tensor) -> Tensor:
    """Return the sums of the products of all pairs of features, and of features, in float32.

    Args:
        flat: `(places, channels)`.

    Returns:
        A tensor `(channels + 1, channels)`, the last row of which has the sums of features.
    """
    return _moments(ops.cast(flat, "float32"))


@ops.custom_gradient
def _moments(flat):
    """Return `moments`, whose derivatives are one product with the features, not two."""

    def gradient(*arguments, upstream=None):
        upstream = arguments[0] if upstream is None else upstream
        products = upstream[:-1]
        return ops.matmul(flat, products + ops.transpose(products)) + upstream[-1:]

    # A transposed copy would be kept for the gradient; this product needs none.
    products = ops.einsum("nc,nd->cd", flat, flat)
    return ops.concatenate([products, ops.sum(flat, axis=0, keepdims=True)], axis=0), gradient


def scale_and_offset(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Return what normalises features of a mean and a variance."""
    scale = ops.rsqrt(variance + EPSILON)
    return scale, -mean * scale


def joined(values: list[Tensor], axis: int) -> Tensor:
    """Return tensors one after the other, a single one as it is."""
    return values[0] if len(values) == 1 else ops.concatenate(values, axis=axis)


def _has_phases(edge, x):
    """Whether the phases of images are those that dilated windows read."""
    return edge.strides > 1 or all(n % 2 == 0 for n in x.shape[1:-1])


def _phases(x, strides):
    """Return every other place of images, as images: windows dilated by 2 read one phase.

    With strides 2 all windows read the same one, otherwise all four come one after the other.
    """
    height, width, channels = x.shape[1:]
    if strides > 1:
        # By the rule of "same" the first window reaches an odd number of places beyond even sizes.
        return window_padding.every(x, (2, 2), (1 - height % 2, 1 - width % 2))
    x = ops.reshape(x, (-1, height // 2, 2, width // 2, 2, channels))
    x = ops.transpose(x, (2, 4, 0, 1, 3, 5))
    return ops.reshape(x, (-1, height // 2, width // 2, channels))


def _pooled(name, x, steps, again):
    border = window_padding.borders(x.shape[1:-1], (3, 3), (3, 3), steps, "same")
    if name != "max_pooling_3":
        return window_padding.average_pool(x, (3, 3), border, steps)

    def pool(images):
        return window_padding.max_pool(images, (3, 3), border, steps)

    # TensorFlow's fast gradient needs the pooling beside it, not in the function that is called
    # before; pooling again takes less time than the other gradient takes longer.
    return (keras.remat(pool) if again else pool)(x)
