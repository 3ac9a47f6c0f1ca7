"""The page of `scoreboard.py`."""

import statistics

import reporting
from reporting import plural, select

NAMES = {
    "backbone": "backbone",
    "wide": "wide backbone",
    "expert": "expert",
    "random": "random operations",
    "darts": "DARTS mixture",
    "dash": "DASH",
    "k_operation": "K-operations",
    "xd": "XD",
    "dash_xd": "DASH → XD",
}
SEARCHES = ("darts", "dash", "k_operation", "xd", "dash_xd")
CHOICE = "settings"  # in place of a seed, of the record of the small search of settings
AHEAD, BEHIND, WANTED = 2, 1, 5


def page(settings, records, written):
    """Return the page of results."""
    tasks, runs = settings["tasks"], finished(records)
    seeds = settings["seeds"]
    rows = [name for name in tasks if select(runs, task=name)]
    return reporting.markdown(
        "Scoreboard of diverse tasks",
        f"Written by `{written['command']}`; {written['versions']}, "
        f"{plural(written['threads'], 'core')}.",
        f"Every method has the same number of updates of a task, {settings['batches']}; tasks "
        f"and networks are small{_durations(runs)}. "
        "Errors are those on the test samples after the last update, of the finalized network; "
        f"{reporting.over(seeds)}. Less is better.",
        "## Errors",
        _errors(tasks, runs, rows, seeds),
        *_verdicts(tasks, runs, rows),
        "## What a search costs, and its result",
        *_costs(tasks, runs, records),
        "## Tasks",
        _tasks(tasks, runs),
        "## How the methods are trained",
        reporting.points(settings["text"]),
        "## Chosen settings",
        _choices(tasks, records),
    )


def _durations(runs):
    """Return how long the runs take, as the end of a sentence."""
    seconds = [sum(run["cpu_seconds"].values()) for run in runs]
    if not seconds:
        return ""
    return (
        f": half of the runs take at most {statistics.median(seconds):.0f} seconds of one core, "
        f"the longest {max(seconds):.0f}"
    )


def finished(records):
    """Return the records of runs, without those of settings and of runs that diverged."""
    return [r for r in records if r["seed"] != CHOICE and r["error"] is not None]


def errors(runs, **wanted):
    """Return errors by seed."""
    return {run["seed"]: run["error"] for run in select(runs, **wanted)}


def deviations(runs, task, method):
    """Return by how many deviations a method is ahead of the backbone, or `None`.

    The deviation is the larger one of both methods over the seeds.
    """
    pair = [list(errors(runs, task=task, method=name).values()) for name in ("backbone", method)]
    if min(map(len, pair)) < 2:
        return None
    first, second = map(statistics.mean, pair)
    return (first - second) / max(max(map(statistics.stdev, pair)), 1e-9)


def _errors(tasks, runs, rows, seeds):
    """Return the table of errors."""
    head = ["task", *NAMES.values()]
    body = []
    for task in rows:
        means, cells = {}, []
        for method in NAMES:
            found = errors(runs, task=task, method=method)
            cells.append(reporting.cell(found, seeds, tasks[task]["digits"]))
            if found:
                means[method] = statistics.mean(found.values())
        best = list(NAMES).index(min(means, key=means.get))
        cells[best] = f"**{cells[best]}**"
        body.append([f"{tasks[task]['title']}, {tasks[task]['metric']}", *cells])
    return reporting.table(head, body)


