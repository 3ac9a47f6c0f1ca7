"""XD-operations: searchable linear operations by K-matrices, and what they become."""

__all__: list[str] = []
