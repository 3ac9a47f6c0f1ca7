"""LSTM and GRU whose kernels are structured matrices."""

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core import shapes, validation
from keras_xd.core.argument_types import constructor_parameters
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import Config, Shape, Tensor
from keras_xd.layers.structured import base

_OF_LAYER = (
    *("name", "dtype", "trainable", "activity_regularizer", "return_sequences", "return_state"),
    *("go_backwards", "stateful", "unroll", "zero_output_for_mask"),
)


class _StructuredCell(ConfiguredLayer, base.FactorFiles):
    """What the two cells share; comes before the cell of Keras in the order of classes."""

    gates: int
    bias_rows: tuple[int, ...] = ()

    def __init__(
        self,
        units: int,
        family: str = "block_tensor_train",
        density: float = 0.25,
        sizes: Config | None = None,
        recurrent_sizes: Config | None = None,
        learning_rates: str = "spectral",
        **kwargs: Any,
    ):
        if kwargs.get("recurrent_dropout"):
            raise ValueError(
                "A structured cell multiplies the states of all gates at once, without recurrent "
                f"dropout. Received: recurrent_dropout={kwargs['recurrent_dropout']}"
            )
        units = validation.positive_integer(units, "units")
        super().__init__(units, **{**kwargs, "implementation": 2})
        self.structure = base.StructuredOptions(
            family, density, sizes, learning_rates, seed=kwargs.get("seed")
        )
        self.recurrent_sizes = base.checked_sizes(family, recurrent_sizes, "recurrent_sizes")

    def build(self, input_shape: Shape) -> None:
        inputs, units = shapes.known_size(input_shape, self.name), self.gates * self.units
        sizes, recurrent_sizes = self.structure.sizes, self.recurrent_sizes
        asked = [
            base.KernelSpecification(inputs, units, sizes, regularizer=self.kernel_regularizer),
            base.KernelSpecification(
                self.units,
                units,
                sizes if recurrent_sizes is None else recurrent_sizes,
                "recurrent_kernel",
                self.recurrent_regularizer,
                seed_offset=1,
            ),
        ]
        self.kernel, self.recurrent_kernel = self.structure.kernels(self, asked)
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(*self.bias_rows, units),
                initializer=self.start_of_bias,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def start_of_bias(self, shape: Shape, dtype: Any = None) -> Tensor:
        """Return the initial bias."""
        return self.bias_initializer(shape, dtype=dtype)

    def dropped(self, inputs: Tensor, training: bool) -> Tensor:
        """Return the inputs with the dropout that all steps share."""
        if training and 0 < self.dropout < 1:
            return inputs * self.get_dropout_mask(inputs)
        return inputs

    @property
    def vector_multiply_adds(self) -> int:
        """The multiply–adds of one step."""
        return self.kernel.multiply_adds + self.recurrent_kernel.multiply_adds

    def get_config(self) -> Config:
        return {**super().get_config(), "recurrent_sizes": base.plain_sizes(self.recurrent_sizes)}


