"""Files of `chrysalis.py`: finished runs as JSON, tables as Markdown, a picture."""

import importlib.metadata
import statistics

from shared_results import SharedResults

from experiments.k.chrysalis_models import FIXED, SEARCHES, title
from experiments.xd.cifar10_report import over, spread, threads
from keras_xd.visualization import style

PROTOCOLS = ("supernet", "offline", "transfer")
STARTS = ("warm", "first_warm", "scratch")
METHODS = [*FIXED, *(f"{search}_{start}" for search in SEARCHES for start in STARTS)]
TITLES = {
    "lenet": "ButterfLeNet on CIFAR-10, plain and permuted",
    "transfer": "ButterfLeNet: operations found on five classes of CIFAR-10, trained on the others",
    "wide": "Wide ButterfLeNet on CIFAR-10, plain and permuted",
    "wide_transfer": "Wide ButterfLeNet: operations found on five classes of CIFAR-10, trained on "
    "the others",
    "text": "ButterfLeNet-Text: sentences to classify",
    "spherical": "ButterfLeNet-Spherical: digits on the sphere",
    "depth": "ButterfLeNet from scratch, by the depth of its K-matrices",
}
VISION = [
    "Weights: SGD, momentum 0.9, rate 0.01, halved after half of the epochs and a tenth after "
    "three quarters; weight decay 1e-4. Architecture of supernet SGD: the same, on the same "
    "batches, without weight decay.",
    "SGDR: four periods of a quarter of the epochs, each with the schedule above; the weights are "
    "initialised anew at the begin of each, the architecture is not. Its supernet accuracy is that "
    "of weights trained for a quarter of the epochs.",
    "DARTS: the weights are trained on half of the samples and the architecture on the others, by "
    "Adam with rate 0.001. Offline training is by SGD, as for all methods.",
    "Images: ImageNet's mean and deviation taken out; random crops and flips of plain images only, "
    "from scratch too, where the reference has Fast AutoAugment; permuted: one permutation of the "
    "rows and one of the columns, drawn from the seed.",
    'LeNet: padding "same", average pooling. Linear layers: in place of each convolution with its '
    "pooling, of as many units. K-layers: `KDense`, depth 2, of as many units; the reference has "
    "one for each pair of channels.",
]
WIDE = [
    *VISION[:4],
    "Wide LeNet: `keras_xd.models.wide_lenet`; the second and the third layer share one "
    "K-operation.",
]
TRANSFER = (
    "Search and offline: classes 0 to 4. Transfer: classes 5 to 9, with the architecture found on "
    "the others, frozen, and weights trained from scratch. The reference takes CIFAR-100, which is "
    "not at hand. Fixed operations are trained on both."
)
TEXTS = {
    "lenet": VISION,
    "depth": [VISION[0], VISION[3]],
    "wide": WIDE,
    "transfer": [*VISION, TRANSFER],
    "wide_transfer": [*WIDE, TRANSFER],
    "text": [
        "Kim's network with 100 filters of sizes 3, 4 and 5, dropout 0.5, and trained vectors of "
        "100 numbers for each word, drawn at random; the reference has fixed word2vec vectors of "
        "300. Linear layers: one of 300 units in place of all convolutions.",
        "Weights and architecture: Adadelta, rate 1, the same batches. Training ends after three "
        "epochs without a better validation accuracy and returns to the best; the epochs above are "
        "the most that any training may have.",
        "A tenth of the sentences is drawn from the seed for validation (SST-2 has its own), and "
        "for MR another tenth for testing. Words are those of the training sentences.",
    ],
    "spherical": [
        "Network: 5 × 5 convolutions of stride 3 with 20 and 40 filters, and a dense layer.",
        "Weights and architecture: Adam, rate 0.0005, the same batches.",
        "Digits: `examples/datasets/spherical.py`; rotated ones are rotated in training and in "
        "evaluation.",
    ],
}


class ChrysalisResults(SharedResults):
    """The runs of one experiment finished so far, perhaps by several processes.

    Args:
        folder: `pathlib.Path` of the folder for `chrysalis_<experiment>.json`, `.md` and `.png`.
        settings: dictionary of what all runs have in common, the `experiment` among them.
        overwrite: start again where there are files already.
    """

    def __init__(self, folder, settings, overwrite=False):
        super().__init__(f"chrysalis_{settings['experiment']}", folder, settings, overwrite)

    def page(self, command):
        return report(self.settings, ordered(self.runs), command)

    def draw(self):
        plot(self.settings, ordered(self.runs), self.paths["png"])


MARKERS = ("o", "s", "^", "D")


def ordered(runs):
    """Return the runs in the order of the methods, whichever process has finished first."""
    last = len(METHODS)  # those by depth

    def place(run):
        return METHODS.index(run["method"]) if run["method"] in METHODS else last

    return sorted(runs, key=lambda run: (place(run), run["method"]))


def unique(runs, key):
    """Return the values that runs have for a key, in the order of the runs."""
    return list(dict.fromkeys(run[key] for run in runs))


