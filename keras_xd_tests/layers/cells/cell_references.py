"""The operations of heterogeneous cells, and cells, in NumPy, from the formulas of the paper."""

import numpy as np

from keras_xd_tests.layers.mixed.operation_references import operation


def randomized(layer, rng, scale=0.5):
    """Give every weight of a layer random values, variances positive ones; return the layer."""
    for weight in layer.weights:
        value = scale * rng.standard_normal(weight.shape)
        weight.assign(np.abs(value) + 0.5 if "variance" in weight.name else value)
    return layer


def depthwise(x, kernel, stride=1, rate=1):
    """Convolve each channel with its kernel `(k, k, channels)`, as many outputs as inputs."""
    full = kernel[..., None] * np.eye(kernel.shape[-1])
    window = kernel.shape[0]
    settings = {"window": window, "stride": stride, "padding": "same", "rate": rate}
    return operation("convolution", x, kernel.shape[-1], full, **settings)


def dynamic(x, kernels, stride=1):
    """Convolve each sample with its own kernels."""
    pairs = zip(x, kernels, strict=True)
    return np.concatenate([depthwise(image[None], kernel, stride) for image, kernel in pairs])


def pointwise(x, layer):
    return x @ np.asarray(layer.kernel)[0, 0]


def normalized(x, layer):
    """Normalise by the moving statistics."""
    y = (x - np.asarray(layer.moving_mean)) / np.sqrt(np.asarray(layer.moving_variance) + 1e-5)
    return y * np.asarray(layer.gamma) + np.asarray(layer.beta) if layer.scale else y