@keras.saving.register_keras_serializable(package="keras_xd")
class StructuredLSTMCell(_StructuredCell, keras.layers.LSTMCell):
    """The cell of `StructuredLSTM`, with the same arguments as far as they are the cell's."""

    gates = 4

    def start_of_bias(self, shape: Shape, dtype: Any = None) -> Tensor:
        """Return the initial bias, 1 of the gate that forgets if `unit_forget_bias`."""
        start = super().start_of_bias(shape, dtype)
        if not self.unit_forget_bias:
            return start
        ones = ops.ones((self.units,), dtype=dtype)
        return ops.concatenate([start[: self.units], ones, start[2 * self.units :]])

    def call(
        self, inputs: Tensor, states: list[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        hidden, carry = states
        z = self.kernel(self.dropped(inputs, training)) + self.recurrent_kernel(hidden)
        z = z if self.bias is None else z + self.bias
        let_in, forget, new, let_out = ops.split(z, 4, axis=-1)
        kept = self.recurrent_activation(forget) * carry
        carry = kept + self.recurrent_activation(let_in) * self.activation(new)
        hidden = self.recurrent_activation(let_out) * self.activation(carry)
        return hidden, [hidden, carry]


@keras.saving.register_keras_serializable(package="keras_xd")
class StructuredGRUCell(_StructuredCell, keras.layers.GRUCell):
    """The cell of `StructuredGRU`, with the same arguments as far as they are the cell's."""

    gates = 3
    bias_rows = (2,)  # of the inputs, and of the states

    def __init__(self, units: int, *args: Any, reset_after: bool = True, **kwargs: Any):
        if not validation.boolean(reset_after, "reset_after"):
            raise ValueError(
                "A structured GRU applies the reset gate after the product with the recurrent "
                f"kernel. Received: reset_after={reset_after}"
            )
        super().__init__(units, *args, reset_after=reset_after, **kwargs)

    def call(
        self, inputs: Tensor, states: list[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        nested = isinstance(states, (list, tuple))
        hidden = states[0] if nested else states
        x = self.kernel(self.dropped(inputs, training))
        inner = self.recurrent_kernel(hidden)
        if self.bias is not None:
            x, inner = x + self.bias[0], inner + self.bias[1]
        (x_update, x_reset, x_new), (update, reset, new) = (
            ops.split(part, 3, axis=-1) for part in (x, inner)
        )
        update = self.recurrent_activation(x_update + update)
        reset = self.recurrent_activation(x_reset + reset)
        new = self.activation(x_new + reset * new)
        hidden = update * hidden + (1 - update) * new
        return hidden, [hidden] if nested else hidden


class _StructuredRNN(keras.layers.RNN):
    """What the two layers share."""

    cell_class: type

    def __init__(
        self,
        units: int,
        family: str = "block_tensor_train",
        density: float = 0.25,
        sizes: Config | None = None,
        recurrent_sizes: Config | None = None,
        learning_rates: str = "spectral",
        **kwargs: Any,
    ):
        kernels = (family, density, sizes, recurrent_sizes, learning_rates)
        self.make_of_cell(units, *kernels, **kwargs)

    def make_of_cell(self, *args: Any, **kwargs: Any) -> None:
        """Make the layer of its cell, whose arguments are those that are not the layer's."""
        of_layer = {name: kwargs.pop(name) for name in _OF_LAYER if name in kwargs}
        common = {name: of_layer[name] for name in ("dtype", "trainable") if name in of_layer}
        keras.layers.RNN.__init__(self, self.cell_class(*args, **kwargs, **common), **of_layer)

    @property
    def structure(self) -> base.StructuredOptions:
        """The arguments that choose the kernels."""
        return self.cell.structure

    @property
    def kernel_regularizer(self) -> Any:
        """The regularizer of the kernel's factors."""
        return self.cell.kernel_regularizer

    @classmethod
    def argument_names(cls) -> set[str]:
        """Return the names of all arguments but `trainable`."""
        names = {*_OF_LAYER, *constructor_parameters(cls)}
        for base_class in cls.cell_class.__mro__:
            names |= set(constructor_parameters(base_class))
        return names - {"args", "kwargs", "trainable", "kernel_initializer"}

    @staticmethod
    def kernels_of(layer: keras.layers.Layer) -> list[tuple[int, int]]:
        """Return the shapes, inputs and units, of the kernels of an `LSTM` or `GRU` layer."""
        return [tuple(layer.cell.kernel.shape), tuple(layer.cell.recurrent_kernel.shape)]

    def start_from(
        self, layer: keras.layers.Layer, arguments: list[np.ndarray] | None = None
    ) -> list[base.Start]:
        """Begin as near to an `LSTM` or `GRU` layer as can be."""
        found = []
        for name, given in (("kernel", arguments), ("recurrent_kernel", None)):
            old = getattr(layer.cell, name)
            starts = getattr(self.cell, name).start_from(old, old, given)
            found += [dataclasses.replace(start, ending=f"/{name}") for start in starts]
        base.copy_variable(layer.cell.bias, self.cell.bias)
        return found

    def get_config(self) -> Config:
        config = super().get_config()
        config.pop("cell")
        cell = self.cell.get_config()
        return {**{name: cell[name] for name in cell if name not in _OF_LAYER}, **config}

    @classmethod
    def from_config(cls, config: Config) -> keras.layers.Layer:
        return super(keras.layers.RNN, cls).from_config(cls.cell_class.with_new_names(config))


@keras.saving.register_keras_serializable(package="keras_xd")
class StructuredLSTM(_StructuredRNN):
    """An `LSTM` layer whose kernel and recurrent kernel are structured matrices.

    The kernels of the four gates stand side by side in one matrix of `4 units` units.

    Args:
        units: number of units.
        family, density, sizes, learning_rates: as in `StructuredDense`, of both kernels.
        recurrent_sizes: sizes of the recurrent kernel, `None` for `sizes`.
        **kwargs: the arguments of `keras.layers.LSTM`, `recurrent_dropout`, `use_cudnn` and
            constraints of the kernels excepted. Initializers of the kernels have no meaning;
            regularizers act on each factor.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.StructuredLSTM(32, "low_rank", return_sequences=True)
    >>> layer(np.ones((2, 10, 16), "float32")).shape
    TensorShape([2, 10, 32])
    >>> layer.count_params()  # LSTM has 6 272
    1520
    """

    cell_class = StructuredLSTMCell


@keras.saving.register_keras_serializable(package="keras_xd")
class StructuredGRU(_StructuredRNN):
    """As `StructuredLSTM`, in place of a `keras.layers.GRU`, with `reset_after=True`."""

    cell_class = StructuredGRUCell
