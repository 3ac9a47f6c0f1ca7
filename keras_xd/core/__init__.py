"""Base classes and helpers of all search spaces: checks, files, random state, the protocol."""

__all__: list[str] = []
