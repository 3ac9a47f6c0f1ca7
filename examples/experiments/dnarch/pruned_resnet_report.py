"""The page of `pruned_resnet.py`, and its picture."""

import itertools
import statistics

import numpy as np
import reporting

METHODS = {
    "whole": "as it is",
    "masked": "masks, learned",
    "l1": "smallest filters cut",
    "narrow": "fewer channels everywhere",
}


def rows(runs):
    """Return the runs of each method and budget, in the order of the table."""
    kinds = sorted({run["kind"] for run in runs}, key=float, reverse=True)
    for kind, method in itertools.product(kinds, METHODS):
        own = reporting.select(runs, method=method, kind=kind)
        if own:
            yield method, kind, own


def page(settings, runs, written):
    """Return the page of results."""
    seeds = sorted({run["seed"] for run in runs})
    whole = {run["seed"]: 100 * run["score"] for run in reporting.select(runs, method="whole")}
    head = ["network", "budget", "accuracy", "lost", "at once", "multiply–adds", "share"]
    head += [
        "parameters",
        ".keras, kB",
        *(f"time, batch {batch}" for batch in runs[0]["milliseconds"]),
    ]
    lines = []
    for method, kind, own in rows(runs):
        scores = {run["seed"]: 100 * run["score"] for run in own}
        lost = {seed: whole[seed] - score for seed, score in scores.items() if seed in whole}
        at_once = {run["seed"]: 100 * run["at once"] for run in own if "at once" in run}
        cells = [METHODS[method], f"{100 * float(kind):.0f} %"]
        cells.append(reporting.cell(scores, seeds, 1))
        cells.append("" if method == "whole" else reporting.cell(lost, seeds, 1))
        cells.append(reporting.cell(at_once, seeds, 1, missing=""))
        cells.append(f"{statistics.mean(run['multiply_adds'] for run in own):,.0f}")
        shares = [run["multiply_adds"] / run["whole_multiply_adds"] for run in own]
        cells.append(f"{statistics.mean(shares):.3f}")
        cells.append(f"{statistics.mean(run['parameters'] for run in own):,.0f}")
        cells.append(f"{statistics.mean(run['bytes'] for run in own) / 1000:,.0f}")
        for batch in runs[0]["milliseconds"]:
            times = [np.divide(*run["milliseconds"][batch]) for run in own]
            cells.append(reporting.spread([float(value) for value in times], 2))
        lines.append(cells)
    masked = [own for method, _, own in rows(runs) if method == "masked"]
    found = [
        [run["kind"], run["seed"], " ".join(run["convolutions"])] for own in masked for run in own
    ]
    total = settings["epochs"] + settings["more_epochs"]
    return "\n".join(
        [
            "# ResNet-20 made smaller: CIFAR-10",
            "",
            f"Written by {reporting.commands(runs)}; {written['versions']}; "
            f"threads: {written['threads']}.",
            "",
            f"Accuracy in percent on {settings['test_subset']:,} test images of {settings['size']} "
            f"× {settings['size']} pixels after {total} epochs on {settings['subset']:,} training "
            f"images, {settings['epochs']} of them before anything is cut; "
            f"{reporting.over(seeds)}. All trainings together took {reporting.hours(runs)}, the "
            "first one of a seed counted once for each network that begins with it. Lost: points "
            "below the whole network of the same seed. At once: before the training that follows "
            "the cut. Time: milliseconds of a call over those of the whole network, whose calls "
            "alternate with it. The narrow network has the width whose cost is "
            "nearest to the budget.",
            "",
            *reporting.table(head, lines),
            "## What the masks have left",
            "",
            "Taps and channels of each convolution, first to last; blocks that are missing are "
            "cut.",
            "",
            *reporting.table(["budget", "seed", "convolutions"], found),
            "## Settings",
            "",
            f"- AdamW, weight decay {settings['weight_decay']}, batches of "
            f"{settings['batch_size']}, random crops and flips. First training: rate "
            f"{settings['learning_rate']}; each later one: {settings['low_rate']}. Rates rise for "
            f"a tenth of the steps, then fall to 0 along a cosine.",
            f"- Masks: {settings['search_epochs']} of the {settings['more_epochs']} later epochs, "
            f"Adam, rate {settings['architecture_rate']}, `complexity_weight` "
            f"{settings['complexity_weight']}; kernels, widths and depth.",
            "",
        ]
    )
