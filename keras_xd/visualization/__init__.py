"""Pictures of what a search found. Needs matplotlib, which the extra `examples` installs."""

from keras_xd.visualization.operators import operator_matrix as operator_matrix
from keras_xd.visualization.operators import plot_operators as plot_operators

__all__ = ["operator_matrix", "plot_operators"]
