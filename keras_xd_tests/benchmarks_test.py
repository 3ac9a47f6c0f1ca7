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
    cheap_trials = importlib.import_module("cheap_trials")
    digit_cells = importlib.import_module("digit_cells")
    grammar_search = importlib.import_module("grammar_search")
    pareto = importlib.import_module("pareto")
    proposals = importlib.import_module("proposals")
    steps_of_terms = importlib.import_module("steps_of_terms")
    surrogate = importlib.import_module("surrogate")
    term_errors = importlib.import_module("term_errors")

CONSTANT = spaces.nas_bench_201_cell().first()
POOLS = spaces.nas_bench_201_cell().parse("(CELL Cell" + 6 * " (OPS avg_pool)" + ")")
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


def test_a_search_may_have_the_error_of_its_networks(tmp_path):
    words = [*SMALL, "--strategies", "random", "--error", "network", "--observations", "12"]
    found = grammar_search.main([*words, "--output", str(tmp_path)])
    assert (tmp_path / "grammar_search_network.md").exists()
    assert np.isfinite(found["runs"]["random"]).all()


def test_the_error_of_a_network_does_not_depend_on_its_tree():
    texts = (
        "(S Linear2 conv3x3 conv1x1)",
        "(S Residual2 conv3x3 zero conv1x1)",
        "(S Linear1 (A Linear3 conv3x3 id conv1x1))",
    )
    first, *others = (term_errors.network_error(read_term(text)) for text in texts)
    assert others == [first] * 2
    # Two convolutions in a row, one path, nothing pooled: only those and their number count.
    assert first == pytest.approx(0.1 + 0.2 * np.exp(-0.5) + 0.04)
    pooled = read_term("(S Diamond2 (A Linear1 conv3x3) avg_pool conv1x1 id)")
    expected = 0.1 + 0.2 / 2 + 0.2 * np.exp(-1) + 0.04
    assert term_errors.network_error(pooled) == pytest.approx(expected)
    large = spaces.hierarchical_nas_bench_201().sample(np.random.default_rng(0))
    assert 0.1 < term_errors.network_error(large, 20) < 2


def test_the_error_of_an_activation_function_is_that_of_its_features():
    functions = spaces.activation_functions()
    relu, identity = (
        term_errors.features_error(functions.parse(f"(L2 UnaryTopo (L1 UnaryTopo (UNARY {name})))"))
        for name in ("relu", "identity")
    )
    assert relu < 0.9 * identity
    text = "(L2 BinaryTopo (BINARY subtract) {0} {0} id id)"
    constant = functions.parse(text.format("(L1 UnaryTopo (UNARY relu))"))
    assert term_errors.features_error(constant) == pytest.approx(0.09, abs=0.01)


def test_surrogates_are_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(surrogate, "PREDICTED", 12)
    monkeypatch.setattr(surrogate, "TRIALS", 11)
    output = tmp_path / "surrogate.md"
    lines = surrogate.main(["--seeds", "2", "--observations", "12", "--output", str(output)])
    assert output.read_text() == "\n".join(lines) + "\n"
    assert sum(line.startswith(("| activations", "| cells")) for line in lines) == 16
    assert all(f"| {name} | 0 of 22 |" in output.read_text() for name in surrogate.STRATEGIES)


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


def test_cells_are_recorded_once(tmp_path, monkeypatch):
    few = [part[:64] for part in digit_cells.digits()]
    monkeypatch.setattr(digit_cells, "digits", lambda: few)
    monkeypatch.setattr(digit_cells, "different_cells", lambda count: [CONSTANT, POOLS][:count])
    words = ["--epochs", "1", "--output", str(tmp_path / "cells.json"), "--cells"]
    (row,) = digit_cells.main([*words, "1"])
    assert 0 <= row["errors"][0] <= 1 and row["multiply_adds"] > 0
    other = {"errors": [0.5], "seconds": 1}
    monkeypatch.setattr(digit_cells, "trained", lambda cell, seed, epochs: other)
    assert digit_cells.main([*words, "2"]) == [row, other]
    assert len(json.loads((tmp_path / "cells.json").read_text())) == 2


def test_cheap_trials_are_replayed_with_equal_epochs(monkeypatch):
    curves = [[0.9 - 0.05 * i - 0.02 * epoch for epoch in range(9)] for i in range(9)]
    cells = [str(cell) for cell in digit_cells.different_cells(9)]
    order = list(range(9))
    assert cheap_trials.full_trials(order, curves, 27) == pytest.approx(min(curves[2]))
    # 3 + 2 epochs find that later cells are better; the rest goes to the best of them.
    best, terms = cheap_trials.halved(order, curves, cells, 27)
    assert best < min(curves[2]) and terms > 3
    worse = [curves[0]] + [[value + 0.3 for value in curves[0]]] * 8
    monkeypatch.setattr(cheap_trials, "WARM", 1)
    best, trials = cheap_trials.median_stopped(order, worse, 14)
    # 9 epochs, twice one that is worse than the median, then 3: the median is as bad by then.
    assert (best, trials) == (pytest.approx(min(curves[0])), 4)


def test_fronts_are_compared(capsys, monkeypatch):
    monkeypatch.setattr(pareto, "STRATEGIES", ("evolution", "random"))
    lines = pareto.main(["--seeds", "2", "--trials", "12", "--dry-run"])
    assert [line.split("|")[1].strip() for line in lines[6:]] == ["evolution", "random"] * 2
    assert pareto.volume(np.array([[1.0, 0.0]])) == 0.0
    assert pareto.volume(np.array([[0.5, 0.0]])) == pytest.approx(0.5 * np.log10(1 + pareto.MOST))


@pytest.mark.parametrize("space", ["einspace", "activation_functions"])
def test_random_terms_of_spaces_train_a_step(space, tmp_path):
    output = tmp_path / "steps.md"
    rows = steps_of_terms.main(["--terms", "2", "--spaces", space, "--output", str(output)])
    assert rows[space].startswith(f"| {space} | 2 | 2 | 2 |")
    assert rows[space] in output.read_text()


def test_every_space_has_steps():
    assert set(steps_of_terms.SPACES) == set(spaces.__all__) - {"einspace_baselines"}
