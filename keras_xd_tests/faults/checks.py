"""What lies in a folder after a kill: whole files under final names, and leftovers."""

import hashlib
import json
import os
import pathlib
import zipfile

import h5py
import numpy as np

# Logs that are only appended to: TensorBoard reads as far as they go.
APPENDED = ("tfevents",)
# Where a job has the temporary files that lie elsewhere otherwise, as in /tmp.
TEMPORARY = "temporary"
_BYTES_OF_A_FEATURE = 12
# What the jobs themselves note there.
NOT_OURS = ("ballast", "notes.txt")


def digest(arrays):
    """Return a short text that tells arrays apart, to the bit."""
    found = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(f"{array.shape} {array.dtype} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]


def is_leftover(path, folder):
    """Return whether a path in a folder is of something unfinished, by its name."""
    parts = pathlib.Path(path).relative_to(folder).parts
    return any(part.startswith(".") or "unfinished" in part or part == TEMPORARY for part in parts)


def leftovers(folder):
    """Return the topmost unfinished files and folders in a folder, but for temporary ones."""
    found = []
    for parent, folders, names in os.walk(folder):
        own = [n for n in (*folders, *names) if is_leftover(os.path.join(parent, n), folder)]
        found += [os.path.join(parent, name) for name in own if name != TEMPORARY]
        folders[:] = [name for name in folders if name not in own]
    return sorted(os.path.relpath(path, folder) for path in found)


def half_written(folder):
    """Return a text for each file with a final name in a folder that cannot be read to its end."""
    found = []
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if name in NOT_OURS or is_leftover(path, folder):
                continue
            try:
                read(path)
            except FileNotFoundError:  # another process has removed it
                continue
            except Exception as error:  # of any reader
                where = os.path.relpath(path, folder)
                found.append(f"{where} is half-written: {type(error).__name__}: {error}"[:300])
    return found


def read(path):
    """Read a file to its end; raise an error if it is not whole or of a kind unknown here."""
    name = os.path.basename(path)
    if name.endswith(".json"):
        with open(path, encoding="utf-8") as file:
            json.load(file)
    elif name.endswith(".h5"):
        with h5py.File(path, "r") as file:
            file.visititems(lambda _, item: item[()] if isinstance(item, h5py.Dataset) else None)
    elif name.endswith((".keras", ".npz")):
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:
                raise ValueError("a member is damaged")
    elif name.endswith((".tflite", ".pb", ".index", "fingerprint.pb")) or ".data-" in name:
        if not os.path.getsize(path):  # the job's own check runs it
            raise ValueError("empty")
    elif pathlib.Path(path).parent.name == "features":
        line, _, rest = pathlib.Path(path).read_bytes().partition(b"\n")
        total = sum(map(sum, json.loads(line)))
        if len(rest) != _BYTES_OF_A_FEATURE * total:
            raise ValueError(f"{len(rest)} bytes for {total} features")
    elif not any(text in name for text in APPENDED):
        raise ValueError("a file of an unknown kind")


def architecture_in(path):
    """Return the digest of the arrays of a file of an architecture, without names of layers."""
    with np.load(path) as archive:
        return digest(archive[key] for key in sorted(archive.files) if key != "header")


def weights_in(path):
    """Return the digest of the arrays of a file of weights."""
    arrays = []

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            arrays.append(np.asarray(item[()]))

    with h5py.File(path, "r") as file:
        file.visititems(keep)
    return digest(arrays)
