"""The page and the picture of real_searches.py."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import numpy as np
import real_tasks
import reporting
import scipy.stats
import timing
from matplotlib.figure import Figure

from keras_xd import visualization
from keras_xd.visualization import style
from keras_xd.visualization.progress import optimization_history

SHARES = {"a quarter of the seconds": 0.25, "half": 0.5, "all": 1.0}
BASES = ("random", "evolution")
TITLES = {
    "cells": "cells on CIFAR-10",
    "activations": "activation functions on MNIST",
    "einspace": "einspace on spherical digits",
}


def curves(found, objective):
    """Return `{task: {strategy: (losses, seconds)}}`, arrays `(seeds, trials)`.

    A search that ended early keeps its best loss. Seconds are those of proposals and trainings up
    to the end of each trial, also where a network had been trained for another search.
    """
    result = {}
    for task, strategies in found["runs"].items():
        networks = found["networks"][task]
        result[task] = {}
        for strategy, runs in strategies.items():
            longest = max(map(len, runs))
            losses = np.full((len(runs), longest), np.nan)
            seconds = np.full((len(runs), longest), np.inf)
            for row, run in enumerate(runs):
                rows = [networks[network] for network, _ in run]
                losses[row, : len(run)] = [objective(row) for row in rows]
                spent = [row["seconds"] + own for row, (_, own) in zip(rows, run, strict=True)]
                seconds[row, : len(run)] = np.cumsum(spent)
            result[task][strategy] = losses, seconds
    return result


def best_after(losses, trials):
    """Return the best loss of each seed after so many trials."""
    return optimization_history(losses)[:, trials - 1]


def best_within(losses, seconds, budget):
    """Return the best loss of each seed among the trials that ended within the seconds."""
    allowed = seconds <= budget
    allowed[:, 0] = True
    return np.nanmin(np.where(allowed, losses, np.nan), axis=1)


def measures(task_curves, initial, trials, seconds):
    """Return `{measure: {strategy: best losses of the seeds}}`, by trials and by seconds."""
    marks = [mark for mark in (15, 20, 25) if initial < mark < trials] + [trials]
    found = {
        f"{mark} trials": {
            name: best_after(losses, mark) for name, (losses, _) in task_curves.items()
        }
        for mark in marks
    }
    for words, share in SHARES.items():
        found[f"{words} ({share * seconds:.0f} s)"] = {
            name: best_within(*pair, share * seconds) for name, pair in task_curves.items()
        }
    return found


def paired(found, base):
    """Return the mean difference and the p of Wilcoxon's paired test, over the common seeds."""
    count = min(len(found), len(base))
    found, base = found[:count], base[:count]
    if count < 2 or np.all(found == base):
        return float(np.mean(found - base)), 1.0
    return float(np.mean(found - base)), float(scipy.stats.wilcoxon(found, base).pvalue)


