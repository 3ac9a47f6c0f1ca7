"""Pictures of what a search found. Needs matplotlib, which the extra `plot` installs."""

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError(
        "`keras_xd.visualization` needs the package matplotlib, which the extra `plot` of keras_xd "
        "installs: pip install 'keras_xd[plot]'"
    ) from error

from keras_xd.core.moved_names import attribute_error as _attribute_error
from keras_xd.visualization.cells import plot_genotype as plot_genotype
from keras_xd.visualization.operators import plot_operators as plot_operators
from keras_xd.visualization.pareto import plot_pareto as plot_pareto
from keras_xd.visualization.progress import plot_optimization_history as plot_optimization_history
from keras_xd.visualization.terms import plot_network as plot_network
from keras_xd.visualization.terms import plot_tree as plot_tree

__all__ = [
    "plot_genotype",
    "plot_network",
    "plot_operators",
    "plot_optimization_history",
    "plot_pareto",
    "plot_tree",
]

# Public names of earlier versions.
_MOVED = {
    "best_so_far": "keras_xd.visualization.progress.optimization_history",
    "heatmap": "keras_xd.visualization.images.heatmap",
    "impulse_responses": "keras_xd.visualization.operators.impulse_responses",
    "operator_matrix": "keras_xd.visualization.operators.operator_matrix",
    "spectra": "keras_xd.visualization.images.spectra",
    "plot_cell": "keras_xd.visualization.cells.plot_cell",
    "plot_best_so_far": "keras_xd.visualization.plot_optimization_history",
}

__getattr__ = _attribute_error(__name__, _MOVED)
