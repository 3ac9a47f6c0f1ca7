"""Damaged inputs do no harm, and what does is seen."""

import subprocess
import sys

import pytest

from keras_xd.training.architecture_files import load_architecture
from keras_xd_tests.fuzz import __main__ as fuzzing
from keras_xd_tests.fuzz import formats, mutations

QUICK = tuple(name for name in formats.FORMATS if name != ".keras")


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory):
    return fuzzing.Fuzz(3, tmp_path_factory.mktemp("inputs"))


@pytest.mark.parametrize("name", QUICK)
def test_damaged_inputs_are_read_or_refused(name, fuzz):
    numbers = [n for n in range(400) if formats.TURNS[n % len(formats.TURNS)] == name][:25]
    results = [fuzz.run(number) for number in numbers]
    # What takes long here is seen by the command, on a quiet machine.
    findings = [[f for f in r["findings"] if not f.startswith("takes")] for r in results]
    assert not any(findings), [
        (r["number"], f) for r, f in zip(results, findings, strict=True) if f
    ]
    outcomes = {result["outcome"] for result in results}
    assert "read" in outcomes and len(outcomes) > 1


def test_damaged_keras_files_do_no_harm(fuzz):
    numbers = [n for n in range(400) if n % len(formats.TURNS) == 0][1:5]
    findings = [[f for f in fuzz.run(n)["findings"] if "takes" not in f] for n in numbers]
    assert not any(findings), findings


HARM = {
    "open outside": lambda folder: (folder.parent / "outside").write_text("x"),
    "code runs: <from a file>": lambda folder: exec(compile("1 + 1", "<from a file>", "exec")),
    "subprocess.Popen": lambda folder: subprocess.run([sys.executable, "-V"], capture_output=True),
    "TypeError at fuzz_test.py": lambda folder: int([]),
}
HARMLESS = [lambda folder: (folder / "inside").write_text("x"), lambda folder: int("refused")]


class Harmful(formats.Format):
    """Does what an input tells, a function."""

    def read(self, content, folder):
        content(folder)


def test_harm_is_seen(fuzz, monkeypatch):
    monkeypatch.setitem(fuzz.formats, "harmful", Harmful())
    for finding, harm in HARM.items():
        found = fuzz.read("harmful", harm)["findings"]
        assert any(each.startswith(finding) for each in found), finding
    for harmless in HARMLESS:
        assert not fuzz.read("harmful", harmless)["findings"]


def test_a_finding_prints_the_command_that_repeats_it(monkeypatch, capsys, tmp_path):
    class Broken(formats.GenotypeFile):
        def read(self, content, folder):
            if b'"x"' in content:
                raise KeyError("x")
            super().read(content, folder)

    monkeypatch.setattr(formats, "TURNS", ("genotype",))
    monkeypatch.setattr(formats, "FORMATS", {"genotype": Broken})
    monkeypatch.setattr(fuzzing.Fuzz.__init__, "__defaults__", (("genotype",),))
    page = tmp_path / "fuzz.md"
    words = ["--count", "300", "--seed", "2", "--page", str(page)]
    findings = [r for r in fuzzing.main(words) if "KeyError" in r["findings"][0]]
    assert findings and "| genotype | 300 |" in page.read_text() and "KeyError" in page.read_text()
    number = findings[0]["number"]
    assert f"python -m keras_xd_tests.fuzz --seed 2 --only {number}" in capsys.readouterr().out
    assert fuzzing.main(["--seed", "2", "--only", str(number)])[0]["findings"]


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path):
    content = mutations.bomb("header.npy", 1 << 27)
    assert len(content) < 1 << 18
    path = tmp_path / "bomb.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="bytes say that they are 13"):
        load_architecture(formats.written.xd(), path)
