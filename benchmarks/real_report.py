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
from real_tasks import objective

from keras_xd import grammar, visualization
from keras_xd.visualization import style
from keras_xd.visualization.progress import optimization_history

SHARES = {"a quarter of the seconds": 0.25, "half": 0.5, "all": 1.0}
BASES = ("random", "evolution")
TITLES = {"cells": "cells on CIFAR-10", "hierarchical": "whole networks on AddNIST"}
SCORES = {
    "loss": "the loss on validation images, at most that of guessing",
    "error": "the error on validation images; the network of the lowest one is trained again, from "
    "its seed, for the error on test images",
}
EQUAL_SECONDS = (
    "A search goes on until it has made {trials} trials and used the seconds of its task, which "
    "are about those of as many Bayesian trials: equal seconds compare what each strategy found in "
    "them, with as many trials as they allow. "
)
BY_HAND = {
    "cells": "the block of ResNet as a cell",
    "hierarchical": "a ResNet of the same stem and head: three blocks of two convolutions, and two "
    "that halve the image",
}


def command(found):
    """Return the command that wrote a page."""
    text = f"python benchmarks/real_searches.py --trials {found['trials']}"
    if (tasks := list(found["tasks"])) == ["cells"]:
        return text
    (runs, *_) = found["runs"].values()
    seeds = len(next(iter(runs.values())))
    words = f"--tasks {' '.join(tasks)} --seeds {seeds} --strategies {' '.join(runs)}"
    return f"{text} {words} --output …"


def curves(found):
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
    steps = (15, 20, 25) if trials <= 30 else (25, 50, 75)
    marks = [mark for mark in steps if initial < mark < trials] + [trials]
    found = {
        f"{mark} trials": {
            name: best_after(losses, mark) for name, (losses, _) in task_curves.items()
        }
        for mark in marks
    }
    for words, share in SHARES.items() if seconds else ():
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


def table(task_curves, initial, trials, seconds, score):
    """Return the lines of a task's tables: best losses, then differences and their tests."""
    found = measures(task_curves, initial, trials, seconds)
    lines = timing.head(f"best {score} after", *found)
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
                cells.append(f"{0.0 - difference:+.4f} ({p:.2g})")
            lines.append(f"| {name}, {base} | {' | '.join(cells)} |")
    return lines


def costs(found, task):
    """Return the lines of what was found beside the network by hand, and of what a search took."""
    networks, hand = found["networks"][task], found["networks"][task][found["by_hand"][task]]
    other = "error" if score_of(networks) == "loss" else "test_error"
    words = ["", f"lowest {score_of(networks)}", f"its {other.replace('_', ' ')}", "parameters"]
    lines = timing.head(
        *words, "time of a call", "s of trainings", "s of proposals", "trials in all"
    )
    for name, runs in found["runs"][task].items():
        ran = round(np.mean([len(run) for run in runs]))
        runs = [run[: found["trials"]] for run in runs]
        best = best_networks(networks, runs)
        times = [own / by_hand for own, by_hand in (row["milliseconds"] for row in best)]
        proposals = [sum(own for _, own in run) for run in runs]
        lines.append(
            f"| {name} | {reporting.spread([objective(row) for row in best], 4)} "
            f"| {reporting.spread([row[other] for row in best], 4)} "
            f"| {_median([row['parameters'] for row in best], ',.0f')} "
            f"| {_median(times, '.2f')} "
            f"| {np.mean(seconds_of(networks, runs)):.0f} | {np.mean(proposals):.1f} | {ran} |"
        )
    lines.append(
        f"| by hand | {objective(hand):.4f} | {hand[other]:.4f} | {hand['parameters']:,} | 1 "
        "| – | – | – |"
    )
    return lines


