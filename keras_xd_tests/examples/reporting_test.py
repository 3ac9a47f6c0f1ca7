"""Finished runs, and pages: those of the repository are what their records say, to the letter."""

import pytest

from keras_xd_tests import example_scripts

reporting = example_scripts.load("reporting")
redraw = example_scripts.load("redraw")

RECORDS = sorted(path.stem for path in reporting.RESULTS.glob("*.json"))


def test_every_experiment_has_records():
    known = set(redraw.REPORTS) | {name.split("_")[0] for name in redraw.TUNED}
    assert {name.split("_")[0] for name in RECORDS} == known
    assert set(redraw.TUNED) <= set(RECORDS)


@pytest.mark.parametrize("name", RECORDS)
def test_a_page_is_what_its_records_say(name):
    text = redraw.page(name, redraw.records(name))
    assert text == (reporting.RESULTS / f"{name}.md").read_text(encoding="utf-8")


def record(method, seed, kind="plain", **more):
    return {"method": method, "kind": kind, "seed": seed, **more}


def page(settings, runs, written):
    return f"{written['command']}: {len(runs)}"


def results(folder, settings, **options):
    return reporting.Results("name", page, folder, settings, "python it", **options)


def test_processes_share_files(tmp_path):
    one, other = (results(tmp_path, {"epochs": 3}) for _ in range(2))
    one.add(record("xd", 0))
    other.add(record("xd", 0, "permuted", score=0.5))
    other.add(record("xd", 1))
    one.read()
    assert one.find("xd", "permuted", 0)["score"] == 0.5 and one.find("xd", "plain", 2) is None
    assert len(one.runs) == len(results(tmp_path, {"epochs": 3}).runs) == 3
    assert not results(tmp_path, {"epochs": 4}, overwrite=True).runs
    assert not list(tmp_path.iterdir())


def test_a_run_is_done_once_and_written(tmp_path):
    done = []

    def run(*arguments):
        done.append(arguments)
        return record(*arguments)

    for number in (1, 1, 2):
        for found in (results(tmp_path, {"epochs": 3}), results(tmp_path, {"epochs": 3})):
            assert found.obtain(("xd", "plain", number), run, "xd", number) == record("xd", number)
            assert (tmp_path / "name.md").read_text() == f"python it: {number}"
    assert done == [("xd", 1), ("xd", 2)]
    assert {path.name for path in tmp_path.iterdir()} == {"name.json", "name.md"}


def test_other_settings_and_files_of_others_are_kept(tmp_path):
    results(tmp_path / "runs", {"epochs": 3, "command": "one"}).add(record("xd", 0))
    before = (tmp_path / "runs" / "name.json").read_bytes()
    with pytest.raises(ValueError, match="not overwritten unless --overwrite .*name.json"):
        results(tmp_path / "runs", {"epochs": 4, "command": "one"})
    assert (tmp_path / "runs" / "name.json").read_bytes() == before
    assert len(results(tmp_path / "runs", {"epochs": 3, "command": "other"}).runs) == 1
    (tmp_path / "name.md").write_text("mine")
    for joined in (False, True):
        with pytest.raises(ValueError, match="not overwritten unless --overwrite .*name.md"):
            results(tmp_path, {"epochs": 3}, joined=joined)
