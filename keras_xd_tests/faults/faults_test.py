"""Kills and full disks: the jobs get through them, and planted defects are found."""

import json
import signal

import h5py
import numpy as np
import pytest

from keras_xd_tests import programs
from keras_xd_tests.faults import checks, disks


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
        ("forgetful", "differs from that in one piece: ['resumed']"),
        ("silent", "does not say that the disk is full: RuntimeError: something failed"),
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
    result = found["searches"]
    whole, searches = result["whole"], result["searches"]
    assert len(whole["values"]) == len(set(whole["values"])) == 2
    # Two files for the start of the search, and seven for each trial.
    assert len(searches) >= 2 + 7 * 2
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


def _empty(folder):
    folder.mkdir()
    return folder


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
