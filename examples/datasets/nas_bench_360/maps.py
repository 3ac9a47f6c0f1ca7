"""Tasks of NAS-Bench-360 from one field of numbers to another: Darcy Flow and Cosmic."""

import pathlib

import numpy as np

from datasets.nas_bench_360.parts import Part, split_off
from datasets.plain_files import find, read_array, read_matlab

DARCY_FILES = ("piececonst_r421_N1024_smooth1.mat", "piececonst_r421_N1024_smooth2.mat")
DARCY_TRAIN, DARCY_TEST = 1000, 100
EPSILON = 1e-5
CROP, START = 128, 64  # pixels of an image of Cosmic that are used, and where they begin
SKY = (-0.9, 3.0)
FILTER = "f435w"
# Proposals and visits of the Hubble telescope whose images show galaxies.
GALAXIES = """
10760_2 10760_4 13737_2 13737_3 9490_a3 12513_2 12513_3 10182_pb 10182_pd 10584_13 10342_3 14343_1
13057_1 10260_7 10260_5 10407_3 13364_95 10190_28 10190_13 13691_11 12058_12 12058_16 12058_1
12058_6 14704_1 13804_6
""".split()


def darcy(data_dir, subset=None, seed=0, step=5):
    """Return Darcy flow: three parts, from `(85, 85, 3)` to `(85, 85, 1)`, every `step`th node.

    Inputs are the coefficient, normalized at each node, and both coordinates.
    """
    fields, solutions = _read_darcy(find(data_dir, DARCY_FILES[0], "Darcy Flow"), step)
    test_fields, test_solutions = _read_darcy(find(data_dir, DARCY_FILES[1], "Darcy Flow"), step)
    fields, solutions = fields[:DARCY_TRAIN], solutions[:DARCY_TRAIN]
    train, validation = split_off(len(fields), 0.1)
    mean = fields[train].mean(axis=0)
    deviation = fields[train].std(axis=0, ddof=1)
    nodes = np.linspace(0, 1, fields.shape[1], dtype="float32")
    rows, columns = np.meshgrid(nodes, nodes, indexing="ij")
    result = []
    for field, solution in (
        (fields[train], solutions[train]),
        (fields[validation], solutions[validation]),
        (test_fields[:DARCY_TEST], test_solutions[:DARCY_TEST]),
    ):
        field = (field[:subset] - mean) / (deviation + EPSILON)
        channels = [field, *(np.broadcast_to(grid, field.shape) for grid in (columns, rows))]
        result.append(Part(np.stack(channels, -1).astype("float32"), solution[:subset, ..., None]))
    return tuple(result)


def cosmic(data_dir, subset=None, seed=0, sky=SKY):
    """Return images of a telescope and where cosmic rays hit it: three parts, `(128, 128, 1)`.

    To each image of a galaxy a multiple of its background is added, drawn by the seed. Weights are
    zero at pixels that do not count.
    """
    train, test = (_image_paths(data_dir, f"npy_{part}") for part in ("train", "test"))
    kept, validation = split_off(len(train), 0.1)
    return tuple(
        _cosmic_part(paths[:subset], np.random.default_rng((seed, part)), sky)
        for part, paths in enumerate((train[kept], train[validation], test))
    )


def _read_darcy(path, step):
    """Return coefficients and solutions at every `step`th node, float32."""
    arrays = []
    for name in ("coeff", "sol"):
        array = read_matlab(path, name)
        if array.ndim != 3 or array.shape[1] != array.shape[2] or (array.shape[1] - 1) % step:
            raise ValueError(
                f"`{name}` in {path.name} must be of shape (number, nodes, nodes) with `nodes - 1` "
                f"a multiple of {step}. Received: shape {array.shape}"
            )
        arrays.append(array[:, ::step, ::step].astype("float32"))
    if len(arrays[0]) != len(arrays[1]):
        raise ValueError(
            f"{path.name} must hold a solution for each coefficient. Received: {len(arrays[0])} "
            f"and {len(arrays[1])}"
        )
    return arrays


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
    return Part(inputs, masks, weights=np.stack(weights))


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
