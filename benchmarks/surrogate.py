"""What surrogates know of scores, clean and wild, and how often searches repeat a network.

    python benchmarks/surrogate.py [--seeds 5] [--dry-run]

Two errors without training: that of activation functions as random features of digits, which is a
real one, and that of NAS-Bench-201 cells by the paths of their networks, with noise. A surrogate is
fitted to 25, 50 and 100 random terms; given is Kendall's τ of its predictions of 120 others with
their errors. `log` is the Gaussian process on logarithms of errors, `rank` that on normal scores,
`forest` the random forest on the operators and paths of terms, on normal scores too; `chosen` is
the one of both that cross-validation takes, as in `GrammarOracle`.
Where scores are wild, three of the observed errors are 1e6, 1e6 and 1e9.

Then each strategy searches cells for 40 trials, and the networks are counted. The tables go to
benchmarks/surrogate.md, or nowhere with `--dry-run`.
"""

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_tuner as kt
import numpy as np
import scipy.stats
import term_errors

from keras_xd.grammar import network_digest, spaces
from tuner_integration import GrammarOracle, HierarchicalKernel, PointSpace, Surrogate
from tuner_integration.foldings import useful_levels
from tuner_integration.scores import normal_scores

RESULTS = pathlib.Path(__file__).with_suffix(".md")
TASKS = {
    "activations": (spaces.activation_functions, term_errors.features_error, 0.0),
    "cells": (spaces.nas_bench_201_cell, term_errors.network_error, 0.02),
}
MODELS = {
    "log": ("kernel",),
    "rank": ("kernel",),
    "forest": ("forest",),
    "chosen": ("kernel", "forest"),
}
STRATEGIES = ("bayesian", "evolution", "random")
WILD = (1e6, 1e6, 1e9)
PREDICTED, TRIALS = 120, 40


def logarithms(errors):
    """Return the logarithms of errors, those that are NaN as the largest."""
    return np.log(np.where(np.isnan(errors), np.nanmax(errors), errors) + 1e-8)


def correlation(grammar, model, terms, errors, others, truth):
    """Return Kendall's τ of a surrogate, and whether it is the forest."""
    kernel = HierarchicalKernel(useful_levels(grammar, range(5)))
    space = PointSpace({"n": grammar}, kt.HyperParameters())
    surrogate = Surrogate({"n": kernel}, space, models=MODELS[model])
    targets = logarithms(errors) if model == "log" else normal_scores(errors)
    surrogate.fit([(("n", term),) for term in terms], targets)
    mean, _ = surrogate.predict([(("n", term),) for term in others])
    return scipy.stats.kendalltau(mean, truth)[0], surrogate.model == "forest"


def study(task, counts, seeds):
    """Return `{(model, number of wild scores, observations): [(τ, forest) for each seed]}`."""
    space, error, noise = TASKS[task]
    grammar, rng = space(), np.random.default_rng(5)
    terms = {}
    while len(terms) < max(counts) + 2 * PREDICTED:
        term = grammar.sample(rng)
        terms.setdefault(network_digest(term), term)
    terms = list(terms.values())
    errors = np.array([error(term) for term in terms])
    errors += noise * rng.normal(size=len(terms))
    found = {}
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(terms))
        for count in counts:
            chosen, others = order[:count], order[max(counts) :]
            others = others[np.isfinite(errors[others])][:PREDICTED]
            for wild in (0, len(WILD)):
                seen = np.append(WILD[:wild], errors[chosen[wild:]])
                for model in MODELS:
                    value = correlation(
                        grammar,
                        model,
                        [terms[i] for i in chosen],
                        seen,
                        [terms[i] for i in others],
                        errors[others],
                    )
                    found.setdefault((model, wild, count), []).append(value)
    return found


def repeated(strategy, seed):
    """Return how many of the trials of a search have the network of an earlier one."""
    cells = spaces.nas_bench_201_cell()
    oracle = GrammarOracle(
        {"cell": cells},
        kt.Objective("error", "min"),
        TRIALS,
        strategy,
        initial_trials=10,
        seed=seed,
    )
    while asked := oracle.ask():
        oracle.tell(asked[0], term_errors.network_error(cells.parse(asked[0])))
    networks = {
        network_digest(cells.parse(trial.hyperparameters.get("cell")))
        for trial in oracle.trials.values()
    }
    return len(oracle.trials) - len(networks), oracle.get_best_trials()[0].score


def main(arguments=None):
    """Measure all, and write the page; return its lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--observations", type=int, nargs="+", default=[25, 50, 100])
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(arguments)
    lines = [
        "# What surrogates know of scores",
        "",
        f"Written by `python benchmarks/surrogate.py`; {options.seeds} seeds, mean ± standard "
        "deviation of Kendall's τ; in brackets how often the forest was chosen.",
        "",
        f"| task, surrogate | wild | {' | '.join(f'{n} observed' for n in options.observations)} |",
        f"|{'---|' * (2 + len(options.observations))}",
    ]
    for task in TASKS:
        found = study(task, options.observations, options.seeds)
        for wild in (0, len(WILD)):
            for model in MODELS:
                cells = []
                for count in options.observations:
                    values, forests = np.transpose(found[model, wild, count])
                    cells.append(f"{values.mean():.2f} ± {values.std(ddof=1):.2f}")
                    if model == "chosen":
                        cells[-1] += f" ({int(forests.sum())} of {options.seeds})"
                lines.append(f"| {task}, {model} | {wild} | {' | '.join(cells)} |")
                print(lines[-1], flush=True)
    lines += ["", f"| search of {TRIALS} cells | repeated networks | best error |", "|---|---|---|"]
    for strategy in STRATEGIES:
        counts, best = zip(*(repeated(strategy, s) for s in range(options.seeds)), strict=True)
        lines.append(
            f"| {strategy} | {sum(counts)} of {TRIALS * options.seeds} | "
            f"{np.mean(best):.4f} ± {np.std(best, ddof=1):.4f} |"
        )
        print(lines[-1], flush=True)
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


if __name__ == "__main__":
    main()