def _verdicts(tasks, runs, rows):
    """Return how far the searches are from the backbone, and whether the target is met."""
    body, ahead, behind = [], {}, {}
    methods = [method for method in NAMES if method != "backbone"]
    for task in rows:
        cells = []
        for method in methods:
            found = deviations(runs, task, method)
            cells.append("–" if found is None else f"{found:+.1f}")
            if found is not None and method in SEARCHES:
                ahead.setdefault(method, []).extend([task] * (found > AHEAD))
                behind.setdefault(method, []).extend([task] * (found < -BEHIND))
        body.append([tasks[task]["title"], *cells])
    head = ["ahead of the backbone by", *(NAMES[method] for method in methods)]
    lines = []
    for method in ahead:
        lost = "; ".join(tasks[task]["title"] for task in behind[method]) or "none"
        met = len(ahead[method]) >= WANTED and not behind[method]
        lines.append(
            f"- {NAMES[method]}: ahead by more than {AHEAD} on {len(ahead[method])}, behind by "
            f"more than {BEHIND} on {len(behind[method])} ({lost})"
            + ("; meets the target" if met else "")
            + _found_again(runs, method)
        )
    return [
        "Difference from the backbone's mean, in deviations (the larger one of the two methods'); "
        "positive is better:",
        reporting.table(head, body),
        f"The target is a search that is ahead by more than {AHEAD} deviations on {WANTED} of "
        f"{len(tasks)} tasks and nowhere behind by more than {BEHIND}.",
        lines,
    ]


def _found_again(runs, method):
    """Return the end of a sentence on a search: how often it has found the backbone again."""
    own = select(runs, method=method)
    bases = {(run["task"], run["seed"]): _size(run) for run in select(runs, method="backbone")}
    same = sum(bases.get((run["task"], run["seed"])) == _size(run) for run in own)
    return f". It found the backbone again in {same} of {len(own)} runs." if same else "."


def _size(run):
    return run["parameters"], run["multiply_adds"]


def _costs(tasks, runs, records):
    """Return the table of costs, each relative to the backbone's of the same task and seed."""
    bases = {(run["task"], run["seed"]): run for run in select(runs, method="backbone")}
    found = {}
    for run in runs:
        base = bases.get((run["task"], run["seed"]))
        if base:
            ratios = [sum(run["cpu_seconds"].values()) / sum(base["cpu_seconds"].values())]
            ratios += [run[name] / base[name] for name in ("parameters", "multiply_adds")]
            ratios += [own / other for own, other in run["milliseconds"].values()]
            found.setdefault(run["method"], {}).setdefault(run["task"], []).append(ratios)
    found = {method: found[method] for method in NAMES if method in found}
    head = ["relative to the backbone", *(NAMES[name] for name in found)]
    names = [
        "seconds of search and training",
        "parameters of the found network",
        "its multiply–adds",
        "its latency, one sample",
        "its latency, 64 samples",
    ]
    body = []
    for index, name in enumerate(names):
        cells = []
        for method in found:
            per_task = [
                statistics.mean(r[index] for r in ratios) for ratios in found[method].values()
            ]
            cells.append(f"{statistics.geometric_mean(per_task):.2f}")
        body.append([name, *cells])
    seconds = sum(sum(run["cpu_seconds"].values()) for run in runs)
    choosing = sum(r["cpu_seconds"] for r in records if r["seed"] == CHOICE)
    return [
        "Geometric means over the tasks. Seconds are those of the processor, with the time in "
        "which TensorFlow traces the graphs, which is much of such short trainings. Latency is the "
        "median of calls of the finalized network and the backbone in turn, on a busy machine.",
        reporting.table(head, body),
        f"All runs took {seconds / 60:.0f} minutes of the processor, and the small searches of "
        f"settings {choosing / 60:.0f}.",
    ]


def _tasks(tasks, runs):
    head = ["task", "data; backbone", "expert", "samples to train, validate, test"]
    head += ["shape", "updates", "batch"]
    body = []
    for name, task in tasks.items():
        own = select(runs, task=name)
        samples = ", ".join(f"{number:,}" for number in own[0]["samples"]) if own else "–"
        shape = " × ".join(map(str, own[0]["shape"])) if own else "–"
        cells = [task["title"], task["text"], task["expert"] or "–", samples, shape]
        body.append([*cells, task["updates"], task["batch_size"]])
    return reporting.table(head, body)


def _choices(tasks, records):
    """Return the table of the settings that the small searches have chosen."""
    head, body = ["task", *NAMES.values()], []
    for task in tasks:
        cells = []
        for method in NAMES:
            own = select(records, task=task, method=method, seed=CHOICE)
            values = own[0]["setting"] if own else {}
            cells.append(" / ".join(f"{value:g}" for value in values.values()) or "–")
        body.append([tasks[task]["title"], *cells])
    return reporting.table(head, body)
