"""The scripts of the folder `examples` as modules, which stand outside of the package."""

import contextlib
import pathlib
import sys

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


@contextlib.contextmanager
def on_path():
    """Make the modules of `examples` importable within a `with` statement.

    Scripts below the folder put it on the path themselves; that is undone as well.
    """
    before = list(sys.path)
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield
    finally:
        sys.path[:] = before
