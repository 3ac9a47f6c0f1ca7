"""The site: every page has a place, every public name an entry, every link a target."""

import importlib
import pathlib
import posixpath
import re
import runpy

import keras

from keras_xd.layers import warm_starts

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
CODE = re.compile(r"^Code: ", re.MULTILINE)
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
CONCEPTS = (
    "xd_operations.md",
    "k_operations.md",
    "learned_sizes.md",
    "neural_operator_search.md",
    "algebraic_search.md",
)


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


def test_concepts_have_a_picture_an_equation_and_a_place_in_the_code():
    for name in CONCEPTS:
        text = (DOCS / name).read_text(encoding="utf-8")
        assert "](images/concept_" in text, name
        assert "\n$$\n" in text, name
        assert len(CODE.findall(text)) == 1, name


def test_pictures_are_those_of_the_script(tmp_path):
    draw = runpy.run_path(str(DOCS / "make_images.py"))["main"]
    draw(["--output", str(tmp_path)])
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (DOCS / "images").glob("concept_*")}
    shown = {posixpath.basename(link) for path in PAGES for link in links(path)}
    assert drawn <= shown


def test_the_reader_finds(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A b: c\n[x](y.md#z)\n```python\n[no](no.md)\n```\n", encoding="utf-8")
    assert links(page) == ["y.md#z"]
    assert anchors(page.read_text(encoding="utf-8")) == {"a-b-c"}
    assert resolve("keras_xd.layers.xd.warm_starts.Zero") is warm_starts.Zero
