"""Mixtures of the operations of the DARTS search space."""

import math
from collections.abc import Sequence
from typing import Any, Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import arguments_of, built_like
from keras_xd.core.convolutions import ConvolutionOfAnyRank, RankArgument
from keras_xd.core.mixtures import (
    UPDATES,
    CandidateMixture,
    ProbabilityFloor,
    expected_count,
    with_update,
)
from keras_xd.core.type_aliases import Shape, Sizes, Tensor
from keras_xd.layers.mixed.discrete_operation import (
    DARTS_OPERATIONS,
    DiscreteOperation,
    is_operation,
)
from keras_xd.layers.mixed.operation_layer import OperationLayer, OperationOptions

_CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
# exp(-150) is zero in float32.
_LOGIT_OF_ALL = 150.0


class MixedOptions(OperationOptions, total=False):
    """Keyword arguments of a `MixedOperation` after the size of its kernel."""

    candidates: Sequence[str]
    other_weight: float | None
    update: str


class MixedConvolution(OperationLayer, CandidateMixture):
    """Base class of `MixedOperation` of every rank."""

    # Keras' convolutions save their kernel and bias only.
    save_own_variables = keras.layers.Layer.save_own_variables
    load_own_variables = keras.layers.Layer.load_own_variables

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        *args: Any,
        candidates: Sequence[str] = DARTS_OPERATIONS,
        other_weight: float | None = 0.1,
        update: str = "softmax",
        **kwargs: Unpack[OperationOptions],
    ):
        super().__init__(filters, kernel_size, *args, **kwargs)
        self.candidates = _checked_candidates(candidates)
        if other_weight is not None:
            validation.number_within(other_weight, "[)", 0, 1, "other_weight")
        self.other_weight = other_weight
        self.update = validation.one_of(update, UPDATES, "update")
        operations = [self._operation(n, name) for n, name in enumerate(self.candidates)]
        window = (self.kernel_size, self.dilation_rate)
        own = [o for o in operations if o.kind == "convolution" and (o.size, o.rate) == window]
        if not own:
            own = [self._operation(len(operations), "convolution")]
            operations = own + operations
        # A tuple, because TensorFlow's checkpoints reach nothing in lists.
        self.operations = tuple(operations)
        self.own_convolution = own[0].operation
        if len(self.operations) < 2:
            raise ValueError(
                "A mixture must have an operation beside the convolution of its own `kernel_size` "
                f"and `dilation_rate`. Received: candidates={self.candidates}, "
                f"kernel_size={self.kernel_size}, dilation_rate={self.dilation_rate}"
            )

    def build_operations(self, input_shape: Shape) -> None:
        """Make the kernels of all convolutions, and the logits."""
        shape = self._operation_shape(input_shape)
        for operation in self.operations:
            operation.build(shape)
        start = self._initial_logits()
        self.logits = self.add_weight(
            name="logits",
            shape=start.shape,
            initializer=lambda shape, dtype=None: ops.convert_to_tensor(start, dtype),
            constraint=ProbabilityFloor() if self.update == "exponentiated_gradient" else None,
            autocast=False,
        )

    @property
    def operation_names(self) -> tuple[str, ...]:
        """The names of the operations, in the order of the logits."""
        return tuple(operation.operation for operation in self.operations)

    @property
    def kernel(self) -> keras.Variable:
        """The kernel of the convolution of the layer's own arguments."""
        return self.operations[self.operation_names.index(self.own_convolution)].kernel

    @property
    def probabilities(self) -> Tensor:
        """The probability of each operation, a tensor."""
        logits = ops.convert_to_tensor(self.logits)
        return with_update(self.update, logits, ops.softmax(logits))

    def operate(self, x: Tensor) -> Tensor:
        """Return the mixture of the operations; inputs and outputs have their channels last."""
        probabilities, total, kernels = ops.cast(self.probabilities, x.dtype), 0, {}
        # From the largest window on: smaller ones are computed with it, as a sum of kernels.
        for index in np.argsort([-math.prod(o.size) for o in self.operations], kind="stable"):
            operation, probability = self.operations[index], probabilities[int(index)]
            if operation.kind == "convolution":
                kernel = probability * ops.convert_to_tensor(operation.kernel)
                for wider in kernels:
                    widened = operation.widened(kernel, wider, x.shape[1:-1])
                    if widened is not None:
                        kernels[wider] += widened
                        break
                else:
                    kernels[operation] = kernel
            elif operation.kind != "zero":
                total = total + probability * operation.operate(x)
        return sum((o.convolve(x, kernel) for o, kernel in kernels.items()), total)

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """The expected multiply–adds of one sample, by the probabilities of the operations."""
        return self._expected_multiply_adds(self.probabilities, input_shape)

    def forecast(self, input_shape: Shape) -> dict[str, int]:
        """Return the sizes the layer will have on inputs of a shape, without building it."""
        shape = self._operation_shape(input_shape)
        kernels = sum(operation.count_kernel(shape) for operation in self.operations)
        logits = ops.convert_to_tensor(self._initial_logits())
        return {
            "parameters": kernels + len(self.operations) + self.filters * bool(self.use_bias),
            "multiply_adds": int(self._expected_multiply_adds(ops.softmax(logits), input_shape)),
            "spectrum": 0,
        }

    def finalize(self) -> keras.layers.Layer:
        """Return the operation of the largest probability as a built layer with its weights."""
        found = self.operations[self.operation_names.index(self.largest)]
        arguments = {name: getattr(self, name) for name in arguments_of(self.like)}
        if found.is_keras_convolution and self.partial_channels == 1:
            kind, window = _CONVOLUTIONS[self.rank - 1], (found.size, found.rate)
        else:
            kind, window = DiscreteOperation, (self.kernel_size, self.dilation_rate)
            arguments |= {"rank": self.rank, "operation": found.operation}
            arguments["partial_channels"] = self.partial_channels
        arguments |= dict(zip(("kernel_size", "dilation_rate"), window, strict=True))
        plain = built_like(self, kind, **arguments)
        for old, new in ((found.kernel, plain.kernel), (self.bias, plain.bias)):
            if old is not None:
                new.assign(ops.copy(old))
        return plain

    def _operation(self, number, name):
        """Return the layer of one operation, whose seed is that of the layer plus a number."""
        initializer = keras.initializers.serialize(self.kernel_initializer)
        if isinstance(initializer, dict) and validation.is_integer(
            initializer.get("config", {}).get("seed")
        ):
            config = {**initializer["config"], "seed": initializer["config"]["seed"] + number}
            initializer = {**initializer, "config": config}
        return DiscreteOperation(
            self.rank,
            self.operation_filters,
            name,
            self.kernel_size,
            self.strides,
            self.padding,
            "channels_last",
            self.dilation_rate,
            self.groups,
            use_bias=False,
            kernel_initializer=initializer,
            kernel_regularizer=self.kernel_regularizer,
            kernel_constraint=self.kernel_constraint,
            name=name,
            dtype=self.dtype_policy,
        )

    def _operation_shape(self, input_shape):
        """Return the shape of what the operations are given, channels last."""
        channels, sizes = self.split_shape(input_shape)
        return (None, *sizes, channels // self.partial_channels)

    def _expected_multiply_adds(self, probabilities, input_shape):
        shape = self._operation_shape(input_shape)
        counts = [operation.multiply_adds(shape) for operation in self.operations]
        return expected_count(probabilities, counts)

    def _initial_logits(self):
        names = self.operation_names
        logits = np.zeros(len(names), "float32")
        if self.other_weight is not None:
            others = self.other_weight / (len(names) - 1)
            logits[names.index(self.own_convolution)] = (
                math.log((1 - self.other_weight) / others) if others else _LOGIT_OF_ALL
            )
        return logits


@keras.saving.register_keras_serializable(package="keras_xd")
class MixedOperation(RankArgument, MixedConvolution, ConvolutionOfAnyRank):
    """As `MixedOperation2D`, of any `rank`."""

    ranks = (1, 2)


@keras.saving.register_keras_serializable(package="keras_xd")
class MixedOperation1D(MixedConvolution, keras.layers.Conv1D):
    """As `MixedOperation2D`, over one spatial axis."""

    rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class MixedOperation2D(MixedConvolution, keras.layers.Conv2D):
    """A convolution mixed with other operations, by probabilities that are searched.

    With the operations `o` of the candidates, one of which is the convolution of the layer's own
    arguments, and probabilities `p = softmax(logits)`

        y = activation( Σ_o p_o · o(x) + bias )

    Each convolution has a kernel of its own; `kernel` is that of the layer's own arguments, and
    with `bias` the weights of the Keras convolution. Bias and activation act on the mixture. Where
    the operations' windows lie, and how poolings and the skip treat another number of channels,
    is said in `DiscreteOperation`.

    The outputs are those of the whole mixture, which is what the XD paper evaluates. `finalize()`
    keeps the operation of the largest probability alone, without its probability as a factor: the
    outputs are the same where that probability is 1, else as different as the other operations make
    them.

    Args:
        filters, kernel_size, *args: these and all others of a Keras convolution. Strides, padding
            and groups hold for all operations, initializers, regularizers and constraints for all
            kernels.
        candidates: names of the operations, of
            `keras_xd.layers.mixed.discrete_operation.DARTS_OPERATIONS`, or `"convolution_<k>"` and
            `"convolution_<k>_dilated_<d>"` of any size and dilation. If none of them is the
            convolution of `kernel_size` and `dilation_rate`, that is one more, the first, under
            the name `"convolution"`.
        other_weight: what is left for the other operations at the start: that convolution has the
            probability `1 - other_weight`, all others the same. `None`: all probabilities are the
            same (0.875 with eight operations). With 0 the layer is exactly the convolution, but
            then the probabilities are 0 and 1 to the last bit, and no gradient reaches the logits
            by `update="softmax"`.
        update: `"softmax"`: gradients are those of the logits. `"exponentiated_gradient"`: the
            gradient that the logits get is the gradient with respect to the probabilities. A step
            of `keras.optimizers.SGD(η)` (no momentum, no weight decay) on the logits then is the
            step `p ← p · exp(-η ∇_p) / Σ` of the exponentiated gradient of GAEA, where η = 0.1, and
            probabilities below 1e-5 are raised to that after each step. Other optimizers take other
            steps.
        partial_channels: integer `k`; 4 is PC-DARTS: the operations act on the first 1 / k of the
            channels only, and the rest passes them by; see `DiscreteOperation`.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)`; all sizes but
        the batch's must be known.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.MixedOperation2D(8, 3, padding="same", other_weight=0.1)
    >>> layer(np.ones((2, 16, 16, 8))).shape
    TensorShape([2, 16, 16, 8])
    >>> round(layer.describe()["probability/convolution_3"], 4), layer.largest
    (0.9, 'convolution_3')
    >>> type(layer.finalize()).__name__
    'Conv2D'

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, section 4 and
        appendix (the relaxed DARTS operations); Liu et al., "DARTS", 2019, equation 2; Xu et al.,
        "PC-DARTS", 2020; Li et al., "Geometry-Aware Gradient Algorithms for Neural Architecture
        Search", 2021 (GAEA).
    """

    rank = 2


def _checked_candidates(candidates):
    """Return a tuple of different names of operations."""
    names = validation.collection(candidates, "candidates")
    if not all(map(is_operation, names)) or len(set(names)) < len(names):
        raise ValueError(
            f"`candidates` must be different names of {DARTS_OPERATIONS}, or "
            "'convolution_<k>' and 'convolution_<k>_dilated_<d>'. "
            f"Received: candidates={candidates!r}"
        )
    return names
