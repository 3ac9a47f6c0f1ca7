"""The records of kills and full disks, and their page."""

import json

from keras_xd.core import files


def read(path, seed):
    """Return the records of an earlier call, none without a path or a file.

    Raises:
        ValueError: if they are of another seed.
    """
    if path is None or not path.exists():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    if content["seed"] != seed:
        raise ValueError(f"Records must be of one seed. Received: {content['seed']} and {seed}")
    return content["records"]


def write(path, seed, records):
    """Keep records, if there is a path."""
    if path is not None:
        content = json.dumps({"seed": seed, "records": records}, indent=1)
        files.write(path, content.encode(), overwrite=True)


def command(seed, record):
    """Return the command that repeats a record."""
    option = "--only" if record["kind"] == "kill" else "--only-fill"
    return f"python -m keras_xd_tests.faults --seed {seed} {option} {record['number']}"


def page(records, seed, jobs):
    """Return the text of the page."""
    kills = [record for record in records if record["kind"] == "kill"]
    fills = [record for record in records if record["kind"] == "fill"]
    total = sum(record["kills"] for record in kills)
    found = [record for record in records if record["findings"]]
    minutes = sum(record["seconds"] for record in records) / 60
    lines = [
        "# Killed processes and full disks",
        "",
        f"Written by `python -m keras_xd_tests.faults --count {len(kills)} --fills {len(fills)} "
        f"--seed {seed} --page benchmarks/faults.md`: {total} kills and {len(fills)} small disks "
        f"in {minutes:.0f} minutes, {len(found)} numbers with a finding.",
        "",
        "Each job runs once in one piece. Then it gets SIGKILL at a random moment of its work, "
        "sometimes a second one when it goes on, and is resumed until it ends. A finding is a file "
        "with a final name that is half-written, something reported as finished that is not there "
        "or does not read back, a finished trial that runs again, a resumed job that fails, or a "
        "result that differs from that in one piece in one bit: weights, optimizers, random state, "
        "histories, tables, outputs of exported files. Models have dropout. Of the chief and its "
        "workers a random one is killed; which trial is whose depends on time, so there the number "
        "of trials and their ends are compared. Hidden is what has the name of something "
        "unfinished; temporary files of the system are not counted.",
        "",
        "| job | numbers | kills | of them with something hidden left | hidden in the end | "
        "findings |",
        "|---|---|---|---|---|---|",
    ]
    lines += _rows(jobs, kills, "kills")
    if fills:
        kinds = sorted({record["disk"] for record in fills})
        lines += [
            "",
            f"The same on a disk without room ({'; '.join(kinds)}): there is room for a random "
            "part of what the job needs. The job must end with an error that says so, its finished "
            "files must read back, and with room again it must end with the result of one piece.",
            "",
            "| job | disks | of them full before the end | with something hidden left | hidden in "
            "the end | findings |",
            "|---|---|---|---|---|---|",
        ]
        lines += _rows(jobs, fills, "full")
    if found:
        lines += ["", "## Findings", ""]
        for record in found:
            texts = [" ".join(text.split())[:300] for text in record["findings"]]
            lines.append(f"- `{command(seed, record)}` ({record['job']}): {'; '.join(texts)}")
    return "\n".join(lines) + "\n"


_LEFT = ("left", "left_in_the_end", "findings")


def _rows(jobs, records, first):
    """Generate the row of each job."""
    for name in jobs:
        if rows := [record for record in records if record["job"] == name]:
            yield f"| {name} | {len(rows)} | " + _sums(rows, (first, *_LEFT))


def _sums(rows, keys):
    """Return the cells of sums, the last of them numbers of records."""
    cells = [str(sum(row[key] for row in rows)) for key in keys[:-1]]
    return " | ".join([*cells, str(sum(bool(row["findings"]) for row in rows))]) + " |"
