"""Files that are either complete or not there."""

import contextlib
import errno
import glob
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator

# Of a process on another machine nothing is known but how long it has not written.
LONGEST_WRITE = 24 * 3600
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def replacing(path: str | os.PathLike, ending: str = "") -> Iterator[str]:
    """Give the name of a file to write, which takes the place of `path` when it is complete."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    remove_leftovers(path)
    unfinished = unfinished_name(path, ending)
    try:
        yield unfinished
        with open(unfinished, "rb+") as file:
            os.fsync(file.fileno())
        if os.path.exists(path):
            shutil.copymode(path, unfinished)
        os.replace(unfinished, path)
    except BaseException:
        if os.path.exists(unfinished):
            os.remove(unfinished)
        raise


def write(path, content, overwrite=False):
    """Write a file so that its name never stands for a part of the content."""
    if os.path.exists(path) and (not overwrite or os.path.isdir(path)):
        raise ValueError(
            "A file is replaced only with `overwrite=True`, a folder never. "
            f"Received: path={str(path)!r}, which exists"
        )
    check_folder(path)
    with replacing(path) as unfinished, open(unfinished, "wb") as file:
        file.write(content)


def is_full(error: BaseException) -> bool:
    """Return whether an error, or one that it comes from, says that there is no room for a file."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, OSError) and found.errno in _FULL:
            return True
        if any(os.strerror(number) in str(found) for number in _FULL[:2]):
            return True
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return False


def check_folder(path: str | os.PathLike) -> None:
    """Raise `ValueError` if the folder of a file to write does not exist."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise ValueError(
            "A file must be written to a folder that exists: make it first. "
            f"Received: path={str(path)!r}, whose folder {folder!r} does not exist"
        )


def unfinished_name(path: str, ending: str = "") -> str:
    """Return a name beside `path` that `remove_leftovers` knows when this process has ended."""
    return f"{path}.{_host()}-{os.getpid()}.unfinished{ending}"


def remove_leftovers(path: str) -> None:
    """Remove what processes that were killed have left of files to take the place of `path`."""
    for leftover in glob.glob(f"{glob.escape(path)}.*.unfinished*"):
        _remove_abandoned(leftover, leftover[len(path) + 1 :])


def remove_all_leftovers(folder: str | os.PathLike) -> None:
    """Remove what processes that were killed have left of files in a folder and those under it."""
    for parent, _, names in os.walk(os.fspath(folder)):
        for name in names:
            # The name of the file itself may have dots, that of the machine has none.
            ending = re.search(r"[^.]+\.unfinished[^/]*$", name)
            if ending:
                _remove_abandoned(os.path.join(parent, name), ending.group())


def _remove_abandoned(leftover, ending):
    """Remove an unfinished file or folder, by what follows the name that it was to get."""
    found = re.match(r"(?:(?P<host>.+)-)?(?P<process>\d+)\.unfinished", ending)
    if found is not None:
        with contextlib.suppress(FileNotFoundError):
            if not _is_abandoned(leftover, found["host"], int(found["process"])):
                return
            if os.path.isdir(leftover) and not os.path.islink(leftover):
                shutil.rmtree(leftover)
            else:
                os.remove(leftover)


def _is_abandoned(leftover, host, process):
    """Return whether no process writes to an unfinished file any more."""
    # Windows has no signal that only asks.
    if host in (None, _host()) and os.name != "nt":
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            pass
    return time.time() - os.path.getmtime(leftover) > LONGEST_WRITE


def _host():
    """Return the name of this machine, of characters that file names may have."""
    return re.sub(r"[^\w-]", "_", socket.gethostname()) or "unknown"
