"""Files of `music.py`: finished runs as JSON, a table as Markdown, curves as a picture."""

import importlib.metadata
import json
import statistics

from experiments.xd.cifar10_report import present, spread, threads
from keras_xd.visualization import style

NAMES = {
    "tcn": "TCN, dilated",
    "undilated": "TCN, undilated",
    "xd_causal": "XD, causal by construction",
    "xd_windowed": "XD, windows",
    "undilated_sampled": "TCN, undilated, sampled steps",
    "xd_causal_sampled": "XD, causal by construction, sampled steps",
}


def paths(folder):
    """Return the path of each file."""
    return {suffix: folder / f"music.{suffix}" for suffix in ("md", "json", "png")}


def write(settings, runs, folder):
    """Write the page, the records and the curves into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = paths(folder)
    files["md"].write_text(page(settings, runs), encoding="utf-8")
    text = json.dumps({"settings": settings, "runs": runs}, indent=1)
    files["json"].write_text(text + "\n", encoding="utf-8")
    curves(runs).savefig(files["png"], dpi=110)


def finished(settings, folder):
    """Return the runs that a file of before holds, if its settings are these, whatever command."""
    file = paths(folder)["json"]
    if not file.exists():
        return []
    found = json.loads(file.read_text(encoding="utf-8"))
    same = {**found["settings"], "command": None} == {**settings, "command": None}
    return found["runs"] if same else []


def table(runs):
    """Return a Markdown table, a line for each method: mean ± standard deviation of the seeds."""
    lines = [
        "| method | test, nats per step | validation | best epoch | seeds | scored steps / epoch "
        "| trained parameters | of them architecture | of them moved | CPU s / epoch |",
        "|---" * 10 + "|",
    ]
    for method in present(runs, "method", NAMES):
        own = [run for run in runs if run["method"] == method]
        cells = [
            NAMES[method],
            spread([run["test"] for run in own], 3),
            spread([run["validation"] for run in own], 3),
            ", ".join(str(run["best_epoch"]) for run in own),
            ", ".join(str(run["seed"]) for run in own),
            f"{own[0]['scored_steps_per_epoch']:,}",
            f"{own[0]['parameters']:,}",
            f"{own[0]['architecture_parameters']:,}",
            f"{own[0]['architecture_moved']:,}",
            f"{statistics.median(run['cpu_seconds_per_epoch'] for run in own):.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def differences(runs):
    """Return lines on how far methods are apart on the test pieces, seed by seed."""
    tests = {(run["method"], run["seed"]): run["test"] for run in runs}
    lines = []
    for method in present(runs, "method", NAMES):
        for other in ("undilated", "xd_windowed"):
            if method == other or (other == "xd_windowed" and not method.startswith("xd_causal")):
                continue
            gaps = [
                value - tests[other, seed]
                for (name, seed), value in tests.items()
                if name == method and (other, seed) in tests
            ]
            if gaps:
                lines.append(f"- `{method}` minus `{other}`: {spread(gaps, 3)}")
    return lines


def page(settings, runs):
    """Return the results page."""
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in ("tensorflow", "keras"))
    lines = [
        "# Polyphonic music: TCN and two causal XD searches",
        "",
        f"Written by `{settings['command']}`; {versions}; threads: {threads()}.",
        "",
        f"Data: {settings['data']}; {', '.join(map(str, settings['pieces']))} pieces with "
        f"{', '.join(f'{n:,}' for n in settings['steps'])} scored steps for training, validation "
        "and testing. Nats per step: binary cross-entropy summed over the 88 keys, mean over all "
        f"steps. Every method has {settings['epochs']} epochs of equally many updates; the model "
        "of the epoch with the best validation is tested, a search as its finalized model.",
        "",
        table(runs),
        "",
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
        "![Validation by epoch](music.png)",
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
    lines = [
        "Relative Euclidean distance of the matrices from the convolution they began as, mean of "
        "the operations, at the best epoch:",
        "",
        "| method | K | L | M |",
        "|---|---|---|---|",
    ]
    for method in present(searched, "method", NAMES):
        found = [run["distances"] for run in searched if run["method"] == method]
        means = [f"{statistics.mean(values[m] for values in found):.3f}" for m in "KLM"]
        lines.append(f"| {NAMES[method]} | {' | '.join(means)} |")
    return [*lines, ""]


@style.context()
def curves(runs):
    """Return a figure of training and validation losses by epoch, mean and range of the seeds."""
    from matplotlib.figure import Figure

    with style.context():
        figure = Figure(figsize=(7.6, 3.0), layout="constrained")
        both = figure.subplots(1, 2, sharey=True)
    for axis, curve in zip(both, ("training", "validation"), strict=True):
        for number, method in enumerate(present(runs, "method", NAMES)):
            own = [run["curves"][curve] for run in runs if run["method"] == method]
            columns = list(zip(*own, strict=True))
            epochs = range(1, len(columns) + 1)
            look, means = style.curve(number), [statistics.mean(c) for c in columns]
            axis.plot(epochs, means, label=NAMES[method], **look)
            low, high = [min(c) for c in columns], [max(c) for c in columns]
            axis.fill_between(epochs, low, high, alpha=0.15, color=look["color"], linewidth=0)
        axis.set(title=curve, xlabel="epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(axis="y")
    lowest = min(min(run["curves"][curve]) for run in runs for curve in ("training", "validation"))
    # The first epochs would hide the others.
    both[0].set(ylabel="nats per step; a cut-out", ylim=(lowest - 0.1, lowest + 2.5))
    with style.context():
        style.label_lines(both[1])
    return figure
