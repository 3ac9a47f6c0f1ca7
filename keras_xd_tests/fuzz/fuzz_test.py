"""Damaged inputs do no harm, and what does is seen."""

import io
import json
import os
import pathlib
import resource
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

from keras_xd.training.architecture_files import load_architecture
from keras_xd_tests.fuzz import __main__ as fuzzing
from keras_xd_tests.fuzz import formats, guard, mutations

QUICK = tuple(name for name in formats.FORMATS if name != ".keras")


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory):
    return fuzzing.Fuzz(3, tmp_path_factory.mktemp("inputs"))


@pytest.mark.parametrize("name", QUICK)
def test_damaged_inputs_are_read_or_refused(name, fuzz):
    numbers = [n for n in range(400) if formats.TURNS[n % len(formats.TURNS)] == name][:50]
    results = [fuzz.run(number) for number in numbers]
    # What takes long here is seen by the command, on a quiet machine.
    findings = [[f for f in r["findings"] if not f.startswith("takes")] for r in results]
    assert not any(findings), [
        (r["number"], f) for r, f in zip(results, findings, strict=True) if f
    ]
    outcomes = {result["outcome"] for result in results}
    assert "read" in outcomes and len(outcomes) > 1


def test_damaged_keras_files_do_no_harm(fuzz):
    numbers = [n for n in range(400) if n % len(formats.TURNS) == 0][1:9]
    findings = [[f for f in fuzz.run(n)["findings"] if "takes" not in f] for n in numbers]
    assert not any(findings), findings


def test_an_input_depends_on_seed_and_number_alone(fuzz, tmp_path):
    for number in range(1, len(formats.TURNS)):
        assert fuzz.input(number) == fuzz.input(number)
    inputs = {fuzz.input(number)[2] for number in range(1, 400) if number % len(formats.TURNS)}
    assert len(inputs) > 300


def test_what_replaces_a_value_stays_as_it_is():
    content = {"a": [1, {"b": [2, "x"]}], "c": {"d": None}}
    before = repr((mutations.VALUES, mutations.HUGE))
    damaged = [mutations.of_json(content, np.random.default_rng(seed)) for seed in range(500)]
    assert repr((mutations.VALUES, mutations.HUGE)) == before
    assert len({repr(each) for each in damaged}) > 300
    assert content == {"a": [1, {"b": [2, "x"]}], "c": {"d": None}}


def test_findings_are_read_again(tmp_path, monkeypatch, capsys):
    file, output = tmp_path / "fuzz.json", tmp_path / "fuzz.md"
    monkeypatch.setattr(formats.GenotypeFile, "errors", ())
    with monkeypatch.context() as patch:
        patch.setattr(fuzzing, "MOST_MEMORY", -(1 << 60))  # then every input has a finding
        fuzzing.main(["--count", "20", "--output", str(file)])
    summary = json.loads(file.read_text())
    assert len(summary["findings"]) == 20
    capsys.readouterr()
    left = fuzzing.main(["--again", str(file), "--page", str(output)])
    refused = [f["number"] for f in left]
    names = {formats.TURNS[number % len(formats.TURNS)] for number in refused}
    assert names <= {"genotype"} and capsys.readouterr().out.endswith("findings are left\n")
    text = output.read_text()
    assert f": 20 inputs, {len(left)} of them with a finding" in text
    counts = {name: row["count"] for name, row in summary["formats"].items()}
    assert all(f"| {name} | {count} |" in text for name, count in counts.items())


def test_large_models_may_take_longer(monkeypatch):
    files = formats.FORMATS[".keras"]()
    assert files.longest(b"nothing") == files.seconds == 2.0
    monkeypatch.setattr(formats.KerasFile, "seconds", 0.0)
    contents = files.contents[::4]
    counts = [files.longest(content) / 0.015 for content in contents]
    assert min(counts) >= 2 and max(counts) < 200 and len(set(counts)) > 2


class Harmful(formats.Format):
    """Does what an input tells."""

    seconds = 0.05

    def valid(self, rng):
        return b"read"

    def damaged(self, rng):
        return b"read"

    def read(self, content, folder):
        outside = folder.parent / f"{folder.name}_outside"
        if content == b"write":
            outside.write_text("x")
        elif content == b"remove":
            os.remove(outside)
        elif content == b"inside":
            (folder / "inside").write_text("x")
        elif content == b"code":
            exec(compile("1 + 1", "<from a file>", "exec"))
        elif content == b"process":
            subprocess.run([sys.executable, "-V"], capture_output=True)
        elif content == b"slow":
            start = time.process_time()
            while time.process_time() < start + 0.1:
                pass
        elif content == b"memory":
            pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
            now = pages * resource.getpagesize()
            np.ones(guard.memory() - now + (1 << 25), "uint8")
        elif content == b"value":
            raise ValueError("refused")
        elif content == b"type":
            raise TypeError("not refused")


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"write", "open outside"),
        (b"remove", "os.remove outside"),
        (b"code", "code runs: <from a file>"),
        (b"process", "subprocess.Popen"),
        (b"slow", "takes"),
        (b"memory", "memory grows"),
        (b"type", "TypeError at fuzz_test.py"),
        (b"inside", None),
        (b"value", None),
        (b"read", None),
    ],
)
def test_harm_is_seen(content, finding, fuzz, monkeypatch):
    monkeypatch.setitem(fuzz.formats, "harmful", Harmful())
    if content == b"memory":
        monkeypatch.setattr(fuzzing, "MOST_MEMORY", 1 << 24)
        monkeypatch.setattr(fuzz, "memory", guard.memory())
    found = fuzz.read("harmful", content)["findings"]
    assert bool(found) == bool(finding)
    if finding:
        assert any(each.startswith(finding) for each in found)


def test_a_finding_prints_the_command_that_repeats_it(monkeypatch, capsys, tmp_path):
    class Broken(formats.GenotypeFile):
        def read(self, content, folder):
            if b'"x"' in content:
                raise KeyError("x")
            super().read(content, folder)

    monkeypatch.setattr(formats, "TURNS", ("genotype",))
    monkeypatch.setattr(formats, "FORMATS", {"genotype": Broken})
    monkeypatch.setattr(fuzzing.Fuzz.__init__, "__defaults__", (("genotype",),))
    page, output = tmp_path / "fuzz.md", tmp_path / "fuzz.json"
    words = ["--count", "300", "--seed", "2", "--page", str(page), "--output", str(output)]
    findings = [r for r in fuzzing.main(words) if "KeyError" in r["findings"][0]]
    assert findings and json.loads(output.read_text())["formats"]["genotype"]["count"] == 300
    assert "| genotype | 300 |" in page.read_text() and "KeyError" in page.read_text()
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


def test_mutations_change_what_they_are_given(rng):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.json", json.dumps({"a": [1, {"b": "c"}], "d": None}))
        file.writestr("b", bytes(range(64)))
    for mutate, value in (
        (mutations.of_bytes, bytes(range(64))),
        (mutations.of_text, "(S Linear2 (A conv) (A pool))"),
        (mutations.json_bytes, {"a": [1, {"b": "c"}], "d": None}),
        (mutations.of_archive, archive.getvalue()),
    ):
        found = [mutate(value, rng) for _ in range(40)]
        assert all(isinstance(each, bytes) for each in found) and len(set(found)) > 15
