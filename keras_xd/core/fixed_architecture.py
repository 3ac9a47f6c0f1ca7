"""Whether a pass through a model serves its weights alone, so that less need be computed."""

import contextlib
import contextvars
from collections.abc import Iterator

_FIXED = contextvars.ContextVar("fixed_architecture", default=False)


@contextlib.contextmanager
def fixed() -> Iterator[None]:
    """Let layers know, as long as a `with` statement lasts, that the architecture does not move."""
    token = _FIXED.set(True)
    try:
        yield
    finally:
        _FIXED.reset(token)


def is_fixed() -> bool:
    """Return whether the present pass serves weights alone, see `fixed`."""
    return _FIXED.get()
