"""Write the pages of the results again, from their records and without a training.

    python examples/redraw.py
    python examples/redraw.py cifar10 dnarch_mnist --output other/folder

Every `.json` file in examples/results has the records of one page; all pages are written unless
some are named. A changed report needs no experiment to be run again.
"""

import argparse
import functools
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import reporting
from experiments.dnarch import dnarch_report, kernel_sizes, pruned_resnet_report
from experiments.grammar import activation_search, grammar_cifar10, tune_burgers, tuning
from experiments.k import chrysalis_report
from experiments.nos import nos_report
from experiments.scoreboard import scoreboard_report
from experiments.structured import structured_report
from experiments.xd import burgers, cifar10_report, darcy, music_report, pde_report

REPORTS = {
    "burgers": pde_report,
    "chrysalis": chrysalis_report,
    "cifar10": cifar10_report,
    "darcy": pde_report,
    "dnarch": dnarch_report,
    "kernel": kernel_sizes,
    "music": music_report,
    "nos": nos_report,
    "pruned": pruned_resnet_report,
    "scoreboard": scoreboard_report,
    "structured": structured_report,
}
PROBLEMS = {"burgers": burgers.PROBLEM, "darcy": darcy.PROBLEM}
TUNED = {script.NAME: script.PICTURES for script in (activation_search, grammar_cifar10)}
TUNED[tune_burgers.NAME] = {}


def records(name, folder=reporting.RESULTS):
    """Return what is stored of an experiment."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def page(name, found):
    """Return the page of records."""
    if name in TUNED:
        return tuning.page(name, TUNED[name], found)
    write = REPORTS[name.split("_")[0]].page
    if name in PROBLEMS:
        write = functools.partial(write, PROBLEMS[name])
    return write(found["settings"], found["runs"], found.get("written"))


def main(arguments=None):
    """Write pages; return the names of the experiments."""
    names = sorted(path.stem for path in reporting.RESULTS.glob("*.json"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--output", type=pathlib.Path, default=reporting.RESULTS, help="folder")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(names))
    if unknown:
        parser.error(f"there are no records of {', '.join(unknown)}")
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names or names:
        found = records(name)
        text = page(name, found)
        (options.output / f"{name}.md").write_text(text, encoding="utf-8")
        if name in TUNED:
            tuning.draw(name, TUNED[name], found, options.output)
    return options.names or names


if __name__ == "__main__":
    main()
