"""The benchmarks of searches over terms, in small settings, and the functions in them."""

import functools
import importlib
import json
import re

import numpy as np
import pytest

import tuner_integration
from keras_xd.grammar import read_term, spaces
from keras_xd_tests.example_scripts import BENCHMARKS, evolve_shortly, on_path
from tuner_integration import forest

with on_path(BENCHMARKS):
    grammar_search = importlib.import_module("grammar_search")
    proposals = importlib.import_module("proposals")

SMALL = ("--space", "cell", "--trials", "5", "--initial-trials", "4", "--seeds", "2")


@pytest.fixture(autouse=True)
def few_terms(monkeypatch):
    """Study kernels with fewer terms than the benchmark, forests of fewer trees.

    And let searches look for the next point in fewer generations.
    """
    monkeypatch.setattr(grammar_search, "STUDIED", 32)
    monkeypatch.setattr(forest, "_TREES", 10)
    evolve_shortly(monkeypatch)


def test_the_error_is_lowest_for_the_target_alone(rng):
    target = read_term("(S Linear3 a (B Linear2 b c) (B Linear1 d))")
    error = grammar_search.Likeness(target)
    assert error(target) == pytest.approx(0.05)
    assert error(read_term("(S Linear2 a b)")) == 1.0
    # (1 + 1 + (1 + 0 + 1) / 3 + 0) / 4, as b is e and Linear1 is Linear2.
    other = read_term("(S Linear3 a (B Linear2 e c) (B Linear2 d d))")
    assert error(other) == pytest.approx(0.05 + 0.95 * (1 - (2 + 2 / 3) / 4))
    cells = spaces.nas_bench_201_cell()
    error = grammar_search.Likeness(cells.first())
    errors = {term: error(term) for term in (cells.sample(rng) for _ in range(50))}
    assert all(value > 0.05 or term == cells.first() for term, value in errors.items())


def test_all_strategies_are_run_with_the_same_trials_and_reported(tmp_path, capsys):
    words = [*SMALL, "--observations", "12", "--output", str(tmp_path)]
    found = grammar_search.main(words)
    assert set(found["runs"]) == {"bayesian", "plain", "evolution", "random"}
    runs = np.array([found["runs"][strategy] for strategy in grammar_search.STRATEGIES])
    assert runs.shape == (4, 2, 5) and np.all((runs >= 0.05) & (runs <= 1))
    # Random trials come first and are the same for all that have as many of them.
    np.testing.assert_array_equal(runs[:, :, :4], np.broadcast_to(runs[:1, :, :4], (4, 2, 4)))
    assert all(-1 <= t <= 1 for values in found["study"].values() for t in values[12])
    text = (tmp_path / "grammar_search.md").read_text()
    best = np.minimum.accumulate(runs, axis=2)[3, :, -1]
    assert f"{best.mean():.3f} ± {best.std(ddof=1):.3f} |" in text
    assert str(tmp_path) not in text and (tmp_path / "grammar_search.svg").exists()
    assert text.splitlines()[0] in capsys.readouterr().out
    picture = tmp_path / "grammar_search.svg"
    drawn = picture.read_bytes()
    picture.unlink()
    again = grammar_search.main(["--redraw", "--output", str(tmp_path)])
    assert again["runs"] == found["runs"] and picture.read_bytes() == drawn


def test_kept_trials_are_read_and_not_timed(tmp_path):
    words = [*SMALL, "--strategies", "random", "--observations", "12", "--output", str(tmp_path)]
    words += ["--searches", str(tmp_path / "searches")]
    first, again = grammar_search.main(words), grammar_search.main(words)
    assert first["runs"] == again["runs"] and first["processor"]["random"] > 0
    later = np.array(again["runs"]["random"])[:, 4:].mean(axis=1)
    (line,) = (
        text
        for text in (tmp_path / "grammar_search.md").read_text().splitlines()
        if text.startswith("| random |")
    )
    assert line.endswith(f"| {later.mean():.3f} ± {later.std(ddof=1):.3f} | – |")


def test_trials_of_proposals_are_taken_over(tmp_path, capsys, monkeypatch):
    fast = functools.partial(tuner_integration.GrammarOracle, candidates=12, levels=(0,))
    monkeypatch.setattr(tuner_integration, "GrammarOracle", fast)
    proposals.measure("initial", tmp_path, "bayesian", 11, 1)
    (first,) = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all(seconds > 0 for seconds in first)
    proposals.measure("again", tmp_path, "bayesian", 0, 1)
    bayesian = proposals.oracle(tmp_path, "bayesian")
    assert len(bayesian.trials) == 13
    assert {trial.status for trial in bayesian.trials.values()} == {"COMPLETED"}
    # Features are written when a trial ends.
    assert len(list((tmp_path / "project" / "features").iterdir())) == 13


def test_commands_of_readme_and_results_name_files_and_options_that_exist():
    root = BENCHMARKS.parent
    pages = [root / "README.md", *(root / "docs" / f"{p}.md" for p in ("results", "performance"))]
    text = " ".join(" ".join(page.read_text(encoding="utf-8") for page in pages).split())
    commands = re.findall(r"python ((?:examples|benchmarks)(?:/\w+)*)/(\w+)\.py([^`]*)`", text)
    assert len(commands) >= 10
    for folder, name, options in commands:
        source = (root / folder / f"{name}.py").read_text(encoding="utf-8")
        folders = {root / folder, root / folder.split("/")[0]}
        shared = [p.read_text(encoding="utf-8") for f in folders for p in f.glob("*.py")]
        for option in re.findall(r"--[a-z-]+", options):
            assert any(f'"{option}"' in file for file in [source, *shared]), (name, option)
