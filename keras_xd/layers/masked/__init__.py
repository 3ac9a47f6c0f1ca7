"""Differentiable masks, and Keras' own layers with masks (DNArch)."""
