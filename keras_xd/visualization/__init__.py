"""Pictures of what a search found. Needs matplotlib, which the extra `examples` installs."""

from keras_xd.visualization.images import heatmap as heatmap
from keras_xd.visualization.images import png as png
from keras_xd.visualization.images import spectra as spectra
from keras_xd.visualization.operators import operator_matrix as operator_matrix
from keras_xd.visualization.operators import plot_operators as plot_operators

__all__ = ["heatmap", "operator_matrix", "plot_operators", "png", "spectra"]
