"""The site: every page has a place, every public name an entry, every link a target."""

import importlib
import importlib.util
import json
import pathlib
import posixpath
import re
import runpy
import tomllib

import nbformat
import pytest

from keras_xd_tests import example_scripts

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


def test_code_on_the_pages_does_not_scroll():
    config = tomllib.loads((DOCS / "ruff.toml").read_text(encoding="utf-8"))
    pages = set(DOCS.glob("*.md")) - {DOCS / name for name in config["format"]["exclude"]}
    code = {page.name: "".join(m[0] for m in FENCE.finditer(page.read_text())) for page in pages}
    wide = [(name, line) for name in code for line in code[name].splitlines() if len(line) > 80]
    assert not wide


def test_readme_is_short_and_its_links_hold_everywhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110 and len(text.split()) <= 600
    found = LINK.findall(text)
    assert all(link.startswith("https://") for link in found), "PyPI knows no relative links"
    own = [link for link in found if "keras-xd/keras_xd/" in link]
    assert len(own) > 5
    for link in own:
        assert (ROOT / link.partition("/main/")[2]).exists(), link


def test_pictures_are_those_of_the_script(tmp_path):
    draw = runpy.run_path(str(DOCS / "make_images.py"))["main"]
    draw(["--output", str(tmp_path)])
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (DOCS / "images").glob("concept_*")}
    shown = {posixpath.basename(link) for path in PAGES for link in links(path)}
    assert drawn <= shown


GUIDES = runpy.run_path(str(DOCS / "make_guide.py"))


@pytest.mark.parametrize("name", GUIDES["GUIDES"])
def test_guides_run_as_notebooks_and_show_what_they_have_printed(name, tmp_path, monkeypatch):
    """From a file to a served model, in a small setting: fewer samples and epochs."""
    page = DOCS / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    record = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert GUIDES["written"](name, text, record) == text
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    assert notebook == GUIDES["notebook_of"](text, record)
    blocks, small = GUIDES["code_of"](notebook), GUIDES["GUIDES"][name]
    assert all("\n".join(blocks).count(old) == 1 for old in small)
    monkeypatch.chdir(tmp_path)
    outputs = GUIDES["run"](blocks, small)
    found, expected = (re.sub(r"[\d.,+-]+", "0", "".join(o)) for o in (outputs, record["outputs"]))
    assert found.replace("0e0", "0") == expected.replace("0e0", "0")
    drawn = {f"images/{path.name}" for path in tmp_path.glob("*.png")}
    assert drawn and drawn <= set(links(page)) and all((DOCS / path).exists() for path in drawn)


# Measured numbers


@pytest.fixture(scope="module")
def update():
    with example_scripts.on_path():
        spec = importlib.util.spec_from_file_location("update", DOCS / "update.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def test_measured_numbers_are_those_of_the_records(update):
    assert not update.update(check=True), "python docs/update.py writes them"


PAGE = "Before\n<!-- results: one -->\nold\n<!-- end -->\nAfter\n"
ONE = '[one]\npage = "cifar10"\ncolumns = { method = "Method", plain = "Plain" }\n'


@pytest.fixture
def copied(update, tmp_path, monkeypatch):
    """A repository of one page, whose table is that of one record."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("No table\n")
    (tmp_path / "docs/page.md").write_text(PAGE)
    (tmp_path / "docs/tables.toml").write_text(ONE)
    (tmp_path / "cifar10.json").write_text((ROOT / "examples/results/cifar10.json").read_text())
    monkeypatch.setattr(update, "ROOT", tmp_path)
    monkeypatch.setattr(update, "TABLES", tmp_path / "docs/tables.toml")
    monkeypatch.setattr(update.reporting, "RESULTS", tmp_path)
    for cached in (update.records, update.source, update.tables):
        cached.cache_clear()
    yield tmp_path
    for cached in (update.records, update.source, update.tables):
        cached.cache_clear()


def test_numbers_of_a_page_follow_its_record(update, copied, capsys):
    page = copied / "docs/page.md"
    with pytest.raises(SystemExit):
        update.main(["--check"])
    assert "docs/page.md" in capsys.readouterr().err and page.read_text() == PAGE
    update.main([])
    text = page.read_text()
    assert text.startswith("Before\n") and text.endswith("After\n") and "old" not in text
    assert "| Method | Plain |" in text and "3 seeds (0–2)" in text and "cifar10.py" in text
    update.main(["--check"])
    assert {path.name for path in page.parent.iterdir()} == {"page.md", "tables.toml"}
    page.write_text(re.sub(r"58\.5 ± 1\.2", "99.9 ± 0.0", text))
    with pytest.raises(SystemExit):
        update.main(["--check"])


def test_pages_that_have_become_too_long_are_refused(update, copied, monkeypatch, capsys):
    monkeypatch.setattr(update, "MOST_WORDS", 10)
    with pytest.raises(SystemExit):
        update.main([])
    assert "at most 10 words" in capsys.readouterr().err
    assert (copied / "docs/page.md").read_text() == PAGE
