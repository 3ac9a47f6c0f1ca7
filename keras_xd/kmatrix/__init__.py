"""Structured (Kaleidoscope) matrices of any size, without layers."""

from keras_xd.core.moved_names import attribute_error as _attribute_error
from keras_xd.kmatrix.blast import nearest_blast
from keras_xd.kmatrix.block_tensor_train import (
    nearest_block_tensor_train,
    nearest_low_rank,
    nearest_monarch,
)
from keras_xd.kmatrix.families import project_to
from keras_xd.kmatrix.kaleidoscope import nearest_kaleidoscope
from keras_xd.kmatrix.kmatrix import KMatrix
from keras_xd.kmatrix.radix import padded_size, plan
from keras_xd.kmatrix.structured import Projection

__all__ = [
    "KMatrix",
    "Projection",
    "nearest_blast",
    "nearest_block_tensor_train",
    "nearest_kaleidoscope",
    "nearest_low_rank",
    "nearest_monarch",
    "padded_size",
    "plan",
    "project_to",
]

# What the functions of versions up to 0.2 are called now.
_MOVED = {
    "Plan": "radix.Plan",
    "analysis": "KMatrix.apply(x, axis)",
    "butterflies_of": "KMatrix.butterflies",
    "butterfly_dense": "KMatrix.numpy()",
    "circulant": "KMatrix.circulant(column)",
    "compose": "matrix @ other, of two KMatrix",
    "dct": "KMatrix.dct(n)",
    "dft": "KMatrix.dft(n)",
    "diagonal": "KMatrix.diagonal(values)",
    "diagonal_times": "KMatrix.diagonal(values) @ matrix",
    "digit_reversal": "constructions.digit_reversal",
    "digit_reversal_matrix": "KMatrix.permutation(constructions.digit_reversal(radices))",
    "dst": "KMatrix.dst(n)",
    "factorise": "radix.factorise",
    "fold": "KMatrix.apply(x, axis)",
    "haar": "KMatrix.haar(n)",
    "hadamard": "KMatrix.hadamard(n)",
    "identity": "KMatrix.identity(n)",
    "kmatrix_dense": "KMatrix.numpy()",
    "kmatrix_weights": "KMatrix.weights",
    "kronecker_of_kmatrices": "KMatrix.kronecker(left, right)",
    "kronecker_of_matrices": "KMatrix.kronecker(*matrices)",
    "natural_dft": 'KMatrix.dft(n, order="natural")',
    "nearest_butterfly": "KMatrix.project(matrix, steps=0)",
    "parameter_count": "KMatrix.parameters",
    "permutation": "KMatrix.permutation(order)",
    "prime_factors": "radix.factorise(n)",
    "project": "KMatrix.project(matrix)",
    "random_orthogonal": "KMatrix.random_orthogonal(n)",
    "random_unitary": "KMatrix.random_unitary(n)",
    "refine": "KMatrix.project(matrix)",
    "sparse": "KMatrix.sparse(matrix)",
    "synthesis": "KMatrix.T",
    "times_diagonal": "matrix @ KMatrix.diagonal(values)",
    "toeplitz": "KMatrix.toeplitz(column, row)",
    "transpose": "KMatrix.T",
}

__getattr__ = _attribute_error(__name__, _MOVED)
