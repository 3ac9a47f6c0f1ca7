"""The pages of `nos.py`."""

import statistics

import reporting
from reporting import present, select, spread
from scipy import stats

from experiments.nos.nos_training import CALIBRATED, SMALLEST_AUXILIARY
from keras_xd.layers.cells.genotypes import Genotype

FORMS = {"": "", "_tanh": ", tanh", "_paper": ", paper's form"}
NAMES = {
    "nos_guided": "all operations, guided",
    "nos": "all operations",
    "features_guided": "operations of DARTS, guided",
    "features": "operations of DARTS",
    "random": "random cells of all operations",
    "resnet": "plain ResNet-20",
    "unguided": "without guidance",
    **{f"weight_{n}": f"attention transfer of weight {n}" for n in (100, 1000, 10000)},
    "none": "without calibration",
    **{f"{o}{f}": f"+ {CALIBRATED[o]}{FORMS[f]}" for o in CALIBRATED for f in FORMS},
}
TITLES = {
    "search": "Heterogeneous cells on CIFAR-10",
    "guidance": "Searches of cells on CIFAR-10, guided by a teacher's attention",
    "calibration": "Self-calibration behind three stages of a residual network on CIFAR-10",
}
IMAGE_SIZE = 32
SEARCHED = ("nos_guided", "nos", "features_guided", "features")
PAIRS = (
    ("nos_guided", "nos"),
    ("features_guided", "features"),
    ("nos", "features"),
    ("nos_guided", "features_guided"),
)
ENTROPY = "Entropy of the shares of the operations on an edge at the end of the search, 1 for equal"


def errors(runs, method):
    """Return the error in percent of a method by seed."""
    return {run["seed"]: 100 - 100 * run["accuracy"] for run in select(runs, method=method)}


def page(settings, runs, written):
    """Return the page of results."""
    runs = sorted(runs, key=lambda run: (list(NAMES).index(run["method"]), run["seed"]))
    seeds, experiment = sorted({run["seed"] for run in runs}), settings["experiment"]
    trained = "of the search network at the end of the search"
    if experiment != "guidance":
        trained = (
            f"after {settings['epochs']} epochs on {settings['training_images']:,} training images"
        )
    tables = {"search": _searches, "guidance": _guidances, "calibration": _calibrations}
    return reporting.markdown(
        TITLES[experiment],
        f"Written by {reporting.commands(runs)}; {written['versions']}.",
        f"Error in percent on {settings['evaluation_images']:,} test images {trained}, the same "
        f"for all; {reporting.over(seeds)}. No model is chosen by its error on these images."
        f"{_networks(settings)}",
        *tables[experiment](runs, seeds),
        "## Settings",
        reporting.points(texts(settings)),
        *(_cells(runs) if experiment == "search" else ()),
    )


def _networks(settings):
    """Return a sentence on the images or networks, which not all pages have."""
    if settings["experiment"] == "calibration":
        number = settings.get("backbone", "resnet20").removeprefix("resnet")
        return f"\nThe network is ResNet-{number}."
    if "transfer" in settings:
        return "\nCells are searched on CIFAR-10, and the networks are trained on CIFAR-100."
    return ""


def texts(settings):
    """Return what the settings are, as sentences."""
    common = (
        f"Each pixel is the mean of {settings['pool']} × {settings['pool']} of the image. Batches "
        f"of {settings['batch_size']}; images normalized, cropped at random places with a border "
        f"of {reporting.plural(settings['border'], 'pixel')}, and flipped."
    )
    if settings["experiment"] == "calibration":
        return [
            common,
            "A calibration adds to the features what its operation makes of them, times a gate: "
            "one learned number for each stage that starts at zero, with tanh its hyperbolic "
            "tangent, or 1 in the paper's form. Networks of one seed start with the same "
            "convolutions.",
            "SGD, rate 0.1 to 0 along a cosine, momentum 0.9, weight decay 1e-4, global norm of "
            "gradients cut at 5. The paper's network is ResNet-18, its table 1 has dilated dynamic "
            "convolutions too, which lowered the accuracy there.",
        ]
    weight = f"weight {settings.get('guidance_weight', 0):g}"
    if settings["experiment"] == "guidance":
        weight = "the table's weight"
    images = min(settings["training_images"], settings["search_images"] or 10**9)
    lines = [
        common,
        f"Search: {settings['search_cells']} cells of {settings['search_channels']} channels, "
        f"{settings['search_epochs']} epochs over {images:,} training images, half of them for the "
        "weights and the other half for the architecture, in batches of "
        f"{settings['search_batch_size'] or settings['batch_size']}, first order. "
        f"Weights: SGD, rate {settings['search_rate']:g} to 0 along a cosine, momentum 0.9, weight "
        "decay 3e-4, global norm of gradients cut at 5; architecture: Adam, rate "
        f"{settings['architecture_rate']:g}, beta_1 0.5, a decay of "
        f"{settings['architecture_decay']:g} in the gradient, fixed for "
        f"{reporting.plural(settings['warmup_epochs'], 'epoch')}.",
        f"Guidance: PyramidNet-{settings['teacher_depth']}, alpha {settings['teacher_alpha']:g}, "
        f"trained for {settings['teacher_epochs']} epochs on all training images; attention "
        f"transfer of {weight}, {settings.get('guidance_form', 'stable')} form, on both levels.",
    ]
    return lines if settings["experiment"] == "guidance" else [*lines, *_of_training(settings)]


