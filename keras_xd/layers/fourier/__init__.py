"""Convolutions and resampling by Fourier transforms."""
