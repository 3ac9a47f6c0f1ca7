"""What the reports of the experiments share: finished runs, commands and tables."""

import argparse
import contextlib
import datetime
import json
import math
import os
import pathlib
import shlex
import statistics
import time

import keras
from timing import page, table, versions  # noqa: F401  # tables of the reports

RESULTS = pathlib.Path(__file__).parent / "results"
ENDINGS = ("md", "json")
FORMAT = 1  # of the records, which need not name the first one


class Results:
    """The finished runs of an experiment, in files that several processes may write to."""

    def __init__(
        self,
        name,
        page,
        folder,
        settings,
        command="",
        overwrite=False,
        key=("method", "kind", "seed"),
        joined=False,
    ):
        self.page, self.key, self.joined = page, key, joined
        self.paths = {ending: folder / f"{name}.{ending}" for ending in ENDINGS}
        self.settings, self.runs = dict(settings), []
        self.written = {
            "command": command,
            "versions": backend_versions(),
            "threads": threads(),
            "date": datetime.date.today().isoformat(),
        }
        self.shown = None  # how many runs the page has
        found = existing(self.paths.values())
        if overwrite:
            self.paths["json"].unlink(missing_ok=True)
        elif found and not (self.paths["json"].exists() and (joined or self._fits())):
            raise ValueError(
                f"There are results of other settings, which are not overwritten unless "
                f"--overwrite is given: {', '.join(found)}"
            )
        self.read()

    def _load(self):
        return json.loads(self.paths["json"].read_text(encoding="utf-8"))

    def _fits(self):
        found = self._load().get("settings", {})
        return {**found, "command": None} == {**self.settings, "command": None}

    def _key(self, run):
        return tuple(run[name] for name in self.key)

    def read(self):
        """Take over the runs that other processes have finished meanwhile."""
        if not self.paths["json"].exists():
            return
        found = self._load()
        self.runs += [run for run in found["runs"] if self.find(*self._key(run)) is None]
        if self.joined:
            earlier = found["settings"]["command"].split(" && ")
            own = self.settings["command"].split(" && ")
            self.settings["command"] = " && ".join(dict.fromkeys(earlier + own))

    def find(self, *key):
        """Return the record of a finished run, or `None`."""
        return next((run for run in self.runs if self._key(run) == key), None)

    def obtain(self, key, run, *arguments):
        """Return the record of a run, that of `run(*arguments)` if there is none; write all.

        The page is written again only if there are more runs than before.
        """
        self.read()
        record = self.find(*key)
        if record is None:
            record = run(*arguments)
            self.add(record)
        if len(self.runs) != self.shown:
            self.write()
        return record

    def add(self, record):
        """Keep a finished run beside those of other processes."""
        self.runs.append(record)
        self.read()
        self.save()

    def save(self):
        """Write the runs to their file; a stop while writing leaves the file of before."""
        self.paths["json"].parent.mkdir(parents=True, exist_ok=True)
        # Moved into place in one step, so that another process never reads half a file.
        unfinished = self.paths["json"].with_suffix(f".{os.getpid()}")
        parts = {"settings": self.settings, "written": self.written, "runs": self.runs}
        records = {"format": FORMAT, **parts}
        unfinished.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        os.replace(unfinished, self.paths["json"])

    def write(self):
        """Write the page."""
        text = self.page(self.settings, self.runs, self.written)
        self.paths["md"].write_text(text, encoding="utf-8")
        self.shown = len(self.runs)


def backend_versions():
    """Return the versions of the backend and of Keras as text."""
    return versions((keras.backend.backend(), "keras"))


@contextlib.contextmanager
def refusing(parser):
    """End with the parser's error where there is a `ValueError`."""
    try:
        yield
    except ValueError as error:
        parser.error(str(error))


def open_results(parser, options, name, page, settings, command="", **more):
    """Return the `Results` of an experiment, or end with the parser's error."""
    with refusing(parser):
        return Results(name, page, options.output, settings, command, options.overwrite, **more)


def run_all(results, keys, run, line):
    """Do the runs that are not there yet; print a line on each, then the page."""
    for key in keys:
        print(line(results.obtain(key, run, *key)), flush=True)
    print(f"\n{results.paths['md'].read_text(encoding='utf-8')}")
    return results


# Rates, chosen with the first seed


def chosen(runs, method, seed=None):
    """Return the run of a method whose mean error on samples for validation is the least.

    Only runs of one seed, by default the first, are compared; `None` if there is none.
    """
    seed = min(run["seed"] for run in runs) if seed is None else seed
    own = select(runs, method=method, seed=seed)
    return min(own, key=lambda run: statistics.mean(run["validation"]), default=None)


def of_rates(runs, method):
    """Return the runs of a method that have the chosen rates, by seed."""
    best = chosen(runs, method)
    own = select(runs, method=method, rates=best["rates"]) if best else []
    return sorted(own, key=lambda run: run["seed"])


def run_rates(results, options, rates, run, line, repeated):
    """Run methods with all of their rates; the repeated ones with the best and more seeds, too."""
    first, *others = options.seeds

    def obtain(*key):
        print(line(results.obtain(key, run, *key)), flush=True)

    for method in options.methods:
        for own in rates[method]:
            obtain(method, first, list(own) if isinstance(own, tuple) else own)
    for method in (method for method in options.methods if method in repeated):
        for seed in others:
            obtain(method, seed, chosen(results.runs, method, first)["rates"])


