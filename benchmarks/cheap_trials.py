"""What cheap trials are worth: scores of untrained cells, successive halving, the median curve.

    python benchmarks/cheap_trials.py [--seeds 200] [--dry-run]

All on the recorded curves of benchmarks/digit_cells.json, real errors of trained cells; nothing is
trained. Scores of untrained networks are computed, with one initialization, and compared with the
errors after training by Kendall's τ. Filtered are the worse half of the cells. Searches draw cells
in a random order, the same for all: full trials, full trials of the filtered cells, trials stopped
by the median curve, and successive halving by the oracle with rungs of 1, 3 and 9 epochs, all with
equal numbers of epochs. A continued trial costs its further epochs, and goes on as the recorded
curve, as from a checkpoint of its last epoch. The table goes to benchmarks/cheap_trials.md, or
nowhere with `--dry-run`.
"""

import argparse
import json
import os
import pathlib
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import digit_cells
import keras
import keras_tuner as kt
import numpy as np
import scipy.stats

from keras_xd.training import gradient_norm, naswot, synflow
from tuner_integration import HalvingOracle
from tuner_integration.median_stopping import MedianStopping

RESULTS = pathlib.Path(__file__).with_suffix(".md")
BATCH, EPOCHS, FULL_TRIALS, WARM = 64, digit_cells.EPOCHS, 10, 5
SCORES = ("synflow", "gradient_norm", "naswot", "parameters", "multiply_adds")


def untrained(row, seed):
    """Return the scores of a cell before training; its costs are scores, too."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(1000 + seed)
    x, y, *_ = digit_cells.digits()
    model = digit_cells.network(digit_cells.CELLS.parse(row["cell"]))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return {
        "synflow": synflow(model),
        "gradient_norm": gradient_norm(model, x[:BATCH], y[:BATCH], loss),
        "naswot": naswot(model, x[:BATCH]),
        "parameters": row["parameters"],
        "multiply_adds": row["multiply_adds"],
    }


def full_trials(order, curves, epochs):
    """Return the best error of full trials."""
    return min(min(curves[i]) for i in order[: epochs // EPOCHS])


def median_stopped(order, curves, epochs):
    """Return the best error, and the number of trials, with the rule of the median curve."""
    best, spent, trials = 1.0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        stopping = MedianStopping(folder, "min", WARM)
        for i in order:
            trials += 1
            for epoch, error in enumerate(curves[i]):
                spent += 1
                best = min(best, error)
                if stopping.stops(str(i), epoch, error) or spent >= epochs:
                    break
            stopping.end(str(i))
            if spent >= epochs:
                break
    return best, trials


def halved(order, curves, cells, epochs):
    """Return the best error, and the number of terms, of successive halving by the oracle."""
    places = {cell: i for i, cell in enumerate(cells)}
    oracle = HalvingOracle(
        {"cell": digit_cells.CELLS},
        kt.Objective("error", "min"),
        len(order) * 3,
        strategy="random",
        initial_terms=[cells[i] for i in order],
        rungs=(1, 3, EPOCHS),
        seed=0,
    )
    best, spent, terms = 1.0, 0, 0
    while spent < epochs:
        values = oracle.ask()[0]
        if values["cell"] not in places:
            break  # all recorded cells were tried
        last = min(values["tuner/epochs"], values["tuner/initial_epoch"] + epochs - spent)
        curve = curves[places[values["cell"]]][values["tuner/initial_epoch"] : last]
        spent += len(curve)
        terms += values["tuner/round"] == 0
        best = min(best, min(curve))
        oracle.tell(values, min(curve))
    return best, terms


def compared(name, found, base):
    """Return the row of a search: mean, deviation, paired test against full trials."""
    found, base = np.array(found), np.array(base)
    text = f"| {name} | {found.mean():.4f} ± {found.std(ddof=1):.4f} |"
    difference = (found - base).mean()
    value = scipy.stats.wilcoxon(found, base).pvalue if np.any(found != base) else 1.0
    return f"{text} {difference:+.4f} | {value:.1g} |"


def main(arguments=None):
    """Measure, and write the page; return its lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--halving-seeds", type=int, default=30)
    parser.add_argument("--input", type=pathlib.Path, default=digit_cells.RESULTS)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--dry-run", action="store_true", help="print, but write no file")
    options = parser.parse_args(arguments)
    rows = json.loads(options.input.read_text(encoding="utf-8"))
    curves, cells = [row["errors"] for row in rows], [row["cell"] for row in rows]
    final = np.array([min(curve) for curve in curves])
    scores = [untrained(row, seed) for seed, row in enumerate(rows)]
    epochs = FULL_TRIALS * EPOCHS
    orders = [np.random.default_rng(s).permutation(len(rows)) for s in range(options.seeds)]
    base = [full_trials(order, curves, epochs) for order in orders]
    lines = [
        "# Cheap trials",
        "",
        f"Written by `python benchmarks/cheap_trials.py`: {len(rows)} recorded cells on digits, "
        f"{epochs} epochs a search, {options.seeds} random orders ({options.halving_seeds} for "
        "successive halving). Error: best validation error found, mean ± standard deviation; "
        "the difference from full trials in the same orders with Wilcoxon's paired test.",
        "",
        "| before training | Kendall's τ with accuracy |",
        "|---|---|",
    ]
    for epoch in (1, 3):
        early = [min(curve[:epoch]) for curve in curves]
        tau = scipy.stats.kendalltau(early, final)[0]
        lines.append(f"| (for comparison) error after {epoch} epochs | {tau:.2f} |")
    table = {name: np.array([score[name] for score in scores], float) for name in SCORES}
    for name, values in table.items():
        tau = scipy.stats.kendalltau(np.where(np.isinf(values), -1e30, values), -final)[0]
        lines.append(f"| {name} | {tau:.2f} |")
    lines += ["", "| search | error | difference | p |", "|---|---|---|---|"]
    lines.append(compared(f"full trials, {FULL_TRIALS} cells", base, base))
    for name, values in table.items():
        kept = set(np.argsort(-values, kind="stable")[: len(rows) // 2].tolist())
        found = [full_trials([i for i in o if i in kept], curves, epochs) for o in orders]
        lines.append(compared(f"full trials, better half by {name}", found, base))
    stopped = [median_stopped(order, curves, epochs) for order in orders]
    trials = np.mean([count for _, count in stopped])
    found = [best for best, _ in stopped]
    lines.append(compared(f"median curve, {trials:.1f} cells", found, base))
    few = orders[: options.halving_seeds]
    halving = [halved(order, curves, cells, epochs) for order in few]
    terms = np.mean([count for _, count in halving])
    found = [best for best, _ in halving]
    lines.append(compared(f"successive halving, {terms:.1f} cells", found, base[: len(few)]))
    print("\n".join(lines))
    if not options.dry_run:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


if __name__ == "__main__":
    main()
