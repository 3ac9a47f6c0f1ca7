"""Layers: searchable operations, the plain ones they become, and baselines."""

from keras_xd.layers import penalties as penalties
from keras_xd.layers import warm_starts as warm_starts
from keras_xd.layers.distances import distance as distance
from keras_xd.layers.distances import nearest as nearest
from keras_xd.layers.k_conv import KOpConv as KOpConv
from keras_xd.layers.k_conv import KOpConv1D as KOpConv1D
from keras_xd.layers.k_conv import KOpConv2D as KOpConv2D
from keras_xd.layers.k_conv import KOpConv3D as KOpConv3D
from keras_xd.layers.k_conv import KOperation as KOperation
from keras_xd.layers.k_dense import KDense as KDense
from keras_xd.layers.searchable import SearchableLayer as SearchableLayer
from keras_xd.layers.spectral_conv import SpectralConv as SpectralConv
from keras_xd.layers.spectral_conv import SpectralConv1D as SpectralConv1D
from keras_xd.layers.spectral_conv import SpectralConv2D as SpectralConv2D
from keras_xd.layers.spectral_conv import SpectralConv3D as SpectralConv3D
from keras_xd.layers.static_xd import StaticXD as StaticXD
from keras_xd.layers.xd_conv import XDConv as XDConv
from keras_xd.layers.xd_convolutions import XDConv1D as XDConv1D
from keras_xd.layers.xd_convolutions import XDConv2D as XDConv2D
from keras_xd.layers.xd_convolutions import XDConv3D as XDConv3D
