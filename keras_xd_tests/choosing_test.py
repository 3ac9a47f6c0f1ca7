"""The page on choosing what to search: its figures are those of the pages that it links."""

import re

import pytest

from keras_xd import recipes
from keras_xd_tests.docs_test import DOCS, LINK

PAGE = (DOCS / "choosing.md").read_text(encoding="utf-8")
# A bullet with its further lines, or a row of a table.
STATEMENT = re.compile(r"^(?:- .*(?:\n  .*)*|\| .*)$", re.MULTILINE)


def statements():
    found = [match.group() for match in STATEMENT.finditer(PAGE)]
    return [text for text in found if re.search(r"\d\.\d", without_links(text))]


def without_links(text):
    return re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)


def missing(text):
    """Return the decimal figures of a statement that are on none of the pages it links."""
    linked = [DOCS / link.partition("#")[0] for link in LINK.findall(text)]
    pages = "".join(path.read_text(encoding="utf-8") for path in linked)
    shown = without_links(text)
    if text.startswith("| ["):  # the last cell of the table of rates is a quotient
        shown = shown.rpartition("|")[0].rpartition("|")[0]
    figures = re.findall(r"(?<![\d.])\d+\.\d+", shown)
    return [f for f in figures if not re.search(rf"(?<![\d.]){re.escape(f)}0*(?!\d)", pages)]


@pytest.mark.parametrize("text", statements(), ids=lambda text: text[:40])
def test_figures_are_those_of_the_pages(text):
    assert LINK.findall(text), "a figure needs a page"
    assert not missing(text)


def test_there_are_statements_and_wrong_figures_are_found():
    assert len(statements()) > 25
    assert missing("- 58.6 and 58.7 % ([page](../examples/results/cifar10.md))") == ["58.7"]
    row = next(text for text in statements() if "unordered" in text)
    assert missing(row.replace("58.6", "57.6")) == ["57.6"]


def test_ratios_of_rates_are_quotients():
    section = PAGE.partition("| Task | Weights |")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines()[2:]]
    assert len(rows) == 5
    for _, weights, architecture, ratio in rows:
        weights = weights.rpartition(" ")[2]
        assert float(ratio) == pytest.approx(float(architecture) / float(weights), rel=0.05)


def test_rates_are_those_of_the_recipes():
    rows = re.findall(r'`recipe\("(\w+)"(?:, "(\w+)")?\)`[^|]*\| ([^|]*) \|', PAGE)
    assert len(rows) == 6
    for space, data, settings in rows:
        recipe = recipes.recipe(space, data or None)
        assert float(re.search(r"rate ([\d.e-]+)", settings)[1]) == recipe.rate
        depth = re.search(r"depth (\d)", settings)
        assert (int(depth[1]) if depth else None) == recipe.rewrite_options.get("depth")
