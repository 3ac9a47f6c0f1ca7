"""Data of the examples are generated, unless a test asks for the real ones."""

import pytest


@pytest.fixture(autouse=True)
def no_data_folder(request, monkeypatch):
    if request.node.get_closest_marker("real_data") is None:
        for name in ("KERAS_XD_DATA_DIR", "TFDS_DATA_DIR"):
            monkeypatch.delenv(name, raising=False)
