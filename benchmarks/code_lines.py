"""Count lines of code, docstrings and comments by folder, and the public names.

    python benchmarks/code_lines.py                # by folder of the repository
    python benchmarks/code_lines.py --depth 2      # by folder of keras_xd too
    python benchmarks/code_lines.py keras_xd/core  # of these folders only

A line with a token of code on it is a line of code; a blank line counts only within a docstring.
Public names are those of `__all__` in the packages' `__init__.py`, each counted once.
"""

import argparse
import ast
import collections
import io
import pathlib
import tokenize

FOLDERS = ("keras_xd", "tuner_integration", "keras_xd_tests", "examples", "benchmarks")
# Those whose names are public; of examples and tests none is.
PACKAGES = ("keras_xd", "tuner_integration")
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def count_lines(source: str) -> collections.Counter:
    """Return the number of lines of `code`, `docstrings` and `comments` of a Python source."""
    docstrings, code, comments = set(), set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node) is not None:
            text = node.body[0]
            docstrings.update(range(text.lineno, text.end_lineno + 1))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        lines = range(token.start[0], token.end[0] + 1)
        if token.type == tokenize.COMMENT:
            comments.update(lines)
        elif token.type not in LAYOUT:
            code.update(lines)
    code -= docstrings
    return collections.Counter(
        code=len(code), docstrings=len(docstrings), comments=len(comments - code)
    )


def public_names(init: pathlib.Path) -> list[str]:
    """Return the `__all__` of an `__init__.py`, written as a list or tuple of strings."""
    for node in ast.parse(init.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    parser.add_argument("--depth", type=int, default=1, help="folders deep, default 1")
    options = parser.parse_args()
    root = pathlib.Path(__file__).parents[1]
    totals, names = collections.defaultdict(collections.Counter), set()
    for folder in options.folders:
        for path in sorted((root / folder).rglob("*.py")):
            depth = max(options.depth, len(pathlib.Path(folder).parts))
            group = "/".join(path.relative_to(root).parts[:-1][:depth])
            totals[group] += count_lines(path.read_text("utf-8")) + collections.Counter(files=1)
            if path.name == "__init__.py" and group.startswith(PACKAGES):
                package = path.relative_to(root).parts[:-1]
                names |= {(*package, name) for name in public_names(path)}
    columns = ("files", "code", "docstrings", "comments")
    print(f"{'folder':32}" + "".join(f"{column:>12}" for column in columns))
    for group, counts in totals.items():
        print(f"{group:32}" + "".join(f"{counts[column]:12,}" for column in columns))
    print(f"\npublic names: {len(names)}")
    for package, count in collections.Counter(name[:-1] for name in names).items():
        print(f"  {'.'.join(package)}: {count}")


if __name__ == "__main__":
    main()
