"""Settings of the tests of searches, most of which train a few steps by arrays in order."""

import pytest

from keras_xd_tests import array_batches


@pytest.fixture(autouse=True)
def quick_batches(monkeypatch):
    array_batches.use(monkeypatch)
