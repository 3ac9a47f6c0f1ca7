"""Small disks, errors of full ones, half-written files, and what is kept of kills.

`first_import_test` plants defects and kills jobs.
"""

import errno
import subprocess

import h5py
import numpy as np
import pytest

from keras_xd_tests.faults import checks, children, disks, report


def test_where_nothing_may_be_mounted_the_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert disks.may_mount(tmp_path) == "there is no command `mount`"
    monkeypatch.undo()

    def refuse(words, **options):
        return subprocess.CompletedProcess(words, 32, "", "mount: must be superuser\n")

    monkeypatch.setattr(disks.subprocess, "run", refuse)
    assert disks.may_mount(tmp_path) == "mount: must be superuser"


def test_a_small_disk_fills_up(tmp_path):
    refused = disks.may_mount(tmp_path)
    if refused:
        pytest.skip(f"nothing may be mounted here: {refused}")
    with disks.SmallDisk(tmp_path) as disk:
        disk.fill(8192)
        with pytest.raises(OSError) as raised:
            (tmp_path / "file").write_bytes(bytes(10_000))
        assert raised.value.errno == errno.ENOSPC
        assert disks.names_a_full_disk(children.described(raised.value))
        disk.empty()
        (tmp_path / "file").write_bytes(bytes(10_000))
        disk.note()
        assert 10_000 <= disk.needed() < 100_000


def test_errors_that_do_not_name_a_full_disk():
    for error in (OSError(errno.EIO, "input/output error"), ValueError("it cannot be saved")):
        assert not disks.names_a_full_disk(children.described(error))
    assert disks.names_a_full_disk(children.described(ValueError("No space left on device")))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b'{"a": 1'),
        ("a.weights.h5", b"\x89HDF\r\n\x1a\n half"),
        ("a.npz", b"PK\x03\x04 half"),
        ("a.keras", b""),
        ("m/saved_model.pb", b""),
        ("features/0f", b"[[2]]\n half"),
        ("a.unknown", b"anything"),
    ],
)
def test_half_written_files_are_found(name, content, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    (found,) = checks.half_written(tmp_path)
    assert found.startswith(f"{name} is half-written")
    path.rename(path.with_name(f"{path.name}.host-1.unfinished"))
    assert checks.half_written(tmp_path) == [] and len(checks.leftovers(tmp_path)) == 1


def test_whole_files_are_read(tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    np.savez(tmp_path / "a.npz", a=np.ones(3))
    with h5py.File(tmp_path / "a.weights.h5", "w") as file:
        file["group/a"] = np.ones(3)
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "0f").write_bytes(b"[[2]]\n" + bytes(24))
    assert checks.half_written(tmp_path) == [] and checks.leftovers(tmp_path) == []
    before = checks.weights_in(tmp_path / "a.weights.h5")
    with h5py.File(tmp_path / "a.weights.h5", "a") as file:
        file["group/a"][2] = np.nextafter(1.0, 2.0)
    assert checks.weights_in(tmp_path / "a.weights.h5") != before


def test_records_are_kept_and_put_into_the_page(tmp_path):
    path = tmp_path / "faults.json"
    assert report.read(path, 3) == []
    kill = {"kind": "kill", "number": 4, "job": "save", "seconds": 60.0, "kills": 2, "left": 1}
    kill |= {"left_in_the_end": 0, "findings": ["lost\nfile"]}
    report.write(path, 3, [kill])
    assert report.read(path, 3) == [kill]
    with pytest.raises(ValueError, match="of one seed. Received: 3 and 4"):
        report.read(path, 4)
    text = report.page([kill], 3, ["fit", "save"])
    assert "| save | 1 | 2 | 1 | 0 | 1 |" in text and "| fit |" not in text
    assert "- `python -m keras_xd_tests.faults --seed 3 --only 4` (save): lost file" in text
