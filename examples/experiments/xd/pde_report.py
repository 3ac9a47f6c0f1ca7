"""The pages of the experiments on differential equations: table, curves."""

import statistics

import reporting
from reporting import select, spread

METHODS = ("CNN", "FNO", "XD")
LAST = 10  # epochs that the second error is a mean of


def table(problem, records):
    """Return the lines of a table, one for each budget and method: means over the seeds."""
    head = ["size", "recipe", "epochs", "method", "seeds", "error", f"mean of last {LAST}"]
    head += ["lowest to highest of these", "published", "parameters", "architecture's rate"]
    rows = []
    for resolution, epochs, recipe in _budgets(records):
        published = problem.published.get(resolution, ["–"] * len(METHODS))
        for method, reference in zip(METHODS, published, strict=True):
            found = select(
                records, resolution=resolution, epochs=epochs, recipe=recipe, method=method
            )
            if found:
                rows.append(_row(resolution, found, reference))
                rows += [_row_elsewhere(size, found) for size in found[0].get("elsewhere", {})]
    return reporting.table([*head, "s / epoch"], rows)


def _row(resolution, found, reference):
    """The cells of one method and budget."""
    ends, means = ([record[key] for record in found] for key in ("error", "mean_of_last"))
    rate = found[0]["architecture_rate"]
    seconds = statistics.median(record["seconds_per_epoch"] for record in found)
    return [
        *_errors(resolution, found, ends, means, [record["errors"][-LAST:] for record in found]),
        reference,
        f"{found[0]['parameters']:,}",
        "–" if rate is None else f"{rate:g}",
        f"{seconds:.1f}",
    ]


def _row_elsewhere(size, found):
    """The cells of the same networks at another size."""
    errors = [record["elsewhere"][size] for record in found]
    ends, means = [one[-1] for one in errors], [statistics.mean(one) for one in errors]
    where = f"{size}, trained at {found[0]['resolution']}"
    return [*_errors(where, found, ends, means, errors), *["–"] * 4]


def _errors(size, found, ends, means, last):
    """The cells of what was trained, and of its errors: at the end, and the last ones."""
    last = [error for one in last for error in one]
    cells = [size, found[0]["recipe"], found[0]["epochs"], found[0]["method"], len(found)]
    return [*cells, spread(ends, 4), spread(means, 4), f"{min(last):.4f} to {max(last):.4f}"]


def _budgets(records):
    """The resolutions, epochs and recipes of records, those of the paper first."""
    found = {(record["resolution"], record["epochs"], record["recipe"]) for record in records}
    return sorted(found, key=lambda budget: (*budget[:2], budget[2] != "paper", budget[2]))


def page(problem, settings, records, written):
    """Return the results page."""
    lines = [
        f"# {problem.name.capitalize()}: relative L2 error of CNN, FNO and XD",
        f"`{settings['command']}` wrote this page.",
        "\n".join(table(problem, records)[:-1]),
        f"Error on the {settings['evaluated_on']} samples after the last epoch, and mean of those "
        f"after each of the last {LAST}; mean ± standard deviation over the seeds. XD is evaluated "
        "as its finalized model. All methods of a size, a recipe and a number of epochs have the "
        "same batches and the same schedule. The published figures are those of the XD paper after "
        "500 epochs on other data: compare methods with each other. Seconds are the median of the "
        "epochs' training by the clock on the wall.",
        "\n".join(
            f"- recipe `{name}`: {problem.recipes[name].words()}"
            for name in problem.recipes
            if any(record["recipe"] == name for record in records)
        ),
        "\n".join(f"- {key.replace('_', ' ')}: {value}" for key, value in settings.items()),
    ]
    return "\n\n".join(lines) + "\n"
