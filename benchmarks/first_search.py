"""Which architecture rate a first search should take, space by space, on digits.

    python benchmarks/first_search.py [--seeds 0 1 2] [--epochs 15] [--spaces …] [--dry-run]

The network of `examples/quickstart.py`, from the same weights and with the same batches and
optimizer of the weights. The architecture has Adam with a constant rate. Accuracy is that on the
validation images: of XD-operations after `finalize`; of mixtures that of the found network, trained
from scratch for as many epochs.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
import quickstart
import reporting
import timing
from datasets import digits, permutation
from datasets.batches import Batches

import keras_xd

# Options of `rewrite` for each space, and its architecture rates, each ten times the one before.
SPACES = {
    "xd, depth 1": {"to": "xd", "depth": 1},
    "xd, depth 3": {"to": "xd", "depth": 3},
    "darts": {"to": "darts"},
    "dash": {"to": "dash"},
}
RATES = {
    "xd, depth 1": (1e-4, 1e-3, 1e-2),
    "xd, depth 3": (1e-4, 1e-3, 1e-2),
    "darts": (1e-3, 1e-2, 1e-1),
    "dash": (1e-3, 1e-2, 1e-1),
}
FROM_SCRATCH = ("darts", "dash")
FILTERS, BATCH_SIZE = 8, 64


def fit(model, train, seed, epochs, *architecture):
    """Train a network, or a search with the optimizer of its architecture."""
    batches = Batches(*train, batch_size=BATCH_SIZE, seed=seed)
    schedule = keras.optimizers.schedules.CosineDecay(
        quickstart.WEIGHTS_RATE, epochs * len(batches)
    )
    model.compile(
        keras.optimizers.Adam(schedule), *architecture, loss=quickstart.LOSS, jit_compile=False
    )
    model.fit(batches, epochs=epochs, shuffle=False, verbose=0)
    return model


def accuracy(space, rate, seed, train, evaluation, epochs):
    """Return the accuracy of a search at one architecture rate, or of the backbone if `None`."""
    keras.utils.set_random_seed(seed)
    model = quickstart.make_backbone(train[0].shape[1:], FILTERS)
    if space is None:
        fit(model, train, seed, epochs)
    else:
        search = keras_xd.SearchModel(keras_xd.rewrite(model, **SPACES[space]))
        fit(search, train, seed, epochs, keras.optimizers.Adam(rate))
        model = keras_xd.finalize(search)
        if space in FROM_SCRATCH:
            model = fit(keras.models.clone_model(model), train, seed, epochs)
    logits = model.predict(evaluation[0], batch_size=500, verbose=0)
    return 100 * float(np.mean(logits.argmax(axis=-1) == evaluation[1]))


def page(found, seeds, epochs, words):
    """Return the lines of the page."""
    rows = []
    for space, rate in dict.fromkeys((space, rate) for space, rate, _, _ in found):
        cells = [space or "backbone", "–" if rate is None else f"{rate:g}"]
        for kind in quickstart.KINDS:
            cells.append(summary([found.get((space, rate, kind, seed)) for seed in seeds]))
        pairs = [[found.get((*key, "permuted", s)) for key in ((space, rate), (None, None))]
                 for s in seeds]  # fmt: skip
        gains = [a - b for a, b in pairs if a is not None and b is not None]
        rows.append([*cells, "" if space is None else summary(gains)])
    head = ["space", "architecture rate", *quickstart.KINDS, "permuted, minus backbone"]
    return timing.page(
        "Architecture rates of a first search",
        f"Written by `{' '.join(['python benchmarks/first_search.py', *words])}`; "
        f"{timing.versions()}. Digits of 8 × 8 pixels, {epochs} epochs, accuracy in percent on "
        f"the validation images, mean ± standard deviation over the seeds "
        f"{', '.join(map(str, seeds))}. Weights: Adam, rate {quickstart.WEIGHTS_RATE:g}, falling "
        "to 0 along a cosine; architecture: Adam, constant rate. `xd` is measured after "
        "`finalize`; the networks found by `darts` and `dash` are trained from scratch.",
        timing.table(head, rows),
    )


def summary(values):
    """Return the mean and, of several values, their standard deviation as text."""
    values = [value for value in values if value is not None]
    return reporting.spread(values, 1) if values else ""


def main(arguments=None):
    """Run all searches; return the accuracies by space, rate, kind and seed."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = timing.parser(__file__, __doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--spaces", choices=SPACES, nargs="*", default=list(SPACES))
    parser.add_argument("--subset", type=int, help="use at most so many training images")
    options = parser.parse_args(words)
    train, evaluation, _ = digits.load()
    train = [part[: options.subset] for part in train]
    methods = [(None, None), *((space, rate) for space in options.spaces for rate in RATES[space])]
    found = {}
    for count, seed in enumerate(options.seeds, 1):
        for kind in quickstart.KINDS:
            data = [train, evaluation]
            if kind == "permuted":
                data = [(permutation.permute(inputs, seed), labels) for inputs, labels in data]
            for space, rate in methods:
                value = accuracy(space, rate, seed, *data, options.epochs)
                found[space, rate, kind, seed] = value
                print(
                    f"{space or 'backbone'}, {rate}, {kind}, seed {seed}: {value:.1f}", flush=True
                )
        lines = timing.write(options, page(found, options.seeds[:count], options.epochs, words))
    print("\n".join(lines))
    return found


if __name__ == "__main__":
    main()
