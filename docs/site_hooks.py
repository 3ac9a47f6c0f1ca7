"""What the site needs beside `mkdocs.yml`: pages outside of `docs/`, links to them, equations."""

import pathlib
import posixpath
import re
import textwrap

import griffe
from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Files of the repository that become part of the site, under the same path.
OUTSIDE = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    "examples/**/*.py",
    "examples/**/*.md",
    "examples/**/*.svg",
    "examples/**/*.png",
    "benchmarks/*.*",
)
FENCE = re.compile(r"^( *)(```+|~~~+)[^\n]*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
EQUATION = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<![\\$\w])\$([^$\n`]+?)\$(?![\w$])")


def on_config(config):
    """Show the version beside the link to the repository and at the foot of each page."""
    source = (ROOT / "keras_xd" / "__init__.py").read_text(encoding="utf-8")
    name = f"keras_xd {re.search(r'__version__ = .([0-9.a-z]+)', source)[1]}"
    config.repo_name = config.copyright = name
    return config


def on_files(files, config):
    """Add the pages and pictures that lie outside of `docs/`."""
    known = set(files.src_uris)
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            source = path.relative_to(ROOT).as_posix()
            if source not in known and path.is_file() and "__pycache__" not in source:
                known.add(source)
                files.append(File.generated(config, source, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Make links of the repository links of the site, and equations MathML."""
    outside = page.file.src_uri not in _pages_of_docs()
    folder = posixpath.dirname(page.file.src_uri if outside else f"docs/{page.file.src_uri}")
    start = posixpath.dirname(page.file.src_uri)

    def link(match):
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        target = target.removeprefix("docs/")
        if target == "README.md":
            target = "index.md"
        return match[1] + posixpath.relpath(target, start or ".") + match[3]

    def rewrite(text):
        text = LINK.sub(link, text).replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
        text = EQUATION.sub(lambda match: convert(match[1], display="block"), text)
        # The span keeps a paragraph that begins with a formula a paragraph.
        return INLINE.sub(lambda match: f"<span>{convert(match[1])}</span>", text)

    return _outside_fences(markdown, rewrite)


def _pages_of_docs():
    folder = ROOT / "docs"
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}


def _outside_fences(markdown, function):
    """Apply a function to the parts of a text that are not fenced code."""
    parts, end = [], 0
    for match in FENCE.finditer(markdown):
        parts += [function(markdown[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*parts, function(markdown[end:])])


SESSION = re.compile(r"^( *)>>> .*\n(?:\1\S.*\n?)*", re.MULTILINE)
EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
# Sections of Keras' docstrings that the Google style does not know.
SECTION = re.compile(
    r"^(Input shape|Output shape|Call arguments|References?):\n((?:    .*\n|\n)+)", re.MULTILINE
)


class KerasDocstrings(griffe.Extension):
    """Make Markdown of what is in docstrings beside the sections of the Google style."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring and not obj.is_alias:
            text = EXAMPLE.sub("**Example**", obj.docstring.value) + "\n"
            text = SECTION.sub(_section, text)
            obj.docstring.value = SESSION.sub(_fenced, text)


def _section(match):
    title, body = match[1], textwrap.dedent(match[2]).strip("\n")
    if title == "Call arguments":
        body = re.sub(r"^(\w[\w, ]*):", r"- `\1`:", body, flags=re.MULTILINE)
    return f"**{title}**\n\n{body}\n\n"


def _fenced(match):
    indent, code = match[1], match[0].rstrip("\n")
    return f"{indent}```pycon\n{code}\n{indent}```\n"
