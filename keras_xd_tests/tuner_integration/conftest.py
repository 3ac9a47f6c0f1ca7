"""Settings of the tests of searches."""

import pytest

from keras_xd_tests import example_scripts
from tuner_integration import forest


@pytest.fixture
def few_trees(monkeypatch):
    """Fit forests of five trees, which tests of anything but their predictions do not tell."""
    monkeypatch.setattr(forest, "_TREES", 5)


@pytest.fixture
def short_searches(monkeypatch):
    """Look for the next point in few generations, where it does not matter how good it is."""
    example_scripts.evolve_shortly(monkeypatch)
