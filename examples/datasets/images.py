"""MNIST, CIFAR-10 and CIFAR-100 through tensorflow-datasets."""

import numpy as np

from datasets.plain_files import check_subset

NAMES = ("mnist", "cifar10", "cifar100")


def load(name, data_dir=None, subset=None):
    """Return `(train, validation, test)`, pairs of images, float32 in [0, 1], and labels.

    The validation images are the last tenth of the training set, whose order is random already.
    Without a folder of tensorflow-datasets what is missing is downloaded.
    """
    import tensorflow_datasets as tfds

    if name not in NAMES:
        raise ValueError(f"`name` must be one of {NAMES}. Received: name={name!r}")
    check_subset(subset)
    builder = tfds.builder(name, data_dir=data_dir)
    if not builder.is_prepared():
        if data_dir is not None:
            raise ValueError(
                f"`data_dir` must hold {name} as tensorflow-datasets prepares it, in "
                f"{builder.data_path}. Without a `data_dir` it is downloaded. "
                f"Received: data_dir={str(data_dir)!r}"
            )
        try:
            builder.download_and_prepare()
        except OSError as error:
            raise ValueError(
                f"{name} could not be downloaded from {builder.info.homepage}. `data_dir` may name "
                "a folder that holds it as tensorflow-datasets prepares it. "
                f"Received: {error}"
            ) from error
    sizes = {split: builder.info.splits[split].num_examples for split in ("train", "test")}
    border = sizes["train"] - round(0.1 * sizes["train"])
    result = []
    for split, first, last in (
        ("train", 0, border),
        ("train", border, sizes["train"]),
        ("test", 0, sizes["test"]),
    ):
        last = last if subset is None else min(last, first + subset)
        images, labels = tfds.as_numpy(
            builder.as_dataset(split=f"{split}[{first}:{last}]", batch_size=-1, as_supervised=True)
        )
        result.append((images.astype("float32") / 255, labels))
    return tuple(result)


def load_bytes(name, data_dir=None, subset=None):
    """Return `(train, test)` as uint8 images; those for validation are with the former."""
    parts = load(name, data_dir, subset)
    return joined([(np.round(images * 255).astype("uint8"), y) for images, y in parts], subset)


def joined(parts, subset=None):
    """Return the samples for training and validation together, and those for testing."""
    train, validation, test = parts
    return tuple(
        np.concatenate(pair)[:subset] for pair in zip(train, validation, strict=True)
    ), test


def block_means(pixels, width):
    """Return images each of whose pixels is the mean of a square that many pixels wide."""
    number, height, length, channels = pixels.shape
    squares = pixels.reshape(number, height // width, width, length // width, width, channels)
    return squares.mean((2, 4))
