"""What a network loses without an operation, by the calls that a selection makes."""

import numpy as np
import pytest

from keras_xd import layers
from keras_xd.training.operation_ablation import badness, importance, removable_architectures
from keras_xd_tests.training.perturbation_test import NAMES, architectures, numpy, searched


class Evaluated:
    """Stands in for a model; notes how it is evaluated."""

    def __init__(self, **found):
        self.found = found

    def evaluate(self, x, y, **options):
        self.given = x, y, options
        return self.found


def test_larger_is_worse_in_both_modes():
    model = Evaluated(loss=0.5, accuracy=0.75)
    assert badness(model, "x", "y", "loss", "min", 7)() == 0.5
    assert model.given == ("x", "y", {"batch_size": 7, "verbose": 0, "return_dict": True})
    assert badness(model, "x", None, "accuracy", "max", None)() == -0.75
    with pytest.raises(ValueError, match="`mode`"):
        badness(model, "x", None, "loss", "least", None)
    with pytest.raises(ValueError, match=r"one of \['accuracy', 'loss'\].*metric='error'"):
        badness(model, "x", None, "error", "min", None)()
    with pytest.raises(ValueError, match="must be finite. Received: loss=inf"):
        badness(Evaluated(loss=np.inf), "x", None, "loss", "min", None)()


def test_what_is_removed_has_no_share_and_others_keep_their_proportions(rng):
    architecture = layers.ArchitectureLogits(operations=NAMES)
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


def test_cells_that_draw_are_refused():
    search = searched("perturbation", NAMES[:2], channels=1)
    assert list(removable_architectures(search)) == architectures(search)
    with pytest.raises(ValueError, match="'perturbation', 'softmax' or 'partial'. .*'sampled'"):
        removable_architectures(searched("sampled", NAMES[:2], channels=1))
