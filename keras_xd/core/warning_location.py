"""The location of a warning: the line of the user's program."""

import inspect

PACKAGES = ("keras_xd", "tuner_integration")


def stacklevel() -> int:
    """Return the `stacklevel` by which a warning names the line that called this package."""
    frame, level = inspect.currentframe().f_back, 1
    while frame.f_back is not None and _package(frame) in PACKAGES:
        frame, level = frame.f_back, level + 1
    return level


def _package(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0]
