"""Warm starts of XD-operations."""

from keras_xd.layers.xd.warm_starts.modifiers import Composed, Perturbed
from keras_xd.layers.xd.warm_starts.operations import (
    AveragePooling,
    Convolution,
    FourierOperator,
    GraphConvolution,
    Identity,
    RandomUnitary,
    Zero,
)

__all__ = [
    "AveragePooling",
    "Composed",
    "Convolution",
    "FourierOperator",
    "GraphConvolution",
    "Identity",
    "Perturbed",
    "RandomUnitary",
    "Zero",
]
