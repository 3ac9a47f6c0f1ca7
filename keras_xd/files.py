"""Files that are either complete or not there."""

import os


def write(path, content, overwrite=False):
    """Write a file so that its name never stands for a part of the content.

    Args:
        path: string or `pathlib.Path`, in a folder that exists.
        content: bytes.
        overwrite: whether to replace a file that exists.

    Raises:
        ValueError: if there is something at `path` that may not be replaced.

    Example:

    >>> from keras_xd import files
    >>> files.write("note.txt", b"kept")
    >>> open("note.txt").read()
    'kept'
    """
    if os.path.exists(path) and (not overwrite or os.path.isdir(path)):
        raise ValueError(
            "A file is replaced only with `overwrite=True`, a folder never. "
            f"Received: path={str(path)!r}, which exists"
        )
    unfinished = f"{path}.{os.getpid()}.unfinished"
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        if os.path.exists(unfinished):
            os.remove(unfinished)
        raise
