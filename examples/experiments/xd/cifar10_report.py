"""The page of `cifar10.py`, and its curves."""

import reporting
from reporting import present, select, spread

KINDS = ("plain", "permuted")
NAMES = {
    "backbone": "backbone: LeNet",
    "xd": "XD: LeNet, searched",
    "linear": "linear layers",
    "k_layer": "K-layers",
}


def page(settings, runs, written):
    """Return the page of results."""
    kinds, seeds = present(runs, "kind", KINDS), sorted({run["seed"] for run in runs})
    return "\n".join(
        [
            "# LeNet on CIFAR-10, plain and permuted",
            "",
            f"Written by `{written['command']}`; {written['versions']}.",
            "",
            f"Accuracy in percent on {settings['evaluation_images']:,} {settings['evaluate_on']} "
            f"images after {settings['epochs']} epochs on {settings['training_images']:,} training "
            f"images, the same for every method; {reporting.over(seeds)}; no model is chosen by "
            "its accuracy on these images. XD is measured after `keras_xd.finalize`. Seconds are "
            "those of the fastest epoch, because other programs ran on the machine, on "
            f"{reporting.plural(written['threads'], 'core')}; all epochs together took "
            f"{reporting.hours(runs)}.",
            "",
            *_table(runs, kinds, seeds),
            *_differences(runs, kinds),
            *_distances(runs, kinds),
            "## Settings",
            "",
            *(f"- {line}" for line in settings["text"]),
            "",
        ]
    )


def _accuracies(runs, **wanted):
    """Return the accuracy in percent by seed."""
    return {run["seed"]: 100 * run["accuracy"] for run in select(runs, **wanted)}


def _table(runs, kinds, seeds):
    rows = []
    for method in present(runs, "method", NAMES):
        own = select(runs, method=method)
        cells = [NAMES[method]]
        cells += [
            reporting.cell(_accuracies(own, kind=kind), seeds, 1, "not run") for kind in kinds
        ]
        cells += [f"{own[0]['parameters']:,}", f"{own[0]['architecture_parameters']:,}"]
        cells.append(f"{min(seconds for run in own for seconds in run['seconds']):.1f}")
        rows.append(cells)
    head = ["method", *kinds, "trained parameters", "of them architecture", "s / epoch"]
    return reporting.table(head, rows)


def _differences(runs, kinds):
    """Return lines on how far XD is from the backbone, seed by seed."""
    lines = []
    for kind in kinds:
        one, other = (_accuracies(runs, method=name, kind=kind) for name in ("xd", "backbone"))
        points = reporting.gains(one, other)
        if points:
            number = reporting.plural(len(points), "seed")
            lines += [f"XD minus backbone, {kind}: {spread(points, 1)} points ({number}).", ""]
    return lines


def _distances(runs, kinds):
    """Return a table of how far the operations moved from their start."""
    searched = select(runs, method="xd")
    if not searched:
        return []
    kinds = present(searched, "kind", kinds)
    rows = []
    for name in searched[0]["distances"]:
        found = [[run["distances"][name] for run in select(searched, kind=kind)] for kind in kinds]
        rows.append([name, *(" / ".join(reporting.means(values, 2)) for values in found)])
    return [
        "## How far the operations moved",
        "",
        "Relative Euclidean distance of the K-matrices from the convolution or average pooling "
        "they began as, K / L / M, mean over the seeds.",
        "",
        *reporting.table(["operation", *kinds], rows),
    ]
