"""Convolutions and resampling by Fourier transforms."""

__all__: list[str] = []
