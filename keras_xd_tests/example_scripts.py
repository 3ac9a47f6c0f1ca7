"""The scripts of `examples` and `benchmarks` as modules, which stand outside of the package."""

import contextlib
import importlib
import inspect
import pathlib
import sys

from tuner_integration import acquisition

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
BENCHMARKS = EXAMPLES.parent / "benchmarks"


@contextlib.contextmanager
def on_path(folder=EXAMPLES):
    """Make the modules of a folder importable within a `with` statement.

    Scripts below the folder put it on the path themselves; that is undone as well.
    """
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


def load(name, folder=EXAMPLES):
    """Return a module of a folder by its name."""
    with on_path(folder):
        return importlib.import_module(name)


def evolve_shortly(patch):
    """Let searches by a surrogate look for their next point in a few generations of few children.

    Args:
        patch: pytest's `MonkeyPatch` that undoes it.
    """
    few = {"refused": (), "children": 10, "tournament": 10}
    few |= {"generations": 2, "most_generations": 4, "patience": 1}
    assert list(few) == list(inspect.signature(acquisition.evolve).parameters)[-len(few) :]
    patch.setattr(acquisition.evolve, "__defaults__", tuple(few.values()))
