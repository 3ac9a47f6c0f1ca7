"""Families of dense, structured, recurrent and spectral layers."""

import keras
import numpy as np

from keras_xd import layers
from keras_xd.kmatrix import families
from keras_xd.layers.k.k_dense import KDense
from keras_xd_tests.layers.fourier import spectral_conv_test
from keras_xd_tests.layers.k import k_dense_test
from keras_xd_tests.sweep import subjects
from keras_xd_tests.sweep.subjects import Family, Subject, Twin, chance, choice, integer

NAMES = (*families.FAMILIES, "dense")
SIZES = (6, 8, 9, 12, 15, 16, 20)


def _draw_k_dense(rng):
    return {
        "batch": subjects.batch(rng),
        "sizes": [integer(rng, 2, 4)] if chance(rng, 0.3) else [],
        "channels": integer(rng, 1, 24),
        "arguments": {
            **subjects.finishing(rng),
            "units": integer(rng, 1, 24),
            "depth": integer(rng, 1, 3),
            "radix": choice(rng, (None, None, 4, 100)),
            "warm_start": choice(rng, ("random_orthogonal", "identity", "random_unitary")),
            "seed": integer(rng, 0, 99),
        },
    }


def _k_dense_oracle(layer, x):
    return subjects.finished(layer, x @ k_dense_test.dense_kernel(layer, x.shape[-1]))


_k_dense = subjects.subject(KDense, oracle=_k_dense_oracle)


def _possible_share(rng, family, shapes):
    """Return a share of the numbers of a matrix that the family can keep to, or `None`."""
    for share in (choice(rng, (0.5, 0.75)), 1.0):
        try:
            for shape in shapes:
                families.sizes_within(shape, family, share)
        except ValueError:
            continue
        return share
    return None


def _draw_structured(rng):
    while True:
        family, inputs, units = choice(rng, NAMES), choice(rng, SIZES), choice(rng, SIZES)
        share = 0.25 if family == "dense" else _possible_share(rng, family, [(units, inputs)])
        if share is not None:
            break
    return {
        "batch": subjects.batch(rng),
        "sizes": [integer(rng, 2, 4)] if chance(rng, 0.3) else [],
        "channels": inputs,
        "arguments": {
            **subjects.finishing(rng),
            "units": units,
            "family": family,
            "density": share,
            "seed": integer(rng, 0, 99),
        },
    }


def _project(layer, rng):
    """Set the kernel to the nearest one of a random matrix, which the oracle knows."""
    shape = layer.kernel.product.inputs, layer.kernel.product.units
    layer.known_kernel = layer.project(rng.standard_normal(shape) / np.sqrt(shape[0])).matrix.T
    if layer.bias is not None:
        layer.bias.assign(rng.standard_normal(layer.bias.shape))


def _structured_oracle(layer, x):
    return subjects.finished(layer, x @ layer.known_kernel)


_structured = subjects.subject(layers.StructuredDense, oracle=_structured_oracle, settle=_project)


EQUATIONS = (
    ("abc,cde->abde", (None, 2, 6), "de", 2),
    ("abcd,cde->abe", (None, 8), "e", 3),
    ("...x,xy->...y", 8, "y", 2),
    ("ab,bc->ac", 9, None, 1),
    ("abc,db->adc", (8, None), "d", 2),
    ("abcd,edb->aec", (6, None), "e", 3),
)


def _draw_einsum(rng):
    number = integer(rng, 0, len(EQUATIONS) - 1)
    equation, output_shape, bias_axes, rank = EQUATIONS[number]
    channels = choice(rng, (4, 6, 12))
    return {
        "batch": subjects.batch(rng),
        "sizes": [integer(rng, 2, 4) for _ in range(rank - 1)],
        "channels": channels,
        "arguments": {
            "equation": equation,
            "output_shape": output_shape,
            "bias_axes": bias_axes if chance(rng, 0.7) else None,
            "activation": choice(rng, subjects.ACTIVATIONS),
            "seed": integer(rng, 0, 99),
        },
    }


def _einsum_twin(layer):
    plain = keras.layers.EinsumDense(
        layer.equation,
        layer.partial_output_shape,
        bias_axes=layer.bias_axes,
        activation=layer.activation,
        dtype=layer.dtype_policy,
    )
    plain.build(layer.get_build_config()["input_shape"])
    layer.project(plain.kernel)
    pairs = ()
    if layer.bias is not None:
        plain.bias.assign(layer.bias)
        pairs = ((layer.bias, plain.bias),)
    return Twin(plain, pairs)


def _einsum(configuration):
    return Subject(
        layers.StructuredEinsumDense,
        {**configuration["arguments"], "family": "dense"},
        (subjects.shape_of(configuration),),
        twin=_einsum_twin,
    )


def _draw_recurrent(rng):
    return {
        "batch": subjects.batch(rng),
        "sizes": [integer(rng, 1, 5)],
        "channels": integer(rng, 1, 6),
        "arguments": {
            "units": integer(rng, 1, 5),
            "return_sequences": chance(rng, 0.5),
            "go_backwards": chance(rng, 0.3),
            "use_bias": chance(rng, 0.8),
            "seed": integer(rng, 0, 99),
        },
    }


def _recurrent(kind):
    keras_class, structured = getattr(keras.layers, kind), getattr(layers, f"Structured{kind}")

    def subject(configuration):
        shape = subjects.shape_of(configuration)
        arguments = {**configuration["arguments"], "family": "dense"}

        def twin(layer):
            plain = keras_class(**configuration["arguments"], dtype=layer.dtype_policy)
            plain.build(shape)
            layer.start_from(plain)
            return Twin(plain)

        return Subject(structured, arguments, (shape,), twin=twin, settle=lambda layer, rng: None)

    return Family(_draw_recurrent, subject)


def _spectral(rank):
    def draw(rng):
        spatial = subjects.sizes(rng, rank, (17, 8, 5))
        modes = [integer(rng, 1, max(n // 2, 1)) for n in spatial]
        arguments = {**subjects.finishing(rng), "filters": integer(rng, 1, 3), "modes": modes}
        if chance(rng, 0.3):
            arguments["data_format"] = "channels_first"
        return {
            "batch": subjects.batch(rng),
            "sizes": spatial,
            "channels": integer(rng, 1, 3),
            "arguments": arguments,
        }

    def oracle(layer, x):
        first = layer.data_format == "channels_first"
        x = np.moveaxis(x, 1, -1) if first else x
        kernel = keras.ops.convert_to_numpy(layer.kernel)
        values = spectral_conv_test.reference(x, kernel, layer.modes)
        values = subjects.finished(layer, values)
        return np.moveaxis(values, -1, 1) if first else values

    subject = subjects.subject(getattr(layers, f"SpectralConv{rank}D"), oracle=oracle)

    return Family(draw, subject)


FAMILIES = {
    "k_dense": Family(_draw_k_dense, _k_dense),
    "structured_dense": Family(_draw_structured, _structured),
    "structured_einsum_dense": Family(_draw_einsum, _einsum),
    "structured_lstm": _recurrent("LSTM"),
    "structured_gru": _recurrent("GRU"),
    **{f"spectral_conv_{rank}d": _spectral(rank) for rank in (1, 2, 3)},
}
