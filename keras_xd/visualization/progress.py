"""Curves of the best that searches have found so far."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from keras_xd.core.argument_types import check_types
from keras_xd.visualization import style


@check_types
def optimization_history(scores: ArrayLike, direction: str = "min") -> np.ndarray:
    """Return the best score up to each trial."""
    if direction not in ("min", "max"):
        raise ValueError(f'`direction` must be "min" or "max". Received: {direction=}')
    if np.ndim(scores) == 0:
        raise ValueError(f"`scores` must have an axis of the trials. Received: scores={scores!r}")
    better = np.fmin if direction == "min" else np.fmax
    return better.accumulate(np.asarray(scores, float), axis=-1)


@check_types
def plot_optimization_history(
    runs: dict,
    direction: str = "min",
    label: str = "best score",
    axes: Axes | None = None,
) -> Figure:
    """Draw the mean over repetitions of the best score so far, with its standard deviation.

    The curves are steps, as the best score changes with a trial and not between two. Their names
    stand beside their ends. A later curve is thinner, so that of two that coincide both are seen.

    Args:
        runs: dictionary from the names of strategies to arrays `(repetitions, trials)` of scores,
            or `(trials,)` of one repetition.
        direction: as in `optimization_history`.
        label: of the vertical axis.
        axes: where to draw; `None` makes a figure.

    Example:

    >>> from keras_xd import visualization
    >>> runs = {"random": [[0.5, 0.7, 0.4], [0.6, 0.5, 0.5]]}
    >>> figure = visualization.plot_optimization_history(runs)
    >>> figure.axes[0].lines[0].get_ydata().tolist()
    [0.55, 0.5, 0.45]
    """
    with style.context():
        if axes is None:
            axes = Figure(figsize=(4.2, 2.6), layout="constrained").subplots()
        for number, (name, scores) in enumerate(runs.items()):
            best = optimization_history(np.atleast_2d(np.asarray(scores, float)), direction)
            trials = np.arange(1, best.shape[1] + 1)
            mean = best.mean(axis=0)
            look = style.curve(number, len(runs))
            axes.plot(trials, mean, label=name, drawstyle="steps-post", **look)
            if len(best) > 1:
                deviation = best.std(axis=0, ddof=1)
                axes.fill_between(
                    trials,
                    mean - deviation,
                    mean + deviation,
                    step="post",
                    color=look["color"],
                    alpha=0.15,
                    linewidth=0,
                )
        axes.set(xlabel="trial", ylabel=label)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.margins(x=0.0)
        axes.grid(axis="y")
        style.label_lines(axes)
    return axes.get_figure(root=True)