def relu(x):
    return np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    x = np.asarray(x, "float64")
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def dynamic_kernel(layer, x):
    b, k = len(x), layer.kernel_size
    z = relu(normalized(pointwise(x, layer.bottleneck), layer.normalization)).reshape(
        b, -1, max(x.shape[-1] // layer.reduction, 1)
    )
    mask = softmax(pointwise(x, layer.transform).reshape(b, -1, k * k), axis=1)
    context = np.einsum("npc,npt->ntc", z, mask)
    taps = softmax(context @ np.asarray(layer.decode.kernel)[0, 0], axis=1)
    span = (k - 1) * layer.dilation_rate + 1
    kernel = np.zeros((b, span, span, taps.shape[-1]))
    kernel[:, :: layer.dilation_rate, :: layer.dilation_rate] = taps.reshape(b, k, k, -1)
    return kernel


def dynamic_convolution(layer, x):
    return dynamic(x, dynamic_kernel(layer.dynamic_kernel, x), layer.strides)


def self_calibration(layer, x, factor):
    """Return features and a factor times what the operation of a `SelfCalibration` adds."""
    inner = layer.calibration
    if layer.operation == "channel_attention":
        return x + factor * x * channel_attention(inner, x)
    if layer.operation == "spatial_attention":
        return x + factor * x * spatial_attention(inner, x)
    return x + factor * dynamic_convolution(inner, x)


def channel_attention(layer, x):
    means = x.mean((1, 2), keepdims=True)
    return sigmoid(pointwise(relu(pointwise(means, layer.squeeze)), layer.excite))


def spatial_attention(layer, x):
    y = pointwise(x[:, :: layer.strides, :: layer.strides], layer.squeeze)
    y = relu(normalized(y, layer.normalization))
    return sigmoid(operation("convolution", y, 1, np.asarray(layer.score.kernel), padding="same"))


def factorized_reduction(layer, x):
    x = relu(x)
    odd = [(0, 0), (0, x.shape[1] % 2), (0, x.shape[2] % 2), (0, 0)]
    halves = x[:, ::2, ::2], np.pad(x[:, 1:, 1:], odd)[:, ::2, ::2]
    parts = [pointwise(h, c) for h, c in zip(halves, (layer.even, layer.odd), strict=True)]
    return normalized(np.concatenate(parts, -1), layer.normalization)


def pointwise_operation(layer, x):
    return normalized(pointwise(relu(x), layer.pointwise), layer.normalization)


def feature_operation(layer, x):
    """Return what an operation makes; an XD-operation must be as it begins, a convolution."""
    name, stride = layer.operation, layer.strides
    parts = {step.name: step for step in layer.steps}
    if "pooling" in name:
        y = operation(name, x, x.shape[-1], window=3, stride=stride, padding="same")
        return y if layer.affine else normalized(y, parts["normalization"])
    if name == "identity":
        return x if stride == 1 else factorized_reduction(parts["reduction"], x)
    for number in range(2 if name.startswith("separable") else 1):
        kernel = np.asarray(parts[f"depthwise_{number}"].kernel)[..., 0]
        rate = 2 if name.startswith("dilated") else 1
        x = depthwise(relu(x), kernel, stride if number == 0 else 1, rate)
        x = pointwise(x, parts[f"pointwise_{number}"])
        x = normalized(x, parts[f"normalization_{number}"])
    return x


def shuffled(parts):
    """Interleave the channels of equally large parts."""
    stacked = np.stack(parts, axis=-1)
    return stacked.reshape(*stacked.shape[:3], -1)


def operations_of(layer):
    """Return a function of an edge and a name to the operation there, until it is called again.

    Layers of equal shapes are made once and filled with the weights of each edge.
    """
    made, stack = {}, layer.edges

    def found(edge, name):
        if stack is None or name not in stack.operations:
            return layer.edge_operation(edge, name)
        key = name, stack.strides[stack.nodes[edge]]
        if key in made:
            stack.fill(made[key], edge, name)
        else:
            made[key] = layer.edge_operation(edge, name)
        return made[key]

    return found


def cell(layer, inputs, weights, gates=(1,) * 8, of_edges=(1,) * 18):
    """Return the outputs of a cell whose operations have the given weights, 0 for those not there.

    Dynamic kernels are applied one by one.

    Args:
        layer: a HeterogeneousCell, for its operations.
        inputs: two arrays.
        weights: array `(18, number of operations)`.
        gates: eight factors of what attention and dynamic convolutions add, of the four first
            tiers, then of the second ones.
        of_edges: factors of the channels that pass the operations by, for each edge.
    """
    first = factorized_reduction if layer.previous_reduction else pointwise_operation
    nodes = [first(layer.preprocessing[0], inputs[0])]
    nodes.append(pointwise_operation(layer.preprocessing[1], inputs[1]))
    edge, width, parts = 0, layer.filters // layer.partial_channels, layer.partial_channels
    operations = operations_of(layer)

    def tier(edges_and_nodes, gate, base=None):
        features, attention, kernels = None, 0, []
        for edge, x in edges_and_nodes:
            for name, weight in zip(layer.operation_names, weights[edge], strict=True):
                if not weight:
                    continue
                operator = operations(edge, name)
                if name == "channel_attention":
                    attention = attention + weight * channel_attention(operator, x)
                elif name == "spatial_attention":
                    attention = attention + weight * spatial_attention(operator, x)
                elif name.startswith("dynamic"):
                    kernels.append(weight * dynamic_kernel(operator, x))
                else:
                    made = weight * feature_operation(operator, x)
                    features = made if features is None else features + made
        features = base if features is None else features
        added = features * attention + sum(dynamic(features, k) for k in kernels)
        return features + gate * added

    def with_others(made, others):
        if parts == 1:
            return made
        return shuffled([made, *np.split(sum(others), parts - 1, axis=-1)])

    for block in range(4):
        others = []
        for number, node in enumerate(nodes):
            other = node[..., width:]
            if layer.reduction and number < 2 and parts > 1:
                b, h, w, c = other.shape
                other = other.reshape(b, h // 2, 2, w // 2, 2, c).max((2, 4))
            others.append(of_edges[edge + number] * other)
        edges = [(edge + number, node[..., :width]) for number, node in enumerate(nodes)]
        used = [bool(np.any(weights[e])) for e, _ in edges]
        others = [other for other, is_used in zip(others, used, strict=True) if is_used]
        edge += len(nodes)
        z = with_others(tier(edges, gates[block]), others)
        if layer.tiers == 1:
            nodes.append(z)
            continue
        y = tier([(14 + block, z[..., :width])], gates[4 + block], base=z[..., :width])
        nodes.append(with_others(y, [z[..., width:]]))
    return np.concatenate(nodes[2:], axis=-1)
