"""Rewriting: a Keras model becomes a search space."""

__all__: list[str] = []
