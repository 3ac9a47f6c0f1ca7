"""How far attention and dynamic convolutions enlarge the features of cells before training.

    python benchmarks/calibration_scale.py [--data-dir DIR] [--images 64] [--seeds 3] [--dry-run]

Standard deviations of the outputs of each cell and of the logits, of images of CIFAR-10 averaged
over 2 × 2 pixels and normalized, in training mode (by the statistics of the batch), without any
training: of `nos_search_network`, and of `nos_network` with random genotypes and with genotypes
whose blocks calibrate in both tiers. Each in the paper's form and with `calibration_gate="zero"`,
whose gates are still zero, so that features stay as they are; the weights are the same. The table
is written to benchmarks/calibration_scale.md, or nowhere with `--dry-run`.
"""

import argparse
import importlib.metadata
import os
import pathlib
import statistics
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

import keras
import numpy as np
from datasets import images
from datasets.batches import normalize

from keras_xd import models
from keras_xd.layers.cells import genotypes
from keras_xd.layers.cells.self_calibration import OPERATIONS

RESULTS = pathlib.Path(__file__).with_suffix(".md")
CHANNELS, CLASSES = 8, 10
FORMS = {"paper's form": None, "gate at zero": "zero"}


def calibrating(operation, seed):
    """Return a genotype of random features that an operation calibrates in all tiers."""
    rng = np.random.default_rng(seed)

    def block(number):
        one, other = map(int, rng.choice(genotypes.INPUTS + number, 2, replace=False))
        feature = str(rng.choice(genotypes.FEATURE_OPERATIONS))
        return genotypes.BlockGenotype(((feature, one), (operation, other)), operation)

    cells = [genotypes.CellGenotype(tuple(map(block, range(4)))) for _ in range(2)]
    return genotypes.Genotype(*cells)


def networks(cells, shape, seeds):
    """Return functions of a gate that make networks, several for each name."""

    def search(seed):
        return lambda gate: models.nos_search_network(
            cells, CHANNELS, shape, CLASSES, seed=seed, calibration_gate=gate
        )

    def derived(genotype):
        return lambda gate: models.nos_network(
            genotype, cells, CHANNELS, shape, CLASSES, False, 0.0, calibration_gate=gate
        )

    found = {"search network": [search(seed) for seed in range(seeds)]}
    drawn = [genotypes.random_genotype(np.random.default_rng(seed)) for seed in range(seeds)]
    found["derived, random"] = [derived(genotype) for genotype in drawn]
    for operation in OPERATIONS:
        found[f"derived, `{operation}` in all tiers"] = [
            derived(calibrating(operation, seed)) for seed in range(seeds)
        ]
    return found


def deviations(model, inputs):
    """Return the deviations of the outputs of the cells, and of the logits."""
    cells = [layer.output for layer in model.layers if layer.name.startswith("cell")]
    inside = keras.Model(model.input, [*cells, model.output])
    outputs = inside(inputs, training=True)
    return [float(np.std(keras.ops.convert_to_numpy(output))) for output in outputs]


def rows(cells, inputs, seeds):
    """Yield the lines of the table."""
    for name, made in networks(cells, inputs.shape[1:], seeds).items():
        for form, gate in FORMS.items():
            found = []
            for seed, make in enumerate(made):
                keras.utils.set_random_seed(seed)
                found.append(deviations(make(gate), inputs))
            first, last, logits = (
                " ± ".join(f"{f(values):.2f}" for f in (statistics.mean, statistics.stdev))
                for values in ([run[place] for run in found] for place in (0, -2, -1))
            )
            yield f"| {cells} | {name} | {form} | {first} | {last} | {logits} |"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", default=os.environ.get("TFDS_DATA_DIR"))
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cells", type=int, nargs="+", default=[3, 8])
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(arguments)
    (inputs, _), _, _ = images.load("cifar10", options.data_dir, options.images)
    number, height, width, channels = inputs.shape
    inputs = inputs.reshape(number, height // 2, 2, width // 2, 2, channels).mean((2, 4))
    inputs = normalize(255 * inputs)
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("tensorflow", "keras"))
    lines = [
        "# Scale of calibrated features before training",
        "",
        f"Written by `python benchmarks/calibration_scale.py`; {versions}, {number} images, "
        f"{CHANNELS} channels, mean ± standard deviation over {options.seeds} seeds, each of "
        "which draws weights, and genotypes where there are some.",
        "",
        "Standard deviations of the outputs of the first and the last cell, and of the logits.",
        "",
        "| cells | network | calibration | first cell | last cell | logits |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for cells in options.cells:
        for line in rows(cells, inputs, options.seeds):
            lines.append(line)
            print(line, flush=True)
    if not options.dry_run:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
