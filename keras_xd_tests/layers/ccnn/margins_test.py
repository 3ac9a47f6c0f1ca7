import math

import numpy as np
import pytest

from keras_xd.layers.ccnn import margins


@pytest.mark.parametrize("margin", [0.0, 0.2, 0.25, 1.0, 9.0])
@pytest.mark.parametrize("start, stop", [(0, 1), (3, 4), (10, 15), (0, 17), (16, 17)])
def test_supports_grow_by_their_share_within_the_axis(start, stop, margin):
    used = np.zeros(17, bool)
    used[start:stop] = True
    for _ in range(math.ceil(margin * (stop - start))):  # one point at each side
        used = np.convolve(used, [1, 1, 1], "same") > 0
    ((first, last),) = margins.widened_supports([(start, stop)], margin, [17])
    np.testing.assert_array_equal(np.flatnonzero(used), np.arange(first, last))


def test_counts_grow_by_their_share_within_the_axis():
    assert margins.widened_counts((1, 4, 23, 24), 0.25, 24) == (2, 5, 24, 24)
    assert margins.widened_counts((1, 4, 23, 24), 0.0, 24) == (1, 4, 23, 24)


def test_overlaps():
    assert margins.overlap([(0, 5), (2, 9)], [(1, 9), (0, 4)]) == [(1, 5), (2, 4)]


@pytest.mark.parametrize("wrong", [-0.1, math.inf, math.nan, "1", None, True])
def test_margins_are_numbers_of_0_or_more(wrong):
    with pytest.raises(ValueError, match="`margin` must be a"):
        margins.checked(wrong)
