"""Tasks of NAS-Bench-360 that classify images: CIFAR-100, Spherical and NinaPro."""

import pathlib

import numpy as np

from datasets.nas_bench_360.parts import (
    Part,
    check_shape,
    check_subset,
    find_converted,
    split_off,
)
from datasets.plain_files import check_labels, find, read_array, read_arrays

CIFAR_MEAN = np.array([0.5071, 0.4867, 0.4408], "float32")
CIFAR_DEVIATION = np.array([0.2675, 0.2565, 0.2761], "float32")
RECORD = 2 + 3 * 32 * 32  # bytes: class out of 20, class out of 100, the image
SPHERE = 60
ELECTRODES, STEPS = 16, 52
VALIDATION = 0.2  # share of the training images


def cifar100(data_dir, subset=None, seed=0):
    """Return CIFAR-100 from its binary version: three parts, `(32, 32, 3)`, 100 classes.

    Args:
        data_dir: folder of `train.bin` and `test.bin`, or of `cifar-100-binary` with them.
        subset: use at most this many images of each part.
        seed: not used; all loaders take it.

    Returns:
        Three `Part`s of normalized images; validation images are the last fifth of the training
        set.

    Raises:
        ValueError: if a file is missing or is of another length.
    """
    check_subset(subset)
    folder = None if data_dir is None else pathlib.Path(data_dir)
    if folder is not None and (folder / "cifar-100-binary").is_dir():
        folder = folder / "cifar-100-binary"
    pickled = [pathlib.Path(folder or ".", name) for name in ("cifar-100-python", "train")]
    if (
        folder is not None
        and not (folder / "train.bin").is_file()
        and any(map(pathlib.Path.exists, pickled))
    ):
        raise ValueError(
            "CIFAR-100 must be its binary version, cifar-100-binary.tar.gz of "
            "www.cs.toronto.edu/~kriz/cifar.html: the Python version is pickled, which is not "
            f"loaded. Received: data_dir={str(data_dir)!r}"
        )
    records = [_records(find(folder, f"{part}.bin", "CIFAR-100")) for part in ("train", "test")]
    train, validation = split_off(len(records[0]), VALIDATION)
    return tuple(
        _cifar_part(part[:subset])
        for part in (records[0][train], records[0][validation], records[1])
    )


def spherical(data_dir, subset=None, seed=0):
    """Return Spherical CIFAR-100: three parts, `(60, 60, 3)`, 100 classes.

    The published file `s2_cifar100.gz` is a pickle and is not loaded. `s2_cifar100.npz` holds the
    same arrays: `train_images`, `train_labels`, `test_images` and `test_labels`, images
    `(number, 3, 60, 60)`.

    Args:
        data_dir: folder of `s2_cifar100.npz`.
        subset, seed: as of `cifar100`.

    Returns:
        Three `Part`s; validation images are the last fifth of the training set. Images keep the
        file's values.

    Raises:
        ValueError: if the file is missing or holds something else.
    """
    check_subset(subset)
    path = find_converted(data_dir, "s2_cifar100.npz", "Spherical", "s2_cifar100.gz")
    names = [f"{part}_{kind}" for part in ("train", "test") for kind in ("images", "labels")]
    pixels, labels, test_pixels, test_labels = read_arrays(path, names)
    train, validation = split_off(len(pixels), VALIDATION)
    return tuple(
        _sphere_part(pair[0][:subset], pair[1][:subset])
        for pair in (
            (pixels[train], labels[train]),
            (pixels[validation], labels[validation]),
            (test_pixels, test_labels),
        )
    )


def ninapro(data_dir, subset=None, seed=0):
    """Return NinaPro DB5: three parts, `(16, 52, 1)`, 18 gestures.

    Args:
        data_dir: folder of `ninapro_train.npy`, `label_train.npy`, and of the same with `val` and
            `test`; signals `(number, 52, 16)`: steps and electrodes.
        subset, seed: as of `cifar100`.

    Returns:
        Three `Part`s.

    Raises:
        ValueError: if a file is missing or holds something else.
    """
    check_subset(subset)
    result = []
    for part in ("train", "val", "test"):
        names = f"ninapro_{part}.npy", f"label_{part}.npy"
        signals, labels = (read_array(find(data_dir, name, "NinaPro"))[:subset] for name in names)
        check_shape(signals, (STEPS, ELECTRODES), names[0])
        labels = check_labels(labels, len(signals), 18, names[1])
        signals = np.moveaxis(signals.astype("float32"), 1, 2)[..., None]
        result.append(Part(signals, labels))
    return tuple(result)


def _records(path):
    bytes_ = np.fromfile(path, "uint8")
    if not len(bytes_) or len(bytes_) % RECORD:
        raise ValueError(
            f"{path.name} must hold images of {RECORD} bytes each. Received: {len(bytes_)} bytes"
        )
    return bytes_.reshape(-1, RECORD)


def _cifar_part(records):
    pixels = np.moveaxis(records[:, 2:].reshape(-1, 3, 32, 32), 1, -1).astype("float32") / 255
    labels = check_labels(records[:, 1], len(records), 100, "the records of CIFAR-100")
    return Part((pixels - CIFAR_MEAN) / CIFAR_DEVIATION, labels)


def _sphere_part(pixels, labels):
    check_shape(pixels, (3, SPHERE, SPHERE), "s2_cifar100.npz")
    labels = check_labels(labels, len(pixels), 100, "s2_cifar100.npz")
    return Part(np.moveaxis(pixels, 1, -1), labels)
