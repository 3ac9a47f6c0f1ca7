"""Dense, einsum and recurrent layers whose kernels are structured matrices."""

__all__: list[str] = []
