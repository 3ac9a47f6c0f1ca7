"""Write the pages of the results again, from their records and without a training.

    python examples/redraw.py
    python examples/redraw.py cifar10 dnarch_mnist --output other/folder

A changed report needs no experiment to be run again.
"""

import functools
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import quickstart
import reporting
from experiments.dnarch import dnarch, kernel_sizes, pruned_resnet
from experiments.grammar import activation_search, grammar_cifar10, tune_burgers, tuning
from experiments.k import chrysalis_report
from experiments.nos import nos_report
from experiments.scoreboard import choice, scoreboard_report
from experiments.structured import small_transformers, structured
from experiments.xd import (
    burgers,
    cifar10,
    darcy,
    forecast,
    music,
    navier_stokes,
    neuraloperator,
    pde_experiment,
    rollout,
    series,
    unknown_order,
)

REPORTS = {
    "burgers": pde_experiment,
    "choice": choice,
    "chrysalis": chrysalis_report,
    "cifar10": cifar10,
    "darcy": pde_experiment,
    "dnarch": dnarch,
    "forecast": forecast,
    "kernel": kernel_sizes,
    "music": music,
    "navier": pde_experiment,
    "neuraloperator": neuraloperator,
    "nos": nos_report,
    "pruned": pruned_resnet,
    "quickstart": quickstart,
    "rollout": rollout,
    "scoreboard": scoreboard_report,
    "series": series,
    "small": small_transformers,
    "structured": structured,
    "unknown": unknown_order,
}
PROBLEMS = {script.PROBLEM.name: script.PROBLEM for script in (burgers, darcy, navier_stokes)}
TUNED = {script.NAME for script in (activation_search, grammar_cifar10, tune_burgers)}


def records(name, folder=reporting.RESULTS):
    """Return what is stored of an experiment."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def page(name, found):
    """Return the page of records."""
    if name in TUNED:
        return tuning.page(name, found)
    write = REPORTS[name.split("_")[0]].page
    if name in PROBLEMS:
        write = functools.partial(write, PROBLEMS[name])
    return write(found["settings"], found["runs"], found.get("written"))


def main(arguments=None):
    """Write pages; return the names of the experiments."""
    names = sorted(path.stem for path in reporting.RESULTS.glob("*.json"))
    parser = reporting.parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--output", type=pathlib.Path, default=reporting.RESULTS, help="folder")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names or names:
        found = records(name)
        (options.output / f"{name}.md").write_text(page(name, found), encoding="utf-8")
        if name in TUNED:
            tuning.draw(name, found, options.output)
    return options.names or names


if __name__ == "__main__":
    main()
