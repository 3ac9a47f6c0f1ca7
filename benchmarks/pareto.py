"""Accuracy against cost: fronts of Bayesian search, evolution and random search.

    python benchmarks/pareto.py [--seeds 5] [--trials 40] [--dry-run]

NAS-Bench-201 cells have two objectives that cost no training: the error by paths of
benchmarks/term_errors.py, and the multiply–adds of a pixel in 16 channels. Given is the
hypervolume, with the logarithm of the cost: the area between the front and an error of 1 at the
cost of six 3 × 3 convolutions, on average over the seeds. Then the same with a limit of half the
cost, refused before a trial begins. The table goes to benchmarks/pareto.md, the fronts of the first
seed to benchmarks/pareto.svg, or nowhere with `--dry-run`.
"""

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_tuner as kt
import numpy as np
import scipy.stats
import term_errors

from keras_xd import visualization
from keras_xd.core.pareto import hypervolume
from keras_xd.grammar import operation_graph, spaces
from keras_xd.visualization import style
from tuner_integration import GrammarOracle

RESULTS = pathlib.Path(__file__).with_suffix(".md")
CELLS = spaces.nas_bench_201_cell()
STRATEGIES = ("bayesian", "evolution", "random")
CHANNELS, MOST = 16, 6 * 9 * 16**2


def objectives(text):
    """Return error and multiply–adds of a cell."""
    term = CELLS.parse(text)
    labels, _ = operation_graph(term)
    pairs = 9 * labels.count("conv3x3") + labels.count("conv1x1")
    cost = CHANNELS**2 * pairs + 9 * CHANNELS * labels.count("avg_pool")
    return {"error": term_errors.network_error(term), "multiply_adds": float(cost)}


def search(strategy, seed, trials, limit=None):
    """Return the objectives of all trials, and how many proposals were refused."""

    def refuse(values):
        cost = objectives(values["cell"])["multiply_adds"]
        return f"{cost:.0f} multiply–adds" if cost > limit else None

    oracle = GrammarOracle(
        {"cell": CELLS},
        [kt.Objective("error", "min"), kt.Objective("multiply_adds", "min")],
        trials,
        strategy,
        initial_trials=10,
        candidates=60,
        seed=seed,
        refuse=None if limit is None else refuse,
    )
    found = []
    while asked := oracle.ask():
        values = objectives(asked[0])
        oracle.tell(asked[0], values)
        found.append([values["error"], values["multiply_adds"]])
    return np.array(found), len(oracle.refused)


def volume(found):
    """Return the hypervolume of a search, costs by their logarithms."""
    logarithms = np.log10(1 + found[:, 1:])
    values = np.concatenate([found[:, :1], logarithms], axis=1)
    return hypervolume(values, [1.0, float(np.log10(1 + MOST))])


def main(arguments=None):
    """Measure, draw, and write the page; return its lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(arguments)
    lines = [
        "# Accuracy against cost",
        "",
        f"Written by `python benchmarks/pareto.py`; {options.seeds} seeds, {options.trials} "
        "trials, mean ± standard deviation of the hypervolume, and p of a paired t-test against "
        "random search.",
        "",
        "| strategy | limit | hypervolume | p | refused in a search |",
        "|---|---|---|---|---|",
    ]
    fronts = {}
    for limit in (None, MOST / 2):
        volumes, refused = {}, {}
        for strategy in reversed(STRATEGIES):
            runs = [search(strategy, s, options.trials, limit) for s in range(options.seeds)]
            volumes[strategy] = [volume(found) for found, _ in runs]
            refused[strategy] = np.mean([count for _, count in runs])
            if limit is None:
                fronts[strategy] = runs[0][0]
        for strategy in STRATEGIES:
            values, p = np.array(volumes[strategy]), ""
            if strategy != "random":
                p = f"{scipy.stats.ttest_rel(values, volumes['random']).pvalue:.2g}"
            lines.append(
                f"| {strategy} | {'' if limit is None else f'{limit:.0f}'} | {values.mean():.3f} ± "
                f"{values.std(ddof=1):.3f} | {p} | {refused[strategy]:.1f} |"
            )
    print("\n".join(lines))
    figure = visualization.plot_pareto(
        {name: fronts[name] + [0.0, 1.0] for name in STRATEGIES},
        ["error", "1 + multiply–adds a pixel"],
        logarithmic=True,
    )
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
        style.save(figure, options.output.with_suffix(".svg"))
    return lines


if __name__ == "__main__":
    main()
