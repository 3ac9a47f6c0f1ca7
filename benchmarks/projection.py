"""Time and error of the nearest structured matrices to a dense one.

    python benchmarks/projection.py [--rows 3072] [--columns 768] [--share 0.25] [--dry-run]

Two generated matrices are projected to every family by `kmatrix.project_to`: one of independent
Gaussian entries, and the same with singular values that fall as 1 / √k. Inputs are Gaussian with
standard deviations that fall from 1 to 0.01 in a random basis. Per family: share of numbers in use,
seconds of one call, error, its bound, the error of low rank with as many numbers, and the error of
the outputs without and with the inputs given. The table is written to benchmarks/projection.md, or
nowhere with `--dry-run`.
"""

import argparse
import importlib.metadata
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from keras_xd import kmatrix

RESULTS = pathlib.Path(__file__).with_suffix(".md")
FAMILIES = ("kaleidoscope", "monarch", "block_tensor_train", "blast", "low_rank")
WITH_INPUTS = ("monarch", "block_tensor_train", "low_rank")
SAMPLES = 2048


def matrices(rows, columns, rng):
    """Return the matrices by name."""
    gaussian = rng.normal(size=(rows, columns))
    left, _, right = np.linalg.svd(gaussian, full_matrices=False)
    falling = 1 / np.sqrt(1 + np.arange(min(rows, columns)))
    return {"Gaussian": gaussian, "falling spectrum": (left * falling) @ right}


def correlated(columns, rng):
    basis = np.linalg.qr(rng.normal(size=(columns, columns)))[0]
    return rng.normal(size=(SAMPLES, columns)) * np.geomspace(1, 0.01, columns) @ basis


def measure(name, matrix, inputs, share):
    """Return the rows of one matrix."""
    rows, outputs = [], inputs @ matrix.T
    for family in FAMILIES:
        start = time.perf_counter()
        found = kmatrix.project_to(matrix, family, share)
        seconds = time.perf_counter() - start
        plain = np.linalg.norm(outputs - inputs @ found.matrix.T) / np.linalg.norm(outputs)
        aware = "–"
        if family in WITH_INPUTS:
            aware = f"{kmatrix.project_to(matrix, family, share, inputs).output_error:.3f}"
        rows.append(
            f"| {name} | {family} | {found.parameters / matrix.size:.3f} | {seconds:.2f} | "
            f"{found.error:.3f} | {found.bound:.3f} | {found.low_rank_error:.3f} | {plain:.3f} | "
            f"{aware} |"
        )
    return rows


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3072)
    parser.add_argument("--columns", type=int, default=768)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    lines = [
        "# Nearest structured matrices",
        "",
        f"Written by `python benchmarks/projection.py --rows {options.rows} --columns "
        f"{options.columns} --share {options.share}`; numpy {importlib.metadata.version('numpy')}, "
        f"{len(os.sched_getaffinity(0))} cores, OPENBLAS_NUM_THREADS "
        f"{os.environ.get('OPENBLAS_NUM_THREADS', 'not set')}, float64, one call each. Errors are "
        "relative, in the Frobenius norm.",
        "",
        "| matrix | family | share | seconds | error | bound | error of low rank | of outputs | "
        "with inputs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    inputs = correlated(options.columns, rng)
    for name, matrix in matrices(options.rows, options.columns, rng).items():
        rows = measure(name, matrix, inputs, options.share)
        lines += rows
        print("\n".join(rows), flush=True)
    if not options.dry_run:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


if __name__ == "__main__":
    main()
