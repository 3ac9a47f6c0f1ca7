"""Kills and full disks: the jobs get through them, and planted defects are found."""

import errno
import json
import signal
import subprocess

import h5py
import numpy as np
import pytest

from keras_xd_tests import programs
from keras_xd_tests.faults import checks, children, disks, report


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("planted")


@pytest.fixture(scope="module")
def found(folder):
    """What is found in small jobs with defects, by the command, and in searches."""
    return programs.run("faults.planted_program", folder)


def findings(found, name):
    rows = [*found["planted"][name]["kills"], found["planted"][name]["fill"]]
    return [text for row in rows for text in row["findings"]]


def test_a_sound_job_has_no_findings(found):
    assert findings(found, "sound") == []
    kills, fill = found["planted"]["sound"]["kills"], found["planted"]["sound"]["fill"]
    assert all(row["kills"] in (1, 2) for row in kills) and fill["full"] == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in place", "json is half-written"),
        ("too early", "is not there"),
        ("forgetful", "differs from that in one piece: ['resumed']"),
        ("repeating", "done 0 again"),
        ("silent", "does not say that the disk is full: RuntimeError: something failed"),
        ("stopping", "it does not go on: ValueError: there is something"),
    ],
)
def test_planted_defects_are_found(name, text, found):
    assert any(text in finding for finding in findings(found, name))


def test_a_small_setting_of_the_command(found, folder, tmp_path):
    """The job that takes the least, once killed and once on a full disk."""
    printed = found["command"]["printed"]
    assert found["command"]["status"] == 0, printed
    assert "2 of 2 numbers, 0 with findings" in printed
    kill, fill = json.loads((folder / "command" / "faults.json").read_text())["records"]
    assert (kill["job"], fill["job"]) == ("save_architecture",) * 2
    assert kill["kills"] in (1, 2) and fill["full"] == 1
    refused = disks.may_mount(_empty(tmp_path / "mount"))
    assert fill["disk"] == (disks.SizeLimit if refused else disks.SmallDisk).kind
    assert bool(refused) == ("No small disk can be mounted" in printed)
    assert (
        f"| save_architecture | 1 | {kill['kills']} |"
        in (folder / "command" / "faults.md").read_text()
    )


def test_nothing_that_ended_is_lost_or_repeated_whenever_it_is_killed(found):
    """The program kills itself before each file that a search of 2 trials writes."""
    result = found["searches"]["once"]
    whole, searches = result["whole"], result["searches"]
    assert len(whole["values"]) == len(set(whole["values"])) == 2
    # Two files for the start of the search; for each trial seven and, in the end, the features.
    assert len(searches) > 2 + 7 * 2
    repeated = 0
    for search in searches:
        assert search["status"] == -signal.SIGKILL
        before, after = search["ran_before"], search["ran_after"]
        # What was reported is on the disk and does not run again; all else runs exactly once.
        assert set(search["reported"]) <= set(before)
        assert sorted(search["reported"] + after) == ["0000", "0001"]
        assert not search["unfinished"]
        repeated += len(set(before) & set(after))
        assert search["found"] == whole
    # Only what was killed between the end of a trial and the file that says so.
    assert repeated == 2


def test_what_has_completed_never_runs_again_where_trials_are_retried(found):
    """The second trial reports NaN when it runs first, and waits for its second run."""
    result = found["searches"]["retried"]
    whole, searches = result["whole"], result["searches"]
    assert whole["statuses"] == ["COMPLETED"] * 2 and len(searches) > 10
    for search in searches:
        assert search["status"] == -signal.SIGKILL
        after = search["ran_after"]
        assert not set(search["reported"]) & set(after)
        assert {*search["reported"], *after} == {"0000", "0001"}
        assert after.count("0000") <= 1 and after.count("0001") <= 2
        if "0001" in search["ran_before"]:
            assert after.count("0001") <= 1
        for key in ("values", "scores", "statuses"):
            assert search["found"][key] == whole[key]


def _empty(folder):
    folder.mkdir()
    return folder


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
