"""Searched operations that are nearly what a plain layer computes, replaced by that layer."""

import dataclasses

import keras
import numpy as np
from keras import activations, ops

from keras_xd import layers
from keras_xd.core.configured import config_with_functions
from keras_xd.core.searchable import architecture_variables, flatten_layers
from keras_xd.finalizing.plain_fits import LinearMap, kept_frequencies
from keras_xd.graph.cloning import from_config
from keras_xd.graph.cost import CONVOLUTIONS, DEPTHWISE, SEPARABLE, TRANSPOSED
from keras_xd.layers.xd import warm_starts
from keras_xd.layers.xd.base import XDLayer
from keras_xd.layers.xd.conv import TransposedXDLayer
from keras_xd.layers.xd.depthwise import DepthwiseXDLayer
from keras_xd.layers.xd.distances import LARGEST_SIZE
from keras_xd.layers.xd.finalized import BY_ENTRY
from keras_xd.layers.xd.separable import SeparableXDLayer
from keras_xd.rewriting.twins import ANY_CONVOLUTION, AVERAGE_POOLING


@dataclasses.dataclass(frozen=True)
class Snap:
    """What `snap` found."""

    layer: keras.layers.Layer | None = None
    operation: str | None = None
    distance: float | None = None
    reason: str | None = None


def snap(layer: keras.layers.Layer, tolerance: float) -> Snap:
    """Return the plain layer that a searched operation is within a distance of."""
    if isinstance(layer, SeparableXDLayer):
        return _separable(layer, tolerance)
    if not isinstance(layer, XDLayer):
        return Snap(reason="no plain layer works on another grid")
    if max(plan.n for plan in layer.plans) > LARGEST_SIZE:
        return Snap(reason=f"an axis has more than {LARGEST_SIZE} points")
    found = LinearMap(layer)
    if found.is_zero:
        plain = _zero(layer, found)
        if plain is not None:
            return Snap(plain, "zero", 0.0)
    fits = _fits(found)
    for candidates in (fits, found.fourier_operators()):
        within = [fit for fit in candidates if fit.distance <= tolerance]
        if within:
            best = min(within, key=lambda fit: (fit.multiply_adds, fit.distance))
            return Snap(_plain(layer, found, best), str(best), best.distance)
        fits = fits + [fit for fit in candidates if fit not in fits]
    if not fits:
        return Snap(reason="no plain layer has these sizes of inputs and outputs")
    nearest = min(fits, key=lambda fit: (round(fit.distance, 4), fit.multiply_adds))
    return Snap(None, str(nearest), nearest.distance, "farther than the tolerance")


def unmoved(layer: keras.layers.Layer) -> Snap:
    """Return the convolution of Keras that an operation began as, where it still is that one."""
    kind = next((base for base in type(layer).__mro__ if base in ANY_CONVOLUTION), None)
    parts = [part for part in flatten_layers(layer) if isinstance(part, XDLayer)]
    if kind is None or not all(map(_is_convolution_at_start, parts)):
        return Snap()
    plain, _ = from_config(kind, config_with_functions(layer))
    architecture = {id(variable) for variable in architecture_variables(layer)}
    weights = [weight for weight in layer.weights if id(weight) not in architecture]
    plain.build(layer.get_build_config()["input_shape"])
    plain.set_weights([ops.convert_to_numpy(weight) for weight in weights])
    name = {DEPTHWISE: "depthwise ", SEPARABLE: "separable "}
    prefix = next((name[kinds] for kinds in name if kind in kinds), "")
    return Snap(plain, f"{prefix}convolution {'×'.join(map(str, layer.kernel_size))}", 0.0)


def _is_convolution_at_start(layer):
    """Return whether all of an architecture is as it began, and that is a convolution of Keras."""
    start = layer.warm_start
    known = type(start) is warm_starts.Convolution and not start.trainable_dilation
    strided = max(layer.strides) > 1 < max(layer.dilation_rate)  # Keras has no such one
    wide = getattr(layer, "window_size", layer.kernel_size) != layer.kernel_size
    if not known or layer.padding == "circular" or strided or wide:
        return False
    values = zip(layer.architecture_variables, layer.start_values(), strict=True)
    return all(np.array_equal(ops.convert_to_numpy(now), then) for now, then in values)


