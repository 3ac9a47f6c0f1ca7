"""Two objectives of many trials, and the front of those that no other dominates."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from keras_xd.core.argument_types import check_types
from keras_xd.core.pareto import nondominated
from keras_xd.visualization import style


@check_types
def plot_pareto(
    runs: Mapping[str, ArrayLike],
    labels: Sequence[str],
    directions: Sequence[str] = ("min", "min"),
    axes: Axes | None = None,
) -> Figure:
    """Draw two objectives of trials as points, and the Pareto front of each run as steps.

    Args:
        runs: dictionary from names to arrays `(trials, 2)`, the second objective is the cost and
            is drawn to the right. Trials with NaN are left out.
        labels: names of the two objectives.
        directions: "min" or "max" for each of both.
        axes: where to draw; `None` makes a figure.

    Example:

    >>> from keras_xd import visualization
    >>> runs = {"random": [[0.2, 900.0], [0.1, 1200.0], [0.3, 950.0]]}
    >>> figure = visualization.plot_pareto(runs, ["error", "multiply–adds"])
    >>> figure.axes[0].lines[0].get_xdata().tolist()
    [900.0, 1200.0]
    """
    arrays = {name: np.asarray(values, float) for name, values in runs.items()}
    for name, values in arrays.items():
        if values.ndim != 2 or values.shape[1] != 2 or len(labels) != 2:
            raise ValueError(
                "A run must be an array (trials, 2), with two labels. "
                f"Received: {name!r} of shape {values.shape}, labels={list(labels)!r}"
            )
    with style.context():
        if axes is None:
            axes = Figure(figsize=(4.2, 2.6), layout="constrained").subplots()
        for number, (name, values) in enumerate(arrays.items()):
            look = style.curve(number, len(arrays))
            front = values[nondominated(values, directions)]
            front = front[np.argsort(front[:, 1], kind="stable")]
            axes.scatter(values[:, 1], values[:, 0], s=9, color=look["color"], alpha=0.35, lw=0)
            # What a front reaches at a cost it reaches at every larger one.
            steps = "steps-post" if directions[1] == "min" else "steps-pre"
            axes.plot(front[:, 1], front[:, 0], label=name, drawstyle=steps, marker=".", **look)
        axes.set(xlabel=labels[1], ylabel=labels[0])
        axes.grid(axis="y")
        style.label_lines(axes)
    return axes.get_figure(root=True)
