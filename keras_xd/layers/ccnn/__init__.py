"""Convolutions with continuous kernels, and the blocks of continuous networks."""

__all__: list[str] = []
