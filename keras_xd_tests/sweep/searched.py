"""Families of masked layers, continuous kernels, mixtures and cells."""

import keras
import numpy as np

from keras_xd import layers
from keras_xd.layers.cells import genotypes
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.layers.cells.dynamic_conv import DynamicConv2D
from keras_xd.layers.mixed.dash_conv import DashConv
from keras_xd_tests.layers.ccnn import ck_conv_test
from keras_xd_tests.layers.cells import cell_references
from keras_xd_tests.layers.fourier import fft_convolution_test
from keras_xd_tests.layers.mixed import dash_conv_test, operation_references
from keras_xd_tests.sweep import subjects
from keras_xd_tests.sweep.convolutions import is_wrong_in_tensorflow, plain_twin
from keras_xd_tests.sweep.subjects import Family, Subject, chance, choice, integer

FEATURES = ("separable_3", "dilated_3", "max_pooling_3", "average_pooling_3", "identity")
OTHERS = ("dynamic_3", "dynamic_5", "spatial_attention", "channel_attention")
DARTS = tuple(operation_references.PLACES)


def _softmax(logits):
    logits = np.asarray(keras.ops.convert_to_numpy(logits), "float64")
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _shorten(layer, rng):
    """Give masks of kernels lengths at which some of the taps fall away."""
    for variable in layer.architecture_variables:
        values = rng.uniform(0.3, 0.9, size=variable.shape).astype(variable.dtype)
        variable.assign(variable.constraint(values))


def _masked(name, rank):
    keras_class, masked_class = getattr(keras.layers, name), getattr(layers, f"Masked{name}")
    depthwise = "Depthwise" in name

    def draw(rng):
        spatial = [max(n, 3) for n in subjects.sizes(rng, rank)] if rank else []
        arguments = {**subjects.finishing(rng)}
        if rank:
            padding = choice(rng, ("valid", "same") + (("causal",) if name == "Conv1D" else ()))
            arguments |= {"padding": padding, **subjects.sliding(rng, spatial, padding)}
            if depthwise:
                arguments["strides"] = [arguments["strides"][0]] * rank
                arguments["dilation_rate"] = [min(arguments["dilation_rate"])] * rank
            if max(arguments["kernel_size"]) == 1:
                arguments["kernel_size"][0] = 3 if padding != "valid" else 2
                arguments["dilation_rate"] = [1] * rank
            arguments["mask_kernel"] = True
            arguments["initial_value"] = choice(rng, (0.85, 0.5))
        if depthwise:
            arguments["depth_multiplier"] = integer(rng, 1, 2)
        else:
            arguments["filters" if rank else "units"] = integer(rng, 1, 3)
        channels = integer(rng, 1, 3)
        if name == "Conv2D" and is_wrong_in_tensorflow(arguments, spatial, channels):
            channels = 2
        return {
            "batch": subjects.batch(rng),
            "sizes": spatial,
            "channels": channels,
            "arguments": arguments,
        }

    subject = subjects.subject(
        masked_class,
        twin=plain_twin(keras_class),
        move=_shorten,
        derivatives=False,  # the mask jumps to zero at its threshold
        convolves=True,
    )

    return Family(draw, subject)


def _draw_mask(rng):
    rank = integer(rng, 1, 2)
    return {
        "batch": subjects.batch(rng),
        "sizes": [integer(rng, 4, 16) for _ in range(rank)],
        "channels": integer(rng, 1, 3),
        "arguments": {
            "axis": choice(rng, (1, [1, 2])) if rank == 2 else 1,
            "profile": choice(rng, ("sigmoid", "gaussian")),
            "temperature": choice(rng, (10.0, 25.0)),
        },
    }


