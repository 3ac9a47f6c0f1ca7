"""The pages of `nos.py`, and their pictures: curves, and the cells found."""

import statistics

import reporting
from reporting import present, select, spread
from scipy import stats

from experiments.nos.nos_training import SMALLEST_AUXILIARY
from keras_xd.layers.cells.genotypes import Genotype
from keras_xd.layers.cells.relaxation import WITH_TEMPERATURE

NAMES = {
    "nos_guided": "all operations, guided",
    "nos": "all operations",
    "features_guided": "operations of DARTS, guided",
    "features": "operations of DARTS",
    "random": "random cells of all operations",
    "resnet": "plain ResNet-20",
    "unguided": "without guidance",
    "weight_100": "attention transfer of weight 100",
    "weight_1000": "attention transfer of weight 1000",
    "weight_10000": "attention transfer of weight 10000",
    "none": "ResNet-20",
    "dynamic_3": "+ dynamic convolution 3 × 3",
    "dynamic_3_tanh": "+ dynamic convolution 3 × 3, tanh",
    "dynamic_3_paper": "+ dynamic convolution 3 × 3, paper's form",
    "dynamic_5": "+ dynamic convolution 5 × 5",
    "dynamic_5_tanh": "+ dynamic convolution 5 × 5, tanh",
    "dynamic_5_paper": "+ dynamic convolution 5 × 5, paper's form",
    "spatial_attention": "+ spatial attention",
    "spatial_attention_tanh": "+ spatial attention, tanh",
    "spatial_attention_paper": "+ spatial attention, paper's form",
    "channel_attention": "+ channel attention",
    "channel_attention_tanh": "+ channel attention, tanh",
    "channel_attention_paper": "+ channel attention, paper's form",
}
TITLES = {
    "search": "Heterogeneous cells on CIFAR-10",
    "guidance": "Searches of cells on CIFAR-10, guided by a teacher's attention",
    "calibration": "Self-calibration behind the stages of ResNet-20 on CIFAR-10",
}
IMAGE_SIZE = 32
SEARCHED = ("nos_guided", "nos", "features_guided", "features")
PAIRS = (
    ("nos_guided", "nos"),
    ("features_guided", "features"),
    ("nos", "features"),
    ("nos_guided", "features_guided"),
)


def ordered(runs):
    """Return runs in the order of the table."""
    return sorted(runs, key=lambda run: (list(NAMES).index(run["method"]), run["seed"]))


def errors(runs, method):
    """Return the error in percent of a method by seed."""
    return {run["seed"]: 100 - 100 * run["accuracy"] for run in select(runs, method=method)}


def page(settings, runs, written):
    """Return the page of results."""
    runs = ordered(runs)
    seeds = sorted({run["seed"] for run in runs})
    tables = {"search": _searches, "guidance": _guidances, "calibration": _calibrations}
    trained = "of the search network at the end of the search"
    if settings["experiment"] != "guidance":
        trained = (
            f"after {settings['epochs']} epochs on {settings['training_images']:,} training images"
        )
    lines = [
        f"# {TITLES[settings['experiment']]}",
        "",
        f"Written by {reporting.commands(runs)}; {written['versions']}.",
        "",
        f"Error in percent on {settings['evaluation_images']:,} {settings['evaluate_on']} images "
        f"{trained}, the same for all; {reporting.over(seeds)}. No model is chosen by its error on "
        "these images.",
        "",
        *tables[settings["experiment"]](runs, seeds),
        "## Settings",
        "",
        *(f"- {line}" for line in texts(settings)),
        "",
    ]
    if settings["experiment"] == "search":
        lines += _cells(runs)
    return "\n".join(lines)


