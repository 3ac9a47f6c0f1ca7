"""Heterogeneous cells (NOS): relaxed, derived, and the operations in them."""

__all__: list[str] = []