def _mask_oracle(layer, x):
    axes = (layer.axis,) if isinstance(layer.axis, int) else layer.axis
    for axis, length in zip(axes, keras.ops.convert_to_numpy(layer.length), strict=True):
        places = np.linspace(-1, 1, x.shape[axis])
        if layer.profile == "gaussian":
            mask = np.exp(-(places**2) / (2 * float(length) ** 2))
        else:
            mask = 1 - 1 / (1 + np.exp(-layer.temperature * (places - float(length))))
        mask = np.where(mask < layer.threshold * (1 - 1e-5), 0, mask)
        x = x * mask.reshape([-1 if n == axis else 1 for n in range(x.ndim)])
    return x


_mask = subjects.subject(
    layers.DifferentiableMask,
    oracle=_mask_oracle,
    move=_shorten,
    derivatives=False,  # it jumps to zero at its threshold
)


def _draw_ck(rank):
    def draw(rng):
        spatial = [integer(rng, 4, 12 if rank == 1 else 6) for _ in range(rank)]
        kernel = choice(rng, ([integer(rng, 3, n) for n in spatial], None))
        paddings = ("same", "circular") + (("causal",) if rank == 1 else ())
        return {
            "batch": subjects.batch(rng),
            "sizes": spatial,
            "channels": integer(rng, 1, 3),
            "arguments": {
                **subjects.finishing(rng),
                "kernel_size": kernel,
                "padding": choice(rng, paddings),
                "initial_kernel_size": choice(rng, (3.0, "half", "full")),
                "convolution": choice(rng, ("direct", "fourier", "auto")),
                "kernel_scaling": choice(rng, ("mask", "taps")),
                "seed": integer(rng, 0, 99),
            },
        }

    return draw


