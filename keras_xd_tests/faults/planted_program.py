"""Small jobs with planted defects, the command, and killed searches; prints what is found.

All in one process, which imports TensorFlow once.

`python -m keras_xd_tests.faults.planted_program FOLDER`
"""

import contextlib
import io
import json
import os
import pathlib
import runpy
import sys
import time

import numpy as np

from keras_xd_tests.faults import running

FILES = 8
LENGTH = 6_000  # bytes


class Sound:
    """Writes numbered files, each beside its name first."""

    name = "sound"

    def content(self, number):
        return json.dumps([number] * (LENGTH // 4))

    def write(self, path, number):
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.write_text(self.content(number))
        os.replace(unfinished, path)

    def run(self, folder):
        print("start", flush=True)
        for number in range(FILES):
            if not self.path(folder, number).exists():
                self.write(self.path(folder, number), number)
            print("done", number)
            time.sleep(0.01)
        return self.found(folder)

    def path(self, folder, number):
        return folder / f"{number}.json"

    def found(self, folder):
        return {"content": [self.path(folder, n).read_text() for n in range(FILES)]}

    def check(self, folder, before, reference):
        numbers = [int(line.split()[1]) for line in before if line.startswith("done")]
        return [f"{n} is not there" for n in numbers if not self.path(folder, n).exists()]


class InPlace(Sound):
    """Writes under the final name."""

    name = "in place"

    def write(self, path, number):
        text = self.content(number)
        with open(path, "w") as file:
            file.write(text[:100])
            file.flush()
            time.sleep(0.01)
            file.write(text[100:])


class Forgetful(Sound):
    """Ends with another result when it goes on."""

    name = "forgetful"

    def run(self, folder):
        resumed = self.path(folder, 0).exists()
        return {**super().run(folder), "resumed": resumed}


class Silent(Sound):
    """Does not say why it ends."""

    name = "silent"

    def write(self, path, number):
        try:
            super().write(path, number)
        except OSError:
            raise RuntimeError("something failed") from None


def planted(folder):
    """Run every job; return the findings of each."""
    kinds = (Sound, InPlace, Forgetful, Silent)
    jobs = {kind.name: kind() for kind in kinds}
    faults = running.Faults(0, folder, jobs, mount=False)
    rng, found = np.random.default_rng(0), {}
    for name in jobs:
        kills = [faults.kill(name, rng) for _ in range(3)]
        found[name] = {"kills": kills, "fill": faults.fill(name, rng)}
    return found


def command(folder):
    """Run the command on the job that takes the least; return its status and what it prints."""
    from keras_xd_tests.faults import training

    training.SaveArchitecture.versions = 15  # each copy of this process writes all of them
    words = ["--only", "10", "--only-fill", "10"]
    words += ["--output", str(folder / "faults.json"), "--page", str(folder / "faults.md")]
    sys.argv[1:] = words
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_module("keras_xd_tests.faults", run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = int(ended.code)
    return {"status": status, "printed": printed.getvalue()}


def main():
    folder = pathlib.Path(sys.argv[1])
    folders = {name: folder / name for name in ("planted", "command", "searches")}
    for path in folders.values():
        path.mkdir()
    # Copies of a process are made faster before it imports TensorFlow.
    found = {"planted": planted(folders["planted"])}
    from keras_xd_tests.faults import killed_searches

    found["command"] = command(folders["command"])
    found["searches"] = killed_searches.killed_searches(folders["searches"])
    print("RESULT " + json.dumps(found))


if __name__ == "__main__":
    main()
