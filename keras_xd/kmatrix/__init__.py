"""Structured (Kaleidoscope) matrices of any size, without layers."""

from keras_xd.core.moved_names import attribute_error as _attribute_error
from keras_xd.kmatrix.families import project_to
from keras_xd.kmatrix.kmatrix import KMatrix
from keras_xd.kmatrix.radix import padded_size, plan

__all__ = [
    "KMatrix",
    "padded_size",
    "plan",
    "project_to",
]

# What the functions of versions up to 0.2 are called now, where they are no `KMatrix.name`.
_MOVED = {
    "Projection": "structured.Projection",
    "Plan": "radix.Plan",
    "analysis": "KMatrix.apply(x, axis)",
    "butterflies_of": "KMatrix.butterflies",
    "butterfly_dense": "KMatrix.numpy()",
    "compose": "matrix @ other, of two KMatrix",
    "diagonal_times": "KMatrix.diagonal(values) @ matrix",
    "digit_reversal": "constructions.digit_reversal",
    "digit_reversal_matrix": "KMatrix.permutation(constructions.digit_reversal(radices))",
    "factorise": "radix.factorise",
    "fold": "KMatrix.apply(x, axis)",
    "kmatrix_dense": "KMatrix.numpy()",
    "kmatrix_weights": "KMatrix.weights",
    "kronecker_of_kmatrices": "KMatrix.kronecker(left, right)",
    "kronecker_of_matrices": "KMatrix.kronecker(*matrices)",
    "natural_dft": 'KMatrix.dft(n, order="natural")',
    **{
        f"nearest_{family}": f"project_to(matrix, '{family}', sizes=…)"
        for family in ("blast", "block_tensor_train", "kaleidoscope", "low_rank", "monarch")
    },
    "nearest_butterfly": "KMatrix.project(matrix, steps=0)",
    "parameter_count": "KMatrix.parameters",
    "prime_factors": "radix.factorise(n)",
    "refine": "KMatrix.project(matrix)",
    "synthesis": "KMatrix.T",
    "times_diagonal": "matrix @ KMatrix.diagonal(values)",
    "transpose": "KMatrix.T",
}

_CLASSMETHODS = {name: f"KMatrix.{name}" for name in dir(KMatrix) if not name.startswith("_")}

__getattr__ = _attribute_error(__name__, {**_CLASSMETHODS, **_MOVED})
