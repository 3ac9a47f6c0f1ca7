"""Small disks that fill up."""

import errno
import os
import pathlib
import resource
import subprocess

# How many bytes a small disk has.
SIZE = 4 << 20
# What an error says where a disk, a quota or the longest file has no room left.
FULL = {errno.ENOSPC: "No space left", errno.EDQUOT: "quota", errno.EFBIG: "File too large"}


def names_a_full_disk(error):
    """Return whether an error, as `children.described` has it, says by itself that it is full."""
    if "OSError" in error["kinds"] and error["errno"] in FULL:
        return True
    return any(text in error["text"] for text in FULL.values())


class SmallDisk:
    """A file system in memory of a few megabytes. Needs the right to mount.

    Args:
        folder: where it is mounted, an empty folder.

    Raises:
        PermissionError: if this process may not mount.
    """

    kind = f"a tmpfs of {SIZE >> 20} MB"

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.most = 0

    def __enter__(self):
        words = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "faults", str(self.folder)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise PermissionError("there is no command `mount`") from error
        if done.returncode:
            raise PermissionError(done.stderr.strip())
        return self

    def __exit__(self, *error):
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    @property
    def used(self):
        """The bytes in use."""
        found = os.statvfs(self.folder)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def note(self):
        """Note the most bytes in use so far."""
        self.most = max(self.most, self.used)

    def needed(self):
        """Return the bytes a job has needed at once, as noted."""
        return self.most

    def fill(self, room):
        """Leave room of some bytes."""
        ballast = self.folder / "ballast"
        ballast.write_bytes(bytes(max(0, SIZE - self.used - room)))

    def empty(self):
        """Make space again."""
        (self.folder / "ballast").unlink(missing_ok=True)

    def prepare(self):
        """In the copy that works: nothing."""


class SizeLimit:
    """The longest file that a process may write, where nothing may be mounted.

    Args:
        folder: where the job works.
    """

    kind = "a limit on the size of files (RLIMIT_FSIZE), as nothing may be mounted here"

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.most, self.room = 0, None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def note(self):
        """Note the longest file so far."""
        for parent, _, names in os.walk(self.folder):
            for name in names:
                try:
                    self.most = max(self.most, os.path.getsize(os.path.join(parent, name)))
                except FileNotFoundError:  # removed meanwhile
                    continue

    def needed(self):
        """Return the bytes of the longest file, as noted."""
        return self.most

    def fill(self, room):
        """Allow files of some bytes."""
        self.room = room

    def empty(self):
        """Allow files of any size again."""
        self.room = None

    def prepare(self):
        """In the copy that works: set the limit; Python turns its signal into an error."""
        if self.room is not None:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.room, hard))


def may_mount(folder):
    """Return `None` if a small disk can be mounted at a folder, or why it cannot."""
    try:
        with SmallDisk(folder):
            return None
    except PermissionError as error:
        return str(error) or "not permitted"
