"""Errors that say the new place of a public name of an earlier version."""

from collections.abc import Callable, Mapping


def attribute_error(module: str, moved: Mapping[str, str]) -> Callable[[str], None]:
    """Return a module's `__getattr__` that raises `AttributeError`, with what a name is now."""

    def missing(name):
        new = f"; it is now {moved[name]}" if name in moved else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{new}")

    return missing
