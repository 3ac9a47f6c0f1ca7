"""Files of `nos.py`: finished runs as JSON, a page, curves, and pictures of the cells."""

import importlib.metadata
import statistics

from shared_results import SharedResults

from experiments.xd.cifar10_report import over, spread
from keras_xd.layers.cells.genotypes import Genotype
from keras_xd.visualization import plot_genotype, style

NAMES = {
    "nos_guided": "all operations, guided",
    "nos": "all operations",
    "features_guided": "operations of DARTS, guided",
    "features": "operations of DARTS",
    "random": "random cells of all operations",
    "none": "ResNet-20",
    "dynamic_3": "+ dynamic convolution 3 × 3",
    "dynamic_5": "+ dynamic convolution 5 × 5",
    "spatial_attention": "+ spatial attention",
    "channel_attention": "+ channel attention",
}
TITLES = {
    "search": "Heterogeneous cells on CIFAR-10",
    "calibration": "Self-calibration behind the stages of ResNet-20 on CIFAR-10",
}
PAIRS = (
    ("nos_guided", "nos"),
    ("features_guided", "features"),
    ("nos", "features"),
    ("nos_guided", "features_guided"),
    ("nos", "random"),
    ("nos_guided", "random"),
)


class NosResults(SharedResults):
    """The runs of one experiment finished so far, perhaps by several processes.

    Args:
        folder: `pathlib.Path` of the folder for `nos_<experiment>.json`, `.md` and `.png`, and the
            pictures of cells.
        settings: dictionary of what all runs have in common, the `experiment` among them.
        overwrite: start again where there are files already.
    """

    def __init__(self, folder, settings, overwrite=False):
        super().__init__(f"nos_{settings['experiment']}", folder, settings, overwrite)

    def page(self, command):
        return report(self.settings, self.runs)

    def draw(self):
        plot(self.runs, self.paths["png"])
        for run in self.runs:
            if "genotype" in run:
                figure = plot_genotype(Genotype.from_dict(run["genotype"]))
                figure.savefig(self.paths["png"].parent / picture_name(run))


def ordered(runs):
    """Return runs in the order of the table."""
    return sorted(runs, key=lambda run: (list(NAMES).index(run["method"]), run["seed"]))


def errors(runs, method):
    """Return the error in percent of a method by seed."""
    return {run["seed"]: 100 - 100 * run["accuracy"] for run in runs if run["method"] == method}


def report(settings, runs):
    """Return the page of results."""
    runs = ordered(runs)
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in ("tensorflow", "keras"))
    commands = " and ".join(f"`{text}`" for text in dict.fromkeys(run["command"] for run in runs))
    seeds = sorted({run["seed"] for run in runs})
    lines = [
        f"# {TITLES[settings['experiment']]}",
        "",
        f"Written by {commands}; {versions}.",
        "",
        f"Error in percent on {settings['evaluation_images']:,} {settings['evaluate_on']} images "
        f"after {settings['epochs']} epochs on {settings['training_images']:,} training images, "
        f"the same for all; {over(seeds)}. No model is chosen by its error on these images.",
        "",
        *(_calibrations if settings["experiment"] == "calibration" else _searches)(runs, seeds),
        "## Settings",
        "",
        *(f"- {line}" for line in texts(settings)),
        "",
        f"![Training](nos_{settings['experiment']}.png)",
        "",
    ]
    if settings["experiment"] == "search":
        lines += _cells(runs)
    return "\n".join(lines)


def texts(settings):
    """Return what the settings are, as sentences."""
    common = (
        f"Batches of {settings['batch_size']}; images normalized, cropped at random places with a "
        "border of 4 pixels, and flipped."
    )
    if settings["experiment"] == "calibration":
        return [
            common,
            "SGD, rate 0.1 to 0 along a cosine, momentum 0.9, weight decay 1e-4, global norm of "
            "gradients cut at 5. The paper's network is ResNet-18, its table 1 has dilated dynamic "
            "convolutions too, which lowered the accuracy there.",
        ]
    weight = f"{settings['guidance_weight']:g}"
    return [
        common,
        f"Search: {settings['search_cells']} cells of {settings['search_channels']} channels, "
        f"{settings['search_epochs']} epochs over half of the training images for the weights and "
        f"the other half for the architecture, {settings['order'].replace('_', ' ')}, operations "
        f"on 1 / {settings['partial_channels']} of the channels. Weights: SGD, rate 0.025 to 0 "
        "along a cosine, momentum 0.9, weight decay 3e-4, global norm of gradients cut at 5; "
        "architecture: Adam, rate 6e-4, beta_1 0.5, a decay of 1e-3 in the gradient.",
        f"Guidance: PyramidNet-{settings['teacher_depth']}, alpha {settings['teacher_alpha']:g}, "
        f"trained for {settings['teacher_epochs']} epochs on all training images; attention "
        f"transfer of weight {weight}, {settings['guidance_form']} form, on both levels.",
        f"Training: {settings['cells']} cells of {settings['channels']} channels from scratch, the "
        f"weights' optimizer of the search, cutout of {settings['cutout']} pixels, drop-path up to "
        f"{settings['drop_path']:g}, an auxiliary output of weight 0.4.",
        "Random: cells drawn evenly from all that can be derived, one pair for each seed.",
    ]


