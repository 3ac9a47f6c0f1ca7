"""Files that one process holds at a time."""

import contextlib
import os
import socket
import sys
from collections.abc import Iterator

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_BYTE = 2**30  # that Windows locks, which what is read does not reach


class LockedError(ValueError):
    """Another process holds a lock."""


@contextlib.contextmanager
def locked(path: str | os.PathLike, what: str) -> Iterator[None]:
    """Hold a lock, which the system releases when the process ends, however it ends."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "a+", encoding="utf-8") as file:
        try:
            if sys.platform == "win32":
                file.seek(_BYTE)
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise LockedError(
                f"Only one process at a time may run {what}: wait until the other one has ended. "
                f"Received: {os.fspath(path)!r}, held by {file.read().strip() or 'another process'}"
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
