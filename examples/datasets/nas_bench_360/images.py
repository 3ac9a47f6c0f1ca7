"""Tasks of NAS-Bench-360 that classify images: CIFAR-100, Spherical and NinaPro."""

import pathlib

import numpy as np

from datasets.nas_bench_360.parts import Part, split_off
from datasets.plain_files import (
    check_labels,
    check_shape,
    find,
    find_converted,
    read_array,
    read_arrays,
)

CIFAR_MEAN = np.array([0.5071, 0.4867, 0.4408], "float32")
CIFAR_DEVIATION = np.array([0.2675, 0.2565, 0.2761], "float32")
RECORD = 2 + 3 * 32 * 32  # bytes: class out of 20, class out of 100, the image
SPHERE = 60
ELECTRODES, STEPS = 16, 52
VALIDATION = 0.2  # share of the training images, the last ones


def cifar100(data_dir, subset=None, seed=0):
    """Return CIFAR-100 from its binary version: three parts, `(32, 32, 3)`, 100 classes."""
    folder = None if data_dir is None else pathlib.Path(data_dir)
    if folder is not None and (folder / "cifar-100-binary").is_dir():
        folder = folder / "cifar-100-binary"
    pickled = [pathlib.Path(folder or ".", name) for name in ("cifar-100-python", "train")]
    binary = folder is None or (folder / "train.bin").is_file()
    if not binary and any(map(pathlib.Path.exists, pickled)):
        raise ValueError(
            "CIFAR-100 must be its binary version, cifar-100-binary.tar.gz of "
            "www.cs.toronto.edu/~kriz/cifar.html: the Python version is pickled, which is not "
            f"loaded. Received: data_dir={str(data_dir)!r}"
        )
    records = [_records(find(folder, f"{part}.bin", "CIFAR-100")) for part in ("train", "test")]
    train, validation = split_off(len(records[0]), VALIDATION)
    result = []
    for part in (records[0][train], records[0][validation], records[1]):
        part = part[:subset]
        pixels = np.moveaxis(part[:, 2:].reshape(-1, 3, 32, 32), 1, -1).astype("float32") / 255
        labels = check_labels(part[:, 1], len(part), 100, "the records of CIFAR-100")
        result.append(Part((pixels - CIFAR_MEAN) / CIFAR_DEVIATION, labels))
    return tuple(result)


def _records(path):
    content = np.fromfile(path, "uint8")
    if not len(content) or len(content) % RECORD:
        raise ValueError(
            f"{path.name} must hold images of {RECORD} bytes each. Received: {len(content)} bytes"
        )
    return content.reshape(-1, RECORD)


def spherical(data_dir, subset=None, seed=0):
    """Return Spherical CIFAR-100, as it is stored: three parts, `(60, 60, 3)`, 100 classes."""
    name = "s2_cifar100.npz"
    path = find_converted(data_dir, name, "Spherical", "s2_cifar100.gz")
    names = [f"{part}_{kind}" for part in ("train", "test") for kind in ("images", "labels")]
    pixels, labels, *test = read_arrays(path, names)
    places = split_off(len(pixels), VALIDATION)
    result = []
    for inputs, outputs in (*((pixels[own], labels[own]) for own in places), test):
        inputs, outputs = inputs[:subset], outputs[:subset]
        check_shape(inputs, (3, SPHERE, SPHERE), name)
        outputs = check_labels(outputs, len(inputs), 100, name)
        result.append(Part(np.moveaxis(inputs, 1, -1), outputs))
    return tuple(result)


def ninapro(data_dir, subset=None, seed=0):
    """Return NinaPro DB5: three parts, `(16, 52, 1)`, electrodes and steps, 18 gestures."""
    result = []
    for part in ("train", "val", "test"):
        names = f"ninapro_{part}.npy", f"label_{part}.npy"
        signals, labels = (read_array(find(data_dir, name, "NinaPro"))[:subset] for name in names)
        check_shape(signals, (STEPS, ELECTRODES), names[0])
        labels = check_labels(labels, len(signals), 18, names[1])
        result.append(Part(np.moveaxis(signals.astype("float32"), 1, 2)[..., None], labels))
    return tuple(result)