# Arguments and commands


def parser(documentation):
    """Return a parser that is described by the first line of a script's documentation."""
    return argparse.ArgumentParser(description=documentation.splitlines()[0])


def add_arguments(parser, resume=False):
    """Add the arguments that say where results go, and what happens to those of before."""
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=RESULTS,
        help="folder of the results; examples/results by default",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--overwrite", action="store_true", help="start from scratch, write over results"
    )
    if resume:
        group.add_argument("--resume", action="store_true", help="go on with what is there")


def existing(paths):
    """Return those of the paths that exist, as texts."""
    return [str(path) for path in paths if path.exists()]


def check_output(parser, options, paths, needed, what="results"):
    """End with an error if something would be overwritten, or there is nothing to resume."""
    found = existing(paths)
    if found and not (options.overwrite or options.resume):
        parser.error(
            f"{', '.join(found)} would be overwritten: give --overwrite, --resume or other folders"
        )
    if options.resume and not needed.exists():
        parser.error(f"--resume needs {what} in {needed}, and there are none")


def command(script, parser, options, names, positional=()):
    """Return the command of a script, with the options that are not at their defaults."""
    words = ["python", f"examples/experiments/{script}", *positional]
    for name in names:
        value = getattr(options, name)
        if value != parser.get_default(name):
            words.append("--" + name.replace("_", "-"))
            if value is not True:  # of a flag
                words += [str(item) for item in (value if isinstance(value, list) else [value])]
    return shlex.join(words)


# Sentences


def threads():
    """Return how many threads computed: as many as cores, or as TF_NUM_INTRAOP_THREADS has."""
    # Only Linux tells to which cores a process is bound.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS") or cores)


def commands(runs):
    """Return the commands of runs as text, each of them once.

    Those that differ in `--methods` and `--seeds` alone become one for all methods with the same
    seeds.
    """
    kinds = {}
    for run in runs:
        joined = "--methods" in run["command"].split(" ")
        base = _without(run["command"], ("--methods", "--seeds")) if joined else run["command"]
        kinds.setdefault(base, []).append(run)
    found = []
    for base, alike in kinds.items():
        if len({run["command"] for run in alike}) == 1:
            found.append(alike[0]["command"])
            continue
        seeds, groups = {}, {}
        for run in alike:
            seeds.setdefault(run["method"], set()).add(run["seed"])
        for method, own in seeds.items():
            groups.setdefault(" ".join(map(str, sorted(own))), []).append(method)
        for own, methods in groups.items():
            found.append(f"{base} --methods {' '.join(methods)} --seeds {own}")
    return " and ".join(f"`{text}`" for text in found)


def _without(command, options):
    """Return a command without some options and what follows each of them."""
    words, skipping = [], False
    for word in command.split(" "):
        if word.startswith("--"):
            skipping = word in options
        if not skipping:
            words.append(word)
    return " ".join(words)


def spread(values, digits):
    """Return mean ± standard deviation as text; of one value no deviation."""
    text = f"{statistics.mean(values):.{digits}f}"
    return text + (f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else "")


def over(seeds):
    """Return what `spread` is over, as text: seeds, or the only one."""
    if len(seeds) == 1:
        return f"of seed {seeds[0]} alone, so without a deviation"
    listed = ", ".join(map(str, sorted(seeds)))
    return f"mean ± standard deviation over the seeds {listed}, or those in brackets"


def plural(number, noun):
    """Return a number of things as text."""
    return f"{number} {noun}{'s' * (number > 1)}"


def hours(runs):
    """Return the hours that runs took, as text; their `seconds` are a list or a dictionary."""
    seconds = [run["seconds"] for run in runs]
    total = sum(sum(s.values() if isinstance(s, dict) else s) for s in seconds)
    return f"{total / 3600:.2f} hours"


class EpochClock(keras.callbacks.Callback):
    """Notes the seconds of every epoch."""

    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(round(time.perf_counter() - self.start, 3))


# Pages


def markdown(title, *parts):
    """Return the text of a page of paragraphs and lists of lines."""
    return "\n".join(page(title, *parts)) + "\n"


def written_by(what, written):
    """Return the first sentence of a page, on the commands that wrote it."""
    return f"Written by {what}; {written['versions']}; threads: {written['threads']}."


def points(lines):
    """Return the lines of a list."""
    return [f"- {line}" for line in lines]


def cell(values, seeds, digits, missing="–"):
    """Return a table's entry of a dictionary by seed: its `spread`, and the seeds if some lack."""
    if not values:
        return missing
    text = spread(list(values.values()), digits)
    if len(values) < len(seeds):
        text += f" ({', '.join(map(str, sorted(values)))})"
    return text


def gains(one, other):
    """Return how far values are above others of the same seed; both are dictionaries by seed."""
    return [value - other[seed] for seed, value in one.items() if seed in other]


def present(runs, key, order):
    """Return what runs have for `key`, in the given order."""
    return [value for value in order if any(run[key] == value for run in runs)]


def unique(runs, key):
    """Return the values that runs have for a key, in the order of the runs."""
    return list(dict.fromkeys(run[key] for run in runs))


def select(runs, **wanted):
    """Return the runs that have all of the wanted values."""
    return [run for run in runs if all(run[key] == value for key, value in wanted.items())]


def count(variables):
    """Return the number of parameters in variables."""
    return sum(math.prod(variable.shape) for variable in variables)
