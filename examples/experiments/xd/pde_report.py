"""The results of the experiments on differential equations: table, page, records, curves."""

import json
import os
import statistics

import numpy as np

from keras_xd.visualization import style

METHODS = ("CNN", "FNO", "XD")
LAST = 10  # epochs that the second error is a mean of


def table(problem, records):
    """Return a Markdown table, a line for each resolution and method: means over the seeds."""
    lines = [
        f"| size | method | epochs | error | mean of last {LAST} | lowest to highest of these "
        "| published | parameters | architecture's rate | s / epoch |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for resolution, epochs in _budgets(records):
        published = problem.published.get(resolution, ["–"] * len(METHODS))
        for method, reference in zip(METHODS, published, strict=True):
            found = _runs(records, resolution, epochs, method)
            if found:
                cells = [resolution, method, epochs]
                last = [error for record in found for error in record["errors"][-LAST:]]
                cells += [_mean(found, "error"), _mean(found, "mean_of_last")]
                cells += [f"{min(last):.4f} to {max(last):.4f}", reference]
                rate = found[0]["architecture_rate"]
                cells += [f"{found[0]['parameters']:,}", "–" if rate is None else f"{rate:g}"]
                cells.append(f"{statistics.median(r['seconds_per_epoch'] for r in found):.1f}")
                lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _budgets(records):
    return sorted({(record["resolution"], record["epochs"]) for record in records})


def _runs(records, *wanted):
    return [r for r in records if (r["resolution"], r["epochs"], r["method"]) == wanted]


def _mean(records, key):
    values = [record[key] for record in records]
    deviation = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{deviation}"


def page(problem, records, settings):
    """Return the results page."""
    lines = [
        f"# {problem.name.capitalize()}: relative L2 error of CNN, FNO and XD",
        f"`{settings['command']}` wrote this page.",
        table(problem, records),
        f"![Error per epoch]({problem.name}.png)",
        f"Error on the {settings['evaluated_on']} samples after the last epoch, and mean of those "
        f"after each of the last {LAST}, over {settings['seeds']} seed(s). XD is evaluated as "
        "its finalized model. At each size all methods of a budget of epochs have the same "
        "batches and the same schedule. The published figures are those of the XD paper after 500 "
        "epochs on other data: compare methods with each other. Seconds are the median of the "
        "epochs' training by the clock on the wall.",
        "\n".join(f"- {key.replace('_', ' ')}: {value}" for key, value in settings.items()),
    ]
    return "\n\n".join(lines) + "\n"


@style.context()
def curves(records):
    """Return a figure of the error after each epoch."""
    from matplotlib.figure import Figure

    budgets = _budgets(records)
    with style.context():
        rows = -(-len(budgets) // 2)
        figure = Figure(figsize=(3.6 * min(2, len(budgets)), 2.4 * rows), layout="constrained")
        # One scale for all, so that what looks lower is lower.
        grid = figure.subplots(rows, min(2, len(budgets)), squeeze=False, sharey=True)
        for axis in grid.flat[len(budgets) :]:
            axis.axis("off")
        for axis, (resolution, epochs) in zip(grid.flat, budgets, strict=False):
            for number, method in enumerate(METHODS):
                found = [r["errors"] for r in _runs(records, resolution, epochs, method)]
                if found:
                    at, look = range(1, len(found[0]) + 1), style.curve(number)
                    look = {"color": look["color"], "linewidth": 0.9}
                    axis.plot(at, np.mean(found, axis=0), label=method, **look)
                    ends = np.min(found, axis=0), np.max(found, axis=0)
                    axis.fill_between(at, *ends, color=look["color"], alpha=0.15, linewidth=0)
            axis.set(title=f"{resolution} points, {epochs} epochs", xlabel="epoch", yscale="log")
            axis.grid(axis="y")
            axis.margins(x=0)
        for axis in grid[:, 0]:
            axis.set_ylabel("relative L2 error")
        for axis in grid.flat[: len(budgets)]:
            style.label_lines(axis)
    return figure


def write(problem, records, settings, output):
    """Write the page, the records and the curves into the folder."""
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{problem.name}.md").write_text(page(problem, records, settings), encoding="utf-8")
    text = json.dumps({"settings": settings, "runs": records}, indent=1)
    # Moved into place in one step, so that another process never reads half a file.
    temporary = output / f"{problem.name}.json.{os.getpid()}"
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(output / f"{problem.name}.json")
    if records:
        curves(records).savefig(output / f"{problem.name}.png", dpi=110)


def add(problem, records, settings, output):
    """Add runs to those that the folder holds by now and write them all; return all of them.

    Several processes may add to one folder: a run that is there already stays, and the page names
    the commands of all of them.
    """
    earlier, found = read(problem, output)
    settings = dict(settings)
    if settings["command"] not in earlier["command"].split(" && "):
        settings["command"] = f"{earlier['command']} && {settings['command']}"
    else:
        settings["command"] = earlier["command"]
    known = {run_of(record) for record in found}
    found += [record for record in records if run_of(record) not in known]
    write(problem, found, settings, output)
    return found


def run_of(record):
    """Return what tells one run from another."""
    return tuple(record[key] for key in ("resolution", "epochs", "seed", "method"))


def read(problem, output):
    """Return the settings and the records that `write` left in a folder."""
    text = (output / f"{problem.name}.json").read_text(encoding="utf-8")
    written = json.loads(text)
    return written["settings"], written["runs"]
