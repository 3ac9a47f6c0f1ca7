"""MNIST and CIFAR-10 through tensorflow-datasets."""

NAMES = ("mnist", "cifar10")


def load(name, data_dir=None, subset=None, validation_fraction=0.1):
    """Return `(train, validation, test)`, each a pair of images and labels.

    The validation images are the last ones of the training set, whose order is random already.

    Args:
        name: `"mnist"` or `"cifar10"`.
        data_dir: folder of prepared tensorflow-datasets, or `None` for its own folder, where it
            downloads what is missing.
        subset: use at most this many images of each of the three parts.
        validation_fraction: share of the training set kept for choices made while training.

    Returns:
        Three pairs of a float32 array `(number, height, width, channels)` in [0, 1] and an
        integer array.

    Raises:
        ValueError: if the name is unknown, `subset` is not positive, or `data_dir` does not hold
            the data set.
    """
    import tensorflow_datasets as tfds

    if name not in NAMES:
        raise ValueError(f"`name` must be one of {NAMES}. Received: name={name!r}")
    if subset is not None and subset < 1:
        raise ValueError(f"`subset` must be at least 1. Received: subset={subset!r}")
    builder = tfds.builder(name, data_dir=data_dir)
    if not builder.is_prepared():
        if data_dir is not None:
            raise ValueError(
                f"`data_dir` must hold {name} as tensorflow-datasets prepares it, in "
                f"{builder.data_path}. Without a `data_dir` it is downloaded. "
                f"Received: data_dir={str(data_dir)!r}"
            )
        builder.download_and_prepare()
    count = builder.info.splits["train"].num_examples
    border = count - round(validation_fraction * count)
    parts = [("train", 0, border), ("train", border, count)]
    parts.append(("test", 0, builder.info.splits["test"].num_examples))
    result = []
    for split, first, last in parts:
        last = last if subset is None else min(last, first + subset)
        images, labels = tfds.as_numpy(
            builder.as_dataset(split=f"{split}[{first}:{last}]", batch_size=-1, as_supervised=True)
        )
        result.append((images.astype("float32") / 255, labels))
    return tuple(result)


def block_means(pixels, width):
    """Return images each of whose pixels is the mean of a square that many pixels wide.

    Args:
        pixels: array `(images, height, width, channels)`, its sides multiples of the squares'.
        width: of a square.
    """
    number, height, length, channels = pixels.shape
    squares = pixels.reshape(number, height // width, width, length // width, width, channels)
    return squares.mean((2, 4))
