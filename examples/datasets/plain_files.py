"""Files of plain arrays: `.npy`, `.npz` and `.mat`, without objects, which could run any code."""

import pathlib
import zipfile

import numpy as np


def find(folder, name, what):
    """Return the path of a file in a folder.

    Args:
        folder: the folder, or `None`.
        name: the file's path in it.
        what: whose file it is, for the error.

    Raises:
        ValueError: if there is no such file.
    """
    path = pathlib.Path(folder or ".", name)
    if not folder or not path.is_file():
        received = None if folder is None else str(folder)
        raise ValueError(f"The folder of {what} must hold {name}. Received: data_dir={received!r}")
    return path


def read_array(path, memory_map=False):
    """Return the array of a `.npy` file.

    Raises:
        ValueError: if the file holds pickled objects or something else.
    """
    try:
        return np.load(path, mmap_mode="r" if memory_map else None, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _refusal(path, error) from error


def read_arrays(path, names):
    """Return the arrays of the given names in a `.npz` file, in their order.

    Raises:
        ValueError: if the file lacks one, holds pickled objects or something else.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            missing = [name for name in names if name not in arrays.files]
            if not missing:
                return [arrays[name] for name in names]
            held = arrays.files
    except (ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise _refusal(path, error) from error
    raise ValueError(
        f"{path.name} must hold the arrays {', '.join(names)}. Received: {', '.join(held)}"
    )


def read_matlab(path, name):
    """Return an array of a MATLAB file: by SciPy, or by h5py for version 7.3.

    Raises:
        ValueError: if it is no such file or lacks the array.
    """
    import h5py
    from scipy import io
    from scipy.io.matlab import MatReadError

    try:
        if h5py.is_hdf5(path):
            with h5py.File(path) as file:
                return file[name][()].T  # MATLAB counts the first axis fastest
        return io.loadmat(path, variable_names=[name])[name]
    except (KeyError, ValueError, TypeError, NotImplementedError, MatReadError) as error:
        raise ValueError(
            f"{path.name} must be a MATLAB file with the array `{name}`. Received: {error!r}"
        ) from error


def check_labels(labels, number, classes, name):
    """Return labels as int64.

    Args:
        labels: what a file holds.
        number: of samples that they belong to.
        classes: number of classes, counted from 0.
        name: of the file, for the error.

    Raises:
        ValueError: if they are not as many integers from 0 to `classes - 1`.
    """
    labels = np.asarray(labels)
    if labels.shape != (number,) or not number:
        raise ValueError(
            f"There must be samples and one class for each. Received: {number} samples and classes "
            f"of shape {labels.shape} in {name}"
        )
    if np.any(labels != np.floor(labels)) or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"Classes must be integers from 0 to {classes - 1}. Received: {labels.min()} to "
            f"{labels.max()} ({labels.dtype}) in {name}"
        )
    return labels.astype("int64")


def _refusal(path, error):
    return ValueError(
        "Files must hold plain arrays; pickled objects are not loaded, as they could run any code. "
        f"Received: {path.name} ({error})"
    )
