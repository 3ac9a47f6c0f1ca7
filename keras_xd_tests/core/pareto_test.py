import numpy as np
import pytest

from keras_xd.core.pareto import lower_is_better, nondominated


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


def test_refusals():
    with pytest.raises(ValueError, match="points, objectives"):
        nondominated([1.0, 2.0])
    with pytest.raises(ValueError, match="directions"):
        nondominated([[1.0, 2.0]], ["min"])