def table(task_curves, initial, trials, seconds):
    """Return the lines of a task's tables: best losses, then differences and their tests."""
    found = measures(task_curves, initial, trials, seconds)
    lines = timing.head("best loss after", *found)
    for name in task_curves:
        cells = [reporting.spread(values[name], 4) for values in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", *timing.head("less than that of (p)", *found)]
    for name in task_curves:
        for base in BASES:
            if name == base or base not in task_curves or name == "random":
                continue
            cells = []
            for values in found.values():
                difference, p = paired(values[name], values[base])
                cells.append(f"{-difference:+.4f} ({p:.2g})")
            lines.append(f"| {name}, {base} | {' | '.join(cells)} |")
    return lines


def costs(found, task, objective):
    """Return the lines of what was found beside the network by hand, and of what a search took."""
    words = ["", "lowest loss", "its error", "parameters", "time of a call", "s of trainings"]
    lines = timing.head(*words, "s of proposals", "trials in all")
    networks, hand = found["networks"][task], found["networks"][task][found["by_hand"][task]]
    for name, runs in found["runs"][task].items():
        ran = round(np.mean([len(run) for run in runs]))
        runs = [run[: found["trials"]] for run in runs]
        best = [min((networks[n] for n, _ in run), key=objective) for run in runs]
        times = [own / other for own, other in (row["milliseconds"] for row in best)]
        trainings = [sum(networks[network]["seconds"] for network, _ in run) for run in runs]
        proposals = [sum(own for _, own in run) for run in runs]
        lines.append(
            f"| {name} | {reporting.spread([objective(row) for row in best], 4)} "
            f"| {reporting.spread([row['error'] for row in best], 4)} "
            f"| {_median([row['parameters'] for row in best], ',.0f')} "
            f"| {_median(times, '.2f')} "
            f"| {np.mean(trainings):.0f} | {np.mean(proposals):.1f} | {ran} |"
        )
    lines.append(
        f"| by hand | {objective(hand):.4f} | {hand['error']:.4f} | {hand['parameters']:,} | 1 | – "
        "| – | – |"
    )
    return lines


def _median(values, form):
    """The median and the smallest and largest value."""
    return f"{np.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def page(found, objective):
    """Return the lines of the page."""
    versions = timing.versions(("keras", "keras-tuner", "tensorflow", "scipy"))
    initial, all_curves = found["initial"], curves(found, objective)
    lines = [
        "# Searches on real tasks",
        "",
        f"Written by `python benchmarks/real_searches.py --trials {found['trials']}`; "
        f"{versions}, one core. Every trial trains a network; its score is "
        "the loss on validation images, at most that of guessing. Each network is trained once, "
        f"from a seed of its own and for {real_tasks.SECONDS:g} seconds at most, and its score and "
        "seconds count for every search that tries it. "
        f"The first {initial} trials are random and, with a seed, the same for all. Seconds are "
        "those of the processor, of proposals and trainings (but not of the networks built to see "
        "whether a limit is kept, as a training builds its network anyway). A search goes on until "
        f"it has made {found['trials']} trials and used the seconds of its task, which are about "
        "those of as many Bayesian trials: equal seconds compare what each strategy found in them, "
        "with as many trials as they allow. Mean ± standard deviation of the seeds; "
        "differences from random search and evolution with the same seeds (positive: better), and "
        "in brackets the p of Wilcoxon's paired test, two-sided. Parameters and times, of a call "
        "with 64 images beside the network by hand, are those of the best networks: median, and "
        "smallest to largest. By hand: one network, the block of ResNet as a cell, ReLU at the "
        "best of 30 rates, or three convolutions of 3 × 3 of which the second has stride 2.",
        "",
    ]
    for task, task_curves in all_curves.items():
        details, networks = found["tasks"][task], found["networks"][task]
        counts = {name: len(runs) for name, runs in found["runs"][task].items()}
        fewest, most = min(counts.values()), max(counts.values())
        mean = np.mean([row["seconds"] for row in networks.values()])
        longest = max(row["seconds"] for row in networks.values())
        seeds = fewest if fewest == most else f"{fewest} to {most}"
        lines += [
            f"## {TITLES.get(task, task)[0].upper()}{TITLES.get(task, task)[1:]}",
            "",
            f"{details}. {len(networks)} networks, {mean:.1f} s a training on average, "
            f"{longest:.1f} s at most; {seeds} seeds.",
            "",
            *table(task_curves, initial, found["trials"], found["seconds"][task]),
            "",
            *costs(found, task, objective),
            "",
        ]
    return lines


def draw(found, objective):
    """Return the figure of the best losses so far, from the last random trial on."""
    all_curves = curves(found, objective)
    with style.context():
        figure = Figure(figsize=(4.2 * len(all_curves), 2.8), layout="constrained")
        row = figure.subplots(1, len(all_curves), squeeze=False)[0]
        for axes, (task, task_curves) in zip(row, all_curves.items(), strict=True):
            trials = found["trials"]
            runs = {name: losses[:, :trials] for name, (losses, _) in task_curves.items()}
            visualization.plot_optimization_history(runs, label="lowest loss so far", axes=axes)
            axes.set_title(TITLES.get(task, task))
            highest = max(best_after(losses, found["initial"]).mean() for losses in runs.values())
            lowest = min(np.nanmin(losses, axis=1).mean() for losses in runs.values())
            margin = 0.25 * (highest - lowest) + 1e-9
            axes.set_ylim(lowest - 2 * margin, highest + margin)
    return figure
