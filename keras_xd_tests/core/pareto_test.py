import numpy as np
import pytest

from keras_xd.core.pareto import hypervolume, lower_is_better, nondominated


def dominated(values, index):
    """The definition, point by point."""
    return any(
        all(a <= b for a, b in zip(other, values[index], strict=True))
        and any(a < b for a, b in zip(other, values[index], strict=True))
        for other in values
    )


@pytest.mark.parametrize("objectives", [1, 2, 3])
def test_the_front_is_what_nothing_dominates(objectives):
    values = np.random.default_rng(objectives).integers(0, 9, (60, objectives)).astype(float)
    front = nondominated(values)
    expected = {tuple(values[i]) for i in range(60) if not dominated(values.tolist(), i)}
    assert [tuple(values[i]) for i in front] == sorted(expected)


def test_directions_and_failures():
    values = [[0.9, 5.0], [0.8, 4.0], [0.8, 6.0], [np.nan, 1.0]]
    assert nondominated(values, ["max", "min"]) == [0, 1]
    assert lower_is_better(values, ["max", "min"])[3, 0] == np.inf


@pytest.mark.parametrize("objectives", [2, 3])
def test_hypervolume_is_the_share_of_what_is_dominated(objectives):
    rng = np.random.default_rng(3)
    values = rng.random((7, objectives))
    drawn = rng.random((100_000, objectives))
    share = (drawn[:, None] >= values).all(axis=2).any(axis=1).mean()
    assert hypervolume(values, [1.0] * objectives) == pytest.approx(share, abs=0.01)


def test_hypervolume_counts_what_is_better_than_the_reference():
    assert hypervolume([[0.5, 2.0]], [1.0, 1.0]) == 0.0
    assert hypervolume([[0.5, 2.0]], [0.0, 3.0], ["max", "min"]) == pytest.approx(0.5)


def test_refusals():
    with pytest.raises(ValueError, match="points, objectives"):
        nondominated([1.0, 2.0])
    with pytest.raises(ValueError, match="directions"):
        nondominated([[1.0, 2.0]], ["min"])
    with pytest.raises(ValueError, match="reference"):
        hypervolume([[1.0, 2.0]], [1.0])
