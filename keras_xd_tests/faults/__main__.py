"""Kill processes and fill disks while they train, search, evaluate, export and save.

    python -m keras_xd_tests.faults --count 200 --fills 50 --seed 0 --page benchmarks/faults.md
    python -m keras_xd_tests.faults --seed 0 --only 17
    python -m keras_xd_tests.faults --seed 0 --only-fill 4

Each job runs once in one piece. Then it is begun again and again in an empty folder, gets SIGKILL
at a random moment of its work, sometimes a second one when it goes on, and is resumed until it
ends. After each kill no file with a final name may be half-written, and what was reported as
finished must be there and read back; in the end the result must be that of the job in one piece, to
the bit. The same with a small disk that has room for a random part of what the job writes: the job
must end with an error that says so, and go on when there is room.

With `--output` records are kept after each number, and a later call with the same file runs only
what is missing.
"""

import argparse
import gc
import json
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from keras_xd.core import files
from keras_xd_tests.faults import checks, children, disks, report, searching, training, workers

JOBS = {
    job.name: job
    for job in (
        training.Fit(),
        training.DistributedFit(),
        searching.Evaluation(),
        searching.Tune(),
        workers.Workers(),
        searching.Export(),
        training.Save(),
        training.SaveArchitecture(),
    )
}
# Twenty numbers in a row have these jobs; those of several processes and exports take the longest.
TURNS = (
    *("fit", "distributed.fit", "evaluation", "tuner", "save", "export", "fit", "distributed.fit"),
    *("tuner", "evaluation", "save_architecture", "chief and workers", "fit", "distributed.fit"),
    *("tuner", "evaluation", "save", "export", "fit", "distributed.fit"),
)
AGAIN = 0.25  # how often what goes on is killed once more


class Faults:
    """Runs jobs that are killed or have no room.

    Args:
        seed: an integer.
        folder: an empty folder to work in.
        jobs: dictionary of jobs by name.
        mount: whether small disks are mounted; else the size of files is limited.
    """

    def __init__(self, seed, folder, jobs=JOBS, mount=True):
        self.seed, self.folder = seed, pathlib.Path(folder)
        self.jobs, self.references, self.needed = jobs, {}, {}
        self.disk = disks.SmallDisk if mount else disks.SizeLimit
        self.number = 0
        # What is imported is not looked through again in each copy: KerasTuner asks for each model.
        gc.collect()
        gc.freeze()

    def kill(self, name, rng):
        """Kill a job at a random moment, resume it; return what was seen."""
        job = self.jobs[name]
        reference = self.reference(name)
        found = {"kills": 0, "left": 0, "left_in_the_end": 0, "findings": []}
        if hasattr(job, "victims"):
            return {**found, **self._kill_one_of_several(job, reference, rng)}
        share, again, share_again = rng.random(3)
        outcome = None
        while outcome is None or not (outcome.killed or outcome.status):
            if outcome is not None:  # it ended before the moment came: this machine is faster now
                reference.seconds = min(reference.seconds, outcome.seconds)
            folder = self._new_folder()
            outcome = children.run(job.run, folder, kill_after=share * reference.seconds)
        lines = []
        while outcome.killed:
            lines += outcome.lines
            found["kills"] += 1
            self._check(job, folder, lines, reference, found)
            after = share_again * reference.seconds if again < AGAIN else None
            again = 1.0
            outcome = children.run(job.run, folder, kill_after=after)
            found["findings"] += self._of_resumed(job, lines, outcome)
        self._end(job, folder, outcome, reference, found)
        return found

    def fill(self, name, rng):
        """Give a job too small a disk, then room; return what was seen."""
        job = self.jobs[name]
        reference = self.reference(name)
        found = {"room": 0, "full": 0, "left": 0, "left_in_the_end": 0, "findings": []}
        with self.disk(self._new_folder()) as disk:
            folder = disk.folder / "work"
            folder.mkdir()
            if name not in self.needed:
                outcome = children.run(job.run, folder, poll=disk.note)
                self._end(job, folder, outcome, reference, found)
                self.needed[name] = disk.needed()
        with self.disk(self._new_folder()) as disk:
            folder = disk.folder / "work"
            folder.mkdir()
            room = found["room"] = int(rng.integers(self.needed[name]))
            disk.fill(room)
            outcome = children.run(_within, disk, job, folder)
            error = outcome.error
            if outcome.hangs or outcome.status < 0:
                found["findings"].append(_ended(outcome))
            if outcome.status:
                found["full"] = 1
                self._check(job, folder, outcome.lines, reference, found)
                if error and not disks.names_a_full_disk(error):
                    said = f"{error['kinds'][0]}: {error['text'][:400]}"
                    found["findings"].append(
                        f"the error does not say that the disk is full: {said}"
                    )
                lines = outcome.lines
                disk.empty()
                outcome = children.run(_within, disk, job, folder)
                found["findings"] += self._of_resumed(job, lines, outcome)
            self._end(job, folder, outcome, reference, found)
        return found

    def reference(self, name):
        """Return the outcome of a job in one piece."""
        if name not in self.references:
            outcome = children.run(self.jobs[name].run, self._new_folder())
            if outcome.status or outcome.result is None:
                raise RuntimeError(f"The job {name} fails: {_ended(outcome)}")
            self.references[name] = outcome
        return self.references[name]

    def _new_folder(self):
        self.number += 1
        folder = self.folder / str(self.number)
        folder.mkdir()
        return folder

    def _kill_one_of_several(self, job, reference, rng):
        folder, victim = self._new_folder(), str(rng.choice(job.victims))
        after = rng.random() * reference.seconds
        outcome = children.run(job.run, folder, victim, after)
        found = {"kills": 1, "left": 0, "left_in_the_end": 0, "findings": []}
        if outcome.status:
            found["findings"].append(_ended(outcome))
        else:
            left = outcome.result.pop("left")
            found |= {"left": int(left > 0), "kills": outcome.result.pop("killed")}
            found["findings"] += outcome.result.pop("findings")
            if any(outcome.result[key] != reference.result[key] for key in outcome.result):
                found["findings"].append(f"another result: {outcome.result}")
        found["findings"] += checks.half_written(folder)
        found["left_in_the_end"] = len(checks.leftovers(folder))
        found["victim"] = victim
        return found

    def _check(self, job, folder, lines, reference, found):
        """Look at what lies in a folder, in a copy of this process."""
        found["left"] += bool(checks.leftovers(folder))
        found["findings"] += checks.half_written(folder)
        looked = children.run(job.check, folder, lines, reference.lines)
        found["findings"] += [_ended(looked)] if looked.result is None else looked.result

    def _of_resumed(self, job, before, outcome):
        check = getattr(job, "check_resumed", None)
        return check(before, outcome.lines) if check else []

    def _end(self, job, folder, outcome, reference, found):
        """Compare the end of a job with that in one piece."""
        if outcome.status or outcome.result is None:
            found["findings"].append(f"it does not go on: {_ended(outcome)}")
            return
        different = [k for k, v in outcome.result.items() if v != reference.result[k]]
        if different:
            found["findings"].append(f"the result differs from that in one piece: {different}")
        found["findings"] += checks.half_written(folder)
        left = checks.leftovers(folder)
        found["left_in_the_end"] = len(left)