def texts(settings):
    """Return what the settings are, as sentences."""
    border = reporting.plural(settings.get("border", 4), "pixel")
    common = (
        f"Batches of {settings['batch_size']}; images normalized, cropped at random places with a "
        f"border of {border}, and flipped."
    )
    width, warmup = settings.get("pool", 1), settings.get("warmup_epochs", 0)
    if width > 1:
        common = f"Each pixel is the mean of {width} × {width} of the image. {common}"
    if settings["experiment"] == "calibration":
        return [
            common,
            "A calibration adds to the features what its operation makes of them, times a gate: "
            "one learned number for each stage that starts at zero, with tanh its hyperbolic "
            "tangent, or 1 in the paper's form. "
            "Networks of one seed start with the same convolutions.",
            "SGD, rate 0.1 to 0 along a cosine, momentum 0.9, weight decay 1e-4, global norm of "
            "gradients cut at 5. The paper's network is ResNet-18, its table 1 has dilated dynamic "
            "convolutions too, which lowered the accuracy there.",
        ]
    rates, weight = _rates(settings), "the table's weight"
    if "guidance_weight" in settings:
        weight = f"weight {settings['guidance_weight']:g}"
    images = settings["training_images"]
    images = min(images, settings.get("search_images") or images)
    size = settings.get("search_batch_size") or settings["batch_size"]
    return [
        common,
        f"Search: {settings['search_cells']} cells of {settings['search_channels']} channels, "
        f"{settings['search_epochs']} epochs over {images:,} training images, half of them for the "
        f"weights and the other half for the architecture, in batches of {size}, "
        f"{settings['order'].replace('_', ' ')}, {_relaxation(settings)}"
        f"operations on 1 / {settings['partial_channels']} of the channels. "
        f"Weights: SGD, rate {rates['search']:g} to 0 along a cosine, momentum 0.9, weight decay "
        "3e-4, global norm of gradients cut at 5; "
        f"architecture: Adam, rate {settings.get('architecture_rate', 6e-4):g}, beta_1 0.5, a "
        f"decay of {settings.get('architecture_decay', 1e-3):g} in the gradient"
        + (f", fixed for {reporting.plural(warmup, 'epoch')}." if warmup else "."),
        f"Guidance: PyramidNet-{settings['teacher_depth']}, alpha {settings['teacher_alpha']:g}, "
        f"trained for {settings['teacher_epochs']} epochs on all training images; attention "
        f"transfer of {weight}, {settings['guidance_form']} form, on both levels.",
        *_of_training(settings),
    ]


def _of_training(settings):
    """Return what the settings of trainings from scratch are, as sentences."""
    if settings["experiment"] != "search":
        return []
    return [
        f"Training: {settings['cells']} cells of {settings['channels']} channels from scratch, the "
        f"weights' optimizer of the search{_retraining(settings)}, {_regularization(settings)}.",
        "Random: cells drawn evenly from all that can be derived, one pair for each seed.",
    ]


def _rates(settings):
    """Return the rates of the weights; runs of version 0.1 did not say them."""
    return {kind: settings.get(f"{kind}_rate", 0.025) for kind in ("search", "training")}


def _retraining(settings):
    """Return in which way what is found is trained otherwise than in the search."""
    words = f" at a rate of {_rates(settings)['training']:g}"
    warmup, decay = (settings.get(f"training_{key}") for key in ("warmup_epochs", "decay"))
    if warmup:
        words += f" that rises for {reporting.plural(warmup, 'epoch')}"
    if decay is not None:
        words += f", with weight decay {decay:g}"
    return words + (" and Nesterov's momentum" if settings.get("nesterov") else "")


def _regularization(settings):
    """Return how a training from scratch is regularized, as the part of a sentence."""
    parts = []
    if settings["cutout"]:
        parts.append(f"cutout of {settings['cutout']} pixels")
    if settings["drop_path"]:
        parts.append(f"drop-path up to {settings['drop_path']:g}")
    if IMAGE_SIZE // settings.get("pool", 1) >= SMALLEST_AUXILIARY:
        parts.append("an auxiliary output of weight 0.4")
    return ", ".join(parts) or "without cutout, drop-path and auxiliary output"


def _relaxation(settings):
    """Return which relaxation a search had, as the part of a sentence."""
    kind = settings.get("relaxation", "softmax")
    if kind not in WITH_TEMPERATURE:
        return "" if kind == "softmax" else f'relaxation "{kind}", '
    start, end = settings["temperatures"]
    return f'relaxation "{kind}" of temperatures from {start:g} to {end:g}, '