def by_seed(found, task):
    """Return the lines of what each search with test images found."""
    networks, every = found["networks"][task], []
    lines = timing.head("", "seed", "lowest error", "its test error", "parameters", "s in all")
    for name, runs in found["runs"][task].items():
        runs = [run[: found["trials"]] for run in runs]
        rows = zip(best_networks(networks, runs), seconds_of(networks, runs), runs, strict=True)
        for seed, (best, seconds, run) in enumerate(rows):
            seconds += sum(own for _, own in run)
            every.append(best)
            lines.append(
                f"| {name} | {seed} | {best['error']:.4f} | {best['test_error']:.4f} "
                f"| {best['parameters']:,} | {seconds:.0f} |"
            )
    lowest = min(every, key=objective)
    words = f"The network with the lowest error of all, {objective(lowest):.4f}:"
    return [*lines, "", f"{words} `{grammar.parse(lowest['term']).formula()}`", ""]


def score_of(networks):
    """Return the name of what is minimised."""
    return "loss" if all("loss" in row for row in networks.values()) else "error"


def best_networks(networks, runs):
    """Return the best network of each run."""
    return [min((networks[network] for network, _ in run), key=objective) for run in runs]


def seconds_of(networks, runs):
    """Return the seconds of the trainings of each run."""
    return [sum(networks[network]["seconds"] for network, _ in run) for run in runs]


def _median(values, form):
    """The median and the smallest and largest value."""
    return f"{np.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def page(found):
    """Return the lines of the page."""
    versions = timing.versions(("keras", "keras-tuner", "tensorflow", "scipy"))
    initial, all_curves = found["initial"], curves(found)
    timed = any(found["seconds"].values())
    parts = [
        f"Written by `{command(found)}`; {versions}, one core. Every trial trains a network; its "
        f"score is {SCORES['loss' if timed else 'error']}. Each network is trained once, "
        f"from a seed of its own and for {real_tasks.SECONDS:g} seconds at most, and its score and "
        "seconds count for every search that tries it. "
        f"The first {initial} trials are random and, with a seed, the same for all. Seconds are "
        "those of the processor, of proposals and trainings. "
        + (EQUAL_SECONDS.format(trials=found["trials"]) if timed else "")
        + "Mean ± standard deviation of the seeds; "
        "differences from random search and evolution with the same seeds (positive: better), and "
        "in brackets the p of Wilcoxon's paired test, two-sided. Parameters and times, of a call "
        "with 64 images beside the network by hand, are those of the best networks: median, and "
        f"smallest to largest. By hand: {'; '.join(BY_HAND[task] for task in all_curves)}.",
    ]
    for task, task_curves in all_curves.items():
        details, networks = found["tasks"][task], found["networks"][task]
        counts = {name: len(runs) for name, runs in found["runs"][task].items()}
        fewest, most = min(counts.values()), max(counts.values())
        score = score_of(networks)
        mean = np.mean([row["seconds"] for row in networks.values()])
        longest = max(row["seconds"] for row in networks.values())
        seeds = fewest if fewest == most else f"{fewest} to {most}"
        parts += [
            f"## {TITLES.get(task, task)[0].upper()}{TITLES.get(task, task)[1:]}",
            f"{details}. {len(networks)} networks, {mean:.1f} s a training on average, "
            f"{longest:.1f} s at most; {seeds} seed{'s' * (most > 1)}.",
            table(task_curves, initial, found["trials"], found["seconds"][task], score),
            costs(found, task),
            by_seed(found, task) if score == "error" else "",
        ]
    return timing.page("Searches on real tasks", *parts)


def draw(found):
    """Return the figure of the best scores so far, from the last random trial on."""
    all_curves = curves(found)
    with style.context():
        figure = Figure(figsize=(4.2 * len(all_curves), 2.8), layout="constrained")
        row = figure.subplots(1, len(all_curves), squeeze=False)[0]
        for axes, (task, task_curves) in zip(row, all_curves.items(), strict=True):
            trials = found["trials"]
            runs = {name: losses[:, :trials] for name, (losses, _) in task_curves.items()}
            label = f"lowest {score_of(found['networks'][task])} so far"
            visualization.plot_optimization_history(runs, label=label, axes=axes)
            axes.set_title(TITLES.get(task, task))
            highest = max(best_after(losses, found["initial"]).mean() for losses in runs.values())
            lowest = min(np.nanmin(losses, axis=1).mean() for losses in runs.values())
            margin = 0.25 * (highest - lowest) + 1e-9
            axes.set_ylim(lowest - 2 * margin, highest + margin)
    return figure
