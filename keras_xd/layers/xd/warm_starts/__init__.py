"""Warm starts of XD-operations."""

from keras_xd.core.moved_names import attribute_error as _attribute_error
from keras_xd.layers.xd.warm_starts.modifiers import Composed, Perturbed
from keras_xd.layers.xd.warm_starts.operations import (
    Convolution,
    GraphConvolution,
    RandomUnitary,
)

__all__ = [
    "Composed",
    "Convolution",
    "GraphConvolution",
    "Perturbed",
    "RandomUnitary",
]

# Public names of earlier versions.
_MOVED = {
    "AveragePooling": 'warm_start="average_pooling"',
    "FourierOperator": 'warm_start="fourier_operator"',
    "Identity": 'warm_start="identity"',
    "Zero": 'warm_start="zero"',
}

__getattr__ = _attribute_error(__name__, _MOVED)
