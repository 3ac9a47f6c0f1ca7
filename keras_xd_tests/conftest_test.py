"""The marker for real data: a missing file is a counted skip with a message."""

from keras_xd_tests import conftest


def test_missing_variable_and_file_are_named(monkeypatch, tmp_path):
    monkeypatch.delenv("KERAS_XD_DATA_DIR", raising=False)
    assert "set KERAS_XD_DATA_DIR" in conftest._missing_data("KERAS_XD_DATA_DIR", "a.npz")
    monkeypatch.setenv("KERAS_XD_DATA_DIR", str(tmp_path))
    assert "does not exist" in conftest._missing_data("KERAS_XD_DATA_DIR", "a.npz")
    (tmp_path / "a.npz").touch()
    assert conftest._missing_data("KERAS_XD_DATA_DIR", "a.npz") is None
