"""Watches what happens while an input is read: code, files, processes, time, memory."""

import contextlib
import os
import resource
import sys
import sysconfig
import tempfile

# What may be opened for writing besides the input's own folder.
HARMLESS = ("/dev/null",)
NEVER = (
    "socket.connect",
    "socket.bind",
    "os.system",
    "subprocess.Popen",
    "os.exec",
    "os.fork",
    "pickle.find_class",
)
CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod")
LIBRARIES = (
    *map(os.path.realpath, {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}),
)


class Guard:
    """Notes by Python's audit events what is not allowed.

    Args:
        folder: the only one where files may be written.
    """

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.found, self.watching = [], False
        self.own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        sys.addaudithook(self._event)  # it cannot be taken away again

    @contextlib.contextmanager
    def watch(self):
        """Note what happens inside."""
        self.found, before = [], tempfile.tempdir
        tempfile.tempdir, self.watching = self.folder, True
        try:
            yield
        finally:
            tempfile.tempdir, self.watching = before, False

    def _event(self, name, arguments):
        if not self.watching:
            return
        if name.startswith(NEVER):
            self.found.append(f"{name} {str(arguments)[:200]}")
        elif name == "exec" and not self._of_a_library(arguments[0].co_filename):
            self.found.append(f"code runs: {arguments[0].co_filename}")
        elif name == "open" and isinstance(arguments[0], str | bytes):
            path, mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if writes or any(letter in (mode or "") for letter in "wax+"):
                self._check_path(name, path)
        elif name in CHANGES:
            folder = arguments[-1] if isinstance(arguments[-1], int) else -1
            for path in arguments:
                if isinstance(path, str | bytes):
                    if folder >= 0:  # the path is relative to it
                        path = os.path.join(f"/proc/self/fd/{folder}", os.fsdecode(path))
                    self._check_path(name, path)

    def _check_path(self, name, path):
        path = os.path.realpath(os.fsdecode(path))
        inside = path == self.folder or path.startswith(self.folder + os.sep)
        if not inside and path not in HARMLESS and not path.endswith(".pyc"):
            self.found.append(f"{name} outside: {path}")

    def _of_a_library(self, path):
        """Whether code is that of an imported module."""
        if path.startswith("<"):
            return path.startswith("<frozen")
        path = os.path.realpath(path)
        return path.startswith((*LIBRARIES, self.own))


def memory():
    """Return the largest number of bytes of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
