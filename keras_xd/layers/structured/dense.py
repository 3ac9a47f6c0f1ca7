"""StructuredDense: a dense layer whose kernel is a structured matrix of any family."""

from typing import Unpack

import keras
import numpy as np
from keras.layers import InputSpec
from numpy.typing import ArrayLike

from keras_xd.core import shapes, tracing, validation
from keras_xd.core.configured import BiasedLayer, bias_of
from keras_xd.core.type_aliases import BiasOptions, Config, Regularizer, Shape, Tensor
from keras_xd.kmatrix.structured import Projection
from keras_xd.layers.structured import base


@keras.saving.register_keras_serializable(package="keras_xd")
class StructuredDense(BiasedLayer, base.FactorFiles):
    """A `Dense` layer whose kernel is a structured matrix.

        y = activation(x · kernel + bias)

    The kernel, of `inputs × units`, is never formed: inputs are multiplied by its factors.

    | family               | kernel, transposed                      | `sizes`                    |
    |----------------------|-----------------------------------------|----------------------------|
    | `low_rank`           | `L R`                                   | `rank`                     |
    | `monarch`            | `b` blocks, a transposition, `b` blocks | `blocks`                   |
    | `block_tensor_train` | a product of cores                      | `row_factors`,             |
    |                      |                                         | `column_factors`, `rank`   |
    | `blast`              | `U_i diag(s_ij) V_jᵀ` in block `(i, j)` | `blocks`, `rank`           |
    | `kaleidoscope`       | the corner of a K-matrix               | `radix`, `depth`           |
    | `dense`              | any matrix                              | none                       |

    Rows are the units, columns the inputs; `docs/structured.md` and `keras_xd.kmatrix` give the
    equations. Each factor is a product of dense blocks, kept in the order in which it is computed.

    The random start gives outputs the variance that those of a `Dense` layer with
    `"glorot_uniform"` have: a factor whose products sum `f` numbers begins with the variance `1/f`,
    the last one with `2 inputs / (f (inputs + units))`.

    A variable is its factor divided by a rate. So one learning rate of Adam changes the outputs of
    every family about as much as it does those of `Dense`: a factor whose products sum `f` numbers,
    one of `k`, has the rate `inputs / (f k)`. By plain gradient descent the factor has the square
    of that, so take `learning_rates="equal"` there.

    Args:
        units: number of outputs.
        family: name of the family.
        density: most numbers of the kernel, as a part of `inputs · units`; the largest sizes that
            keep to it are taken. Without a meaning for `"dense"`, and where sizes are given.
        sizes: dictionary of the sizes of the family, as above; `depth` may be left out.
        learning_rates: `"spectral"`, the rates above, or `"equal"`: variables are factors.
        kernel_regularizer: regularizer of each variable.
        activation, use_bias, bias_initializer, bias_regularizer, activity_regularizer,
            bias_constraint: as in `keras.layers.Dense`.
        seed: integer, makes the random start reproducible; `None`: drawn as Keras' seeds are.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.StructuredDense(512, "monarch", density=0.25)
    >>> layer(np.ones((2, 128), "float32")).shape
    TensorShape([2, 512])
    >>> layer.kernel.product.sizes, layer.count_params()  # Dense has 66 048
    ({'blocks': 16}, 10752)

    Reference:
        Dao et al., "Kaleidoscope", 2020; Dao et al., "Monarch", 2022; Qiu et al., "Compute Better
        Spent: Replacing Dense Layers with Structured Matrices", 2024; Lee et al., "BLAST", 2024.
    """

    def __init__(
        self,
        units: int,
        family: str = "block_tensor_train",
        *,
        density: float = 0.25,
        sizes: Config | None = None,
        learning_rates: str = "spectral",
        kernel_regularizer: Regularizer = None,
        seed: int | None = None,
        **kwargs: Unpack[BiasOptions],
    ):
        super().__init__(**kwargs)
        self.structure = base.StructuredOptions(
            family, density, sizes, learning_rates, kernel_regularizer, seed
        )
        self.units = validation.positive_integer(units, "units")
        self.input_spec = InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        inputs = shapes.known_size(input_shape, self.name)
        self.input_spec = InputSpec(min_ndim=2, axes={-1: inputs})
        asked = base.KernelSpecification(inputs, self.units, self.structure.sizes)
        (self.kernel,) = self.structure.kernels(self, [asked])
        self.bias = bias_of(self, (self.units,))

    def call(self, inputs: Tensor) -> Tensor:
        outputs = tracing.stand_in(self, inputs)
        if outputs is not None:
            return outputs
        return self.activated(self.kernel(inputs))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)

    def project(self, kernel: ArrayLike, inputs: ArrayLike | None = None) -> Projection:
        """Set the kernel to the nearest one of its family and sizes; return the `Projection`.

        The matrix of that is the transpose.

        Args:
            kernel: array of shape `(inputs, units)`, as that of a `Dense` layer.
            inputs: as in `keras_xd.kmatrix.project_to`.
        """
        return self.kernel.project(kernel, inputs)

    @staticmethod
    def kernels_of(layer: keras.layers.Layer) -> list[tuple[int, int]]:
        """Return the shapes, inputs and units, of the kernels of a `Dense` layer."""
        return [tuple(layer.kernel.shape)]

    def start_from(
        self, layer: keras.layers.Layer, arguments: list[np.ndarray] | None = None
    ) -> list[base.Start]:
        """Begin as near to a built `Dense` layer of the same units as can be.

        With `arguments`, arrays that it is called with, the error of its outputs is lowered.
        """
        base.copy_variable(layer.bias, self.bias)
        return self.kernel.start_from(layer.kernel, layer.kernel, arguments)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample."""
        return base.positions(input_shape) * self.kernel.multiply_adds
