import numpy as np

from keras_xd import visualization


def test_fronts_of_two_runs():
    runs = {
        "a": [[0.2, 9.0], [0.1, 12.0], [0.3, 9.5], [np.nan, 1.0]],
        "b": [[0.5, 2.0]],
    }
    figure = visualization.plot_pareto(runs, ["error", "cost"])
    axes = figure.axes[0]
    assert axes.lines[0].get_xydata().tolist() == [[9.0, 0.2], [12.0, 0.1]]
    assert axes.lines[1].get_xydata().tolist() == [[2.0, 0.5]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cost", "error")
    assert [text.get_text() for text in axes.texts] and len(axes.collections) == 2
    figure.draw_without_rendering()
