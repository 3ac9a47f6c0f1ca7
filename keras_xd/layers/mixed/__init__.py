"""Mixtures of the operations of DARTS."""

__all__: list[str] = []
