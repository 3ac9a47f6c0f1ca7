"""Settings of the tests of searches."""

import pytest

from tuner_integration import forest


@pytest.fixture
def few_trees(monkeypatch):
    """Fit forests of five trees, which tests of anything but their predictions do not tell."""
    monkeypatch.setattr(forest, "_TREES", 5)
