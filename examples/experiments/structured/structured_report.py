"""The page of `structured.py`, and its picture."""

import itertools

import reporting

from experiments.structured.structured_models import TASKS

METHODS = {
    "dense": "dense",
    "low_rank": "low rank",
    "monarch": "Monarch",
    "block_tensor_train": "block tensor train",
    "searched": "searched",
}


def values(runs):
    """Return the scores of runs by seed, accuracy in percent."""
    percent = 1 if TASKS[runs[0]["task"]].bits else 100
    return {run["seed"]: percent * run["score"] for run in runs}


def rows(runs, task):
    """Return the runs of each share and method of a task, in the order of the table."""
    own = reporting.select(runs, task=task)
    shares = sorted({run["share"] for run in own}, key=float, reverse=True)
    for share, method in itertools.product(shares, METHODS):
        found = reporting.select(own, share=share, method=method)
        if found:
            yield share, method, found


def page(settings, runs, written):
    """Return the page of results."""
    seeds = sorted({run["seed"] for run in runs})
    parts = [
        "# Structured matrices from scratch",
        "",
        f"Written by {reporting.commands(runs)}; {written['versions']}; threads: "
        f"{written['threads']}.",
        "",
        "Networks with dense kernels, and with structured ones of a share of their numbers, "
        "trained from random weights on the same samples for as many epochs, at the learning rate "
        f"of the dense network; {reporting.over(seeds)}. Numbers: those that the replaced kernels "
        "have left, as a share. Lost: how far behind the dense network of the same seed. Searched: "
        "half of the epochs are those of the search.",
        "",
    ]
    for task in (task for task in TASKS if reporting.select(runs, task=task)):
        bits, whole, lines = TASKS[task].bits, {}, []
        for share, method, own in rows(runs, task):
            scores = values(own)
            if method == "dense":
                whole = scores
            lost = reporting.gains(scores, whole)
            lost = [value if bits else -value for value in lost]
            digits = 3 if bits else 1
            lines.append(
                [
                    share,
                    METHODS[method],
                    reporting.cell(scores, seeds, digits),
                    reporting.spread(lost, digits) if lost and method != "dense" else "–",
                    reporting.spread([run["left"] / run["kernels"] for run in own], 2),
                ]
            )
        unit = "bits for each character" if bits else "accuracy, %"
        count = reporting.select(runs, task=task)[0]["kernels"]
        parts += [
            f"## {TASKS[task].title}",
            "",
            f"{count:,} numbers in the kernels that are replaced.",
            "",
            *reporting.table(["share", "kernels", unit, "lost", "numbers"], lines),
        ]
    return "\n".join([*parts, *chosen(runs), *described(settings)])


def chosen(runs):
    """Return the lines that tell what the searches chose."""
    counts = {}
    for run in reporting.select(runs, method="searched"):
        own = counts.setdefault((run["task"], run["share"]), {})
        for name in run["chosen"].values():
            family = METHODS.get(name.rpartition("_")[0], name.rpartition("_")[0].upper())
            own[family] = own.get(family, 0) + 1
    if not counts:
        return []
    lines = [
        [task, share, ", ".join(f"{n} × {name}" for name, n in sorted(own.items()))]
        for (task, share), own in counts.items()
    ]
    head = ["task", "share", "kernels by family, all seeds"]
    return ["## What the searches chose", "", *reporting.table(head, lines)]


def described(settings):
    """Return the lines of the settings."""
    return [
        "## Settings",
        "",
        f"- Transformers: {settings['blocks']} blocks of width {settings['width']}, four heads, "
        f"dropout {settings['dropout']}. The MLP: three hidden layers of {settings['mlp_width']}.",
        f"- Adam, norm of all gradients at most 1, batches of {settings['batch_size']}; "
        "rates rise for a tenth of the steps, then fall to 0 along a cosine. "
        + "; ".join(
            f"{name}: {settings['epochs'] or task.epochs} epochs of at most "
            f"{settings['subset'] or task.subset:,} samples, rate {task.learning_rate}"
            for name, task in TASKS.items()
        )
        + ".",
        f"- Searches: Adam, rate {settings['architecture_rate']}, `complexity_weight` "
        f'{settings["complexity_weight"]}, `complexity_measure="parameters"`.',
        "",
    ]
