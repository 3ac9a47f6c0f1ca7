"""The page of `music.py`, and its curves."""

import statistics

import reporting
from reporting import present, select, spread

NAMES = {
    "tcn": "TCN, dilated",
    "undilated": "TCN, undilated",
    "xd_causal": "XD, causal by construction",
    "xd_windowed": "XD, windows",
    "undilated_sampled": "TCN, undilated, sampled steps",
    "xd_causal_sampled": "XD, causal by construction, sampled steps",
}

KEYS = ("test", "validation")
COUNTS = (
    "scored_steps_per_epoch",
    "parameters",
    "architecture_parameters",
    "architecture_moved",
)


def table(runs):
    """Return the lines of a table, one for each method: mean ± standard deviation of the seeds."""
    head = ["method", "test, nats per step", "validation", "best epoch", "seeds"]
    head += ["scored steps / epoch", "trained parameters", "of them architecture"]
    rows = []
    for method in present(runs, "method", NAMES):
        own = select(runs, method=method)
        cells = [NAMES[method], *(spread([r[key] for r in own], 3) for key in KEYS)]
        cells += [", ".join(str(run[key]) for run in own) for key in ("best_epoch", "seed")]
        cells += [f"{own[0][key]:,}" for key in COUNTS]
        cpu = statistics.median(run["cpu_seconds_per_epoch"] for run in own)
        rows.append([*cells, f"{cpu:.1f}"])
    return reporting.table([*head, "of them moved", "CPU s / epoch"], rows)


def differences(runs):
    """Return lines on how far methods are apart on the test pieces, seed by seed."""
    tests = {
        name: {run["seed"]: run["test"] for run in select(runs, method=name)} for name in NAMES
    }
    lines = []
    for method in present(runs, "method", NAMES):
        for other in ("undilated", "xd_windowed"):
            if method == other or (other == "xd_windowed" and not method.startswith("xd_causal")):
                continue
            gaps = reporting.gains(tests[method], tests[other])
            if gaps:
                lines.append(f"- `{method}` minus `{other}`: {spread(gaps, 3)}")
    return lines


def page(settings, runs, written):
    """Return the results page."""
    lines = [
        "# Polyphonic music: TCN and two causal XD searches",
        "",
        f"Written by `{settings['command']}`; {written['versions']}; "
        f"threads: {written['threads']}.",
        "",
        f"Data: {settings['data']}; {', '.join(map(str, settings['pieces']))} pieces with "
        f"{', '.join(f'{n:,}' for n in settings['steps'])} scored steps for training, validation "
        "and testing. Nats per step: binary cross-entropy summed over the 88 keys, mean over all "
        f"steps. Every method has {settings['epochs']} epochs of equally many updates; the model "
        "of the epoch with the best validation is tested, a search as its finalized model.",
        "",
        *table(runs),
        *_missing(runs),
        "Lower is better. Moved: numbers of the architecture that training changed at all; the "
        "others are outside a triangle, in unused columns of `L`, or imaginary parts that a start "
        "from real matrices gives no gradient.",
        "",
        "Test pieces, in nats per step, seed by seed:",
        "",
        *differences(runs),
        "",
        "Published, as context only, since epochs and batches differ: dilated TCN 8.10, undilated "
        "8.16, its XD search 8.07.",
        "",
        *_distances(runs),
        "## Settings",
        "",
        f"- Network: {settings['levels']} levels, {settings['channels']} channels, kernel 2, "
        f"dropout {settings['dropout']:g}, without the published weight normalization.",
        f"- Weights: Adam, rate {settings['weights_rate']:g}, norm of the gradient clipped at "
        f"{settings['clipping']:g}; architecture: Adam, rate {settings['architecture_rate']:g}, "
        "not clipped. Rates are constant.",
        f"- Search: both begin with the weights of `undilated` after {settings['warmup']} epochs, "
        "with new optimizers; depth 1, frequency bias and channel gates; all convolutions, those "
        "of size 1 too.",
        f"- Batches: {settings['batch_size']} chunks of {settings['size']} steps. A step that is "
        f"scored has at least {settings['context']} steps before it in its chunk, or all there "
        "are, more than the convolutions can see. The published runs take one piece at a time.",
        f"- Windows: {settings['window']} steps, zeros before a piece begins. An epoch has as many "
        f"updates as one of chunks, on {settings['share']:g} of the steps, others each epoch. "
        "Methods named `…_sampled` score the same share in training. Validation and test are on "
        "all steps.",
        "- CPU seconds are of the training steps of an epoch, without validation.",
        "",
    ]
    return "\n".join(lines)


def _missing(runs):
    """Return a line with the methods that no run is there of, so that nobody expects them here."""
    names = [f"`{name}`" for name in NAMES if name not in {run["method"] for run in runs}]
    return [f"Not measured: {', '.join(names)}.", ""] if names else []


def _distances(runs):
    """Return a table of how far the operations moved from the convolutions."""
    searched = [run for run in runs if "distances" in run]
    if not searched:
        return []
    rows = []
    for method in present(searched, "method", NAMES):
        found = [run["distances"] for run in select(searched, method=method)]
        rows.append([NAMES[method], *reporting.means(found, 3)])
    return [
        "Relative Euclidean distance of the matrices from the convolution they began as, mean of "
        "the operations, at the best epoch:",
        "",
        *reporting.table(["method", *"KLM"], rows),
    ]
