"""Write the measured numbers of README.md and docs/ from their records.

    python docs/update.py          # writes what lies between the markers of the pages
    python docs/update.py --check  # fails if a page is not what the records say

A page has `<!-- results: NAME -->` and `<!-- end -->`; what lies between them is described by
[NAME] in `docs/tables.toml`. The numbers are those of the pages that the experiments draw from
their records (`examples/results/*.json`), and of the pages of the benchmarks.
"""

import argparse
import functools
import importlib
import inspect
import json
import os
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import redraw  # noqa: E402
import reporting  # noqa: E402

TABLES = ROOT / "docs" / "tables.toml"
SITE = "https://github.com/keras-xd/keras_xd/blob/main/"
MOST_WORDS = 22_000  # of all pages together, code and tables too, without those of docstrings
FROM_DOCSTRINGS = ("cheat_sheet.md",)
LONGEST = 200  # characters of a command below a table
MARKED = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->")
REFERENCE = re.compile(r"\{([^{}]+)\}")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def pages():
    """Return the paths of the pages that may have numbers."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


# Records


@functools.cache
def records(name):
    """Return the records of an experiment, or `None` for a benchmark, which has only its page."""
    path = reporting.RESULTS / f"{name}.json"
    if name.startswith("benchmarks/"):
        return None
    if not path.exists():
        raise ValueError(f"Every table needs its records. Received: {path.name}, which is missing")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"Records must be JSON. Received: {path.name}, {error}") from error
    version = found.get("format", reporting.FORMAT)
    if version != reporting.FORMAT:
        raise ValueError(
            f"Records must have the format {reporting.FORMAT}. Received: {path.name}, {version}"
        )
    return found


@functools.cache
def source(name):
    """Return the text of the page of an experiment, drawn anew, or of a benchmark."""
    found = records(name)
    if found is None:
        path = ROOT / f"{name}.md"
        if not path.exists():
            raise ValueError(f"Every table needs its page. Received: {name}.md, which is missing")
        return path.read_text(encoding="utf-8")
    try:
        return redraw.page(name, found)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(
            f"Records must be of this version. Received: {name}.json, which lacks {error}"
        ) from error


@functools.cache
def tables(name):
    """Return the tables of a page: the heading above, the head and the rows of cells."""
    found, heading, rows = [], "", []
    for line in [*source(name).splitlines(), ""]:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("|"):
            cells = line.strip()[1:-1].split("|")
            rows.append([cell.strip() for cell in cells])
        elif rows:
            found.append((heading, rows[0], rows[2:]))
            rows = []
    return found


# Numbers


def number(name, column, words="", form=""):
    """Return the entry of the only row that has all of the words, in a column of a page.

    `words` are cells of the row, or the heading above it, separated by " ; ". `form` is the
    number of digits, after "%" those of a percentage.
    """
    wanted = [word for word in words.split(" ; ") if word]
    values = [
        row[head.index(column)]
        for heading, head, rows in tables(name)
        if column in head
        for row in ([plain(cell) for cell in cells] for cells in rows)
        if all(word in row or word == heading.partition(":")[0] for word in wanted)
    ]
    if len(values) != 1:
        raise ValueError(
            f"A number must be that of one row. Received: column={column!r}, words={words!r} of "
            f"{name}, {len(values)} rows"
        )
    return formatted(values[0], form)


def plain(cell):
    """Return a cell without the stars of what is in bold."""
    return cell.replace("**", "")


def formatted(text, form):
    """Return the numbers of a text with fewer digits, or in percent."""
    if not form:
        return text
    factor, digits = (100 if form[0] == "%" else 1), int(form.lstrip("%"))

    def change(match):
        return f"{factor * float(match[0].replace(',', '')):.{digits}f}"

    return NUMBER.sub(change, text)


def table(page, columns, heading=None, rows=None):
    """Return a table of a page with some of its columns, and of its rows, under other names."""
    found = [
        (head, body)
        for title, head, body in tables(page)
        if all(column in head for column in columns) and heading in (None, title)
    ]
    if len(found) != 1:
        raise ValueError(
            f"One table must have the columns. Received: columns={list(columns)} of {page}, "
            f"{len(found)} tables"
        )
    (head, body), shown = found[0], rows or {}
    missing = set(shown) - {plain(row[0]) for row in body}
    if missing:
        raise ValueError(f"Rows must be those of the page. Received: {sorted(missing)} of {page}")
    places = [head.index(column) for column in columns]
    chosen = [row for row in body if not shown or row[0] in shown]
    if shown:
        chosen.sort(key=lambda row: list(shown).index(row[0]))
    cells = [[shown.get(row[0], row[0]), *row[1:]] for row in chosen]
    lines = reporting.table(columns.values(), [[row[place] for place in places] for row in cells])
    return "\n".join(lines).strip()


# Blocks


def note(name, folder, alone=True):
    """Return what the line below a table has of a source: page, seeds, machine, date, command.

    Of one of several sources page and seeds alone.
    """
    found = records(name) or {}
    path = f"{name}.md" if "/" in name else f"examples/results/{name}.md"
    link = SITE + path if folder == ROOT else os.path.relpath(ROOT / path, folder)
    if not alone:
        return f"[{pathlib.Path(name).name}]({link}){seeds(found)}"
    facts = [f"[{title(name)}]({link}){seeds(found)}"]
    # Of experiments that write no such line the settings have the command.
    written = re.search(r"Written by (.+?)\.?(?:\n\n|\. )", source(name), re.DOTALL)
    if written:
        line, _, machine = written[1].replace("\n", " ").partition("; ")
    else:
        settings = found["settings"]
        line, machine = f"`{settings['command'].strip('`')}`", settings.get("versions", "")
        if "cores" in settings:
            machine += f", cores: {settings['cores']}"
    facts += [machine.replace("; ", ", ")] if machine else []
    facts += [found["written"]["date"]] if "date" in found.get("written", {}) else []
    facts.append(line if len(line) <= LONGEST else "commands on the page")
    return ", ".join(facts)


def title(name):
    """Return the title of a page without what follows a colon."""
    return source(name).partition("\n")[0].lstrip("# ").partition(":")[0]


def seeds(found):
    """Return the seeds of records as text, with how many there are."""
    runs = found.get("runs", [])
    if isinstance(runs, dict):  # of a tuning, a list for each of the finalists
        number = max((len(list_) for list_ in runs.values()), default=0)
        return f": {reporting.plural(number, 'seed')}"
    values = sorted({run["seed"] for run in runs if isinstance(run.get("seed"), int)})
    if not values:
        return ""
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        shown = f"{values[0]}–{values[-1]}"
    else:
        shown = ", ".join(map(str, values))
    return f": {reporting.plural(len(values), 'seed')} ({shown})"


def public_names(module):
    """Return a table of the public names of a module, each with its docstring's first sentence."""
    package, *attributes = module.split(".")
    module = functools.reduce(getattr, attributes, importlib.import_module(package))
    rows = []
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if not inspect.ismodule(value) and isinstance(value.__doc__, str):
            sentence = " ".join(value.__doc__.strip().partition("\n\n")[0].split())
            sentence = re.split(r"\. |[:;] | \(", sentence)[0].rstrip(".")
            rows.append((f"`{name}`", sentence.replace("|", "\\|")))
    return "\n".join(reporting.table(("Name", "What it is"), rows)).strip()


