"""The definition of XD-operations with dense matrices, in NumPy."""

import functools

import keras
import numpy as np

from keras_xd.kmatrix import constructions


def dense_matrices(layer):
    """Return the matrices of each axis by "K", "L" and "M", multiplied out stage by stage.

    As the definition has them: `K` maps frequencies to outputs, `L` and `M` places to frequencies.
    """
    found = {"K": [], "L": [], "M": []}
    for axis, plan in enumerate(layer.plans):
        for name, matrices in found.items():
            (weight,) = [w for w in layer.architecture_variables if w.name == f"{name}{axis}"]
            stages = constructions.butterflies_of(keras.ops.convert_to_numpy(weight), plan.radices)
            product = np.eye(plan.n)
            for index, butterfly in enumerate(map(constructions.butterfly_dense, stages)):
                product = product @ (butterfly if index % 2 else butterfly.T)
            matrices.append(product.T if name == "K" else product)
    return found


def outputs(layer, x):
    """Return the outputs of an operation, channels last, for any values of its variables.

    Args:
        layer: a built `XDConv` or `KOpConv`.
        x: array `(batch, *spatial, channels)`.
    """
    matrices, geometry = dense_matrices(layer), layer.geometry
    synthesis = [
        k[: g.stride * g.output_size : g.stride]
        for k, g in zip(matrices["K"], geometry, strict=True)
    ]
    placed = [
        dense @ layer.warm_start.placement(g)
        for dense, g in zip(matrices["L"], geometry, strict=True)
    ]
    analysis = [dense[:, : g.size] for dense, g in zip(matrices["M"], geometry, strict=True)]
    synthesis, placed, analysis = (
        functools.reduce(np.kron, parts) for parts in (synthesis, placed, analysis)
    )
    kernel = np.asarray(keras.ops.convert_to_numpy(layer.kernel), "float64")
    filters, channels = kernel.shape[-1], kernel.shape[-2]
    spectrum = np.einsum("fp,pji->fji", placed, kernel.reshape(-1, channels, filters))
    extras = {w.name: keras.ops.convert_to_numpy(w) for w in layer.architecture_variables}
    if "frequency_bias" in extras:
        bias = extras["frequency_bias"].reshape(-1, 2)
        spectrum = spectrum + (bias[:, 0] + 1j * bias[:, 1])[:, None, None]
    if "channel_gates" in extras:
        spectrum = spectrum * extras["channel_gates"]
    seen = np.einsum("fn,bnj->bfj", analysis, x.reshape(len(x), -1, x.shape[-1]))
    of_group = filters // layer.groups
    parts = [
        np.einsum(
            "bfj,fji->bfi",
            seen[..., g * channels : (g + 1) * channels],
            spectrum[..., g * of_group : (g + 1) * of_group],
        )
        for g in range(layer.groups)
    ]
    found = np.einsum("nf,bfi->bni", synthesis, np.concatenate(parts, axis=-1)).real
    if layer.bias is not None:
        found = found + keras.ops.convert_to_numpy(layer.bias)
    found = found.reshape(len(x), *(g.output_size for g in geometry), filters)
    return keras.ops.convert_to_numpy(layer.activation(found))
