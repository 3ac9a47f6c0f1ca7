"""Files of plain arrays: `.npy`, `.npz` and `.mat`, without objects, which could run any code."""

import os
import pathlib
import zipfile

import numpy as np

VARIABLE = "KERAS_XD_DATA_DIR"


def find(folder, name, what):
    """Return the path of a file in a folder."""
    path = pathlib.Path(folder or ".", name)
    if not folder or not path.is_file():
        received = None if folder is None else str(folder)
        raise ValueError(f"The folder of {what} must hold {name}. Received: data_dir={received!r}")
    return path


def find_shared(data_dir, name, what):
    """Return the path of a file in the given folder, else in that of KERAS_XD_DATA_DIR."""
    folder = data_dir or os.environ.get(VARIABLE)
    return find(folder, name, f"{what} (`data_dir`, else {VARIABLE})")


def read_array(path, memory_map=False):
    """Return the array of a `.npy` file."""
    try:
        return np.load(path, mmap_mode="r" if memory_map else None, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _refusal(path, error) from error


def read_arrays(path, names):
    """Return the arrays of the given names in a `.npz` file, in their order."""
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
    """Return an array of a MATLAB file: by SciPy, or by h5py for version 7.3."""
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


def _refusal(path, error):
    return ValueError(
        "Files must hold plain arrays; pickled objects are not loaded, as they could run any code. "
        f"Received: {path.name} ({error})"
    )


# Checks


def check_subset(subset):
    """Raise a ValueError unless `subset` is `None` or positive."""
    if subset is not None and subset < 1:
        raise ValueError(f"`subset` must be at least 1. Received: subset={subset!r}")


def check_shape(array, shape, name):
    """Raise a ValueError unless each entry of an array has the shape and there are entries."""
    if array.ndim == 0 or array.shape[1:] != shape or not len(array):
        raise ValueError(
            f"{name} must hold an array (number, {', '.join(map(str, shape))}). Received: shape "
            f"{array.shape}"
        )


def check_labels(labels, number, classes, name):
    """Return labels as int64: one for each of a number of samples, from 0 to `classes - 1`."""
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
