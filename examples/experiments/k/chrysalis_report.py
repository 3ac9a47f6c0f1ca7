"""The pages of `chrysalis.py`."""

import statistics

import reporting
from reporting import select, unique

from experiments.k.chrysalis_models import FIXED, SEARCHES, title

PROTOCOLS = ("supernet", "offline", "transfer")
STARTS = ("warm", "first_warm", "scratch")
METHODS = [*FIXED, *(f"{search}_{start}" for search in SEARCHES for start in STARTS)]
TITLES = {
    "lenet": "ButterfLeNet on CIFAR-10, plain and permuted",
    "transfer": "ButterfLeNet: operations found on five classes of CIFAR-10, trained on the others",
    "cifar100": "ButterfLeNet: operations found on CIFAR-10, trained on CIFAR-100",
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
    "initialised again at the start of each, the architecture is not. Its supernet accuracy is "
    "that of weights trained for a quarter of the epochs.",
    "DARTS: the weights are trained on half of the samples and the architecture on the others, by "
    "Adam with rate 0.001. Offline training is by SGD, as for all methods.",
    "Images: ImageNet's mean and deviation taken out; random crops and flips of plain images only, "
    "from scratch too, where the reference has Fast AutoAugment; permuted: one permutation of the "
    "rows and one of the columns, drawn from the seed.",
    'LeNet: padding "same", average pooling. Linear layers: in place of each convolution with its '
    "pooling, of as many units. K-layers: `KDense`, depth 2, of as many units; the reference has "
    "one for each pair of channels.",
]
# With `--published`, in place of the lines about SGDR, DARTS and K-layers.
PUBLISHED = {
    VISION[1]: "SGDR: four periods of as many epochs as the others have in all, each with the "
    "schedule above; the weights are initialised again at the start of each, the architecture is "
    "not.",
    VISION[2]: "DARTS: the weights are trained on half of the samples and the architecture on the "
    "others, by Adam with rate 0.001. Its operations are trained offline by Adam with rate 0.0005, "
    "a rate that the paper has elsewhere.",
    VISION[4]: 'LeNet: padding "same", average pooling. Linear layers: in place of each '
    "convolution with its pooling, of as many units. K-layers: `KLayer`, two K-matrices of depth 2 "
    "for each pair of channels.",
}
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
    "cifar100": VISION,
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
        "Spherical convolutions: zonal filters, 20 of 16 degrees and 40 of 10, and the maximum "
        "over the sphere. The reference's expert has filters of any form, and its outputs are maps "
        "of all rotations.",
    ],
}


def ordered(runs):
    """Return the runs in the order of the methods, whichever process has finished first."""
    last = len(METHODS)  # those by depth

    def place(run):
        return METHODS.index(run["method"]) if run["method"] in METHODS else last

    return sorted(runs, key=lambda run: (place(run), run["method"]))


def page(settings, runs, written):
    """Return the page of results."""
    runs, experiment = ordered(runs), settings["experiment"]
    texts, published = TEXTS[experiment], settings.get("published")
    if published:
        texts = [PUBLISHED.get(line, line) for line in texts]
    seeds = unique(runs, "seed")
    return reporting.markdown(
        TITLES[experiment],
        reporting.written_by(f"`{written['command']}`", written),
        f"Accuracy in percent on test samples, "
        f"{reporting.over(seeds)}. Every training of every method"
        f"{', but the search by SGDR,' if published else ''} has "
        f"{settings['epochs']} epochs in batches of {settings['batch_size']}: that of fixed "
        "operations (under offline), a search (supernet), and the training of its frozen "
        "operations from fresh weights (offline, transfer). In an epoch each training sample is "
        "seen once, by DARTS too. All runs together took "
        f"{reporting.hours(runs)}. This budget is not that of the reference: compare methods with "
        "each other.",
        *(_table(select(runs, kind=kind), kind, seeds) for kind in unique(runs, "kind")),
        "## Settings",
        reporting.points(texts),
    )


def _protocols(runs):
    return [name for name in PROTOCOLS if any(name in run["accuracy"] for run in runs)]


def _accuracies(runs, protocol, **wanted):
    """Return the accuracy by seed, from 0 to 1."""
    return {
        run["seed"]: run["accuracy"][protocol]
        for run in select(runs, **wanted)
        if protocol in run["accuracy"]
    }


def _table(runs, kind, seeds):
    """Return the table of one kind of data."""
    protocols = _protocols(runs)
    training, evaluation = runs[0]["samples"]
    rows = []
    for method in unique(runs, "method"):
        own = select(runs, method=method)
        cells = [title(method)]
        for protocol in protocols:
            scores = {seed: 100 * score for seed, score in _accuracies(own, protocol).items()}
            cells.append(reporting.cell(scores, seeds, 1))
        cells += [f"{own[0]['parameters']:,}", f"{own[0]['architecture_parameters']:,}"]
        minutes = [sum(run["seconds"].values()) / 60 for run in own]
        rows.append([*cells, f"{statistics.mean(minutes):.1f}"])
    head = ["method", *protocols, "trained parameters", "of them architecture", "minutes"]
    return [
        f"## {kind}: {training:,} training and {evaluation:,} evaluation samples",
        "",
        *reporting.table(head, rows),
    ]