def report(settings, runs, command):
    """Return the page of results."""
    experiment = settings["experiment"]
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in ("tensorflow", "keras"))
    hours = sum(sum(run["seconds"].values()) for run in runs) / 3600
    lines = [
        f"# {TITLES[experiment]}",
        "",
        f"Written by `{command}`; {versions}; threads: {threads()}.",
        "",
        f"Accuracy in percent on {settings['evaluate_on']} samples, "
        f"{over(unique(runs, 'seed'))}. Every training of every method has "
        f"{settings['epochs']} epochs in batches of {settings['batch_size']}: that of fixed "
        "operations (under offline), a search (supernet), and the training of its frozen "
        "operations from fresh weights (offline, transfer). In an epoch each training sample is "
        "seen once, by DARTS too. All runs together took "
        f"{hours:.2f} hours. This budget is not that of the reference: compare methods with each "
        "other.",
        "",
    ]
    for kind in unique(runs, "kind"):
        lines += _table(
            [run for run in runs if run["kind"] == kind], kind, len(unique(runs, "seed"))
        )
    lines += [*_differences(runs), *_distances(runs)]
    lines += ["## Settings", "", *(f"- {line}" for line in TEXTS[experiment]), ""]
    return "\n".join([*lines, f"![Accuracy](chrysalis_{experiment}.png)", ""])


def _protocols(runs):
    return [name for name in PROTOCOLS if any(name in run["accuracy"] for run in runs)]


def _table(runs, kind, seeds):
    """Return the table of one kind of data."""
    protocols = _protocols(runs)
    training, evaluation = runs[0]["samples"]
    lines = [
        f"## {kind}: {training:,} training and {evaluation:,} evaluation samples",
        "",
        f"| method | {' | '.join(protocols)} | trained parameters | of them architecture "
        "| minutes |",
        "|---" * (len(protocols) + 4) + "|",
    ]
    for method in unique(runs, "method"):
        own = [run for run in runs if run["method"] == method]
        cells = [title(method)]
        for protocol in protocols:
            scores = {
                r["seed"]: 100 * r["accuracy"][protocol] for r in own if protocol in r["accuracy"]
            }
            cells.append(spread(list(scores.values()), 1) if scores else "–")
            if scores and len(scores) < seeds:
                cells[-1] += f" ({', '.join(map(str, sorted(scores)))})"
        cells += [f"{own[0]['parameters']:,}", f"{own[0]['architecture_parameters']:,}"]
        minutes = [sum(run["seconds"].values()) / 60 for run in own]
        cells.append(f"{statistics.mean(minutes):.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _differences(runs):
    """Return lines on how far the methods are from the convolution, seed by seed."""
    lines = []
    for kind in unique(runs, "kind"):
        scores = {
            (run["method"], run["seed"]): run["accuracy"] for run in runs if run["kind"] == kind
        }
        for method in unique(runs, "method"):
            for protocol in PROTOCOLS:
                gains = []
                for (name, seed), found in scores.items():
                    fixed = scores.get(("convolution", seed), {})
                    reference = fixed.get("offline" if protocol == "supernet" else protocol)
                    if name == method != "convolution" and protocol in found and reference:
                        gains.append(100 * (found[protocol] - reference))
                if gains:
                    lines.append(f"- {kind}, {title(method)}, {protocol}: {spread(gains, 1)}")
    return ["## Points above the convolution, seed by seed", "", *lines, ""] if lines else []


def _distances(runs):
    """Return a table of how far the operations moved."""
    runs = [run for run in runs if run["distances"]]
    if not runs:
        return []
    lines = [
        "## How far the operations moved",
        "",
        "Relative Euclidean distance of the matrices K₁ / M / K₂ from their start, mean over the "
        "layers and the seeds.",
        "",
        f"| method | {' | '.join(unique(runs, 'kind'))} |",
        "|---" * (len(unique(runs, "kind")) + 1) + "|",
    ]
    for method in unique(runs, "method"):
        cells = [title(method)]
        for kind in unique(runs, "kind"):
            own = [run for run in runs if (run["method"], run["kind"]) == (method, kind)]
            layers = [layer for run in own for layer in run["distances"].values()]
            means = [f"{statistics.mean(x[m] for x in layers):.3f}" for m in "KLM" if layers]
            cells.append(" / ".join(means) or "–")
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


@style.context()
def plot(settings, runs, path):
    """Draw the mean accuracy of each method by protocol, with the range over the seeds."""
    from matplotlib.figure import Figure

    kinds, methods = unique(runs, "kind"), unique(runs, "method")
    with style.context():
        size = (1.6 + 2.4 * len(kinds), 1.2 + 0.22 * len(methods))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for axis, kind in zip(grid, kinds, strict=True):
        for index, protocol in enumerate(_protocols(runs)):
            for place, method in enumerate(methods):
                own = [
                    run["accuracy"]
                    for run in runs
                    if (run["method"], run["kind"]) == (method, kind)
                ]
                scores = [100 * found[protocol] for found in own if protocol in found]
                if scores:
                    mean = statistics.mean(scores)
                    ends = [[mean - min(scores)], [max(scores) - mean]]
                    look = {"color": style.COLOURS[index], "fmt": MARKERS[index % len(MARKERS)]}
                    axis.errorbar(mean, place + 0.2 * (index - 1), xerr=ends, **look)
            mark = MARKERS[index % len(MARKERS)]
            axis.plot([], [], mark, color=style.COLOURS[index], label=protocol)
        axis.set_yticks(range(len(methods)), [title(method) for method in methods])
        axis.set(title=kind, xlabel=f"{settings['evaluate_on']} accuracy, %")
        axis.set_ylim(len(methods) - 0.5, -0.5)
        axis.grid(axis="y")
    handles = axis.get_legend_handles_labels()
    with style.context():
        figure.legend(*handles, loc="outside lower center", ncols=len(handles[0]))
    style.save(figure, path)
