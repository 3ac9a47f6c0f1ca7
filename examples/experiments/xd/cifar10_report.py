"""Files of `cifar10.py`: finished runs as JSON, a table as Markdown, curves as a picture."""

import importlib.metadata
import json
import os
import statistics

from keras_xd.visualization import style

NAMES = {
    "backbone": "backbone: LeNet",
    "xd": "XD: LeNet, searched",
    "linear": "linear layers",
    "k_layer": "K-layers",
}


class Results:
    """The runs finished so far, kept in a file after each of them.

    A subclass has another `name` of the files, `page` and `draw`.

    Args:
        folder: `pathlib.Path` of the folder for `cifar10.json`, `cifar10.md` and `cifar10.png`.
        settings: dictionary of what all runs have in common.
        overwrite: start again where there are files already.

    Raises:
        ValueError: if there are files of other settings and `overwrite` is not set.
    """

    name = "cifar10"

    def __init__(self, folder, settings, overwrite=False):
        self.paths = {suffix: folder / f"{self.name}.{suffix}" for suffix in ("json", "md", "png")}
        self.settings = settings
        self.runs = []
        present = [str(path) for path in self.paths.values() if path.exists()]
        if overwrite or not present:
            return
        if self.paths["json"].exists():
            found = json.loads(self.paths["json"].read_text())
            if found.get("settings") == settings:
                self.runs = found["runs"]
                return
        raise ValueError(
            f"There are results of other settings, which are not overwritten unless --overwrite "
            f"is given: {', '.join(present)}"
        )

    def find(self, method, kind, seed):
        """Return the record of a finished run, or `None`."""
        key = (method, kind, seed)
        return next((r for r in self.runs if (r["method"], r["kind"], r["seed"]) == key), None)

    def add(self, record):
        """Keep a finished run."""
        self.runs.append(record)
        self.save()

    def save(self):
        """Write the runs to their file; a stop while writing leaves the file of before."""
        self.paths["json"].parent.mkdir(parents=True, exist_ok=True)
        # Moved into place in one step, so that another process never reads half a file.
        unfinished = self.paths["json"].with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps({"settings": self.settings, "runs": self.runs}, indent=1))
        os.replace(unfinished, self.paths["json"])

    def write(self, command):
        """Write the table and the picture."""
        self.paths["md"].write_text(self.page(command))
        self.draw()

    def page(self, command):
        """Return the page of results, as text."""
        return report(self.settings, self.runs, command)

    def draw(self):
        """Draw the picture."""
        plot(self.settings, self.runs, self.paths["png"])


def spread(values, digits):
    """Return mean ± standard deviation as text."""
    text = f"{statistics.mean(values):.{digits}f}"
    return text + (f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else "")


def over(seeds):
    """Return what `spread` is over, as text: seeds, or the only one."""
    if len(seeds) == 1:
        return f"of seed {seeds[0]} alone, so without a deviation"
    listed = ", ".join(map(str, sorted(seeds)))
    return f"mean ± standard deviation over the seeds {listed}, or those in brackets"


def present(runs, key, order):
    """Return what runs have for `key`, in the given order."""
    return [value for value in order if any(run[key] == value for run in runs)]


