"""Files of the task Cosmic in their published format, with few images."""

import numpy as np


def write(folder, numbers=(6, 2)):
    """Write images of two visits with galaxies and of one without."""
    rng = np.random.default_rng(0)
    for part, number in zip(("npy_train", "npy_test"), numbers, strict=True):
        for visit in ("10760/2", "12058/16", "9442/1"):
            place = folder / part / "f435w" / visit
            place.mkdir(parents=True)
            np.save(place / "sky.npy", np.arange(10.0, 10.0 + number))
            for index in range(1, number // 2 + 1):
                layers = rng.normal(size=(3, 256, 256)).astype("float32")
                layers[1:] = rng.random((2, 256, 256)) < 0.1
                np.save(place / f"{index}_crop.npy", layers)