def _within(disk, job, folder):
    disk.prepare()
    return job.run(folder)


def _ended(outcome):
    """Return how a copy ended, a text."""
    if outcome.hangs:
        return "it hangs"
    if outcome.error:
        error = outcome.error
        return f"{error['kinds'][0]}: {error['text'][:400]} {error.get('trace', '')[-1500:]}"
    return f"it ends with status {outcome.status}"


def numbered(faults, kind, number, names):
    """Run the kill or the fill of a number; return its record, `None` for a job left out."""
    name = TURNS[number % len(TURNS)]
    if name not in names:
        return None
    rng = np.random.default_rng([faults.seed, ("kill", "fill").index(kind), number])
    begin = time.monotonic()
    found = getattr(faults, kind)(name, rng)
    seconds = round(time.monotonic() - begin, 2)
    return {"kind": kind, "number": number, "job": name, "seconds": seconds, **found}


def main(words=None):
    """Run the command; return the records with findings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200, help="number of jobs that are killed")
    parser.add_argument("--fills", type=int, default=50, help="number of disks that are filled")
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--only", type=int, help="number of one kill")
    parser.add_argument("--only-fill", type=int, help="number of one disk")
    parser.add_argument("--minutes", type=float, help="end after this time; go on with --output")
    parser.add_argument("--output", type=pathlib.Path, help="JSON file of records, taken up again")
    parser.add_argument("--page", type=pathlib.Path, help="page to write")
    options = parser.parse_args(words)
    plan = [("kill", n) for n in range(options.count)] + [("fill", n) for n in range(options.fills)]
    if options.only is not None or options.only_fill is not None:
        plan = [("kill", options.only)] if options.only is not None else []
        plan += [("fill", options.only_fill)] if options.only_fill is not None else []
    records = report.read(options.output, options.seed)
    known = {(record["kind"], record["number"]) for record in records}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "mount").mkdir()
        refused = disks.may_mount(pathlib.Path(folder) / "mount")
        if refused:
            print(f"No small disk can be mounted ({refused}): {disks.SizeLimit.kind}.")
        faults = Faults(options.seed, folder, mount=not refused)
        for kind, number in plan:
            if options.minutes and time.monotonic() - begin > 60 * options.minutes:
                break
            record = None
            if (kind, number) not in known:
                record = numbered(faults, kind, number, options.jobs)
            if record is None:
                continue
            if kind == "fill":
                record["disk"] = faults.disk.kind
            records.append(record)
            report.write(options.output, options.seed, records)
            if record["findings"]:
                print(report.command(options.seed, record), "#", record["job"])
                print("    " + "\n    ".join(record["findings"]), flush=True)
    if options.page:
        text = report.page(records, options.seed, JOBS)
        files.write(options.page, text.encode(), overwrite=True)
    findings = [record for record in records if record["findings"]]
    if len(plan) == 1 and records:
        print(json.dumps(records[-1], indent=1))
    print(f"{len(records)} of {len(plan)} numbers, {len(findings)} with findings")
    return findings


if __name__ == "__main__":
    sys.exit(bool(main()))
