"""Whether a pass through a model serves its weights alone, so that less need be computed."""

import contextlib

from keras_xd.core.scoped import Scoped

_FIXED = Scoped(False)


def fixed() -> contextlib.AbstractContextManager[None]:
    """Let layers know, as long as a `with` statement lasts, that the architecture does not move."""
    return _FIXED.set_to(True)


def is_fixed() -> bool:
    """Return whether the present pass serves weights alone, see `fixed`."""
    return _FIXED.value