def _ck_oracle(layer, x):
    kernel = ck_conv_test.numpy_kernel(layer)
    last = kernel.shape[:-1]
    causal = layer.padding == "causal"
    before = tuple(k - 1 if causal else (k - 1) // 2 for k in last)
    values = fft_convolution_test.reference(x, kernel, before, layer.padding == "circular")
    return subjects.finished(layer, values)


def _ck(rank):
    def move(layer, rng):
        layer.kernel_mask.length.assign(rng.uniform(0.3, 0.9, size=(rank,)))

    subject = subjects.subject(
        getattr(layers, f"CKConv{rank}D"),
        oracle=_ck_oracle,
        settle=lambda layer, rng: None,
        move=move,
        derivatives=False,  # the mask jumps to zero at its threshold
        tolerance64=1e-5,  # the network is evaluated in float32
        tolerance=3e-5,
        convolves=True,
    )

    return Family(_draw_ck(rank), subject)


def _draw_mixture(rank):
    def draw(rng):
        spatial = [integer(rng, 5, 9 if rank == 1 else 6) for _ in range(rank)]
        groups = integer(rng, 1, 2)
        names = [n for n in DARTS if chance(rng, 0.5)] or ["convolution_3", "skip"]
        configuration = {
            "batch": 2,
            "sizes": spatial,
            "channels": groups * integer(rng, 1, 2),
            "arguments": {
                **subjects.finishing(rng),
                "filters": groups * integer(rng, 1, 2),
                "groups": groups,
                "kernel_size": choice(rng, (1, 3, 5)),
                "padding": choice(rng, ("same", "valid")),
                "strides": integer(rng, 1, 2),
                "candidates": names,
                "other_weight": choice(rng, (None, 0.1, 0.5)),
            },
        }
        # The layer's own convolution alone is no mixture.
        if names == [f"convolution_{configuration['arguments']['kernel_size']}"]:
            names.append("skip")
        return configuration

    return draw


def _mixture_oracle(layer, x):
    geometry = {
        "window": layer.kernel_size[0],
        "stride": layer.strides[0],
        "padding": layer.padding,
        "rate": 1,
    }
    values = 0
    for share, inner in zip(_softmax(layer.logits), layer.operations, strict=True):
        kernel = None if inner.kernel is None else keras.ops.convert_to_numpy(inner.kernel)
        values = values + share * operation_references.operation(
            inner.operation, x, layer.filters, kernel, **geometry
        )
    return subjects.finished(layer, values)


def _mixture(rank):
    subject = subjects.subject(
        getattr(layers, f"MixedOperation{rank}D"),
        oracle=_mixture_oracle,
        finalizes=False,  # it keeps one operation only
        convolves=True,
    )

    return Family(_draw_mixture(rank), subject)


def _draw_dash(rng):
    rank = integer(rng, 1, 2)
    groups = integer(rng, 1, 2) if rank == 1 else 1
    return {
        "batch": 2,
        "sizes": [integer(rng, 8, 16 if rank == 1 else 9) for _ in range(rank)],
        "channels": groups * integer(rng, 1, 2),
        "arguments": {
            "rank": rank,
            "filters": groups * integer(rng, 1, 2),
            "groups": groups,
            "kernel_size": 3,
            "padding": choice(rng, ("same", "valid") + (("causal",) if rank == 1 else ())),
            "kernel_sizes": choice(rng, ((3, 5), (3, 7), (2, 3, 4))),
            "dilations": choice(rng, ((1,), (1, 2), (1, 3))),
            "convolution": choice(rng, ("direct", "fourier", "auto")),
            "use_bias": False,
        },
    }


_dash = subjects.subject(
    DashConv,
    oracle=lambda layer, x: dash_conv_test.explicit(layer, x.astype(layer.compute_dtype)),
    finalizes=False,
    convolves=True,
)


def _draw_calibration(rng):
    return {
        "batch": subjects.batch(rng),
        "sizes": [integer(rng, 2, 7), integer(rng, 2, 7)],
        "channels": choice(rng, (2, 5, 8)),
        "arguments": {
            "operation": choice(rng, OTHERS),
            "gate": choice(rng, ("zero", "tanh", None)),
            "reduction": choice(rng, (1, 2, None)),
            "affine": chance(rng, 0.5),
        },
    }


def _calibration_oracle(layer, x):
    factor = 1.0
    if layer.gate is not None:
        factor = float(keras.ops.convert_to_numpy(layer.residual_weight))
        factor = np.tanh(factor) if layer.gate == "tanh" else factor
    return cell_references.self_calibration(layer, x, factor)


_calibration = subjects.subject(
    layers.SelfCalibration,
    oracle=_calibration_oracle,
    settle=cell_references.randomized,
    derivatives=False,  # a rectification is inside
    convolves=True,
)


def _draw_dynamic(rng):
    return {
        "batch": subjects.batch(rng),
        "sizes": [integer(rng, 2, 8), integer(rng, 2, 8)],
        "channels": choice(rng, (1, 4, 9)),
        "arguments": {
            "kernel_size": choice(rng, (1, 3, 5)),
            "strides": integer(rng, 1, 3),
            "reduction": choice(rng, (1, 2, 8)),
            "affine": chance(rng, 0.5),
        },
    }


def _dynamic_oracle(layer, x):
    kernels = cell_references.dynamic_kernel(layer.dynamic_kernel, x)
    return cell_references.dynamic(x, kernels, layer.strides)


_dynamic = subjects.subject(
    DynamicConv2D,
    oracle=_dynamic_oracle,
    settle=cell_references.randomized,
    derivatives=False,  # a rectification is inside
    convolves=True,
)


def _draw_cell(rng):
    names = [choice(rng, FEATURES)]
    names += [n for n in (*FEATURES, *OTHERS) if n not in names and chance(rng, 0.2)]
    if len(names) < 2:
        names.append(choice(rng, OTHERS))
    reduction = chance(rng, 0.3)
    least = 2 if reduction and "identity" in names else 1
    return {
        "batch": 2,
        "sizes": [4, 4] if reduction else [integer(rng, 2, 4), integer(rng, 2, 4)],
        "channels": integer(rng, 1, 3),
        "operations": names,
        "reduction": reduction,
        "arguments": {
            "filters": max(least, integer(rng, 1, 2)),
            "calibration_gate": choice(rng, (None, "zero")),
        },
    }


def _cell_oracle(layer, x):
    gates = np.ones(8)
    if layer.calibration_gates is not None:
        gates = keras.ops.convert_to_numpy(layer.calibration_gates)
    return cell_references.cell(layer, x, _softmax(layer.architecture.logits), gates)


def _cell(configuration):
    shape = subjects.shape_of(configuration)
    reduction = configuration["reduction"]

    def extra(dtype):
        weights = ArchitectureLogits(reduction, configuration["operations"], seed=1, dtype=dtype)
        return {"weights": weights, "reduction": reduction}

    return Subject(
        layers.HeterogeneousCell,
        configuration["arguments"],
        (shape, shape),
        oracle=_cell_oracle,
        settle=cell_references.randomized,
        extra=extra,
        finalizes=False,  # it keeps a few operations only
        derivatives=False,  # rectifications are inside
        tolerance=5e-5,
        convolves=True,
    )


def _draw_derived(rng):
    return {
        "batch": 2,
        "sizes": [4, 4],
        "channels": integer(rng, 1, 3),
        "genotype": integer(rng, 0, 10**6),
        "arguments": {
            "filters": integer(rng, 1, 2) * 2,
            "reduction": chance(rng, 0.5),
            "affine": chance(rng, 0.5),
            "calibration_gate": choice(rng, (None, "zero")),
        },
    }


def _tier(edges, gate, base=None):
    """Return what the operations of one tier make, as the paper's equations have it."""
    r, features, attention, kernels = cell_references, None, 0, []
    for name, x, layer in edges:
        if name == "channel_attention":
            attention = attention + r.channel_attention(layer, x)
        elif name == "spatial_attention":
            attention = attention + r.spatial_attention(layer, x)
        elif name.startswith("dynamic"):
            kernels.append(r.dynamic_kernel(layer, x))
        else:
            made = r.feature_operation(layer, x)
            features = made if features is None else features + made
    features = base if features is None else features
    return features + gate * (features * attention + sum(r.dynamic(features, k) for k in kernels))


def _derived_oracle(layer, x):
    r, operations, gates = cell_references, iter(layer.operations), np.ones(8)
    if layer.calibration_gates is not None:
        gates = keras.ops.convert_to_numpy(layer.calibration_gates)
    nodes = [
        r.pointwise_operation(made, given)
        for made, given in zip(layer.preprocessing, x, strict=True)
    ]
    for block, genotype in enumerate(layer.genotype_cell.blocks):
        first = [(name, nodes[source], next(operations)) for name, source in genotype.first]
        z = _tier(first, gates[block])
        nodes.append(_tier([(genotype.second, z, next(operations))], gates[4 + block], base=z))
    return np.concatenate(nodes[2:], axis=-1)


def _derived(configuration):
    cell = genotypes.random_cell(np.random.default_rng(configuration["genotype"]))
    shape = subjects.shape_of(configuration)
    return Subject(
        layers.DerivedCell,
        configuration["arguments"],
        (shape, shape),
        oracle=_derived_oracle,
        settle=cell_references.randomized,
        extra=lambda dtype: {"genotype_cell": cell},
        derivatives=False,
        tolerance=5e-5,
        convolves=True,
    )


FAMILIES = {
    **{f"masked_conv_{rank}d": _masked(f"Conv{rank}D", rank) for rank in (1, 2)},
    **{f"masked_depthwise_{rank}d": _masked(f"DepthwiseConv{rank}D", rank) for rank in (1, 2)},
    "masked_dense": _masked("Dense", 0),
    "differentiable_mask": Family(_draw_mask, _mask),
    **{f"ck_conv_{rank}d": _ck(rank) for rank in (1, 2)},
    **{f"mixed_operation_{rank}d": _mixture(rank) for rank in (1, 2)},
    "dash_conv": Family(_draw_dash, _dash),
    "dynamic_conv": Family(_draw_dynamic, _dynamic),
    "self_calibration": Family(_draw_calibration, _calibration),
    "heterogeneous_cell": Family(_draw_cell, _cell),
    "derived_cell": Family(_draw_derived, _derived),
}