def _searches(runs, seeds):
    head = ["method", "error", "parameters", "entropy: normal, reduction"]
    rows = []
    for method in present(runs, "method", NAMES):
        own = select(runs, method=method)
        searched = {run["seed"]: run["search_seconds"] for run in own if "search" in run}
        cells = [NAMES[method], reporting.cell(errors(own, method), seeds, 2)]
        cells.append(f"{_mean(own, 'parameters'):,.0f}")
        cells += [_entropies(own), reporting.cell(searched, list(searched), 0)]
        rows.append([*cells, f"{_mean(own, 'seconds'):.0f}"])
    lines = [
        *reporting.table([*head, "search s", "training s"], rows),
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
        changes = reporting.gains(errors(runs, method), errors(runs, other))
        if changes:
            number = reporting.plural(len(changes), "seed")
            lines += [
                f"{NAMES[method]} minus {NAMES[other]}: {spread(changes, 2)} points ({number}).",
                "",
            ]
    return lines + _beside_random(runs)


def _guidances(runs, seeds):
    head = ["search", "error", "change", "error of the teacher", "entropy: normal, reduction"]
    rows, without = [], errors(runs, "unguided")
    for method in present(runs, "method", NAMES):
        own = select(runs, method=method)
        found, taught = errors(own, method), [r for r in own if "teacher_accuracy" in r]
        changes = {s: found[s] - without[s] for s in found if s in without} if taught else {}
        cells = [NAMES[method], *(reporting.cell(v, seeds, 2) for v in (found, changes))]
        teachers = {r["seed"]: 100 - 100 * r["teacher_accuracy"] for r in taught}
        cells.append(reporting.cell(teachers, seeds, 2))
        rows.append([*cells, _entropies(own), f"{_mean(own, 'search_seconds'):.0f}"])
    return [
        *reporting.table([*head, "search s"], rows),
        "Change: of the error against the search without guidance of the same seed. Entropy of the "
        "shares of the operations on an edge at the end, 1 for equal shares.",
        "",
    ]


def _mean(runs, name):
    return statistics.mean(run[name] for run in runs)


def _entropies(runs):
    """Return the mean entropies of normal and reduction cells at the end of searches as text."""
    if "search" not in runs[0]:
        return "–"
    last = [
        statistics.mean(run["search"][f"{kind}_entropy"][-1] for run in runs)
        for kind in ("normal", "reduction")
    ]
    return ", ".join(f"{value:.3f}" for value in last)


def _beside_random(runs):
    """Return by how much the errors of searched cells are below those of random ones."""
    drawn, rows = list(errors(runs, "random").values()), []
    for method in SEARCHED:
        own = list(errors(runs, method).values())
        if own and drawn:
            gain, bounds = statistics.mean(drawn) - statistics.mean(own), "–"
            if min(len(own), len(drawn)) > 1:
                interval = stats.ttest_ind(drawn, own, equal_var=False).confidence_interval()
                bounds = f"{interval.low:.2f} to {interval.high:.2f}"
            ahead = sum(value > statistics.mean(own) for value in drawn)
            counts = f"{ahead} of {len(drawn)}"
            rows.append([NAMES[method], len(own), f"{gain:.2f}", bounds, counts])
    if not rows:
        return []
    head = ["method", "searches", "points below the mean random cell", "95 % interval"]
    return [
        *reporting.table([*head, "random cells with a larger error"], rows),
        f"Errors of the random cells, in percent: {spread(drawn, 2)} "
        f"({reporting.plural(len(drawn), 'cell')}). The interval is that of Welch's t-test of the "
        "difference of the means.",
        "",
    ]


def _calibrations(runs, seeds):
    rows, without = [], errors(runs, "none")
    plain = next((run["parameters"] for run in runs if run["method"] == "none"), None)
    for method in present(runs, "method", NAMES):
        own = select(runs, method=method)
        found = errors(own, method)
        changes = {s: found[s] - without[s] for s in found if s in without and method != "none"}
        size = own[0]["parameters"]
        added = f"+ {size - plain:,}" if plain and method != "none" else f"{size:,}"
        cells = [NAMES[method], *(reporting.cell(v, seeds, 2) for v in (found, changes))]
        cells += [spread([run["deviation_at_start"] for run in own], 2), _gates(own), added]
        rows.append([*cells, f"{_mean(own, 'seconds'):.0f}"])
    head = ["network", "error", "change", "logits at the start", "gates", "parameters"]
    return [
        *reporting.table([*head, "training s"], rows),
        "Change: of the error against ResNet-20 of the same seed. Logits at the start: their "
        "standard deviation before training. Gates: of the three stages after training, means over "
        "the seeds.",
        "",
    ]


def _gates(runs):
    """Return the mean of each gate at the end as text."""
    stages = zip(*(run["gates"] for run in runs), strict=True)
    return ", ".join(f"{statistics.mean(stage):.2f}" for stage in stages) or "–"


def _cells(runs):
    """Return the genotypes of all runs."""
    lines = ["## Cells", ""]
    for run in runs:
        if "genotype" not in run:
            continue
        lines += [f"### {NAMES[run['method']]}, seed {run['seed']}", "", "```"]
        lines += [str(Genotype.from_dict(run["genotype"])), "```", ""]
    return lines
