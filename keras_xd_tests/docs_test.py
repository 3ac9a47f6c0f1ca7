"""The site: every page has a place, every public name an entry, every link a target."""

import importlib
import json
import pathlib
import posixpath
import re
import runpy

import keras

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def anchors(text):
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {re.sub(r"[\s-]+", "-", heading.strip()) for heading in plain}


def links(path):
    return LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8")))


def entries():
    return [
        name
        for page in sorted((DOCS / "api").glob("*.md"))
        for name in ENTRY.findall(page.read_text(encoding="utf-8"))
    ]


def resolve(name):
    """Return the object of a full public name."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        return getattr(resolve(module), attribute)


def test_every_item_of_the_papers_has_code_and_a_test_that_exist():
    text = FENCE.sub("", (DOCS / "papers.md").read_text(encoding="utf-8"))
    for name in re.findall(r"`((?:keras_xd|tuner_integration)\.[\w.]+)`", text):
        resolve(name)
    rows = [line.strip("|").split("|") for line in re.findall(r"^\| .*\|$", text, re.MULTILINE)]
    items = [row for row in rows if row[0].strip() != "Item"]
    assert items and {len(row) for row in rows} == {4}
    for item, code, tests, _ in items:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", tests)
        assert bool(named) == (code.strip() != "–"), item
        for path, test in named:
            source = (ROOT / "keras_xd_tests" / path).read_text(encoding="utf-8")
            assert f"\ndef {test}(" in source, (path, test)


def test_entries_are_public_and_single():
    found = entries()
    assert len(found) == len(set(found))
    objects = [id(resolve(name)) for name in found]
    assert len(objects) == len(set(objects))


def test_every_page_has_a_place_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"([\w/]+\.md)$", text.partition("\nnav:")[2], re.MULTILINE)
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert set(listed) == pages | {"CONTRIBUTING.md", "CHANGELOG.md"}
    assert len(listed) == len(set(listed))


def is_broken(path, link):
    """Return whether a link of a page leads to no file or heading of the repository."""
    if "://" in link or link.startswith("mailto:"):
        return False
    target, _, anchor = link.partition("#")
    file = path.parent / target if target else path
    if not file.exists():
        return True
    page = bool(anchor) and file.suffix == ".md"
    return page and anchor not in anchors(file.read_text(encoding="utf-8"))


def test_links_have_targets():
    broken = [(page.name, link) for page in PAGES for link in links(page) if is_broken(page, link)]
    assert not broken


def test_readme_is_short_and_its_links_hold_everywhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100 and len(text.split()) <= 700
    found = LINK.findall(text)
    assert all(link.startswith("https://") for link in found), "PyPI knows no relative links"
    own = [link for link in found if "keras-xd/keras_xd/" in link]
    assert len(own) > 5
    for link in own:
        assert (ROOT / link.partition("/main/")[2]).exists(), link


def test_the_example_of_a_budget_becomes_smaller(capsys):
    """What it prints stands beside it: multiply–adds before and after."""
    keras.utils.set_random_seed(0)
    text = (DOCS / "masked_models.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    exec(compile(code, "masked_models.md", "exec"), {"__name__": "__example__"})
    before, after = map(float, capsys.readouterr().out.split())
    assert before == 617536 and after <= 0.55 * before


def test_pictures_are_those_of_the_script(tmp_path):
    draw = runpy.run_path(str(DOCS / "make_images.py"))["main"]
    draw(["--output", str(tmp_path)])
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (DOCS / "images").glob("concept_*")}
    shown = {posixpath.basename(link) for path in PAGES for link in links(path)}
    assert drawn <= shown


def test_the_guide_runs_and_shows_what_it_has_printed(tmp_path, monkeypatch):
    """From a file of fields to a served model: few flows and one epoch here."""
    guide = runpy.run_path(str(DOCS / "make_guide.py"))
    text = guide["PAGE"].read_text(encoding="utf-8")
    record = json.loads(guide["RECORD"].read_text(encoding="utf-8"))
    assert guide["written"](text, record) == text
    assert all(text.count(old) == 1 for old in guide["SMALL"])
    monkeypatch.chdir(tmp_path)
    outputs = guide["run"](text, guide["SMALL"])
    found, expected = (re.sub(r"[\d.,+-]+", "0", "".join(o)) for o in (outputs, record["outputs"]))
    assert found.replace("0e0", "0") == expected.replace("0e0", "0")
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == {path.name for path in (DOCS / "images").glob("pde_*")}
    assert {f"images/{name}" for name in drawn} <= set(links(guide["PAGE"]))


def test_figures_of_the_guide_are_those_of_the_pages_it_links():
    path = DOCS / "pde_data.md"
    rows = re.findall(r"^\| \[.*\]\((.*?)\).*?\|(.*)$", path.read_text(encoding="utf-8"), re.M)
    assert len(rows) == 4
    for link, figures in rows:
        page = (DOCS / link).read_text(encoding="utf-8")
        found = re.findall(r"[\d.]+ ± [\d.]+", figures)
        assert len(found) == 2 and all(f"| {figure} |" in page for figure in found), link