def _fits(found):
    """Return a `Fit` for each layer of Keras that could take the place of an operation."""
    layer = found.layer
    if isinstance(layer, DepthwiseXDLayer):
        fits = found.convolutions(depthwise=True)
    else:
        fits = found.convolutions()
        several = 1 < found.channels and layer.filters % found.channels == 0
        if several and layer.groups == 1 and not found.transposed and _depthwise_kind(layer):
            fits += found.convolutions(depthwise=True)
    linear = layer.activation in (None, activations.linear)
    has_bias = layer.use_bias and np.any(ops.convert_to_numpy(layer.bias))
    if not has_bias:
        fits += [fit for fit in found.poolings() if linear or fit.operation == "identity"]
    return fits


def _plain(layer, found, fit):
    """Return the built plain layer of a fit, with its weights."""
    arguments = _arguments(layer)
    if fit.operation == "identity":
        if layer.activation not in (None, activations.linear):
            return _built(keras.layers.Activation(layer.activation, **arguments), layer)
        return _built(keras.layers.Identity(**arguments), layer)
    arguments["data_format"] = layer.data_format
    if fit.operation == "average pooling":
        pool = AVERAGE_POOLING[layer.rank - 1]
        windows = {"pool_size": fit.kernel_size, "strides": layer.strides, "padding": fit.padding}
        return _built(pool(**windows, **arguments), layer)
    arguments |= {"activation": layer.activation, "use_bias": layer.use_bias}
    arguments |= {name: getattr(layer, name) for name in ("bias_regularizer", "bias_constraint")}
    if fit.operation == "Fourier operator":
        plain = layers.SpectralConv(layer.rank, layer.filters, fit.kernel_size, **arguments)
        return _built(plain, layer, _spectral_weights(layer, found, fit))
    arguments |= {"strides": layer.strides, "padding": fit.padding, "dilation_rate": fit.dilation}
    kernel = found.kernel_of(fit)
    return _convolution(layer, fit, kernel, found.channels, arguments)


def _convolution(layer, fit, kernel, channels, arguments):
    """Return a built convolution of the kind of a fit."""
    if fit.operation == "depthwise convolution":
        multiplier = layer.filters // channels
        kind = _depthwise_kind(layer)
        if kind is not None:
            kernel = kernel.reshape(*fit.kernel_size, channels, multiplier)
            kept = _of_kernel(layer, "depthwise", isinstance(layer, DepthwiseXDLayer))
            plain = kind(fit.kernel_size, depth_multiplier=multiplier, **kept, **arguments)
        else:
            kernel = kernel[..., None, :]
            kind = CONVOLUTIONS[layer.rank - 1]
            arguments |= _of_kernel(layer, "kernel", False)
            plain = kind(layer.filters, fit.kernel_size, groups=channels, **arguments)
    elif isinstance(layer, TransposedXDLayer):
        kernel = np.moveaxis(kernel, -1, -2)
        kind = TRANSPOSED[layer.rank - 1]
        extra = {"output_padding": layer.output_padding, **_of_kernel(layer, "kernel", True)}
        plain = kind(layer.filters, fit.kernel_size, **extra, **arguments)
    else:
        kind = CONVOLUTIONS[layer.rank - 1]
        arguments |= _of_kernel(layer, "kernel", True)
        plain = kind(layer.filters, fit.kernel_size, groups=layer.groups, **arguments)
    return _built(plain, layer, [kernel])


def _arguments(layer):
    """Return the arguments that every plain layer shares with an operation."""
    names = ("name", "trainable", "activity_regularizer")
    return {**{name: getattr(layer, name) for name in names}, "dtype": layer.dtype_policy}


def _of_kernel(layer, prefix, same_axes):
    """Return regularizer and constraint of a kernel, as far as they hold for the plain layer's."""
    found = {kind: getattr(layer.kernel, kind) for kind in ("regularizer", "constraint")}
    return {
        f"{prefix}_{kind}": value
        for kind, value in found.items()
        if same_axes or isinstance(value, BY_ENTRY)
    }


