"""Images of the Hubble telescope and the cosmic rays on them: the task Cosmic of NAS-Bench-360.

Tu, Roberts, Khodak, Shen, Sala and Talwalkar, "NAS-Bench-360: Benchmarking Neural Architecture
Search on Diverse Tasks", 2022. The readme of github.com/rtu715/NAS-Bench-360 links to the files,
`deepCR.ACS-WFC.train.tar` and `.test.tar`, which are open data. Here images are ordered by their
paths, so the validation images are others, and the sky is added once and not in every epoch.
"""

import pathlib
from typing import NamedTuple

import numpy as np

from datasets.plain_files import read_array

CROP, START = 128, 64  # pixels of an image of Cosmic that are used, and where they begin
SKY = (-0.9, 3.0)
FILTER = "f435w"
# Proposals and visits of the Hubble telescope whose images show galaxies.
GALAXIES = """
10760_2 10760_4 13737_2 13737_3 9490_a3 12513_2 12513_3 10182_pb 10182_pd 10584_13 10342_3 14343_1
13057_1 10260_7 10260_5 10407_3 13364_95 10190_28 10190_13 13691_11 12058_12 12058_16 12058_1
12058_6 14704_1 13804_6
""".split()


class Images(NamedTuple):
    """Images, masks of their cosmic rays, and zeros where pixels do not count, else ones."""

    inputs: np.ndarray
    outputs: np.ndarray
    weights: np.ndarray


def load(data_dir, subset=None, seed=0, sky=SKY):
    """Return images of a telescope and where cosmic rays hit it: three `Images`, `(128, 128, 1)`.

    To each image of a galaxy a multiple of its background is added, drawn by the seed. Weights are
    zero at pixels that do not count.
    """
    train, test = (_image_paths(data_dir, f"npy_{part}") for part in ("train", "test"))
    border = len(train) - round(0.1 * len(train))
    if border == len(train):
        raise ValueError(
            f"A tenth of the training images is for validation. Received: {len(train)} images"
        )
    return tuple(
        _cosmic_part(paths[:subset], np.random.default_rng((seed, part)), sky)
        for part, paths in enumerate((train[:border], train[border:], test))
    )


def decided_auroc_error(masks, logits, threshold=0.5):
    """Return one minus the AUROC of the decisions `logits > threshold`, of all pixels at once.

    It is the mean of the shares of both kinds of pixels that are decided wrongly.
    """
    decided = np.asarray(logits) > threshold
    if decided.shape != masks.shape or np.min(masks) == np.max(masks):
        raise ValueError(
            "There must be a logit for each pixel, and pixels with and without cosmic rays. "
            f"Received: logits of shape {decided.shape}, masks of shape {masks.shape} from "
            f"{np.min(masks)} to {np.max(masks)}"
        )
    return float(np.mean([np.mean(decided[masks == kind] != kind) for kind in (0, 1)]))


def false_negative_rate(masks, logits, threshold=0.5):
    """Return which share of the pixels with cosmic rays has a logit of at most the threshold."""
    return float(np.mean(np.asarray(logits)[masks == 1] <= threshold))


def _image_paths(data_dir, part):
    folder = pathlib.Path(data_dir or ".", part, FILTER)
    found = [
        path
        for path in sorted(folder.glob("*/*/*.npy"))
        if path.name != "sky.npy" and f"{path.parts[-3]}_{path.parts[-2]}" in GALAXIES
    ]
    if not data_dir or not found:
        raise ValueError(
            f"The folder of Cosmic must hold {part}/{FILTER}/proposal/visit/*.npy, each an image, "
            "the mask of its cosmic rays and that of pixels that do not count, unpacked from "
            f"deepCR.ACS-WFC.{part.removeprefix('npy_')}.tar, of visits that show galaxies; the "
            "readme of github.com/rtu715/NAS-Bench-360 links to it. "
            f"Received: data_dir={None if data_dir is None else str(data_dir)!r}"
        )
    return found


def _cosmic_part(paths, rng, sky):
    images, masks, weights = [], [], []
    for path in paths:
        layers = read_array(path)
        end = START + CROP
        if layers.ndim != 3 or len(layers) not in (2, 3) or min(layers.shape[1:]) < end:
            raise ValueError(
                f"An image of Cosmic must be of shape (3, height, width) with at least {end} "
                f"pixels on each side. Received: {path.name} of shape {layers.shape}"
            )
        layers = layers[:, START:end, START:end].astype("float32")
        images.append(layers[0] + _background(path) * rng.uniform(*sky))
        masks.append(layers[1])
        weights.append(1 - layers[2] if len(layers) == 3 else np.ones_like(layers[0]))
    masks = np.stack(masks)[..., None]
    if not np.isin(masks, (0, 1)).all():
        raise ValueError(
            f"Masks of Cosmic must hold zeros and ones. Received: {masks.min()} to {masks.max()}"
        )
    inputs = np.stack(images)[..., None].astype("float32")
    return Images(inputs, masks, np.stack(weights))


def _background(path):
    """Return the background of an image, whose number in its visit begins the file's name."""
    file = path.parent / "sky.npy"
    if not file.is_file():
        return 0.0
    values, number = read_array(file), path.stem.split("_")[0]
    if not number.isdecimal() or not 1 <= int(number) <= values.size:
        raise ValueError(
            f"An image's name must begin with its number, 1 to {values.size}, and an underscore "
            f"where there is a sky.npy. Received: {path.name}"
        )
    return float(values.ravel()[int(number) - 1])
