"""Files that say that pickled objects follow, written without pickling any."""

import io

import numpy as np


def object_array():
    """Return the bytes of a `.npy` file that says that pickled objects follow."""
    header = {"descr": "|O", "fortran_order": False, "shape": (1,)}
    with io.BytesIO() as file:
        np.lib.format.write_array_header_1_0(file, header)
        return file.getvalue() + b"\x80\x04N."
