"""Searches of sizes and cells on TensorFlow, JAX and torch.

Run by `pytest -m backends`; needs the extra `backends`, without which these tests fail.
"""

import numpy as np
import pytest

from keras_xd_tests.backend_spaces_program import RELAXATIONS
from keras_xd_tests.backends_test import assert_same_structure_and_close
from keras_xd_tests.programs import BACKENDS

pytestmark = pytest.mark.backends


@pytest.fixture
def spaces(on_backends):
    return {name: found["spaces"] for name, found in on_backends.items()}


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_are_learned_and_pruned(backend, spaces):
    ours, theirs = spaces[backend]["sizes"], spaces["tensorflow"]["sizes"]
    complexity = ours["history"]["complexity"]
    assert abs(complexity[-1] - 1) < abs(complexity[0] - 1)
    np.testing.assert_allclose(ours["finalized"], ours["searched"], atol=1e-4)
    assert_same_structure_and_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cell_is_searched_and_derived(backend, spaces):
    ours, theirs = (dict(spaces[name]["cell"]) for name in (backend, "tensorflow"))
    assert ours.pop("genotype") == theirs.pop("genotype")
    assert ours["history"]["attention_transfer"][-1] < ours["history"]["attention_transfer"][0]
    assert_same_structure_and_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_cell_of_dynamic_kernels_computes_the_same(spaces):
    ours, theirs = (spaces[name]["dynamic"] for name in ("torch", "tensorflow"))
    assert np.std(theirs) > 0.1
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_cells_that_draw_or_share_are_searched(relaxation, spaces):
    ours, theirs = (spaces[name][relaxation] for name in ("torch", "tensorflow"))
    assert_same_structure_and_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_features_are_calibrated(backend, spaces):
    ours, theirs = (spaces[name]["calibration"] for name in (backend, "tensorflow"))
    assert ours["history"]["loss"][0] != ours["history"]["loss"][1]
    assert_same_structure_and_close(ours, theirs, rtol=1e-4, atol=1e-5)
