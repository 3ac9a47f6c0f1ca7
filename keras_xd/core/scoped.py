"""Values of a thread that hold as long as a `with` statement lasts."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class Scoped(threading.local):
    """A value, in each thread one of its own, which TorchDynamo reads, unlike a `ContextVar`."""

    def __init__(self, value: Any):
        self.value = value

    @contextlib.contextmanager
    def set_to(self, value: Any) -> Iterator[None]:
        """Have another value as long as a `with` statement lasts."""
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before
