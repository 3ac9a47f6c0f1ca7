"""Kill processes and fill disks while they train, search, evaluate, export and save.

    python -m keras_xd_tests.faults --count 200 --fills 40 --seed 0 --page benchmarks/faults.md
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

import json
import pathlib
import sys
import tempfile
import time

import numpy as np

from keras_xd.core import files
from keras_xd_tests import commands
from keras_xd_tests.faults import disks, report, running, searching, training, workers

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


def numbered(faults, kind, number):
    """Run the kill or the fill of a number; return its record."""
    name = TURNS[number % len(TURNS)]
    rng = np.random.default_rng([faults.seed, ("kill", "fill").index(kind), number])
    begin = time.monotonic()
    found = getattr(faults, kind)(name, rng)
    seconds = round(time.monotonic() - begin, 2)
    return {"kind": kind, "number": number, "job": name, "seconds": seconds, **found}


def main(words=None):
    """Run the command; return the records with findings."""
    parser = commands.parser(__doc__, count=200)
    parser.add_argument("--fills", type=int, default=40, help="number of disks that are filled")
    parser.add_argument("--only-fill", type=int, help="number of one disk")
    parser.add_argument("--minutes", type=float, help="end after this time; go on with --output")
    parser.add_argument("--output", type=pathlib.Path, help="JSON file of records, taken up again")
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
        faults = running.Faults(options.seed, folder, JOBS, mount=not refused)
        for kind, number in plan:
            if options.minutes and time.monotonic() - begin > 60 * options.minutes:
                break
            if (kind, number) in known:
                continue
            record = numbered(faults, kind, number)
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