def block(spec, folder):
    """Return what lies between two markers: a table or text, and a line on each source."""
    if "module" in spec:
        return f"\n{public_names(spec['module'])}\n\n"
    if "text" in spec:
        names = []

        def replace(match):
            parts = [part.strip() for part in match[1].split(" | ")]
            names.append(parts[0])
            return number(*parts)

        text = REFERENCE.sub(replace, spec["text"].strip())
    else:
        text, names = table(**spec), [spec["page"]]
    if not spec.get("note", True):
        return f"\n{text}\n\n"
    names = list(dict.fromkeys(names))
    notes = [note(name, folder, len(names) == 1) for name in names]
    notes += ["machines and commands on these pages"] * (len(names) > 1)
    return f"\n{text}\n\n<small>{'; '.join(notes)}.</small>\n\n"


def updated(path, specs):
    """Return the text of a page with all blocks written, and the names of these."""
    names = []

    def replace(match):
        if match[2] not in specs:
            raise ValueError(f"A block must be in {TABLES.name}. Received: {match[2]}, {path.name}")
        names.append(match[2])
        return match[1] + block(specs[match[2]], path.parent) + match[3]

    text = path.read_text(encoding="utf-8")
    if text.count("<!-- results:") != len(MARKED.findall(text)):
        raise ValueError(f"Every block must end with <!-- end -->. Received: {path.name}")
    return MARKED.sub(replace, text), names


def words(texts):
    """Return the number of words, with a letter or digit, of the pages that are written by hand."""
    return sum(
        sum(bool(re.search(r"\w", word)) for word in COMMENT.sub("", text).split())
        for path, text in texts.items()
        if path.parent.name == "docs" and path.name not in FROM_DOCSTRINGS
    )


def update(check=False):
    """Write all pages, or none if one of them cannot be written; return those that differ."""
    specs = tomllib.loads(TABLES.read_text(encoding="utf-8"))
    found = {path: updated(path, specs) for path in pages()}
    unused = set(specs) - {name for _, names in found.values() for name in names}
    if unused:
        raise ValueError(f"Every table must be on a page. Received: {sorted(unused)}")
    number = words({path: text for path, (text, _) in found.items()})
    if number > MOST_WORDS:
        raise ValueError(
            f"The pages of docs/ must have at most {MOST_WORDS} words together. Received: {number}"
        )
    changed = [p for p, (text, _) in found.items() if text != p.read_text(encoding="utf-8")]
    for path in [] if check else changed:
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(found[path][0], encoding="utf-8")
        os.replace(unfinished, path)
    return changed


def main(arguments=None):
    """Write or check the pages; end with an error if a check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if pages differ")
    options = parser.parse_args(arguments)
    try:
        changed = update(options.check)
    except ValueError as error:
        parser.error(str(error))
    names = ", ".join(str(path.relative_to(ROOT)) for path in changed)
    if options.check and changed:
        parser.error(f"python docs/update.py would change {names}")
    print(f"Written: {names}" if changed else "Every page is what its records say.")


if __name__ == "__main__":
    main()
