"""Read damaged files, texts and states.

    python -m keras_xd_tests.fuzz --count 100000 --seed 0 --page benchmarks/fuzz.md
    python -m keras_xd_tests.fuzz --seed 0 --only 4711

An input depends on the seed and its number alone; one that does harm prints the command that
repeats it. Each must be read or refused with a `ValueError` (`.keras` files also with the errors
that Keras raises for its own format) in a short time, without running code, without a change of a
file outside of its folder, and without more than a gigabyte of memory.
"""

import collections
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time
import traceback
import warnings

import keras
import numpy as np

from keras_xd_tests import commands
from keras_xd_tests.fuzz import formats, guard

MOST_MEMORY = 1 << 30
# A valid input is read now and then too: the readers must still read.
VALID = 100
OWN = ("keras_xd", "tuner_integration")
ROOT = pathlib.Path(__file__).parent.parent.parent


class Fuzz:
    """Reads inputs one by one in a folder of its own.

    Args:
        seed: an integer.
        folder: path of a folder that is emptied before every input.
        known: names of formats, all by default.
    """

    def __init__(self, seed, folder, known=tuple(formats.FORMATS)):
        self.seed, self.folder = seed, pathlib.Path(folder)
        self.formats = {name: formats.FORMATS[name]() for name in known}
        self.guard = guard.Guard(folder)
        rng = np.random.default_rng(0)
        for each in self.formats.values():  # what is made once, such as imports
            formats.clean(self.folder)
            each.read(each.valid(rng), self.folder)
        keras.config.disable_traceback_filtering()  # which hide where an error is raised
        self.memory = guard.memory()

    def input(self, number):
        """Return the format's name, whether the input is valid, and the input."""
        name = formats.TURNS[number % len(formats.TURNS)]
        rng = np.random.default_rng([self.seed, number])
        is_valid = number % VALID < len(formats.TURNS) and number % (VALID * 10) < VALID
        each = self.formats[name]
        return name, is_valid, each.valid(rng) if is_valid else each.damaged(rng)

    def run(self, number):
        """Read an input; return a dictionary of what was seen."""
        name, is_valid, content = self.input(number)
        return {"number": number, "format": name, **self.read(name, content, is_valid)}

    def read(self, name, content, is_valid=False):
        """Read an input of a format: how long it takes, what is raised and what it does."""
        each = self.formats[name]
        seconds, outcome, findings = [], None, []
        while not seconds or (min(seconds) > each.seconds and len(seconds) < 3):
            formats.clean(self.folder)
            with self.guard.watch():
                start = time.process_time()
                outcome, finding = self._outcome(each, content)
                seconds.append(time.process_time() - start)
            findings = [*self.guard.found, *([finding] if finding else [])]
        if is_valid and outcome != "read":
            findings.append(f"a valid input is refused: {outcome}")
        if min(seconds) > each.seconds and min(seconds) > (longest := each.longest(content)):
            findings.append(f"takes {min(seconds):.3f} s, at most {longest} s")
        grown = guard.memory() - self.memory
        if grown > MOST_MEMORY:
            self.memory += grown
            findings.append(f"memory grows by {grown >> 20} MB")
        return {"seconds": min(seconds), "outcome": outcome, "findings": findings}

    def _outcome(self, each, content):
        """Return `"read"` or the name of the error, and what is wrong with it or `None`."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                each.read(content, self.folder)
        except (Exception, RecursionError) as error:
            kind, last = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
            place = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
            own = any(str(ROOT / package) + os.sep in last.filename for package in OWN)
            own = own and not isinstance(error, ValueError)
            if own or not isinstance(error, each.errors):
                return kind, f"{kind} at {place}: {str(error)[:300]}"
            return kind, None
        return "read", None


def command(seed, number):
    """Return the command that repeats one input."""
    return f"python -m keras_xd_tests.fuzz --seed {seed} --only {number}"


def page(results, seed, memory):
    """Return the text of the page."""
    rows, findings = {}, [result for result in results if result["findings"]]
    for result in results:
        rows.setdefault(result["format"], []).append(result)
    lines = [
        "# Damaged files, texts and states",
        "",
        f"Written by `python -m keras_xd_tests.fuzz --count {len(results)} --seed {seed} --page "
        f"benchmarks/fuzz.md`: {len(results)} inputs, {len(findings)} of them with a finding; "
        f"memory grew by {memory >> 20} MB in all.",
        "",
        "Inputs are valid files, texts and states with bytes, tokens, values of JSON, arrays and "
        "members of archives changed, lost, added, exchanged or repeated; one in fifty "
        "is valid. A finding is an error other than `ValueError` (for `.keras` files: one that is "
        "not Keras' own either, or one that the package itself raises), code that runs, a file "
        "changed outside of the input's folder, more than a gigabyte of memory, or more than 50 ms "
        "of the processor (`.keras` files: 2 s, or 15 ms for each layer that they ask for).",
        "",
        "| format | inputs | read | refused | slowest, ms | findings |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        read = sum(result["outcome"] == "read" for result in row)
        slowest = 1000 * max(result["seconds"] for result in row)
        bad = sum(bool(result["findings"]) for result in row)
        lines.append(
            f"| {name} | {len(row)} | {read} | {len(row) - read} | {slowest:.0f} | {bad} |"
        )
    if findings:
        lines += ["", "## Findings", ""]
        for result in findings:
            number = result["number"]
            lines.append(f"- `{command(seed, number)}` ({result['format']}): {result['findings']}")
    return "\n".join(lines) + "\n"


def main(words=None):
    """Run the command; return the results with findings."""
    options = commands.parser(__doc__, count=100_000).parse_args(words)
    numbers = range(options.count) if options.only is None else [options.only]
    results, findings, kinds = [], [], collections.Counter()
    interrupted = contextlib.suppress(KeyboardInterrupt)  # what is done is reported
    with tempfile.TemporaryDirectory() as folder, interrupted:
        fuzz = Fuzz(options.seed, folder)
        for number in numbers:
            result = fuzz.run(number)
            results.append(result)
            if result["findings"]:
                findings.append(result)
                kind = (result["format"], result["findings"][0].split(":")[0])
                kinds[kind] += 1
                if kinds[kind] <= 5:  # the others are in the page
                    print(f"{command(options.seed, number)}  # {result['format']}")
                    print(f"    {result['findings']}")
                    print(f"    {fuzz.input(number)[2][:300]!r}", flush=True)
            if result["format"] == ".keras" and number % 200 == 0:
                keras.utils.clear_session()
    grown = guard.memory() - fuzz.memory
    if options.only is not None:
        print(json.dumps(results[0], indent=1))
    if options.page:
        options.page.write_text(page(results, options.seed, grown), encoding="utf-8")
    print(f"{len(results)} inputs, {len(findings)} with findings")
    return findings


if __name__ == "__main__":
    sys.exit(bool(main()))