def report(settings, runs, command):
    """Return the page of results."""
    kinds = present(runs, "kind", ("plain", "permuted"))
    methods = present(runs, "method", NAMES)
    seeds = sorted({run["seed"] for run in runs})
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in ("tensorflow", "keras"))
    hours = sum(sum(run["seconds"]) for run in runs) / 3600
    counted = f"{settings['training_images']:,} training"
    lines = [
        "# LeNet on CIFAR-10, plain and permuted",
        "",
        f"Written by `{command}`; {versions}.",
        "",
        f"Accuracy in percent on {settings['evaluation_images']:,} {settings['evaluate_on']} "
        f"images after {settings['epochs']} epochs on {counted} images, the same for every method; "
        f"{over(seeds)}; no model is chosen by its accuracy on these images. XD is measured after "
        "`keras_xd.finalize`. Seconds are those of the fastest epoch, because other programs ran "
        f"on the machine, on {threads()} core{'s' * (threads() > 1)}; all epochs together took "
        f"{hours:.2f} hours.",
        "",
        f"| method | {' | '.join(kinds)} | trained parameters | of them architecture | s / epoch |",
        "|---" * (len(kinds) + 4) + "|",
    ]
    for method in methods:
        own = [run for run in runs if run["method"] == method]
        cells = [NAMES[method]]
        for kind in kinds:
            scores = {run["seed"]: 100 * run["accuracy"] for run in own if run["kind"] == kind}
            cells.append(spread(list(scores.values()), 1) if scores else "not run")
            if scores and len(scores) < len(seeds):
                cells[-1] += f" ({', '.join(map(str, sorted(scores)))})"
        cells += [f"{own[0]['parameters']:,}", f"{own[0]['architecture_parameters']:,}"]
        cells.append(f"{min(seconds for run in own for seconds in run['seconds']):.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *_differences(runs, kinds), *_distances(runs, kinds)]
    lines += ["## Settings", "", *(f"- {line}" for line in settings["text"]), ""]
    lines += ["![Accuracy by epoch](cifar10.png)", ""]
    return "\n".join(lines)


def threads():
    """Return how many threads computed: as many as cores, or as TF_NUM_INTRAOP_THREADS has."""
    # Only Linux tells to which cores a process is bound.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS") or cores)


def _differences(runs, kinds):
    """Return lines on how far XD is from the backbone, seed by seed."""
    lines = []
    for kind in kinds:
        scores = {
            (run["method"], run["seed"]): 100 * run["accuracy"]
            for run in runs
            if run["kind"] == kind
        }
        gains = [
            scores[method, seed] - scores["backbone", seed]
            for method, seed in scores
            if method == "xd" and ("backbone", seed) in scores
        ]
        if gains:
            number = f"{len(gains)} seed{'s' * (len(gains) > 1)}"
            lines += [f"XD minus backbone, {kind}: {spread(gains, 1)} points ({number}).", ""]
    return lines


def _distances(runs, kinds):
    """Return a table of how far the operations moved from their start."""
    searched = [run for run in runs if run["method"] == "xd"]
    if not searched:
        return []
    lines = [
        "## How far the operations moved",
        "",
        "Relative Euclidean distance of the K-matrices from the convolution or average pooling "
        "they began as, K / L / M, mean over the seeds.",
        "",
        f"| operation | {' | '.join(present(searched, 'kind', kinds))} |",
        "|---" * (len(present(searched, "kind", kinds)) + 1) + "|",
    ]
    for name in searched[0]["distances"]:
        cells = [name]
        for kind in present(searched, "kind", kinds):
            found = [run["distances"][name] for run in searched if run["kind"] == kind]
            means = [statistics.mean(values[m] for values in found) for m in ("K", "L", "M")]
            cells.append(" / ".join(f"{mean:.2f}" for mean in means))
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


@style.context()
def plot(settings, runs, path):
    """Draw the accuracy by epoch: mean and range over the seeds."""
    from matplotlib.figure import Figure

    kinds = present(runs, "kind", ("plain", "permuted"))
    with style.context():
        figure = Figure(figsize=(3.6 * len(kinds), 2.7), layout="constrained")
        axes = figure.subplots(1, len(kinds), sharey=True, squeeze=False)
    for axis, kind in zip(axes[0], kinds, strict=True):
        for number, method in enumerate(present(runs, "method", NAMES)):
            curves = [
                run["curves"]["evaluation_accuracy"]
                for run in runs
                if (run["method"], run["kind"]) == (method, kind)
            ]
            if not curves:
                continue
            columns = [[100 * value for value in column] for column in zip(*curves, strict=True)]
            epochs = range(1, len(columns) + 1)
            look, means = style.curve(number), [statistics.mean(c) for c in columns]
            axis.plot(epochs, means, label=NAMES[method], **look)
            low, high = [min(c) for c in columns], [max(c) for c in columns]
            axis.fill_between(epochs, low, high, alpha=0.15, color=look["color"], linewidth=0)
        axis.set(title=f"{kind} CIFAR-10", xlabel="epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(axis="y")
    axes[0, 0].set_ylabel(f"{settings['evaluate_on']} accuracy, %")
    axes[0, 0].set_ylim(bottom=0)
    with style.context():
        for axis in axes[0]:
            style.label_lines(axis)
    style.save(figure, path)
