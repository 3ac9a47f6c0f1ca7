"""The location of a warning: the line of the user's program."""

import inspect

PACKAGES = ("keras_xd", "tuner_integration")


def stacklevel() -> int:
    """Return the `stacklevel` by which a warning names the line that called this package."""
    callers = inspect.stack(context=0)[1:]
    for level, caller in enumerate(callers, start=1):
        if caller.frame.f_globals.get("__name__", "").partition(".")[0] not in PACKAGES:
            return level
    return len(callers)
