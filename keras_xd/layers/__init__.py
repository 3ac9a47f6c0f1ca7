"""Layers: searchable operations and the plain ones they become."""

from keras_xd.layers.searchable import SearchableLayer as SearchableLayer
from keras_xd.layers.static_xd import StaticXD as StaticXD
from keras_xd.layers.xd_conv import XDConv as XDConv
from keras_xd.layers.xd_convolutions import XDConv1D as XDConv1D
from keras_xd.layers.xd_convolutions import XDConv2D as XDConv2D
from keras_xd.layers.xd_convolutions import XDConv3D as XDConv3D
