"""Differentiable masks, and Keras' own layers with masks (DNArch)."""

__all__: list[str] = []
