"""AddNIST, MultNIST and CIFARTile of the Unseen NAS data: read from files, or made by their recipe.

Geada, Towers, Forshaw, Atapour-Abarghouei and McGough, "Insights from the Use of Previously Unseen
Neural Architecture Search Datasets", 2024. README.md says what the classes are. Images that are
made here are not the published ones, of which no seed is known.
"""

import itertools

import numpy as np

from datasets import images
from datasets.plain_files import check_labels, check_shape, check_subset, find, read_array

CLASSES = {"addnist": 20, "multnist": 10, "cifartile": 4}
SIDES = {"addnist": 28, "multnist": 28, "cifartile": 64}
SIZES = {
    "addnist": (45_000, 15_000, 10_000),
    "multnist": (50_000, 10_000, 10_000),
    "cifartile": (45_000, 15_000, 10_000),
}
PARTS = ("train", "valid", "test")
# Of the pixels in [0, 1], of which the files hold those with mean 0 and standard deviation 1.
MNIST_MEAN, MNIST_DEVIATION = 0.1307, 0.3081
CIFAR_MEAN = np.array([0.49139968, 0.48215827, 0.44653124], "float32")
CIFAR_DEVIATION = np.array([0.24703233, 0.24348505, 0.26158768], "float32")
BORDER = 4  # black pixels round an image of CIFAR-10 before it is cropped


def load(name, data_dir=None, images_dir=None, subset=None, seed=0):
    """Return `(train, validation, test)`, pairs of images, channels last, and classes.

    Published files are read from `data_dir`; without it images are made of those in `images_dir`.
    """
    if name not in CLASSES:
        raise ValueError(f"`name` must be one of {tuple(CLASSES)}. Received: name={name!r}")
    check_subset(subset)
    if data_dir is not None:
        return tuple(_read(data_dir, name, part, subset) for part in PARTS)
    source = "cifar10" if name == "cifartile" else "mnist"
    train, test = images.joined(images.load(source, images_dir))
    result = []
    for part, (number, (pixels, labels)) in enumerate(
        zip(SIZES[name], (train, train, test), strict=True)
    ):
        number = number if subset is None else min(number, subset)
        rng = np.random.default_rng((seed, part))
        if name == "cifartile":
            result.append(tile(pixels, labels, number, rng, augment=part < 2))
        else:
            result.append(combine_digits(name, pixels, labels, number, rng))
    return tuple(result)


def triples(name):
    """Return for each class the list of the triples of digits that belong to it."""
    found = [[] for _ in range(CLASSES[name])]
    for digits in itertools.product(range(10), repeat=3):
        label = sum(digits) - 1 if name == "addnist" else int(np.prod(digits)) % 10
        if 0 <= label < len(found):
            found[label].append(digits)
    return found


def combine_digits(name, pixels, labels, number, rng):
    """Return images of three digits each, and their classes.

    The classes are equally frequent, up to one image, and within a class all triples of digits.
    """
    choices = triples(name)
    by_digit = _by_class(labels)
    classes = rng.permutation(np.arange(number) % len(choices))
    chosen = np.array([choices[label][rng.integers(len(choices[label]))] for label in classes])
    places = np.array([[rng.choice(by_digit[digit]) for digit in digits] for digits in chosen])
    channels = np.moveaxis(pixels[places][..., 0], 1, -1)
    return ((channels - MNIST_MEAN) / MNIST_DEVIATION).astype("float32"), classes


def tile(pixels, labels, number, rng, augment):
    """Return squares of four images each, and the number of different classes in them minus one.

    One to four classes are drawn, each number equally often, up to one square. With two classes
    there are two images of each, with three there are two of the first.
    """
    by_class = _by_class(labels)
    height, width, channels = pixels.shape[1:]
    squares = np.empty((number, 2 * height, 2 * width, channels), "float32")
    counts = 1 + rng.permutation(np.arange(number) % 4)
    for square, count in zip(squares, counts, strict=True):
        classes = rng.choice(len(by_class), size=count, replace=False)
        repeated = {1: (4,), 2: (2, 2), 3: (2, 1, 1), 4: (1, 1, 1, 1)}[count]
        pairs = zip(classes, repeated, strict=True)
        chosen = [rng.choice(by_class[label], size=n, replace=False) for label, n in pairs]
        four = list(pixels[rng.permutation(np.concatenate(chosen))])
        if augment:
            four = [_cropped(image, rng) for image in four]
        square[:height] = np.concatenate(four[:2], axis=1)
        square[height:] = np.concatenate(four[2:], axis=1)
    squares -= CIFAR_MEAN  # in place, as all of the published number take two gigabytes
    squares /= CIFAR_DEVIATION
    return squares, counts - 1


def _cropped(image, rng):
    sides = [(BORDER, BORDER), (BORDER, BORDER), (0, 0)]
    row, column = rng.integers(2 * BORDER + 1, size=2)
    cropped = np.pad(image, sides)[row : row + len(image), column : column + image.shape[1]]
    return cropped[:, ::-1] if rng.integers(2) else cropped


def _by_class(labels):
    return [np.flatnonzero(labels == label) for label in range(10)]


def _read(folder, name, part, subset):
    """Return images, channels last, and classes of one part of the published files."""
    what = f"{name}'s published files, without which images are made,"
    pixels, labels = (
        read_array(find(folder, f"{part}_{letter}.npy", what), memory_map=True)[:subset]
        for letter in "xy"
    )
    check_shape(pixels, (3, SIDES[name], SIDES[name]), f"{part}_x.npy")
    labels = check_labels(labels, len(pixels), CLASSES[name], f"{part}_y.npy")
    return np.moveaxis(np.asarray(pixels, "float32"), 1, -1), labels