def _cell(values, seeds, digits=2):
    """Return a table's entry of values by seed."""
    if not values:
        return "–"
    text = spread(list(values.values()), digits)
    if len(values) < len(seeds):
        text += f" ({', '.join(map(str, sorted(values)))})"
    return text


def _searches(runs, seeds):
    lines = [
        "| method | error | parameters | entropy: normal, reduction | search s | training s |",
        "|---|---|---|---|---|---|",
    ]
    for method in [name for name in NAMES if any(run["method"] == name for run in runs)]:
        own = [run for run in runs if run["method"] == method]
        entropies = "–"
        if "search" in own[0]:
            last = [
                statistics.mean(run["search"][f"{kind}_entropy"][-1] for run in own)
                for kind in ("normal", "reduction")
            ]
            entropies = ", ".join(f"{value:.3f}" for value in last)
        searched = {run["seed"]: run["search_seconds"] for run in own if "search" in run}
        cells = [NAMES[method], _cell(errors(own, method), seeds)]
        cells.append(f"{statistics.mean(run['parameters'] for run in own):,.0f}")
        cells += [entropies, _cell(searched, seeds, 0)]
        cells.append(f"{statistics.mean(run['seconds'] for run in own):.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Entropy of the shares of the operations on an edge at the end of the search, 1 for equal "
        "shares. Parameters are those of the trained network without its auxiliary output.",
        "",
    ]
    taught = [run for run in runs if "teacher_accuracy" in run]
    if taught:
        mean = statistics.mean(100 - 100 * run["teacher_accuracy"] for run in taught)
        lines += [
            f"The teachers have an error of {mean:.2f} % and {taught[0]['teacher_parameters']:,} "
            "parameters.",
            "",
        ]
    for method, other in PAIRS:
        one, two = errors(runs, method), errors(runs, other)
        changes = [one[seed] - two[seed] for seed in one if seed in two]
        if changes:
            number = f"{len(changes)} seed{'s' * (len(changes) > 1)}"
            lines += [
                f"{NAMES[method]} minus {NAMES[other]}: {spread(changes, 2)} points ({number}).",
                "",
            ]
    return lines


def _calibrations(runs, seeds):
    lines = ["| network | error | change | parameters | training s |", "|---|---|---|---|---|"]
    without = errors(runs, "none")
    plain = next((run["parameters"] for run in runs if run["method"] == "none"), None)
    for method in [name for name in NAMES if any(run["method"] == name for run in runs)]:
        own = [run for run in runs if run["method"] == method]
        found = errors(own, method)
        changes = {s: found[s] - without[s] for s in found if s in without and method != "none"}
        size = own[0]["parameters"]
        added = f"+ {size - plain:,}" if plain and method != "none" else f"{size:,}"
        cells = [NAMES[method], _cell(found, seeds), _cell(changes, seeds), added]
        cells.append(f"{statistics.mean(run['seconds'] for run in own):.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _cells(runs):
    """Return the genotypes of all runs and links to their pictures."""
    lines = ["## Cells", ""]
    for run in runs:
        lines += [f"### {NAMES[run['method']]}, seed {run['seed']}", "", "```"]
        lines += [str(Genotype.from_dict(run["genotype"])), "```", ""]
        lines += [f"![Normal and reduction cell]({picture_name(run)})", ""]
    return lines


def picture_name(run):
    """Return the name of the picture of a run's cells."""
    return f"nos_{run['method']}_{run['seed']}.svg"


@style.context()
def plot(runs, path):
    """Draw the training accuracy by epoch, and of searches the entropy of the shares."""
    from matplotlib.figure import Figure

    searched = [run for run in ordered(runs) if "search" in run]
    with style.context():
        figure = Figure(figsize=(4 + 3.5 * bool(searched), 2.8), layout="constrained")
        axes = figure.subplots(1, 1 + bool(searched), squeeze=False)
    methods = [name for name in NAMES if any(run["method"] == name for run in runs)]
    for run in ordered(runs):
        look = style.curve(methods.index(run["method"]))
        label = NAMES[run["method"]] if run is _first(runs, run["method"]) else None
        epochs = range(1, 1 + len(run["training_accuracy"]))
        values = [100 * value for value in run["training_accuracy"]]
        axes[0, 0].plot(epochs, values, label=label, **look)
        if "search" in run:
            for kind, dashes in (("normal", "-"), ("reduction", ":")):
                values = run["search"][f"{kind}_entropy"]
                # Next to nothing has been decided as long as this is 1 to many digits.
                label = f"{label}, {kind}: {values[-1]:.5f}" if kind == "normal" and label else None
                at = range(1, 1 + len(values))
                axes[0, 1].plot(at, values, dashes, color=look["color"], label=label)
    axes[0, 0].set(title="training from scratch", xlabel="epoch", ylabel="training accuracy, %")
    axes[0, 0].set_ylim(bottom=0)
    if searched:
        axes[0, 1].set(title="search", xlabel="epoch", ylabel="entropy: normal –, reduction ··")
        axes[0, 1].set_ylim(0, 1.05)
    with style.context():
        for axis in axes[0]:
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.grid(axis="y")
            style.label_lines(axis)
    style.save(figure, path)


def _first(runs, method):
    return next(run for run in ordered(runs) if run["method"] == method)
