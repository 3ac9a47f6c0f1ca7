"""K-operations: linear maps by K-matrices that all pairs of channels share."""

__all__: list[str] = []
