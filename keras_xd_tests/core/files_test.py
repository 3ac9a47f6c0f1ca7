"""A file is written whole or not at all, and never over another unasked."""

import errno
import os
import re
import socket
import subprocess

import pytest

from keras_xd.core import files


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


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    path, host = tmp_path / "file", socket.gethostname()
    process = subprocess.Popen(["true"])
    process.wait()
    names = {
        f"file.{process.pid}.unfinished": False,  # as earlier versions named them
        f"file.{files_host(host)}-{process.pid}.unfinished": False,
        f"file.{files_host(host)}-{process.pid}.unfinished.keras": False,
        f"file.{files_host(host)}-{os.getppid()}.unfinished": True,
        f"file.elsewhere-{process.pid}.unfinished": True,
        "file.notes.unfinished": True,
        f"other.{process.pid}.unfinished": True,
    }
    old = tmp_path / "file.elsewhere-1.unfinished"
    for name in (*names, old.name):
        (tmp_path / name).write_bytes(b"part")
    os.utime(old, (0, 0))
    files.write(path, b"whole")
    kept = {name for name, remains in names.items() if remains}
    assert set(os.listdir(tmp_path)) == {"file", *kept}


def test_errors_of_full_disks_are_known():
    error = ValueError("cannot be saved")
    error.__cause__ = OSError(errno.EDQUOT, "quota")
    assert files.is_full(error) and files.is_full(OSError(errno.EFBIG, "too large"))
    assert files.is_full(RuntimeError("HDF5: error message = 'No space left on device'"))
    assert not files.is_full(OSError(errno.EIO, "input/output error"))
    error.__cause__.__context__ = error  # a circle
    error.__cause__.errno = errno.EIO
    assert not files.is_full(error)


def test_all_leftovers_in_a_folder_are_removed(tmp_path):
    process = subprocess.Popen(["true"])
    process.wait()
    host = files_host(socket.gethostname())
    (tmp_path / "a" / "b").mkdir(parents=True)
    removed = ["file.json", "a/file", "a/b/file.weights.h5"]
    for name in removed:
        (tmp_path / f"{name}.{host}-{process.pid}.unfinished").touch()
    kept = [f"a/file.{host}-{os.getppid()}.unfinished", "a/file.json", "a/notes.unfinished"]
    for name in kept:
        (tmp_path / name).touch()
    files.remove_all_leftovers(tmp_path)
    found = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(found) == sorted(kept)
    files.remove_all_leftovers(tmp_path / "missing")


def files_host(name):
    return re.sub(r"[^\w-]", "_", name)


def test_the_target_of_a_link_is_replaced_with_its_mode(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    files.write(path, b"first")
    path.chmod(0o640)
    link.symlink_to(path)
    files.write(link, b"second", overwrite=True)
    assert link.is_symlink() and path.read_bytes() == b"second"
    assert path.stat().st_mode & 0o777 == 0o640
