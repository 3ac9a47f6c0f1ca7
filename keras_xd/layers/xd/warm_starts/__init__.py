"""Warm starts of XD-operations."""

from keras_xd.layers.xd.warm_starts.modifiers import Composed, Perturbed
from keras_xd.layers.xd.warm_starts.operations import (
    MATRICES,
    STARTS,
    AveragePooling,
    Convolution,
    FourierOperator,
    GraphConvolution,
    Identity,
    RandomUnitary,
    Zero,
    get,
    identifier,
)

__all__ = [
    "AveragePooling",
    "Composed",
    "Convolution",
    "FourierOperator",
    "GraphConvolution",
    "Identity",
    "MATRICES",
    "Perturbed",
    "RandomUnitary",
    "STARTS",
    "Zero",
    "get",
    "identifier",
]
