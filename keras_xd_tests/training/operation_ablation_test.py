"""What a network loses without an operation, by the calls that a selection makes."""

import numpy as np
import pytest

from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.training.operation_ablation import importance
from keras_xd_tests.training.perturbation_test import NAMES, numpy


def test_what_is_removed_has_no_share_and_others_keep_their_proportions(rng):
    architecture = ArchitectureLogits(operations=NAMES)
    architecture.build()
    logits = rng.normal(size=(18, 3)).astype("float32")
    architecture.logits.assign(logits)
    before, seen = numpy(architecture.probabilities), []

    def worse():
        seen.append(numpy(architecture.probabilities))
        return 10.0 + len(seen)

    np.testing.assert_allclose(importance(architecture, 4, worse, 10.0), [1, 2, 3])
    for number, shares in enumerate(seen):
        expected = before.copy()
        expected[4, number] = 0
        expected[4] /= expected[4].sum()
        np.testing.assert_allclose(shares, expected, rtol=1e-5)
    np.testing.assert_array_equal(numpy(architecture.logits), logits)

    def failing():
        raise ValueError("no data")

    with pytest.raises(ValueError, match="no data"):
        importance(architecture, 4, failing, 0.0)
    np.testing.assert_array_equal(numpy(architecture.logits), logits)
