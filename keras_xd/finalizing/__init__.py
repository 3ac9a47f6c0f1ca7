"""Finalizing: a search space becomes a plain model."""

__all__: list[str] = []
