"""Families of convolutions: XD-operations of every kind and K-operations."""

import inspect

import keras
import numpy as np

from keras_xd import layers
from keras_xd_tests.layers.xd import definition
from keras_xd_tests.sweep import subjects
from keras_xd_tests.sweep.subjects import Family, Subject, Twin, chance, choice, integer

KERNELS = ("kernel", "depthwise_kernel", "pointwise_kernel", "bias")
# The largest number of points of an operation whose matrices are multiplied out in NumPy.
LARGEST_DEFINITION = 100


def is_wrong_in_tensorflow(arguments, sizes, channels):
    """Return whether TensorFlow with oneDNN leaves outputs of a convolution in float32 unset.

    It does in two and three axes for one channel, outputs of width 1 along the last axis, and a
    stride there but not along the axis before.
    """
    kernel, strides = arguments["kernel_size"][-1], arguments["strides"]
    size, reach = sizes[-1], (kernel - 1) * arguments["dilation_rate"][-1] + 1
    outputs = size if arguments["padding"] == "same" else size - reach + 1
    return channels == strides[-2] == 1 < strides[-1] and -(-outputs // strides[-1]) == 1


def plain_twin(keras_class, **changes):
    """Return the `twin` of a `Subject`: the layer of Keras with the same arguments and weights.

    There is none where TensorFlow may be wrong: for `is_wrong_in_tensorflow`, and for convolutions
    of three axes in float64 with a stride above the size of the kernel; gradients of transposed
    ones are such convolutions.
    """
    names = inspect.signature(keras_class.__init__).parameters.keys() - {"self", "name", "kwargs"}

    def twin(layer):
        wrong = False
        if keras_class in (keras.layers.Conv3D, keras.layers.Conv3DTranspose):
            pairs = zip(layer.strides, layer.kernel_size, strict=True)
            skips = any(stride > size for stride, size in pairs)
            wrong = skips and layer.compute_dtype == "float64"
        if wrong and keras_class is keras.layers.Conv3D:
            return None
        arguments = {k: v for k, v in layer.get_config().items() if k in names} | changes
        shape = layer.get_build_config()["input_shape"]
        planar = keras_class in (keras.layers.Conv2D, keras.layers.Conv3D)
        if planar and layer.compute_dtype == "float32":
            last = layer.data_format == "channels_last"
            sizes, channels = (shape[1:-1], shape[-1]) if last else (shape[2:], shape[1])
            if changes.get("padding") == "valid":  # of inputs that are continued
                sizes = [g.size + g.dilation * (g.kernel_size - 1) for g in layer.geometry]
            if is_wrong_in_tensorflow(arguments, sizes, channels):
                return None
        if arguments.get("data_format") == "channels_first":  # Keras has none on the CPU
            arguments["data_format"] = "channels_last"
            shape = (shape[0], *shape[2:], shape[1])
        plain = keras_class(**arguments, dtype=layer.dtype_policy)
        plain.build(shape)
        weights = [n for n in KERNELS if getattr(plain, n, None) is not None]
        subjects.copy_weights(layer, plain, weights)
        pairs = tuple((getattr(layer, name), getattr(plain, name)) for name in weights)
        # TensorFlow has no gradients of grouped convolutions on the CPU.
        grouped = getattr(layer, "groups", 1) > 1 and "groups" in names
        return Twin(subjects.channels_last(layer, plain), () if grouped or wrong else pairs)

    return twin


def circular_twin(keras_class):
    """The same for inputs that are continued periodically: cut out of a valid convolution."""
    of_wrapped = plain_twin(keras_class, padding="valid")

    def twin(layer):
        geometry = layer.geometry
        plain = of_wrapped(layer)
        if plain is None:
            return None

        def function(x):
            last = layer.data_format == "channels_last"
            first_axis = 1 if last else 2
            for axis, g in enumerate(geometry, start=first_axis):
                places = np.arange(-g.left, g.size + g.dilation * (g.kernel_size - 1)) % g.size
                x = keras.ops.take(x, places, axis=axis)
            cuts = tuple(slice(g.output_size) for g in geometry)
            return plain.function(x)[(slice(None),) * first_axis + cuts]

        return Twin(function, plain.variables)

    return twin


def _definition(layer, x):
    last = layer.data_format == "channels_last"
    found = definition.outputs(layer, x if last else np.moveaxis(x, 1, -1))
    return found if last else np.moveaxis(found, -1, 1)


def _drawn(rng, rank, paddings, *, equal_strides=False, dilated=True, smallest=2):
    """Draw what all convolutions have in common."""
    spatial = [max(n, smallest) for n in subjects.sizes(rng, rank)]
    padding = choice(rng, paddings)
    arguments = {"padding": padding, **subjects.sliding(rng, spatial, padding)}
    if equal_strides:
        arguments["strides"] = [arguments["strides"][0]] * rank
    if not dilated:
        arguments["dilation_rate"] = [1] * rank
    if rank == 2 and equal_strides:  # as TensorFlow has it
        arguments["dilation_rate"] = [min(arguments["dilation_rate"])] * rank
    arguments |= subjects.finishing(rng)
    if chance(rng, 0.2):
        arguments["data_format"] = "channels_first"
    return {
        "batch": subjects.batch(rng),
        "sizes": spatial,
        "channels": integer(rng, 1, 3),
        "arguments": arguments,
    }


def _sliding_subject(name, twin_name, defined=True):
    """Return a function that makes the subject of a configuration of a convolution."""
    keras_class = getattr(keras.layers, twin_name)

    def subject(configuration):
        arguments = configuration["arguments"]
        twin = circular_twin if arguments["padding"] == "circular" else plain_twin
        points = np.prod([n + 4 for n in configuration["sizes"]])
        return Subject(
            getattr(layers, name),
            arguments,
            (subjects.shape_of(configuration),),
            twin=None if "warm_start" in arguments else twin(keras_class),
            oracle=_definition if defined and points <= LARGEST_DEFINITION else None,
        )

    return subject


def _sliding_family(rank):
    paddings = ("valid", "same", "same", "circular") + (("causal",) if rank == 1 else ())

    def draw(rng):
        found = _drawn(rng, rank, paddings, dilated=rank < 3)
        arguments, groups = found["arguments"], integer(rng, 1, 2 if rank < 3 else 1)
        arguments |= {"groups": groups, "filters": groups * integer(rng, 1, 2)}
        found["channels"] = groups * integer(rng, 1, 2)
        arguments |= subjects.searching(rng, rank)
        if arguments["padding"] == "circular" and arguments.get("radix") in (2, 4):
            del arguments["radix"]  # the size of a circle is not free
        if chance(rng, 0.2):
            arguments |= {"warm_start": "random_unitary", "seed": integer(rng, 0, 99)}
        return found

    return Family(draw, _sliding_subject(f"XDConv{rank}D", f"Conv{rank}D"))


def _k_family(rank):
    paddings = ("valid", "same", "circular")

    def draw(rng):
        found = _drawn(rng, rank, paddings, dilated=rank < 3)
        found["arguments"] |= {"filters": integer(rng, 1, 3)}
        if chance(rng, 0.4):
            found["arguments"] |= {"warm_start": "random_unitary", "seed": integer(rng, 0, 99)}
            found["arguments"]["depth"] = choice(rng, (1, 3))
        return found

    return Family(draw, _sliding_subject(f"KOpConv{rank}D", f"Conv{rank}D"))


def _transposed_family(rank):
    def draw(rng):
        found = _drawn(rng, rank, ("valid", "same"), dilated=False)
        found["arguments"] |= {"filters": integer(rng, 1, 3)}
        found["arguments"] |= subjects.searching(rng, rank)
        return found

    subject = subjects.subject(
        getattr(layers, f"XDConv{rank}DTranspose"),
        twin=plain_twin(getattr(keras.layers, f"Conv{rank}DTranspose")),
    )

    return Family(draw, subject)


def _depthwise_family(rank):
    def draw(rng):
        found = _drawn(rng, rank, ("valid", "same", "circular"), equal_strides=True)
        found["arguments"]["depth_multiplier"] = integer(rng, 1, 3)
        found["arguments"] |= subjects.searching(rng, rank)
        if found["arguments"]["padding"] == "circular":
            found["arguments"].pop("radix", None)
        return found

    name = f"DepthwiseConv{rank}D"
    return Family(draw, _sliding_subject(f"XD{name}", name, defined=False))


def _separable_family(rank):
    def draw(rng):
        found = _drawn(rng, rank, ("valid", "same"), equal_strides=True)
        found["arguments"] |= {
            "filters": integer(rng, 1, 3),
            "depth_multiplier": integer(rng, 1, 2),
            "search_pointwise": chance(rng, 0.4),
        }
        found["arguments"] |= subjects.searching(rng, rank)
        found["arguments"].pop("radix", None)
        if not found["arguments"]["search_pointwise"]:  # a convolution of Keras on the CPU
            found["arguments"].pop("data_format", None)
        return found

    subject = subjects.subject(
        getattr(layers, f"XDSeparableConv{rank}D"),
        twin=plain_twin(getattr(keras.layers, f"SeparableConv{rank}D")),
        convolves=True,
    )

    return Family(draw, subject)


def _draw_causal(rng):
    found = _drawn(rng, 1, ("causal",))
    arguments, groups = found["arguments"], integer(rng, 1, 2)
    del arguments["padding"]
    found["sizes"] = [min(found["sizes"][0], 12)]
    arguments |= {"groups": groups, "filters": groups * integer(rng, 1, 2)}
    arguments |= subjects.searching(rng, 1)
    arguments.pop("radix", None)
    found["channels"] = groups * integer(rng, 1, 2)
    return found


_causal_subject = subjects.subject(
    layers.XDCausalConv1D, twin=plain_twin(keras.layers.Conv1D, padding="causal")
)


FAMILIES = {
    **{f"xd_conv_{rank}d": _sliding_family(rank) for rank in (1, 2, 3)},
    **{f"xd_conv_{rank}d_transpose": _transposed_family(rank) for rank in (1, 2, 3)},
    **{f"xd_depthwise_{rank}d": _depthwise_family(rank) for rank in (1, 2)},
    **{f"xd_separable_{rank}d": _separable_family(rank) for rank in (1, 2)},
    "xd_causal": Family(_draw_causal, _causal_subject),
    **{f"k_operation_{rank}d": _k_family(rank) for rank in (1, 2, 3)},
}