def _of_training(settings):
    """Return what the settings of trainings from scratch are, as sentences."""
    parts = [
        f"cutout of {settings['cutout']} pixels" if settings["cutout"] else "no cutout",
        f"drop-path up to {settings['drop_path']:g}",
    ]
    if IMAGE_SIZE // settings["pool"] >= SMALLEST_AUXILIARY:
        parts.append("an auxiliary output of weight 0.4")
    return [
        f"Training: {settings['cells']} cells of {settings['channels']} channels from scratch, the "
        f"weights' optimizer of the search at a rate of {settings['training_rate']:g} that rises "
        f"for {reporting.plural(settings['training_warmup_epochs'], 'epoch')}, with weight decay "
        f"{settings['training_decay']:g}{' and Nesterov momentum' * settings['nesterov']}; "
        f"{', '.join(parts)}.",
        "Random: cells drawn evenly from all that can be derived, one pair for each seed.",
    ]


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
    taught = [run for run in runs if "teacher_accuracy" in run]
    lines = [
        reporting.table([*head, "search s", "training s"], rows),
        f"{ENTROPY} shares. Parameters are those of the trained network without its auxiliary "
        "output.",
    ]
    if taught:
        lines.append(
            f"The teachers have an error of {100 - 100 * _mean(taught, 'teacher_accuracy'):.2f} % "
            f"and {taught[0]['teacher_parameters']:,} parameters."
        )
    for method, other in PAIRS:
        changes = reporting.gains(errors(runs, method), errors(runs, other))
        if changes:
            found = f"{spread(changes, 2)} points ({reporting.plural(len(changes), 'seed')})"
            lines.append(f"{NAMES[method]} minus {NAMES[other]}: {found}.")
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
        reporting.table([*head, "search s"], rows),
        "Change: of the error against the search without guidance of the same seed. "
        f"{ENTROPY} shares.",
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
        if min(len(own), len(drawn)) > 1:
            mean = statistics.mean(own)
            interval = stats.ttest_ind(drawn, own, equal_var=False).confidence_interval()
            ahead = f"{sum(value > mean for value in drawn)} of {len(drawn)}"
            bounds = f"{interval.low:.2f} to {interval.high:.2f}"
            gain = f"{statistics.mean(drawn) - mean:.2f}"
            rows.append([NAMES[method], len(own), gain, bounds, ahead])
    if not rows:
        return []
    head = ["method", "searches", "points below the mean random cell", "95 % interval"]
    return [
        reporting.table([*head, "random cells with a larger error"], rows),
        f"Errors of the random cells, in percent: {spread(drawn, 2)} "
        f"({reporting.plural(len(drawn), 'cell')}; the best: {min(drawn):.2f}). The interval is "
        "that of Welch's t-test of the difference of the means.",
    ]


def _calibrations(runs, seeds):
    rows, without = [], errors(runs, "none")
    for method in present(runs, "method", NAMES):
        own = select(runs, method=method)
        found = errors(own, method)
        changes = {s: found[s] - without[s] for s in found if s in without and method != "none"}
        cells = [NAMES[method], *(reporting.cell(v, seeds, 2) for v in (found, changes))]
        cells.append(spread([run["deviation_at_start"] for run in own], 2))
        gates = zip(*(run["gates"] for run in own), strict=True)  # by stages
        cells.append(", ".join(f"{statistics.mean(gate):.2f}" for gate in gates) or "–")
        rows.append([*cells, f"{own[0]['parameters']:,}", f"{_mean(own, 'seconds'):.0f}"])
    head = ["network", "error", "change", "logits at the start", "gates", "parameters"]
    return [
        reporting.table([*head, "training s"], rows),
        "Change: of the error against the network without calibration of the same seed. Logits at "
        "the start: their standard deviation before training. Gates: of the three stages after "
        "training, means over the seeds.",
    ]


def _cells(runs):
    """Return the genotypes of all runs."""
    parts = ["## Cells"]
    for run in (run for run in runs if "genotype" in run):
        parts.append(f"### {NAMES[run['method']]}, seed {run['seed']}")
        parts.append(["```", str(Genotype.from_dict(run["genotype"])), "```"])
    return parts
