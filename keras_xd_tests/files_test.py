"""A file is written whole or not at all, and never over another unasked."""

import os

import pytest

from keras_xd import files


def test_written_and_replaced_only_if_asked(tmp_path):
    path = tmp_path / "file"
    files.write(path, b"first")
    with pytest.raises(ValueError, match="only with `overwrite=True`.*file"):
        files.write(path, b"second")
    assert path.read_bytes() == b"first"
    files.write(path, b"second", overwrite=True)
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_is_never_replaced(tmp_path):
    with pytest.raises(ValueError, match="a folder never"):
        files.write(tmp_path, b"content", overwrite=True)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    files.write(path, b"first")

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        files.write(path, b"second", overwrite=True)
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]