def _depthwise_kind(layer):
    """Return the depthwise layer of Keras for an operation's rank and strides, or `None`."""
    if layer.rank > len(DEPTHWISE) or len(set(layer.strides)) > 1:
        return None
    return DEPTHWISE[layer.rank - 1]


def _spectral_weights(layer, found, fit):
    """Return the kernel of a spectral convolution, `(2, *frequencies, channels, filters)`."""
    sizes = [g.size for g in layer.geometry]
    index, factors = kept_frequencies(fit.kernel_size, sizes)
    kernel = found.spectral_kernel(sizes)[np.ix_(*index)] * (factors > 0)[..., None, None]
    return [np.stack([kernel.real, kernel.imag])]


def _zero(layer, found):
    """Return a built layer whose outputs are zeros, except for bias and activation, or `None`."""
    arguments = _arguments(layer)
    linear = layer.activation in (None, activations.linear)
    if found.is_square and linear and not layer.use_bias:
        return _built(keras.layers.Rescaling(0.0, **arguments), layer)
    fits = found.convolutions(depthwise=isinstance(layer, DepthwiseXDLayer))
    if not fits:
        return None
    fit = min(fits, key=lambda one: one.multiply_adds)
    plain = _plain(layer, found, fit)
    plain.kernel.assign(ops.zeros(plain.kernel.shape))
    return plain


def _separable(layer, tolerance):
    """Return the separable convolution of Keras that both parts of an operation are near to."""
    if layer.rank > len(SEPARABLE) or len(set(layer.strides)) > 1:
        return Snap(reason="Keras has no separable convolution of this rank and strides")
    if max(plan.n for plan in layer.depthwise.plans) > LARGEST_SIZE:
        return Snap(reason=f"an axis has more than {LARGEST_SIZE} points")
    depthwise = LinearMap(layer.depthwise)
    fits = depthwise.convolutions(depthwise=True)
    if not fits:
        return Snap(reason="no plain layer has these sizes of inputs and outputs")
    kernel, distance = layer.pointwise.kernel, 0.0
    if layer.search_pointwise:
        pointwise = LinearMap(layer.pointwise)
        ones = [fit for fit in pointwise.convolutions() if set(fit.kernel_size) == {1}]
        distance, kernel = ones[0].distance, pointwise.kernel_of(ones[0])
    within = [fit for fit in fits if max(fit.distance, distance) <= tolerance]
    if not within:
        nearest = min(fits, key=lambda fit: (round(fit.distance, 4), fit.multiply_adds))
        name, farther = str(nearest).replace("depthwise", "separable"), "farther than the tolerance"
        return Snap(None, name, max(nearest.distance, distance), farther)
    best = min(within, key=lambda fit: (fit.multiply_adds, fit.distance))
    plain = SEPARABLE[layer.rank - 1](
        layer.filters,
        best.kernel_size,
        strides=layer.strides,
        padding=best.padding,
        data_format=layer.data_format,
        dilation_rate=best.dilation,
        depth_multiplier=layer.depth_multiplier,
        activation=layer.activation,
        use_bias=layer.use_bias,
        **{
            f"{weight}_{kind}": getattr(layer, f"{weight}_{kind}")
            for weight in ("depthwise", "pointwise", "bias")
            for kind in ("regularizer", "constraint")
        },
        **_arguments(layer),
    )
    shape = (*best.kernel_size, depthwise.channels, layer.depth_multiplier)
    weights = [depthwise.kernel_of(best).reshape(shape), kernel]
    name = str(best).replace("depthwise", "separable")
    return Snap(_built(plain, layer, weights), name, max(best.distance, distance))


def _built(plain, layer, weights=()):
    """Return a layer built on the inputs of another, with weights and the bias of that one."""
    plain.build(layer.get_build_config()["input_shape"])
    if weights:
        bias = [layer.bias] if layer.use_bias else []
        values = [ops.convert_to_numpy(value) for value in (*weights, *bias)]
        plain.set_weights(values)
    return plain
