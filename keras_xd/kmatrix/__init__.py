"""Structured (Kaleidoscope) matrices of any size: plans, constructions, folding, application."""

from keras_xd.kmatrix.blast import nearest_blast
from keras_xd.kmatrix.block_tensor_train import (
    nearest_block_tensor_train,
    nearest_low_rank,
    nearest_monarch,
)
from keras_xd.kmatrix.constructions import (
    butterflies_of,
    butterfly_dense,
    dft,
    digit_reversal,
    identity,
    kmatrix_weights,
    permutation,
    random_orthogonal,
    random_unitary,
    stage_shapes,
)
from keras_xd.kmatrix.families import project_to
from keras_xd.kmatrix.kaleidoscope import nearest_kaleidoscope
from keras_xd.kmatrix.kmatrix import KMatrix, parameter_count
from keras_xd.kmatrix.product import Factor, fold
from keras_xd.kmatrix.projection import nearest_butterfly, project, refine
from keras_xd.kmatrix.radix import Plan, check_radix, factorise, padded_size, plan, prime_factors
from keras_xd.kmatrix.sparse_matrices import sparse
from keras_xd.kmatrix.special import (
    circulant,
    compose,
    dct,
    diagonal,
    diagonal_times,
    digit_reversal_matrix,
    dst,
    haar,
    hadamard,
    kmatrix_dense,
    kronecker_of_kmatrices,
    kronecker_of_matrices,
    natural_dft,
    times_diagonal,
    toeplitz,
    transpose,
)
from keras_xd.kmatrix.structured import Projection
from keras_xd.kmatrix.transform import analysis, synthesis

__all__ = [
    "Factor",
    "KMatrix",
    "Plan",
    "Projection",
    "analysis",
    "butterflies_of",
    "butterfly_dense",
    "check_radix",
    "circulant",
    "compose",
    "dct",
    "dft",
    "diagonal",
    "diagonal_times",
    "digit_reversal",
    "digit_reversal_matrix",
    "dst",
    "factorise",
    "fold",
    "haar",
    "hadamard",
    "identity",
    "kmatrix_dense",
    "kmatrix_weights",
    "kronecker_of_kmatrices",
    "kronecker_of_matrices",
    "natural_dft",
    "nearest_blast",
    "nearest_block_tensor_train",
    "nearest_butterfly",
    "nearest_kaleidoscope",
    "nearest_low_rank",
    "nearest_monarch",
    "padded_size",
    "parameter_count",
    "permutation",
    "plan",
    "prime_factors",
    "project",
    "project_to",
    "random_orthogonal",
    "random_unitary",
    "refine",
    "sparse",
    "stage_shapes",
    "synthesis",
    "times_diagonal",
    "toeplitz",
    "transpose",
]
